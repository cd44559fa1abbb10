//! Horizontal bars: one row per measured thing, with its name and figure above the bar. A bar begins at 0,
//! and its length is proportional to its figure. A bar that would dwarf all others is cut, and drawn as
//! cut.

use super::Missing;
use super::scale::Linear;
use super::svg::{Anchor, Svg};
use crate::format;

/// The colour of a bar, by the kind of thing that it shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fill {
    Subject,
    /// The echo, with which the others are compared.
    Echo,
    Player,
}

impl Fill {
    fn class(self) -> &'static str {
        match self {
            Self::Subject => "bar subject",
            Self::Echo => "bar echo",
            Self::Player => "bar player",
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Bar {
    /// Text at the left, above the bar.
    pub(crate) label: String,
    /// Text at the right, above the bar.
    pub(crate) note: String,
    /// The bar's length; `None` draws no bar.
    pub(crate) value: Option<f64>,
    /// Ends of the whisker: low, high.
    pub(crate) interval: Option<(f64, f64)>,
    /// The figure of each start: a dot on the bar.
    pub(crate) points: Vec<f64>,
    /// For a refused figure, the loads that each start met and missed: hollow dots joined by a line, and no
    /// bar.
    pub(crate) seen: Vec<(Option<f64>, Option<f64>)>,
    /// The rate to compare with: a pale bar behind, with a line at its end.
    pub(crate) ceiling: Option<f64>,
    /// Mean, minimum and maximum: a line below the bar.
    pub(crate) mean: Option<(f64, f64, f64)>,
    /// The published figure, with a mark of its own.
    pub(crate) published: Option<f64>,
    /// Why there is no bar: a short dashed frame at the axis, which is no length.
    pub(crate) missing: Option<Missing>,
    /// The cell whose trials are behind it.
    pub(crate) cell: Option<u32>,
    pub(crate) fill: Fill,
}

impl Bar {
    /// A bar without further marks.
    pub(crate) fn plain(label: String, note: String, value: Option<f64>, fill: Fill) -> Self {
        Self {
            label,
            note,
            value,
            interval: None,
            points: Vec::new(),
            seen: Vec::new(),
            ceiling: None,
            mean: None,
            published: None,
            missing: None,
            cell: None,
            fill,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Bars<'a> {
    /// Unique on the page.
    pub(crate) id: &'a str,
    /// Text for screen readers.
    pub(crate) title: &'a str,
    /// Text for screen readers, after the title.
    pub(crate) description: &'a str,
    /// The rows from top to bottom.
    pub(crate) rows: &'a [Bar],
    /// The axis extends at least to this value.
    pub(crate) at_least: f64,
    /// Whether to cut bars that dwarf the others; false if the bars are parts of a whole.
    pub(crate) cut: bool,
    /// Formats a tick.
    pub(crate) tick: fn(f64) -> String,
}

/// A bar that is longer than the next by more than this factor is cut.
const DWARFS: f64 = 4.0;
/// If a bar is cut, the axis extends beyond the longest whole bar by this factor.
const BEYOND_CUT: f64 = 1.3;
const ROW: f64 = 52.0;
const LABEL_BASE: f64 = 15.0;
const BAR_TOP: f64 = 23.0;
const BAR_HEIGHT: f64 = 16.0;
/// Distance of mean, minimum and maximum below the bar, in pixels.
const MEAN_BELOW: f64 = 4.0;
const AXIS_HEIGHT: f64 = 22.0;
/// The width of the mark that stands where there is no bar, in percent of the width.
const MISSING: f64 = 4.0;
/// The axis ends here, in percent of the width, so that a whisker or a last tick has room.
const WIDTH: f64 = 98.0;
/// The greatest length of a row's label and note together, in characters, so that both fit side by side on
/// a phone.
const TOGETHER_LONGEST: usize = 38;
/// The least number of characters that a label is shortened to.
const LABEL_SHORTEST: usize = 8;

/// Draws the chart; returns an empty text if there is no row.
pub(crate) fn bars(chart: &Bars<'_>) -> String {
    if chart.rows.is_empty() {
        return String::new();
    }
    let axis = Linear::upto(axis_end(chart), 4);
    let mut svg = Svg::default();
    let bottom = ROW * chart.rows.len() as f64;
    for tick in &axis.ticks {
        let x = axis.place(*tick) * WIDTH;
        svg.line("grid", (x, 0.0), (x, bottom));
        let anchor = match x {
            x if x < 4.0 => Anchor::Start,
            x if x > 92.0 => Anchor::End,
            _ => Anchor::Middle,
        };
        svg.text("tick", x, bottom + 16.0, anchor, &(chart.tick)(*tick));
    }
    for (index, row) in chart.rows.iter().enumerate() {
        draw_row(&mut svg, chart, &axis, row, ROW * index as f64);
    }
    svg.finish(chart.id, bottom + AXIS_HEIGHT, chart.title, chart.description)
}

fn draw_row(svg: &mut Svg, chart: &Bars<'_>, axis: &Linear, row: &Bar, top: f64) {
    let bar = top + BAR_TOP;
    let middle = bar + BAR_HEIGHT / 2.0;
    let room = TOGETHER_LONGEST.saturating_sub(row.note.chars().count()).max(LABEL_SHORTEST);
    svg.of_cell(row.cell, |svg| {
        svg.text("label", 0.0, top + LABEL_BASE, Anchor::Start, &format::shortened(&row.label, room));
    });
    svg.text("note", 100.0, top + LABEL_BASE, Anchor::End, &row.note);
    if let Some(ceiling) = finite(row.ceiling) {
        let x = axis.place(ceiling) * WIDTH;
        svg.rect("backdrop", 0.0, bar, x, BAR_HEIGHT);
        svg.line("ceiling", (x, bar - 4.0), (x, bar + BAR_HEIGHT + 4.0));
    }
    if let Some(missing) = row.missing {
        svg.group(&format!("{}: {}", row.label, missing.words()), |svg| {
            svg.rect(missing.class(), 0.0, bar + 2.0, MISSING, BAR_HEIGHT - 4.0);
        });
    }
    if let Some(value) = finite(row.value) {
        let x = axis.place(value) * WIDTH;
        svg.rect(row.fill.class(), 0.0, bar + 2.0, x, BAR_HEIGHT - 4.0);
        if value > axis.max {
            // Two slanted strokes through the bar show that it goes on.
            let y = bar - 1.0;
            svg.glyph("cut", (x * 0.93, y), "M-5 18L1 0M1 18L7 0", &row.note);
        }
    }
    if let Some((low, high)) = row.interval.filter(|(low, high)| low.is_finite() && high.is_finite())
        && low <= axis.max
    {
        let (from, to) = (axis.place(low) * WIDTH, axis.place(high) * WIDTH);
        svg.line("whisker", (from, middle), (to, middle));
        for x in [from, to] {
            svg.line("whisker", (x, middle - 5.0), (x, middle + 5.0));
        }
    }
    draw_starts(svg, chart, axis, row, middle);
    if let Some((mean, min, max)) = row.mean.filter(|(mean, ..)| mean.is_finite()) {
        let at = |value: f64| axis.place(value) * WIDTH;
        let below = bar + BAR_HEIGHT + MEAN_BELOW;
        svg.line("range", (at(min), below), (at(max), below));
        svg.glyph("mean", (at(mean), below), "M0 -4V4", &format!("mean {}", (chart.tick)(mean)));
    }
    if let Some(published) = finite(row.published) {
        let tooltip = format!("published {}", (chart.tick)(published));
        svg.glyph("published", (axis.place(published) * WIDTH, middle), super::DIAMOND, &tooltip);
    }
}

/// Draws the starts of a row: a dot for each figure, and the loads met and missed of starts without one.
fn draw_starts(svg: &mut Svg, chart: &Bars<'_>, axis: &Linear, row: &Bar, middle: f64) {
    let is_drawn = |value: &f64| value.is_finite() && *value <= axis.max;
    let x = |value: f64| axis.place(value) * WIDTH;
    for value in row.points.iter().copied().filter(is_drawn) {
        svg.dot("start", (x(value), middle), 2.5, &format!("one start: {}", (chart.tick)(value)));
    }
    for (met, missed) in &row.seen {
        let (met, missed) = (met.filter(is_drawn), missed.filter(is_drawn));
        if let (Some(met), Some(missed)) = (met, missed) {
            svg.line("seen", (x(met), middle), (x(missed), middle));
        }
        for (what, value) in [("met the goal", met), ("missed the goal", missed)] {
            if let Some(value) = value {
                let tooltip = format!("seen, and not claimed: {what} at {}", (chart.tick)(value));
                svg.dot("start seen", (x(value), middle), 3.0, &tooltip);
            }
        }
    }
}

/// The end of the axis: the highest figure or, if a few bars dwarf all others and may be cut, a little more
/// than the longest of the others.
fn axis_end(chart: &Bars<'_>) -> f64 {
    let mut reach: Vec<f64> = chart
        .rows
        .iter()
        .map(|row| {
            let high = row.interval.map(|(_, high)| high);
            let most = row.mean.map(|(_, _, max)| max);
            let seen = row.seen.iter().flat_map(|(met, missed)| [*met, *missed]);
            let starts = row.points.iter().copied().map(Some).chain(seen);
            [row.value, high, row.ceiling, most, row.published]
                .into_iter()
                .chain(starts)
                .filter_map(finite)
                .fold(0.0, f64::max)
        })
        .collect();
    reach.sort_by(|a, b| b.total_cmp(a));
    // Only a minority can dwarf the rest.
    let dwarfing = reach.len() / 2;
    let gap = reach.windows(2).take(dwarfing).find(|pair| pair[1] > 0.0 && pair[0] > DWARFS * pair[1]);
    let end = match gap {
        Some(pair) if chart.cut => pair[1] * BEYOND_CUT,
        _ => reach.first().copied().unwrap_or(0.0),
    };
    end.max(chart.at_least)
}

fn finite(value: Option<f64>) -> Option<f64> {
    value.filter(|value| value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(value: Option<f64>) -> Bar {
        Bar::plain("nsd".to_owned(), String::new(), value, Fill::Subject)
    }

    fn draw(rows: &[Bar]) -> String {
        bars(&Bars {
            id: "c",
            title: "t",
            description: "d",
            rows,
            at_least: 0.0,
            cut: true,
            tick: format::tick,
        })
    }

    /// The widths, in percent, of all rectangles of a class.
    fn widths(drawn: &str, class: &str) -> Vec<f64> {
        let start = format!(r#"<rect class="{class}""#);
        let of = |element: &str| {
            let (_, rest) = element.split_once(r#"width=""#)?;
            rest.split_once('%')?.0.parse().ok()
        };
        drawn.split(&start).skip(1).filter_map(of).collect()
    }

    fn whisker_ends(drawn: &str) -> Vec<(String, String)> {
        let between = |text: &str, name: &str| {
            let (_, rest) = text.split_once(&format!(r#"{name}=""#)).unwrap();
            rest.split_once('%').unwrap().0.to_owned()
        };
        let lines = drawn.split(r#"<line class="whisker""#).skip(1);
        lines.map(|line| (between(line, "x1"), between(line, "x2"))).collect()
    }

    #[test]
    fn bars_are_as_long_as_their_figures() {
        let drawn = draw(&[row(Some(400.0)), row(Some(100.0)), row(Some(200.0))]);
        assert_eq!(widths(&drawn, "bar subject"), [98.0, 24.5, 49.0]);
    }

    #[test]
    fn whiskers_end_where_the_interval_does() {
        let drawn = draw(&[Bar { interval: Some((50.0, 100.0)), ..row(Some(75.0)) }]);
        let pairs = [("49", "98"), ("49", "49"), ("98", "98")].map(|(a, b)| (a.to_owned(), b.to_owned()));
        assert_eq!(whisker_ends(&drawn), pairs);
    }

    #[test]
    fn the_ceiling_is_behind_and_further_out() {
        let drawn = draw(&[Bar { ceiling: Some(200.0), ..row(Some(100.0)) }]);
        assert_eq!(widths(&drawn, "backdrop"), [98.0]);
        assert_eq!(widths(&drawn, "bar subject"), [49.0]);
        assert!(drawn.find("backdrop") < drawn.find("bar subject"));
    }

    #[test]
    fn a_long_label_makes_way_for_the_note() {
        let long = |note: &str| Bar { label: "l".repeat(60), note: note.to_owned(), ..row(None) };
        for (note, kept) in [("213k q/s, 44 % of ceiling", 12), ("", 37), (&*"n".repeat(50), 7)] {
            let drawn = draw(&[long(note)]);
            assert!(drawn.contains(&format!(">{}…<", "l".repeat(kept))), "{drawn}");
        }
    }

    #[test]
    fn every_start_is_a_dot_and_of_a_refused_figure_its_bounds_are_hollow_ones() {
        let drawn = draw(&[Bar { points: vec![100.0, 200.0, f64::NAN], ..row(Some(150.0)) }]);
        assert_eq!(drawn.matches(r#"<circle class="start""#).count(), 2);
        assert!(drawn.contains(r#"cx="98%""#) && drawn.contains(r#"cx="49%""#), "{drawn}");
        let seen = vec![(Some(100.0), Some(200.0)), (None, Some(50.0)), (None, None)];
        let drawn = draw(&[Bar { seen, ..row(None) }]);
        assert_eq!(drawn.matches(r#"<circle class="start seen""#).count(), 3);
        assert_eq!(
            (drawn.matches(r#"<line class="seen""#).count(), widths(&drawn, "bar subject").len()),
            (1, 0)
        );
    }

    #[test]
    fn a_refused_figure_draws_no_bar_and_no_number() {
        let drawn = draw(&[Bar { ceiling: Some(200.0), note: "no rate".to_owned(), ..row(None) }]);
        assert!(widths(&drawn, "bar subject").is_empty());
        assert!(drawn.contains("no rate"));
    }

    #[test]
    fn a_missing_bar_has_a_short_mark_that_says_why() {
        for (missing, class) in [(Missing::Refused, "refused"), (Missing::Crashed, "unmeasured")] {
            let drawn = draw(&[row(Some(100.0)), Bar { missing: Some(missing), cell: Some(3), ..row(None) }]);
            assert_eq!(widths(&drawn, class), [MISSING]);
            assert!(drawn.contains(&format!("<title>nsd: {}</title>", missing.words())), "{drawn}");
            assert_eq!(drawn.matches("<a href=\"#trials-3\"><text class=\"label\"").count(), 1, "{drawn}");
        }
    }

    #[test]
    fn a_bar_that_dwarfs_the_others_is_cut_and_says_so() {
        let drawn = draw(&[row(Some(6_000.0)), row(Some(500.0)), row(Some(400.0))]);
        let lengths = widths(&drawn, "bar subject");
        assert!((lengths[0] - 98.0).abs() < 0.01 && lengths[1] > 70.0, "{lengths:?}");
        assert_eq!(drawn.matches(r#"class="cut""#).count(), 1);
        let drawn = draw(&[6_000.0, 6_100.0, 500.0, 400.0].map(|value| row(Some(value))));
        assert_eq!(drawn.matches(r#"class="cut""#).count(), 2);
        let drawn = draw(&[row(Some(1_900.0)), row(Some(500.0))]);
        assert_eq!(drawn.matches(r#"class="cut""#).count(), 0);
    }

    #[test]
    fn nothing_and_nonsense_draw_no_bar() {
        assert_eq!(draw(&[]), "");
        let drawn = draw(&[Bar {
            interval: Some((f64::NAN, 1.0)),
            ceiling: Some(f64::INFINITY),
            ..row(Some(f64::NAN))
        }]);
        assert!(widths(&drawn, "bar subject").is_empty() && !drawn.contains("NaN"));
        assert_eq!(widths(&draw(&[row(Some(0.0))]), "bar subject"), [0.0]);
    }
}
