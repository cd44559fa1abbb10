//! An icicle: nested boxes from top to bottom, each as wide as its share of all. A box lies below the one that it is
//! part of.

use super::svg::{Anchor, Svg};
use crate::format;

/// A box of an icicle.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    /// The label; shortened, or left out if there is no room for it.
    pub(crate) label: String,
    /// Shown when the pointer is on it.
    pub(crate) tooltip: String,
    /// Chooses the colour: `user` or `kernel`.
    pub(crate) class: &'static str,
    /// The box that it is part of, as its place in the list, before its own.
    pub(crate) parent: Option<usize>,
    /// Its share of all, 0 to 1.
    pub(crate) share: f64,
}

#[derive(Debug)]
pub(crate) struct Icicle<'a> {
    /// Unique on the page.
    pub(crate) id: &'a str,
    /// Text for screen readers.
    pub(crate) title: &'a str,
    /// Text for screen readers, after the title.
    pub(crate) description: &'a str,
    /// The boxes, each after the one that it is part of.
    pub(crate) pieces: &'a [Piece],
    /// Rows beyond this number are not drawn.
    pub(crate) rows_most: usize,
}

const ROW: f64 = 20.0;
const TEXT_BASE: f64 = 14.0;
/// Narrower boxes are not drawn, in percent of the width.
const WIDTH_LEAST: f64 = 0.3;
/// The width of a character on a phone, in percent of the width.
const CHARACTER: f64 = 2.4;
/// Shorter labels say nothing.
const LABEL_SHORTEST: usize = 5;

/// A box that has its place.
#[derive(Clone, Copy, Default)]
struct Placed {
    row: usize,
    /// Where the next box in it begins.
    next: f64,
}

/// Draws the icicle; returns an empty text if there are no boxes.
pub(crate) fn icicle(icicle: &Icicle<'_>) -> String {
    if icicle.pieces.is_empty() {
        return String::new();
    }
    let mut svg = Svg::default();
    let mut placed: Vec<Placed> = Vec::with_capacity(icicle.pieces.len());
    let (mut top, mut rows) = (0.0, 0);
    for piece in icicle.pieces {
        let width = piece.share * 100.0;
        let (x, row) = if let Some(parent) = piece.parent.and_then(|parent| placed.get_mut(parent)) {
            let x = parent.next;
            parent.next += width;
            (x, parent.row + 1)
        } else {
            let x = top;
            top += width;
            (x, 0)
        };
        placed.push(Placed { row, next: x });
        if row >= icicle.rows_most || width < WIDTH_LEAST {
            continue;
        }
        rows = rows.max(row + 1);
        draw(&mut svg, piece, (x, row as f64 * ROW), width);
    }
    svg.finish(icicle.id, rows as f64 * ROW, icicle.title, icicle.description)
}

fn draw(svg: &mut Svg, piece: &Piece, (x, y): (f64, f64), width: f64) {
    svg.group(&piece.tooltip, |svg| {
        svg.rect(&format!("frame {}", piece.class), x, y, width, ROW - 1.0);
        let room = ((width - 1.0).max(0.0) / CHARACTER) as usize;
        if room >= LABEL_SHORTEST.min(piece.label.chars().count()) {
            let label = format::shortened(&piece.label, room);
            svg.text("tick", x + 0.5, y + TEXT_BASE, Anchor::Start, &label);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(label: &str, parent: Option<usize>, share: f64) -> Piece {
        Piece { label: label.into(), tooltip: String::new(), class: "user", parent, share }
    }

    fn drawn(pieces: &[Piece]) -> String {
        icicle(&Icicle { id: "i", title: "t", description: "d", pieces, rows_most: 64 })
    }

    #[test]
    fn boxes_lie_below_what_they_are_part_of_side_by_side() {
        let pieces = [
            piece("main", None, 0.75),
            piece("receive", Some(0), 0.5),
            piece("answer", Some(0), 0.25),
            piece("idle", None, 0.25),
        ];
        let drawn = drawn(&pieces);
        for place in [
            r#"x="0%" y="0" width="75%""#,
            r#"x="0%" y="20" width="50%""#,
            r#"x="50%" y="20" width="25%""#,
            r#"x="75%" y="0" width="25%""#,
        ] {
            assert!(drawn.contains(place), "{place}: {drawn}");
        }
        assert!(drawn.contains(r#"height="40""#) && drawn.contains(">receive<"));
    }

    #[test]
    fn small_boxes_have_no_label_and_the_smallest_are_not_drawn() {
        let drawn = drawn(&[piece("a_long_name_of_a_function", None, 0.05), piece("b", None, 0.001)]);
        assert_eq!((drawn.matches("<rect").count(), drawn.matches("<text").count()), (1, 0));
        assert_eq!(self::drawn(&[]), "");
    }

    /// The time is spent deep: the innermost functions are at the bottom.
    #[test]
    fn deep_call_chains_are_drawn_to_their_end() {
        let deep: Vec<Piece> = (0_usize..64).map(|row| piece("a", row.checked_sub(1), 1.0)).collect();
        assert_eq!(drawn(&deep).matches("<rect").count(), 64);
    }
}
