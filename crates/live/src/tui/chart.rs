//! Lines by time, of a history's intervals.

use std::borrow::Cow;

use kqps_observation::visible::visible_line;
use kqps_observation::{Accounts, LiveClass, Percentile};
use ratatui::style::{Color, Style};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Axis, Block, Chart, Dataset, GraphType};

use crate::figures;
use crate::history::{History, Interval};

/// A line: its name, its colour and its figure.
type Course = (&'static str, Color, fn(&Interval) -> Option<f64>);

/// A drawable line.
#[derive(Clone)]
struct Drawn {
    name: Cow<'static, str>,
    color: Color,
    points: Vec<(f64, f64)>,
}

/// Rates of queries sent and of correct replies, on an axis from 0.
pub(super) fn rates(intervals: &[Interval], has_connections_alone: bool, is_colored: bool) -> Owned {
    let courses: [Course; 2] =
        [("sent", Color::Gray, Interval::sent_qps), ("answered", Color::Cyan, Interval::answered_qps)];
    let lines = drawn(intervals, &courses, |rate_qps| rate_qps);
    let most = lines.iter().flat_map(|line| &line.points).fold(1.0, |most: f64, point| most.max(point.1));
    let label = |rate_qps| figures::thousands(Some(rate_qps), has_connections_alone);
    let labels = [0.0, most / 2.0, most].map(label).to_vec();
    let title = if has_connections_alone { "connections a second" } else { "queries a second" };
    Owned { lines, bounds: [0.0, most], labels, span: span(intervals), is_colored, title }
}

/// The colours of classes of clients, in turn.
const OF_CLASSES: [Color; 4] = [Color::Cyan, Color::LightRed, Color::Yellow, Color::Green];

/// The share of its queries that was answered rightly, of each of these classes of clients that asks, in percent of those that
/// left in an interval.
pub(super) fn classes(all: &[LiveClass], intervals: &[Interval], is_colored: bool) -> Owned {
    let asking = all.iter().filter(|class| class.attempts == 0);
    let percent = |accounts: &Accounts| {
        (accounts.sent > 0).then(|| (100.0 * accounts.correct as f64 / accounts.sent as f64).min(100.0))
    };
    let line = |(class, color): (&LiveClass, &Color)| {
        let of_interval = |one: &Interval| {
            let class = one.counts.classes.iter().find(|other| other.name == class.name)?;
            Some((one.end_s, percent(&class.accounts)?))
        };
        let points = intervals.iter().filter_map(of_interval).collect();
        Drawn { name: visible_line(&class.name).into_owned().into(), color: *color, points }
    };
    let lines = asking.zip(OF_CLASSES.iter().cycle()).map(line).collect();
    let labels = ["0 %", "50 %", "100 %"].map(str::to_owned).to_vec();
    Owned {
        lines,
        bounds: [0.0, 100.0],
        labels,
        span: span(intervals),
        is_colored,
        title: "answered, of each class",
    }
}

/// Quantiles of latency, or their bounds, on a logarithmic axis.
pub(super) fn latency(history: &History, is_colored: bool) -> Owned {
    let intervals = history.intervals();
    let points = |quantile| {
        let place = |seen: Percentile| (seen.time_us() as f64).max(1.0).log10();
        let seen = intervals.iter().zip(history.percentiles(quantile));
        seen.filter_map(|(one, seen)| Some((one.end_s, place(seen?)))).collect()
    };
    let lines = [("p50", Color::Cyan, 0.5), ("p99", Color::LightRed, 0.99)]
        .map(|(name, color, quantile)| Drawn { name: name.into(), color, points: points(quantile) })
        .to_vec();
    let places = || lines.iter().flat_map(|line| &line.points).map(|point| point.1);
    let low = places().fold(f64::INFINITY, f64::min);
    let (low, high) = if low.is_finite() { (low, places().fold(low, f64::max)) } else { (1.0, 2.0) };
    let (low, high) = (low - 0.1, high + 0.1);
    let labels = [low, f64::midpoint(low, high), high]
        .map(|place| figures::time(Some(10_f64.powf(place) as u64)))
        .to_vec();
    Owned { lines, bounds: [low, high], labels, span: span(intervals), is_colored, title: "latency" }
}

fn drawn(intervals: &[Interval], courses: &[Course], place: impl Fn(f64) -> f64) -> Vec<Drawn> {
    let points = |of: fn(&Interval) -> Option<f64>| {
        intervals.iter().filter_map(|one| Some((one.end_s, place(of(one)?)))).collect()
    };
    courses.iter().map(|&(name, color, of)| Drawn { name: name.into(), color, points: points(of) }).collect()
}

/// From when to when the intervals are, seconds.
fn span(intervals: &[Interval]) -> [f64; 2] {
    let begin = intervals.first().map_or(0.0, |one| (one.end_s - one.seconds).max(0.0));
    [begin, intervals.last().map_or(0.0, |one| one.end_s).max(begin + 1.0)]
}

/// A chart with what it shows.
pub(super) struct Owned {
    lines: Vec<Drawn>,
    bounds: [f64; 2],
    labels: Vec<String>,
    span: [f64; 2],
    is_colored: bool,
    title: &'static str,
}

impl Owned {
    /// The widget.
    pub(super) fn widget(&self) -> Chart<'_> {
        let style = |color| if self.is_colored { Style::new().fg(color) } else { Style::new() };
        // Without colours, lines differ by their marks.
        let marker = |number: usize| match (self.is_colored, number) {
            (false, 0) => Marker::Dot,
            _ => Marker::Braille,
        };
        let datasets = self.lines.iter().enumerate().map(|(number, line)| {
            Dataset::default()
                .name(&*line.name)
                .marker(marker(number))
                .graph_type(GraphType::Line)
                .style(style(line.color))
                .data(&line.points)
        });
        let times = self.span.map(|at_s| Line::from(format!("{at_s:.0} s")));
        let mut title = vec![Span::raw(format!(" {}: ", self.title))];
        for (number, line) in self.lines.iter().enumerate() {
            title.extend((number > 0).then(|| Span::raw(", ")));
            title.push(Span::styled(&*line.name, style(line.color)));
        }
        // Without colours, the first line is of single dots.
        title.push(Span::raw(if self.is_colored { " " } else { " (the first dotted) " }));
        Chart::new(datasets.collect())
            .legend_position(None)
            .block(Block::bordered().title(Line::from(title)))
            .x_axis(Axis::default().bounds(self.span).labels(times))
            .y_axis(
                Axis::default()
                    .bounds(self.bounds)
                    .labels(self.labels.iter().map(|label| Line::from(label.as_str()))),
            )
    }
}
