//! Figures over the time of a run that goes on: rates on an axis from 0, or times on a logarithmic one.

use super::scale::{Linear, Log};
use super::svg::{Anchor, Svg};
use crate::format;

/// A kind of figure.
#[derive(Clone, Debug)]
pub(crate) struct Course<'a> {
    /// The name beside its last point.
    pub(crate) name: &'a str,
    /// Style class of its line.
    pub(crate) class: &'static str,
    /// Seconds and the figure; `None` if there is none, which interrupts the line.
    pub(crate) points: Vec<(f64, Option<f64>)>,
}

/// A moment at which something happened.
#[derive(Clone, Debug)]
pub(crate) struct Mark {
    /// The moment, seconds.
    pub(crate) at_s: f64,
    /// The event in words.
    pub(crate) name: String,
}

/// The quantity that the figures measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Queries a second.
    Rates,
    /// Microseconds.
    Times,
}

#[derive(Debug)]
pub(crate) struct Moments<'a> {
    /// Unique on the page.
    pub(crate) id: &'a str,
    /// Text for screen readers.
    pub(crate) title: &'a str,
    /// Text for screen readers, after the title.
    pub(crate) description: &'a str,
    pub(crate) kind: Kind,
    pub(crate) courses: &'a [Course<'a>],
    /// Vertical lines with names.
    pub(crate) marks: &'a [Mark],
    /// The end of the time axis, seconds.
    pub(crate) until_s: f64,
}

const TOP: f64 = 14.0;
const PLOT: f64 = 120.0;
const BOTTOM: f64 = TOP + PLOT;
const HEIGHT: f64 = BOTTOM + 24.0;
/// Begin and end of the plot, in percent of the width.
const LEFT: f64 = 17.0;
const RIGHT: f64 = 84.0;
/// The least distance between names of lines, in pixels.
const NAME_APART: f64 = 14.0;
/// The highest place of a name, in pixels.
const NAME_TOP: f64 = 10.0;

/// The most letters of the name of a mark, and the room of each, in percent of the width.
const MARK_LETTERS: usize = 18;
const LETTER: f64 = 1.2;

enum Axis {
    Linear(Linear),
    Log(Log),
}

impl Axis {
    fn from_chart(chart: &Moments<'_>) -> Self {
        let figures = || chart.courses.iter().flat_map(|course| &course.points).filter_map(|point| point.1);
        match chart.kind {
            Kind::Rates => Self::Linear(Linear::upto(figures().fold(0.0, f64::max), 4)),
            Kind::Times => Self::Log(Log::over(figures())),
        }
    }

    fn place(&self, value: f64) -> f64 {
        match self {
            Self::Linear(axis) => axis.place(value),
            Self::Log(axis) => axis.place(value),
        }
    }

    fn ticks(&self) -> &[f64] {
        match self {
            Self::Linear(axis) => &axis.ticks,
            Self::Log(axis) => &axis.ticks,
        }
    }
}

