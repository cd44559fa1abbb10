//! Figures along a factor with numeric values. At each value stand the median with its interval, the mean
//! between minimum and maximum, and the published figure, side by side so that none hides another. A fitted curve
//! with its band may lie behind them.

use super::Missing;
use super::scale::Linear;
use super::svg::{Anchor, Svg};

/// The marks at one value of the factor.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spread {
    pub(crate) label: String,
    /// Median, and the ends of its interval.
    pub(crate) median: Option<(f64, f64, f64)>,
    /// The figure of each start: small dots.
    pub(crate) starts: Vec<f64>,
    /// Mean, minimum, maximum.
    pub(crate) mean: Option<(f64, f64, f64)>,
    /// The published figure.
    pub(crate) published: Option<f64>,
    /// Why there is no mark.
    pub(crate) missing: Option<Missing>,
    /// The cell whose trials are behind the marks.
    pub(crate) cell: Option<u32>,
}

impl Spread {
    /// The highest figure.
    pub(crate) fn reach(&self) -> f64 {
        let ends = [self.median, self.mean].into_iter().flatten().map(|(at, _, high)| high.max(at));
        let starts = self.starts.iter().copied();
        ends.chain(self.published).chain(starts).filter(|value| value.is_finite()).fold(0.0, f64::max)
    }
}

/// A point of a fitted curve.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CurvePoint {
    /// Its place along the axis: 0 is at the first value of the factor, 0.5 halfway to the second.
    pub(crate) at: f64,
    pub(crate) value: f64,
    /// The ends of the interval.
    pub(crate) band: Option<(f64, f64)>,
}

#[derive(Debug)]
pub(crate) struct Spreads<'a> {
    /// Unique on the page.
    pub(crate) id: &'a str,
    /// Text for screen readers.
    pub(crate) title: &'a str,
    /// Text for screen readers, after the title.
    pub(crate) description: &'a str,
    pub(crate) factor: &'a str,
    /// The marks in the order of the factor's values.
    pub(crate) spreads: &'a [Spread],
    /// A fitted curve; may be empty.
    pub(crate) curve: &'a [CurvePoint],
    /// The end of the axis, which charts that stand side by side share.
    pub(crate) highest: f64,
    /// Formats a figure.
    pub(crate) text: fn(f64) -> String,
    /// Formats a tick.
    pub(crate) tick: fn(f64) -> String,
}

const TOP: f64 = 12.0;
const PLOT: f64 = 176.0;
const BOTTOM: f64 = TOP + PLOT;
const HEIGHT: f64 = BOTTOM + 42.0;
/// Begin and end of the plot, in percent of the width.
const LEFT: f64 = 21.0;
const RIGHT: f64 = 99.0;
/// The greatest distance between marks at one value, in percent of the width.
const APART: f64 = 2.4;
/// The width of the frame over the whole height that stands where there is no figure, in percent of the width.
const MISSING: f64 = 4.0;
/// The most labels that fit on a phone. With more values, only every second, third, … label is written.
const LABELS: usize = 8;
/// The greatest length of a label, in characters.
const LABEL_LONGEST: usize = 6;

/// Draws the chart; returns an empty text if there is no value.
pub(crate) fn spreads(chart: &Spreads<'_>) -> String {
    if chart.spreads.is_empty() {
        return String::new();
    }
    let axis = Linear::upto(chart.highest, 5);
    let mut svg = Svg::default();
    for tick in &axis.ticks {
        let y = BOTTOM - axis.place(*tick) * PLOT;
        svg.line("grid", (LEFT, y), (RIGHT, y));
        svg.text("tick", LEFT - 2.0, y + 4.0, Anchor::End, &(chart.tick)(*tick));
    }
    let step = (RIGHT - LEFT) / chart.spreads.len() as f64;
    let along = |at: f64| LEFT + step * (at + 0.5);
    let across = |index: usize| along(index as f64);
    let apart = APART.min(step / 4.0);
    let place = |value: f64| BOTTOM - axis.place(value) * PLOT;
    fitted(&mut svg, chart.curve, &|at, value| (along(at), place(value)));
    trends(&mut svg, chart.spreads, &|index, side, value| (across(index) + apart * side, place(value)));
    let every = chart.spreads.len().div_ceil(LABELS);
    for (index, one) in chart.spreads.iter().enumerate() {
        svg.of_cell(one.cell, |svg| {
            marks(svg, chart, one, &|side, value| (across(index) + apart * side, place(value)));
            if index % every == 0 {
                let label = crate::format::shortened(&one.label, LABEL_LONGEST);
                svg.text("tick", across(index), BOTTOM + 18.0, Anchor::Middle, &label);
            }
            if let Some(missing) = one.missing {
                let width = MISSING.min(step * 0.8);
                svg.group(&format!("{}: {}", one.label, missing.words()), |svg| {
                    svg.rect(missing.class(), across(index) - width / 2.0, TOP, width, PLOT - 3.0);
                });
            }
        });
    }
    svg.line("axis", (LEFT, BOTTOM), (RIGHT, BOTTOM));
    let factor = crate::format::shortened(chart.factor, 30);
    svg.text("tick", RIGHT, BOTTOM + 36.0, Anchor::End, &factor);
    svg.finish(chart.id, HEIGHT, chart.title, chart.description)
}

