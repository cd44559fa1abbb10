//! Lines over load: figures of one subject against the offered rate, with times on a logarithmic axis.

use std::collections::BTreeSet;

use super::scale::{Linear, Log};
use super::svg::{Anchor, Svg};
use crate::format;

/// A kind of figure, with a line for each start.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    /// The name at its last point.
    pub(crate) name: &'static str,
    /// Style class of line and dots.
    pub(crate) class: &'static str,
    /// The points in any order. Each start has a line of its own.
    pub(crate) points: Vec<Point>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    /// Queries offered a second.
    pub(crate) rate_qps: f64,
    pub(crate) time_us: f64,
    /// Whether that load met the goal. The line runs through such points; the others are hollow dots.
    pub(crate) met: bool,
    /// The block of the start. No line joins points of different starts.
    pub(crate) start: u32,
}

#[derive(Debug)]
pub(crate) struct Lines<'a> {
    /// Unique on the page.
    pub(crate) id: &'a str,
    /// Text for screen readers.
    pub(crate) title: &'a str,
    /// Text for screen readers, after the title.
    pub(crate) description: &'a str,
    pub(crate) series: &'a [Series],
    /// The figures of all charts that stand side by side, which share their axes.
    pub(crate) times_us: &'a [f64],
    /// The end of the load axis.
    pub(crate) rate_max_qps: f64,
    /// The rate of the figure, marked with a line.
    pub(crate) mark_qps: Option<f64>,
}

const TOP: f64 = 22.0;
const PLOT: f64 = 176.0;
const BOTTOM: f64 = TOP + PLOT;
const HEIGHT: f64 = BOTTOM + 42.0;
/// Begin and end of the plot, in percent of the width.
const LEFT: f64 = 17.0;
const RIGHT: f64 = 86.0;
/// The least distance between names of lines, in pixels.
const NAME_APART: f64 = 14.0;
/// The highest place of a name, in pixels from the top.
const NAME_TOP: f64 = 8.0;

/// Draws the chart; returns an empty text if there is no point.
pub(crate) fn lines(chart: &Lines<'_>) -> String {
    let drawable: Vec<(&Series, Vec<Point>)> =
        chart.series.iter().map(|series| (series, sorted(&series.points))).collect();
    if drawable.iter().all(|(_, points)| points.is_empty()) {
        return String::new();
    }
    let x_axis = Linear::upto(chart.rate_max_qps, 4);
    let y_axis = Log::over(chart.times_us.iter().copied());
    let across = |rate_qps: f64| LEFT + x_axis.place(rate_qps) * (RIGHT - LEFT);
    let place = |point: &Point| (across(point.rate_qps), BOTTOM - y_axis.place(point.time_us) * PLOT);
    let mut svg = Svg::default();
    axes(&mut svg, &x_axis, &y_axis);
    if let Some(mark) = chart.mark_qps.filter(|mark| mark.is_finite()) {
        let x = across(mark);
        svg.line("mark", (x, TOP - 6.0), (x, BOTTOM));
        let anchor = if x > 60.0 { Anchor::End } else { Anchor::Start };
        svg.text("tick", x, TOP - 9.0, anchor, &format!("figure {}", format::rate(mark)));
    }
    let mut names = Vec::new();
    for (series, points) in &drawable {
        let starts: BTreeSet<u32> = points.iter().map(|point| point.start).collect();
        for start in starts {
            let met = points.iter().filter(|point| point.met && point.start == start);
            let met: Vec<(f64, f64)> = met.map(place).collect();
            if met.len() > 1 {
                svg.polyline(series.class, &met, HEIGHT);
            }
        }
        for point in points {
            let (time, rate) = (format::time_us(point.time_us), format::rate(point.rate_qps));
            let class = if point.met { series.class.to_owned() } else { format!("{} missed", series.class) };
            let tooltip = format!("{} {time} at {rate}, start {}", series.name, point.start + 1);
            svg.dot(&class, place(point), 3.0, &tooltip);
        }
        let last = points.iter().rev().find(|point| point.met).or(points.last());
        if let Some((_, y)) = last.map(place) {
            names.push((*series, y));
        }
    }
    name_lines(&mut svg, names);
    svg.finish(chart.id, HEIGHT, chart.title, chart.description)
}

fn axes(svg: &mut Svg, x_axis: &Linear, y_axis: &Log) {
    for tick in &y_axis.ticks {
        let y = BOTTOM - y_axis.place(*tick) * PLOT;
        svg.line("grid", (LEFT, y), (RIGHT, y));
        svg.text("tick", LEFT - 2.0, y + 4.0, Anchor::End, &format::time_tick(*tick));
    }
    svg.line("axis", (LEFT, BOTTOM), (RIGHT, BOTTOM));
    for tick in &x_axis.ticks {
        let x = LEFT + x_axis.place(*tick) * (RIGHT - LEFT);
        svg.line("axis", (x, BOTTOM), (x, BOTTOM + 4.0));
        svg.text("tick", x, BOTTOM + 18.0, Anchor::Middle, &format::tick(*tick));
    }
    svg.text("tick", RIGHT, BOTTOM + 36.0, Anchor::End, "queries offered a second");
}

