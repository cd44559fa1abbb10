//! A strip over time: a row for each core, as high as its speed, and below the rows marks at certain moments.

use super::scale::Linear;
use super::svg::{Anchor, Svg};
use crate::format;

#[derive(Clone, Debug)]
pub(crate) struct Stretch {
    /// Seconds from the beginning of the run.
    pub(crate) from_s: f64,
    pub(crate) to_s: f64,
    /// The height in each row, 0 to 1, in the order of the rows; `None` if it is not known.
    pub(crate) heights: Vec<Option<f64>>,
    /// Whether a tick marks this stretch.
    pub(crate) ticked: bool,
    /// The height of the bar below; 0 draws none.
    pub(crate) amount: f64,
}

#[derive(Debug)]
pub(crate) struct Strip<'a> {
    /// Unique on the page.
    pub(crate) id: &'a str,
    /// Text for screen readers.
    pub(crate) title: &'a str,
    /// Text for screen readers, after the title.
    pub(crate) description: &'a str,
    pub(crate) rows: &'a [String],
    /// The names of the ticks and of the bars.
    pub(crate) ticks: &'a str,
    pub(crate) bars: &'a str,
    /// The stretches in the order of time.
    pub(crate) stretches: &'a [Stretch],
}

/// Begin and end of the time axis, in percent of the width; names stand left of it.
const LEFT: f64 = 19.0;
const RIGHT: f64 = 97.0;
const ROW: f64 = 20.0;
const GAP: f64 = 6.0;
const AXIS: f64 = 42.0;
/// The least width of a bar, in percent, and its least height.
const SEEN_WIDTH: f64 = 0.4;
const SEEN_HEIGHT: f64 = 2.0;

/// Draws the chart; returns an empty text if no time passed.
pub(crate) fn strip(chart: &Strip<'_>) -> String {
    let Some(last) = chart.stretches.last().filter(|last| last.to_s > 0.0) else { return String::new() };
    let (unit_s, unit) = unit(last.to_s);
    let axis = Linear::upto(last.to_s / unit_s, 6);
    let across = |at_s: f64| LEFT + axis.place(at_s / unit_s) * (RIGHT - LEFT);
    let top = |row: usize| row as f64 * (ROW + GAP);
    let height = top(chart.rows.len() + 2) + AXIS;
    let mut svg = Svg::default();
    for (row, name) in chart.rows.iter().enumerate() {
        name_row(&mut svg, top(row), name);
        svg.rect("backdrop", LEFT, top(row), RIGHT - LEFT, ROW);
        for outline in outlines(chart.stretches, row, top(row) + ROW, &across) {
            svg.polyline("speed", &outline, height);
        }
    }
    marks(&mut svg, chart, top(chart.rows.len()), &across);
    let bottom = top(chart.rows.len() + 2);
    svg.line("axis", (LEFT, bottom), (RIGHT, bottom));
    for tick in &axis.ticks {
        let x = across(tick * unit_s);
        svg.line("axis", (x, bottom), (x, bottom + 4.0));
        svg.text("tick", x, bottom + 18.0, Anchor::Middle, &format::tick(*tick));
    }
    svg.text("tick", RIGHT, bottom + 36.0, Anchor::End, &format!("{unit} since the first trial"));
    svg.finish(chart.id, height, chart.title, chart.description)
}

fn name_row(svg: &mut Svg, top: f64, name: &str) {
    svg.text("tick", 0.0, top + ROW - 6.0, Anchor::Start, name);
}

/// Draws the row of ticks and, below it, the row of bars; the greatest bar fills its row.
fn marks(svg: &mut Svg, chart: &Strip<'_>, top: f64, across: &impl Fn(f64) -> f64) {
    name_row(svg, top, chart.ticks);
    let bottom = top + ROW + GAP + ROW;
    name_row(svg, top + ROW + GAP, chart.bars);
    let most = chart.stretches.iter().map(|one| one.amount).fold(0.0, f64::max);
    for one in chart.stretches {
        let x = across(one.from_s);
        if one.ticked {
            svg.line("spoiled", (x, top), (x, top + ROW));
        }
        if one.amount > 0.0 {
            let high = (one.amount / most * ROW).max(SEEN_HEIGHT);
            svg.rect("bar", x, bottom - high, (across(one.to_s) - x).max(SEEN_WIDTH), high);
        }
    }
}

