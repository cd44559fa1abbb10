//! The course of a figure over many runs: a dot for each run with its interval, levels, and lines where the figure
//! changed, above bands of hosts. The axis of the figure does not begin at 0, since small changes must be seen.

use super::svg::{Anchor, Svg};

/// A run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dot {
    /// Its place among all runs of the series, from 0.
    pub(crate) slot: usize,
    /// The figure; `None` if the run has none.
    pub(crate) value: Option<f64>,
    /// The ends of its interval, if it has one.
    pub(crate) ends: Option<(f64, f64)>,
    /// The host, as a number.
    pub(crate) host: usize,
    pub(crate) is_outlier: bool,
}

/// The kind of change that a line marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineKind {
    Worse,
    Better,
    /// A change that the host explains.
    Hosts,
}

/// A change, drawn before the run with which it shows.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) slot: usize,
    pub(crate) kind: LineKind,
    pub(crate) is_weak: bool,
    /// The change in a few characters.
    pub(crate) label: String,
}

#[derive(Debug)]
pub(crate) struct Course<'a> {
    /// Unique on the page.
    pub(crate) id: &'a str,
    /// Text for screen readers.
    pub(crate) title: &'a str,
    /// Text for screen readers, after the title.
    pub(crate) description: &'a str,
    /// The runs by their slots.
    pub(crate) dots: &'a [Dot],
    /// From which to which slot, and the mean.
    pub(crate) levels: &'a [(usize, usize, f64)],
    pub(crate) lines: &'a [Line],
    /// The size of the figure's unit, and its name.
    pub(crate) unit: (f64, &'a str),
    /// The words below both ends of the axis.
    pub(crate) ends: (&'a str, &'a str),
    /// The figure of the newest run, with the words of its tooltip.
    pub(crate) newest: &'a str,
}

const TOP: f64 = 24.0;
const PLOT: f64 = 128.0;
const BOTTOM: f64 = TOP + PLOT;
/// The row of runs without a figure.
const ABSENT: f64 = BOTTOM + 8.0;
const HEIGHT: f64 = BOTTOM + 38.0;
/// Begin and end of the plot, in percent of the width.
const LEFT: f64 = 19.0;
const RIGHT: f64 = 98.0;
/// The part of the axis that stays free at each end.
const MARGIN: f64 = 0.08;
/// A narrower range, as a share of the figures, shows noise only.
const NARROWEST: f64 = 0.01;
/// Labels of lines are at least this far apart, in percent of the width.
const LABELS_APART: f64 = 17.0;
/// A cross in pixels around its place.
const CROSS: &str = "M-3 -3L3 3M-3 3L3 -3";

/// The axis of the figure.
struct Axis {
    low: f64,
    high: f64,
    step: f64,
}

/// Draws the chart; returns an empty text if no run has a figure.
pub(crate) fn course(chart: &Course<'_>) -> String {
    let Some(axis) = axis(chart) else { return String::new() };
    let slots = chart.dots.iter().map(|dot| dot.slot + 1).max().unwrap_or(1) as f64;
    let across = |slot: f64| LEFT + (slot + 0.5) / slots * (RIGHT - LEFT);
    let down = |value: f64| BOTTOM - ((value - axis.low) / (axis.high - axis.low)).clamp(0.0, 1.0) * PLOT;
    let mut svg = Svg::default();
    bands(&mut svg, chart.dots, &across);
    scale(&mut svg, chart, &axis, &down);
    lines(&mut svg, chart.lines, &across);
    let place = |dot: &Dot, value: f64| (across(dot.slot as f64), down(value));
    let reaches: Vec<_> = chart
        .dots
        .iter()
        .filter_map(|dot| Some((dot, dot.ends?)))
        .map(|(dot, (low, high))| [place(dot, low), place(dot, high)])
        .collect();
    svg.strokes("reach", &reaches, HEIGHT);
    let half = 0.5 * (RIGHT - LEFT) / slots;
    for &(from, to, mean) in chart.levels {
        let (from, to) = (across(from as f64) - half, across(to as f64) + half);
        svg.line("level", (from, down(mean)), (to, down(mean)));
    }
    let measured =
        || chart.dots.iter().filter_map(|dot| Some((dot, dot.value.filter(|value| value.is_finite())?)));
    let usual: Vec<_> =
        measured().filter(|(dot, _)| !dot.is_outlier).map(|(dot, value)| [place(dot, value); 2]).collect();
    svg.strokes("points", &usual, HEIGHT);
    for (dot, value) in measured().filter(|(dot, _)| dot.is_outlier) {
        svg.dot("missing", place(dot, value), 4.0, "a single outlier");
    }
    for dot in chart.dots.iter().filter(|dot| dot.value.is_none()) {
        svg.glyph("absent", (across(dot.slot as f64), ABSENT), CROSS, "no figure");
    }
    if let Some((dot, value)) = measured().next_back() {
        svg.dot("p50", place(dot, value), 4.0, chart.newest);
    }
    svg.finish(chart.id, HEIGHT, chart.title, chart.description)
}

/// Shades the runs of every second host.
fn bands(svg: &mut Svg, dots: &[Dot], across: &impl Fn(f64) -> f64) {
    let measured: Vec<&Dot> = dots.iter().filter(|dot| dot.value.is_some()).collect();
    for run in measured.chunk_by(|a, b| a.host == b.host).filter(|run| run[0].host % 2 == 1) {
        let (from, to) = (across(run[0].slot as f64 - 0.5), across(run[run.len() - 1].slot as f64 + 0.5));
        svg.rect("host-band", from, TOP, to - from, PLOT);
    }
}