/// Writes the names to the right of the plot, level with the ends of the lines, without overlap.
fn name_lines(svg: &mut Svg, mut names: Vec<(&Series, f64)>) {
    // The first series has the highest figure, so at equal ends its name stands above.
    names.reverse();
    names.sort_by(|a, b| b.1.total_cmp(&a.1));
    let mut lowest_free = BOTTOM;
    for (_, y) in &mut names {
        *y = y.min(lowest_free);
        lowest_free = *y - NAME_APART;
    }
    // Names that were pushed beyond the top push the others back.
    let too_high = (NAME_TOP - names.last().map_or(NAME_TOP, |(_, y)| *y)).max(0.0);
    for (series, y) in names {
        let class = format!("name {}", series.class);
        svg.text(&class, RIGHT + 2.0, y + too_high + 4.0, Anchor::Start, series.name);
    }
}

/// The points with finite values, sorted by rate.
fn sorted(points: &[Point]) -> Vec<Point> {
    let is_drawable = |point: &&Point| point.rate_qps.is_finite() && point.time_us.is_finite();
    let mut points: Vec<Point> = points.iter().filter(is_drawable).copied().collect();
    points.sort_by(|a, b| a.rate_qps.total_cmp(&b.rate_qps));
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(points: &[(f64, f64)]) -> Series {
        let points =
            points.iter().map(|&(rate_qps, time_us)| Point { rate_qps, time_us, met: true, start: 0 });
        Series { name: "p99", class: "p99", points: points.collect() }
    }

    fn draw(series: &[Series], rate_max_qps: f64) -> String {
        let times_us: Vec<f64> =
            series.iter().flat_map(|one| one.points.iter().map(|point| point.time_us)).collect();
        let (times_us, series) = (&times_us[..], series);
        let mark_qps = Some(50.0);
        lines(&Lines { id: "l", title: "t", description: "d", series, times_us, rate_max_qps, mark_qps })
    }

    #[test]
    fn points_lie_in_order_of_load_between_the_axes() {
        let drawn = draw(&[series(&[(100.0, 1_000.0), (0.0, 10.0), (50.0, 100.0)])], 100.0);
        assert!(drawn.contains(r#"points="17,198 51.5,110 86,22""#), "{drawn}");
        assert_eq!(drawn.matches("<circle").count(), 3);
    }

    #[test]
    fn the_line_passes_by_loads_that_missed_the_goal() {
        let mut series = series(&[(0.0, 10.0), (50.0, 100.0), (100.0, 1_000.0)]);
        series.points[1].met = false;
        let drawn = draw(&[series], 100.0);
        assert!(drawn.contains(r#"points="17,198 86,22""#), "{drawn}");
        assert_eq!(drawn.matches(r#"<circle class="p99 missed""#).count(), 1);
    }

    #[test]
    fn no_line_joins_what_different_starts_showed() {
        let mut series = series(&[(0.0, 10.0), (50.0, 100.0), (100.0, 1_000.0), (100.0, 10.0)]);
        for (point, start) in series.points.iter_mut().zip([0, 1, 0, 1]) {
            point.start = start;
        }
        let drawn = draw(&[series], 100.0);
        assert!(
            drawn.contains(r#"points="17,198 86,22""#) && drawn.contains(r#"points="51.5,110 86,198""#),
            "{drawn}"
        );
        assert_eq!((drawn.matches("<polyline").count(), drawn.matches("<circle").count()), (2, 4));
        assert_eq!(drawn.matches(r#"class="name p99""#).count(), 1);
    }

    #[test]
    fn one_point_is_a_dot_without_a_line() {
        let drawn = draw(&[series(&[(10.0, 80.0)])], 20.0);
        assert_eq!((drawn.matches("<circle").count(), drawn.matches("<polyline").count()), (1, 0));
    }

    #[test]
    fn nothing_and_nonsense_are_not_drawn() {
        assert_eq!(draw(&[], 1.0), "");
        assert_eq!(draw(&[series(&[(f64::NAN, 1.0), (1.0, f64::INFINITY)])], f64::NAN), "");
    }

    #[test]
    fn names_never_lie_over_one_another() {
        let top = 100.0;
        let same = [series(&[(1.0, top)]), series(&[(1.0, top)]), series(&[(1.0, top)])];
        let drawn = draw(&same, 1.0);
        let mut heights: Vec<f64> = drawn
            .split(r#"class="name p99""#)
            .skip(1)
            .map(|text| text.split(r#"y=""#).nth(1).unwrap().split('"').next().unwrap().parse().unwrap())
            .collect();
        heights.sort_by(f64::total_cmp);
        assert!(heights[0] > NAME_TOP, "{heights:?}");
        assert!(heights.windows(2).all(|pair| pair[1] - pair[0] >= NAME_APART - 0.01), "{heights:?}");
    }
}
