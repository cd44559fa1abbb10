//! A flow from top to bottom: a broad stream that narrows at each branch to the right. All widths are shares of
//! the width at the top. A branch too small to see is drawn with the least visible width.

use super::svg::{Anchor, Svg};
use crate::format;

#[derive(Clone, Debug)]
pub(crate) struct Branch {
    /// The place, at the left.
    pub(crate) label: String,
    /// The amount, at the right.
    pub(crate) note: String,
    /// The amount; 0 draws no branch.
    pub(crate) count: u64,
}

#[derive(Debug)]
pub(crate) struct Flow<'a> {
    /// Unique on the page.
    pub(crate) id: &'a str,
    /// Text for screen readers.
    pub(crate) title: &'a str,
    /// Text for screen readers, after the title.
    pub(crate) description: &'a str,
    /// The width of the stream at the top, and the texts there, left and right.
    pub(crate) source: (u64, &'a str, String),
    /// The branches from top to bottom.
    pub(crate) branches: &'a [Branch],
    /// The texts at the bottom, left and right.
    pub(crate) mouth: (&'a str, String),
}

/// The width of the stream at the top, in percent: room remains at the right, where branches end.
const WIDTH: f64 = 92.0;
/// The right end of branches, in percent.
const END: f64 = 100.0;
/// The least width of a branch, in percent.
const SEEN: f64 = 0.8;
const ROW: f64 = 44.0;
const TEXT_BASE: f64 = 17.0;
const BRANCH_TOP: f64 = 24.0;
const BRANCH_HEIGHT: f64 = 12.0;
const MOUTH: f64 = 28.0;
/// The greatest length of label and note together, in characters, so that both fit side by side on a phone.
const TOGETHER_LONGEST: usize = 38;
/// The least number of characters that a label is shortened to.
const LABEL_SHORTEST: usize = 8;

/// Draws the flow; returns an empty text if there are no branches.
pub(crate) fn flow(flow: &Flow<'_>) -> String {
    if flow.branches.is_empty() {
        return String::new();
    }
    let mut svg = Svg::default();
    let (whole, label, note) = &flow.source;
    let place = |left: u64| left as f64 / (*whole).max(1) as f64 * WIDTH;
    svg.rect("stream", 0.0, 0.0, WIDTH, MOUTH);
    text(&mut svg, 0.0, label, note);
    let (mut left, mut y) = (*whole, MOUTH);
    for branch in flow.branches {
        let before = place(left);
        left = left.saturating_sub(branch.count);
        let after = place(left);
        svg.rect("stream", 0.0, y, before, BRANCH_TOP);
        svg.rect("stream", 0.0, y + BRANCH_TOP, after, ROW - BRANCH_TOP);
        if branch.count > 0 {
            let width = (before - after).max(SEEN);
            let middle = y + BRANCH_TOP + BRANCH_HEIGHT / 2.0;
            svg.line("branch", (after + width, middle), (END, middle));
            svg.rect("bar loss", after, y + BRANCH_TOP, width, BRANCH_HEIGHT);
        }
        text(&mut svg, y, &branch.label, &branch.note);
        y += ROW;
    }
    svg.rect("stream", 0.0, y, place(left), MOUTH);
    text(&mut svg, y, flow.mouth.0, &flow.mouth.1);
    svg.finish(flow.id, y + MOUTH, flow.title, flow.description)
}

fn text(svg: &mut Svg, y: f64, label: &str, note: &str) {
    let room = TOGETHER_LONGEST.saturating_sub(note.chars().count()).max(LABEL_SHORTEST);
    svg.text("label", 0.8, y + TEXT_BASE, Anchor::Start, &format::shortened(label, room));
    svg.text("note", END, y + TEXT_BASE, Anchor::End, note);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn branch(count: u64) -> Branch {
        Branch { label: "filter".into(), note: count.to_string(), count }
    }

    fn draw(whole: u64, branches: &[Branch]) -> String {
        let source = (whole, "intended", whole.to_string());
        let mouth = ("answered", String::new());
        flow(&Flow { id: "f", title: "t", description: "d", source, branches, mouth })
    }

    /// Left edges and widths, in percent, of all rectangles of a class.
    fn rectangles(drawn: &str, class: &str) -> Vec<(String, String)> {
        let of = |element: &str, name: &str| {
            let (_, rest) = element.split_once(&format!(r#"{name}=""#)).unwrap();
            rest.split_once('%').unwrap().0.to_owned()
        };
        let start = format!(r#"<rect class="{class}""#);
        drawn.split(&start).skip(1).map(|element| (of(element, " x"), of(element, " width"))).collect()
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected.iter().map(|(x, width)| ((*x).to_owned(), (*width).to_owned())).collect()
    }

    #[test]
    fn the_stream_narrows_by_what_branches_off() {
        let drawn = draw(100, &[branch(25), branch(50)]);
        assert_eq!(rectangles(&drawn, "bar loss"), pairs(&[("69", "23"), ("23", "46")]));
        let stream = [("0", "92"), ("0", "92"), ("0", "69"), ("0", "69"), ("0", "23"), ("0", "23")];
        assert_eq!(rectangles(&drawn, "stream"), pairs(&stream));
    }

    #[test]
    fn a_small_branch_is_seen() {
        let drawn = draw(1_000_000, &[branch(1)]);
        assert_eq!(rectangles(&drawn, "bar loss")[0].1, "0.8");
    }

    #[test]
    fn nothing_branches_off_nothing() {
        assert_eq!(draw(100, &[]), "");
        let drawn = draw(0, &[branch(0), branch(7)]);
        assert_eq!(rectangles(&drawn, "bar loss"), pairs(&[("0", "0.8")]));
        assert!(!drawn.contains("NaN"));
    }
}