/// The outlines of a row: one for every time span in which its height is known throughout, each from the bottom
/// and back to it.
fn outlines(
    stretches: &[Stretch],
    row: usize,
    bottom: f64,
    across: &impl Fn(f64) -> f64,
) -> Vec<Vec<(f64, f64)>> {
    let known = |one: &Stretch| one.heights.get(row).copied().flatten();
    let runs = stretches.chunk_by(|a, b| known(a).is_some() == known(b).is_some());
    let outline = |run: &[Stretch]| {
        let (first, last) = (across(run[0].from_s), across(run[run.len() - 1].to_s));
        let steps =
            run.iter().filter_map(|one| Some((one, known(one)?.clamp(0.0, 1.0)))).flat_map(|(one, high)| {
                let y = bottom - high * ROW;
                [(across(one.from_s), y), (across(one.to_s), y)]
            });
        [(first, bottom)].into_iter().chain(steps).chain([(last, bottom)]).collect()
    };
    runs.filter(|run| known(&run[0]).is_some()).map(outline).collect()
}

/// The unit in which a person would state such a time: its length in seconds, and its name.
fn unit(time_s: f64) -> (f64, &'static str) {
    match time_s {
        ..600.0 => (1.0, "seconds"),
        ..36_000.0 => (60.0, "minutes"),
        _ => (3_600.0, "hours"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretch(from_s: f64, heights: &[Option<f64>]) -> Stretch {
        Stretch { from_s, to_s: from_s + 50.0, heights: heights.to_vec(), ticked: false, amount: 0.0 }
    }

    fn draw(rows: &[&str], stretches: &[Stretch]) -> String {
        let rows: Vec<String> = rows.iter().map(|row| (*row).to_owned()).collect();
        let (rows, ticks, bars) = (&rows[..], "spoiled", "withheld");
        strip(&Strip { id: "s", title: "t", description: "d", rows, ticks, bars, stretches })
    }

    #[test]
    fn a_row_is_as_high_as_it_is_fast() {
        let drawn = draw(&["core 0"], &[stretch(0.0, &[Some(1.0)]), stretch(50.0, &[Some(0.5)])]);
        assert!(drawn.contains(r#"points="19,20 19,0 58,0 58,10 97,10 97,20""#), "{drawn}");
        assert_eq!(drawn.matches("<polyline").count(), 1);
    }

    #[test]
    fn nothing_is_drawn_where_nothing_is_known() {
        let known = stretch(0.0, &[Some(1.0)]);
        let stretches =
            [known.clone(), stretch(50.0, &[None]), Stretch { from_s: 100.0, to_s: 150.0, ..known }];
        assert_eq!(draw(&["core 0"], &stretches).matches("<polyline").count(), 2);
        assert_eq!(draw(&["core 0"], &[]), "");
        assert!(!draw(&["core 0"], &[stretch(0.0, &[Some(f64::NAN)])]).contains("NaN"));
    }

    #[test]
    fn ticks_and_bars_stand_at_their_time() {
        let mut stretches = [stretch(0.0, &[]), stretch(50.0, &[])];
        (stretches[1].ticked, stretches[1].amount, stretches[0].amount) = (true, 8.0, 0.001);
        let drawn = draw(&[], &stretches);
        assert!(drawn.contains(r#"<line class="spoiled" x1="58%" y1="0" x2="58%" y2="20"/>"#), "{drawn}");
        assert!(drawn.contains(r#"<rect class="bar" x="58%" y="26" width="39%" height="20"/>"#), "{drawn}");
        assert!(drawn.contains(r#"<rect class="bar" x="19%" y="44" width="39%" height="2"/>"#), "{drawn}");
    }

    #[test]
    fn long_times_have_long_units() {
        assert_eq!([90.0, 900.0, 90_000.0].map(|time_s| unit(time_s).1), ["seconds", "minutes", "hours"]);
    }
}