/// A fitted curve, over its band.
fn fitted(svg: &mut Svg, curve: &[CurvePoint], place: &dyn Fn(f64, f64) -> (f64, f64)) {
    let is_drawable = |point: &&CurvePoint| point.value.is_finite() && point.at.is_finite();
    let curve: Vec<&CurvePoint> = curve.iter().filter(is_drawable).collect();
    if curve.len() < 2 {
        return;
    }
    let ends = curve.iter().filter_map(|point| Some((point.at, point.band?)));
    let above = ends.clone().map(|(at, (_, high))| place(at, high));
    let below: Vec<(f64, f64)> = ends.map(|(at, (low, _))| place(at, low)).collect();
    let band: Vec<(f64, f64)> = above.chain(below.iter().rev().copied()).collect();
    if !band.is_empty() {
        svg.polyline("law-band", &band, HEIGHT);
    }
    let line: Vec<(f64, f64)> = curve.iter().map(|point| place(point.at, point.value)).collect();
    svg.polyline("law", &line, HEIGHT);
}

/// The side of a value on which each mark stands.
const MEAN: f64 = -1.0;
const MEDIAN: f64 = 0.0;
const PUBLISHED: f64 = 1.0;

/// Lines from value to value: of the medians (of the means if there are none), and of the published figures.
fn trends(svg: &mut Svg, spreads: &[Spread], place: &dyn Fn(usize, f64, f64) -> (f64, f64)) {
    let has_median = spreads.iter().any(|one| one.median.is_some());
    let line = |of: &dyn Fn(&Spread) -> Option<f64>, side: f64| -> Vec<(f64, f64)> {
        let values = spreads.iter().enumerate().filter_map(|(index, one)| Some((index, of(one)?)));
        values
            .filter(|(_, value)| value.is_finite())
            .map(|(index, value)| place(index, side, value))
            .collect()
    };
    let own = if has_median {
        line(&|one| one.median.map(|(median, ..)| median), MEDIAN)
    } else {
        line(&|one| one.mean.map(|(mean, ..)| mean), MEAN)
    };
    for (class, points) in [("published", line(&|one| one.published, PUBLISHED)), ("median", own)] {
        if points.len() > 1 {
            svg.polyline(class, &points, HEIGHT);
        }
    }
}

