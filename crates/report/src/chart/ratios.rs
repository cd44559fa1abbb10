//! Ratios of a comparison: a dot and a row for each block, above a band of ratios that do not differ
//! detectably from 1. At the bottom, the mean with its interval.

use super::svg::{Anchor, Svg};

#[derive(Debug)]
pub(crate) struct Ratios<'a> {
    /// Unique on the page.
    pub(crate) id: &'a str,
    /// Text for screen readers.
    pub(crate) title: &'a str,
    /// Text for screen readers, after the title.
    pub(crate) description: &'a str,
    /// The ratio of every block, above 0.
    pub(crate) blocks: &'a [f64],
    /// The number of each of these blocks in the run, from 0.
    pub(crate) numbers: &'a [u32],
    /// The minimum detectable effect, a share.
    pub(crate) mde: Option<f64>,
    /// Low end, mean and high end.
    pub(crate) interval: (f64, f64, f64),
}

const TOP: f64 = 8.0;
const ROW: f64 = 16.0;
/// Height of the part below the rows, in pixels: the interval, the axis and its labels.
const FOOT: f64 = 56.0;
/// Begin and end of the plot, in percent of the width.
const LEFT: f64 = 16.0;
const RIGHT: f64 = 94.0;
/// With more blocks than this, blocks share rows.
const MOST_ROWS: usize = 24;
/// The least reach of the axis on each side of 1.
const LEAST_REACH: f64 = 0.005;
/// Steps between the labels of the axis; the smallest step that leaves few labels is taken.
const STEPS: [f64; 10] = [0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0];

pub(crate) fn ratios(chart: &Ratios<'_>) -> String {
    let rows = chart.blocks.len().clamp(1, MOST_ROWS);
    let bottom = TOP + rows as f64 * ROW + ROW * 1.5;
    let reach = reach(chart);
    let across = |ratio: f64| {
        let share = (ratio - 1.0 + reach) / (2.0 * reach);
        LEFT + share.clamp(0.0, 1.0) * (RIGHT - LEFT)
    };
    let mut svg = Svg::default();
    if let Some(mde) = chart.mde {
        let (low, high) = (across(1.0 / (1.0 + mde)), across(1.0 + mde));
        svg.rect("backdrop band", low, TOP, high - low, bottom - TOP);
    }
    axis(&mut svg, reach, bottom, &across);
    let numbered = chart.blocks.iter().zip(chart.numbers);
    for (index, (ratio, number)) in numbered.enumerate().filter(|(_, (ratio, _))| ratio.is_finite()) {
        let y = TOP + ((index % rows) as f64 + 0.5) * ROW;
        svg.dot("p50", (across(*ratio), y), 3.5, &format!("block {}: {ratio:.4}", number + 1));
    }
    let (low, median, high) = chart.interval;
    let y = bottom - ROW * 0.75;
    svg.text("tick", LEFT - 2.0, y + 4.0, Anchor::End, "all");
    let first = chart.numbers.first().map_or(1, |number| number + 1);
    svg.text("tick", LEFT - 2.0, TOP + ROW * 0.5 + 4.0, Anchor::End, &format!("block {first}"));
    svg.line("whisker", (across(low), y), (across(high), y));
    for end in [low, high] {
        svg.line("whisker", (across(end), y - 5.0), (across(end), y + 5.0));
    }
    svg.dot("p99 median", (across(median), y), 4.5, &format!("all: {median:.4}"));
    svg.finish(chart.id, bottom + FOOT - ROW, chart.title, chart.description)
}

/// The reach of the axis on each side of 1: as far as anything that is drawn. An axis that would reach below 0
/// has a half-width of 1.
fn reach(chart: &Ratios<'_>) -> f64 {
    let (low, _, high) = chart.interval;
    let drawn = chart.blocks.iter().copied().chain([low, high]);
    let mde = chart.mde.unwrap_or(0.0);
    let farthest = drawn.map(|ratio| (ratio - 1.0).abs()).filter(|far| far.is_finite());
    farthest.fold(mde.max(LEAST_REACH), f64::max) * 1.05
}

fn axis(svg: &mut Svg, reach: f64, bottom: f64, across: &dyn Fn(f64) -> f64) {
    svg.line("axis", (LEFT, bottom), (RIGHT, bottom));
    svg.line("mark", (across(1.0), TOP), (across(1.0), bottom));
    let step = STEPS.into_iter().find(|step| reach / step <= 2.5).unwrap_or(reach / 2.0);
    for number in [-2.0, -1.0, 0.0, 1.0, 2.0] {
        let beyond: f64 = number * step;
        if beyond.abs() > reach {
            continue;
        }
        let x = across(1.0 + beyond);
        svg.line("axis", (x, bottom), (x, bottom + 4.0));
        let label =
            if number == 0.0 { "equal".to_owned() } else { format!("{:+} %", rounded(beyond * 100.0)) };
        svg.text("tick", x, bottom + 18.0, Anchor::Middle, &label);
    }
    svg.text("tick", RIGHT, bottom + 36.0, Anchor::End, "B beside A");
}

/// Removes the rounding errors of binary fractions.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(blocks: &[f64], mde: Option<f64>) -> String {
        let interval = (0.9, 0.95, 1.0);
        let numbers: Vec<u32> = (1..).take(blocks.len()).collect();
        ratios(&Ratios { id: "r", title: "t", description: "d", blocks, numbers: &numbers, mde, interval })
    }

    #[test]
    fn every_block_is_a_dot_and_the_band_is_there_when_it_is_known() {
        let drawn = draw(&[0.9, 0.97], Some(0.02));
        assert_eq!(drawn.matches("<circle").count(), 2 + 1);
        assert!(drawn.contains(">block 2<") && drawn.contains("block 3: 0.97"), "{drawn}");
        assert!(drawn.contains("band") && drawn.contains(">equal<") && drawn.contains(">-10 %<"), "{drawn}");
        assert!(!draw(&[0.9], None).contains("band"));
    }

    #[test]
    fn what_lies_far_out_stays_within_the_drawing() {
        for far in [0.001, 40.0, f64::NAN] {
            let drawn = draw(&[far, 1.0], Some(3.0));
            assert!(!drawn.contains("NaN") && !drawn.contains("cx=\"-"), "{drawn}");
        }
    }
}