fn scale(svg: &mut Svg, chart: &Course<'_>, axis: &Axis, down: &impl Fn(f64) -> f64) {
    let (size, unit) = chart.unit;
    let decimals = (-(axis.step / size).log10().floor()).clamp(0.0, 6.0) as usize;
    let first = (axis.low / axis.step).ceil() as i64;
    for number in first..=(axis.high / axis.step).floor() as i64 {
        let value = number as f64 * axis.step;
        svg.line("grid", (LEFT, down(value)), (RIGHT, down(value)));
        let label = format!("{:.decimals$}\u{a0}{unit}", value / size);
        svg.text("tick", LEFT - 2.0, down(value) + 4.0, Anchor::End, label.trim_end());
    }
    svg.line("axis", (LEFT, BOTTOM), (RIGHT, BOTTOM));
    svg.text("tick", LEFT, BOTTOM + 30.0, Anchor::Start, chart.ends.0);
    svg.text("tick", RIGHT, BOTTOM + 30.0, Anchor::End, chart.ends.1);
}

/// Draws the lines, and labels the newest ones as long as there is room.
fn lines(svg: &mut Svg, lines: &[Line], across: &impl Fn(f64) -> f64) {
    let mut free_to = f64::INFINITY;
    for line in lines.iter().rev() {
        let x = across(line.slot as f64 - 0.5);
        let kind = match line.kind {
            LineKind::Worse => "worse",
            LineKind::Better => "better",
            LineKind::Hosts => "hosts",
        };
        let weak = if line.is_weak { " weak" } else { "" };
        svg.line(&format!("change {kind}{weak}"), (x, TOP - 4.0), (x, BOTTOM));
        if x + LABELS_APART <= free_to {
            let anchor = if x > 75.0 { Anchor::End } else { Anchor::Start };
            svg.text(&format!("label change {kind}"), x, TOP - 9.0, anchor, &line.label);
            free_to = if x > 75.0 { x - LABELS_APART } else { x };
        }
    }
}

/// The axis over everything that is drawn. `None` without a figure.
fn axis(chart: &Course<'_>) -> Option<Axis> {
    let of_dot = |dot: &Dot| [dot.value, dot.ends.map(|ends| ends.0), dot.ends.map(|ends| ends.1)];
    let values = chart.dots.iter().filter(|dot| dot.value.is_some()).flat_map(of_dot).flatten();
    let levels = chart.levels.iter().map(|level| level.2);
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for value in values.chain(levels).filter(|value| value.is_finite()) {
        (low, high) = (low.min(value), high.max(value));
    }
    if low > high {
        return None;
    }
    let middle = f64::midpoint(low, high);
    let range = (high - low).max(middle.abs() * NARROWEST).max(f64::MIN_POSITIVE * 1e9);
    let half = range * (0.5 + MARGIN);
    let rough = half * 2.0 / 4.0;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|digit| digit * power).find(|step| *step >= rough);
    Some(Axis { low: middle - half, high: middle + half, step: step.unwrap_or(10.0 * power) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dot(slot: usize, value: Option<f64>) -> Dot {
        let ends = value.map(|value| (value * 0.99, value * 1.01));
        Dot { slot, value, ends, host: slot / 4, is_outlier: slot == 2 }
    }

    fn draw(dots: &[Dot], lines: &[Line]) -> String {
        let levels = [(0, 7, 0.5)];
        let levels = if dots.is_empty() { &levels[..0] } else { &levels[..] };
        let (unit, ends) = ((0.01, "%"), ("then", "now"));
        course(&Course {
            id: "c",
            title: "t",
            description: "d",
            dots,
            levels,
            lines,
            unit,
            ends,
            newest: "50 %",
        })
    }

    #[test]
    fn every_run_is_a_dot_or_a_cross_and_every_second_host_a_band() {
        let dots: Vec<Dot> = (0..8).map(|slot| dot(slot, (slot != 5).then_some(0.5))).collect();
        let line = Line { slot: 4, kind: LineKind::Worse, is_weak: true, label: "-5 %".into() };
        let drawn = draw(&dots, &[line]);
        let path = |class: &str| {
            let rest = drawn.split(&format!(r#"<path class="{class}" d=""#)).nth(1).unwrap();
            rest.split('"').next().unwrap().matches('M').count()
        };
        assert_eq!((path("points"), path("reach")), (6, 7));
        assert_eq!(drawn.matches(r#"class="missing""#).count(), 1);
        assert_eq!(drawn.matches(r#"class="absent""#).count(), 1);
        assert_eq!(drawn.matches(r#"class="host-band""#).count(), 1);
        assert!(drawn.contains(r#"class="change worse weak""#) && drawn.contains(">-5 %<"), "{drawn}");
        assert!(drawn.contains(">50.0\u{a0}%<"), "{drawn}");
    }

    #[test]
    fn nothing_and_nonsense_are_not_drawn() {
        assert_eq!(draw(&[], &[]), "");
        let absent = [dot(0, None)];
        let (unit, ends) = ((1.0, ""), ("", ""));
        let chart = Course {
            id: "c",
            title: "",
            description: "",
            dots: &absent,
            levels: &[],
            lines: &[],
            unit,
            ends,
            newest: "",
        };
        assert_eq!(course(&chart), "");
        for value in [1e-300, 1e300, f64::NAN] {
            let drawn = draw(&[dot(0, Some(value)), dot(1, Some(0.5))], &[]);
            assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{drawn}");
        }
    }

    #[test]
    fn equal_figures_have_an_axis_with_labels() {
        let dots: Vec<Dot> = (0..3).map(|slot| Dot { ends: None, ..dot(slot, Some(0.5)) }).collect();
        assert!(draw(&dots, &[]).matches(r#"class="tick""#).count() >= 4);
    }
}