/// Draws the chart; returns an empty text if there is no figure.
pub(crate) fn moments(chart: &Moments<'_>) -> String {
    if chart.courses.iter().flat_map(|course| &course.points).all(|point| point.1.is_none()) {
        return String::new();
    }
    let (x_axis, y_axis) = (Linear::upto(chart.until_s, 5), Axis::from_chart(chart));
    let across = |at_s: f64| LEFT + x_axis.place(at_s) * (RIGHT - LEFT);
    let down = |value: f64| BOTTOM - y_axis.place(value) * PLOT;
    let mut svg = Svg::default();
    for tick in y_axis.ticks() {
        svg.line("grid", (LEFT, down(*tick)), (RIGHT, down(*tick)));
        let label = match chart.kind {
            Kind::Rates => format::tick(*tick),
            Kind::Times => format::time_tick(*tick),
        };
        svg.text("tick", LEFT - 2.0, down(*tick) + 4.0, Anchor::End, &label);
    }
    svg.line("axis", (LEFT, BOTTOM), (RIGHT, BOTTOM));
    for tick in &x_axis.ticks {
        svg.text(
            "tick",
            across(*tick),
            BOTTOM + 18.0,
            Anchor::Middle,
            &format!("{}\u{a0}s", format::tick(*tick)),
        );
    }
    draw_marks(&mut svg, chart, across);
    let mut names: Vec<(&Course<'_>, f64)> = Vec::new();
    for course in chart.courses {
        for line in course.points.split(|point| point.1.is_none()) {
            let places: Vec<(f64, f64)> =
                line.iter().filter_map(|(at_s, value)| Some((across(*at_s), down((*value)?)))).collect();
            match places[..] {
                [] => {}
                [only] => svg.strokes("points", &[[only; 2]], HEIGHT),
                _ => svg.polyline(course.class, &places, HEIGHT),
            }
        }
        if let Some(value) = course.points.iter().rev().find_map(|point| point.1) {
            names.push((course, down(value)));
        }
    }
    names.sort_by(|a, b| b.1.total_cmp(&a.1));
    let (mut lowest_free, count) = (BOTTOM, names.len());
    for (at, (course, y)) in names.into_iter().enumerate() {
        // The names above it need room, too.
        let highest = NAME_TOP + (count - 1 - at) as f64 * NAME_APART;
        let y = y.min(lowest_free).max(highest);
        lowest_free = y - NAME_APART;
        svg.text(&format!("name {}", course.class), RIGHT + 2.0, y + 4.0, Anchor::Start, course.name);
    }
    svg.finish(chart.id, HEIGHT, chart.title, chart.description)
}

/// Draws the marks within the axis. A name that would stand on the one before is shown when the pointer is on its line.
fn draw_marks(svg: &mut Svg, chart: &Moments<'_>, across: impl Fn(f64) -> f64) {
    let mut free = f64::NEG_INFINITY;
    for mark in chart.marks.iter().filter(|mark| (0.0..=chart.until_s).contains(&mark.at_s)) {
        let x = across(mark.at_s);
        svg.group(&mark.name, |svg| svg.line("mark", (x, TOP), (x, BOTTOM)));
        let short: String = mark.name.chars().take(MARK_LETTERS).collect();
        let half = short.chars().count() as f64 * LETTER / 2.0;
        if x - half >= free {
            svg.text("tick", x, TOP - 4.0, Anchor::Middle, &short);
            free = x + half;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(kind: Kind, points: &[(f64, Option<f64>)]) -> String {
        let courses = [Course { name: "p99", class: "p99", points: points.to_vec() }];
        moments(&Moments {
            id: "m",
            title: "t",
            description: "d",
            kind,
            courses: &courses,
            marks: &[],
            until_s: 10.0,
        })
    }

    #[test]
    fn marks_stand_at_their_moments_and_their_names_on_no_other() {
        let mark = |at_s, name: &str| Mark { at_s, name: name.into() };
        let courses =
            [Course { name: "p99", class: "p99", points: vec![(0.0, Some(1.0)), (9.0, Some(2.0))] }];
        let (id, title, description, kind) = ("m", "t", "d", Kind::Rates);
        let with = |marks: &[Mark]| {
            moments(&Moments { id, title, description, kind, courses: &courses, marks, until_s: 10.0 })
        };
        let drawn = with(&[mark(5.0, "reload"), mark(5.1, "loss <5%>"), mark(11.0, "later")]);
        assert_eq!(drawn.matches("class=\"mark\"").count(), 2, "{drawn}");
        assert!(drawn.contains(">reload</text>") && !drawn.contains("later"), "{drawn}");
        assert!(
            drawn.contains("<title>loss &lt;5%&gt;</title>") && !drawn.contains("5%&gt;</text>"),
            "{drawn}"
        );
        // A second is 6.7 % of the width. Names are centred: 4.8 % of it for one of four letters, 20.4 % for 17.
        let has_second = |at_s, name: &str| {
            with(&[mark(1.0, "kill"), mark(at_s, name)]).contains(&format!(">{name}</text>"))
        };
        assert_eq!([1.7, 1.8].map(|at_s| has_second(at_s, "stop")), [false, true]);
        assert_eq!([2.8, 3.0].map(|at_s| has_second(at_s, "a transfer of all")), [false, true]);
    }

    #[test]
    fn a_missing_figure_interrupts_the_line() {
        let points: Vec<(f64, Option<f64>)> =
            (0..=10).map(|at| (f64::from(at), (at != 5).then_some(100.0))).collect();
        let drawn = draw(Kind::Rates, &points);
        assert_eq!(drawn.matches("<polyline").count(), 2);
        assert!(drawn.contains(r#"points="17,14 "#) && drawn.contains(" 84,14\""), "{drawn}");
    }

    #[test]
    fn times_have_a_logarithmic_axis() {
        let drawn = draw(Kind::Times, &[(0.0, Some(10.0)), (5.0, Some(100.0)), (10.0, Some(1_000.0))]);
        assert!(drawn.contains(r#"points="17,134 50.5,74 84,14""#), "{drawn}");
    }

    #[test]
    fn nothing_and_nonsense_are_not_drawn() {
        assert_eq!(draw(Kind::Rates, &[(1.0, None)]), "");
        let drawn = draw(Kind::Times, &[(f64::NAN, Some(f64::INFINITY)), (1.0, Some(3.0))]);
        assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{drawn}");
    }
}