fn marks(svg: &mut Svg, chart: &Spreads<'_>, one: &Spread, place: &dyn Fn(f64, f64) -> (f64, f64)) {
    let tooltip = |what: &str, value: f64| format!("{what} {} at {}", (chart.text)(value), one.label);
    if let Some((mean, min, max)) = one.mean.filter(|(mean, ..)| mean.is_finite()) {
        svg.line("range", place(MEAN, min), place(MEAN, max));
        svg.glyph("mean", place(MEAN, mean), "M-4 0H4", &tooltip("mean", mean));
    }
    if let Some((median, low, high)) = one.median.filter(|(median, ..)| median.is_finite()) {
        svg.line("interval", place(MEDIAN, low), place(MEDIAN, high));
        for start in one.starts.iter().copied().filter(|value| value.is_finite()) {
            svg.dot("start", place(MEDIAN, start), 2.0, &tooltip("one start", start));
        }
        svg.dot("median", place(MEDIAN, median), 3.5, &tooltip("median", median));
    }
    if let Some(published) = one.published.filter(|value| value.is_finite()) {
        svg.glyph("published", place(PUBLISHED, published), super::DIAMOND, &tooltip("published", published));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format;

    fn draw(spreads_: &[Spread], highest: f64) -> String {
        spreads(&Spreads {
            id: "s",
            title: "t",
            description: "d",
            factor: "workers",
            spreads: spreads_,
            curve: &[],
            highest,
            text: format::rate,
            tick: format::tick,
        })
    }

    fn at(label: &str, median: f64, published: Option<f64>) -> Spread {
        Spread {
            label: label.to_owned(),
            median: Some((median, median * 0.9, median * 1.1)),
            published,
            ..Spread::default()
        }
    }

    #[test]
    fn marks_stand_beside_each_other_and_lines_join_them() {
        let mean = Some((95.0, 50.0, 100.0));
        let drawn = draw(&[Spread { mean, ..at("1", 90.0, Some(50.0)) }, at("2", 50.0, Some(100.0))], 100.0);
        assert!(drawn.contains(r#"<circle class="median" cx="40.5%" cy="29.6""#), "{drawn}");
        assert!(drawn.contains(r#"<line class="range" x1="38.1%" y1="100" x2="38.1%" y2="12"/>"#), "{drawn}");
        assert!(
            drawn.contains(r#"<svg x="42.9%" y="100" overflow="visible"><path class="published""#),
            "{drawn}"
        );
        assert_eq!(drawn.matches("<polyline").count(), 2);
    }

    #[test]
    fn every_start_is_a_small_dot() {
        let drawn = draw(&[Spread { starts: vec![50.0, 100.0], ..at("1", 75.0, None) }], 100.0);
        assert_eq!(drawn.matches(r#"<circle class="start""#).count(), 2);
        assert!(drawn.contains("one start 50"), "{drawn}");
    }

    #[test]
    fn where_there_is_no_figure_a_frame_says_so_and_no_mark_stands_at_zero() {
        let without = |label: &str, missing| Spread {
            label: label.to_owned(),
            missing: Some(missing),
            ..Spread::default()
        };
        let drawn = draw(
            &[at("1", 50.0, None), without("2", Missing::Refused), without("4", Missing::Crashed)],
            100.0,
        );
        assert_eq!(drawn.matches(r#"<rect class="refused""#).count(), 1);
        assert_eq!(drawn.matches(r#"<rect class="unmeasured""#).count(), 1);
        assert!(drawn.contains("<title>2: no number</title>"), "{drawn}");
        assert_eq!(drawn.matches("<circle").count(), 1, "of the figure alone");
    }

    #[test]
    fn marks_and_label_lead_to_the_trials_of_their_cell() {
        let drawn = draw(&[Spread { cell: Some(7), ..at("1", 50.0, None) }, at("2", 40.0, None)], 100.0);
        let (before, linked) = drawn.split_once("<a href=\"#trials-7\">").unwrap();
        let linked = linked.split("</a>").next().unwrap();
        assert!(linked.contains("circle class=\"median\"") && linked.contains(">1</text>"), "{linked}");
        assert!(!before.contains("circle") && !linked.contains(">2</text>"), "{drawn}");
    }

    #[test]
    fn many_values_have_fewer_labels_and_all_marks() {
        let many: Vec<Spread> = (0..20).map(|value| at(&value.to_string(), 10.0, None)).collect();
        let drawn = draw(&many, 10.0);
        assert_eq!(drawn.matches("<circle").count(), 20);
        assert_eq!(drawn.matches(r#"text-anchor="middle""#).count(), 7);
    }

    #[test]
    fn a_curve_lies_over_its_band_and_both_begin_at_the_first_value() {
        let marks = [at("1", 50.0, None), at("2", 100.0, None)];
        let point = |at: f64, value: f64| CurvePoint { at, value, band: Some((value * 0.5, value)) };
        let curve = [point(0.0, 50.0), point(0.5, 80.0), point(1.0, 100.0)];
        let chart = Spreads {
            id: "s",
            title: "t",
            description: "d",
            factor: "workers",
            spreads: &marks,
            curve: &curve,
            highest: 100.0,
            text: format::rate,
            tick: format::tick,
        };
        let drawn = spreads(&chart);
        assert!(drawn.contains(r#"class="law" points="40.5,100 60,47.2 79.5,12""#), "{drawn}");
        assert!(drawn.find("law-band").unwrap() < drawn.find(r#"class="law""#).unwrap(), "{drawn}");
        assert!(!spreads(&Spreads { curve: &curve[..1], ..chart }).contains("law"), "one point is no curve");
    }

    #[test]
    fn nothing_and_nonsense_are_not_drawn() {
        assert_eq!(draw(&[], 1.0), "");
        let drawn = draw(&[at("1", f64::NAN, Some(f64::INFINITY))], f64::NAN);
        assert!(!drawn.contains("NaN") && !drawn.contains("circle") && !drawn.contains("published"));
    }
}
