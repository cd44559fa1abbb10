//! Rates by reply size, and the rates that links carry at each size. The rates are on a logarithmic axis.

use super::scale::{Linear, Log};
use super::svg::{Anchor, Svg};
use crate::format;

#[derive(Clone, Debug)]
pub(crate) struct Dot {
    /// The name beside it.
    pub(crate) name: String,
    /// Reply size, bytes.
    pub(crate) bytes: f64,
    /// Replies a second.
    pub(crate) rate_qps: f64,
    /// The cell whose trials are behind it.
    pub(crate) cell: Option<u32>,
}

/// The capacity of one link.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    /// The name at the end of its line: `10 Gb/s`.
    pub(crate) name: String,
    /// Reply size in bytes and replies a second, in rising order of size.
    pub(crate) carried: Vec<(f64, f64)>,
}

/// A chart of dots below lines.
#[derive(Debug)]
pub(crate) struct Links<'a> {
    /// Unique on the page.
    pub(crate) id: &'a str,
    /// Text for screen readers.
    pub(crate) title: &'a str,
    /// Text for screen readers, after the title.
    pub(crate) description: &'a str,
    /// The measured cells.
    pub(crate) dots: &'a [Dot],
    /// The capacities of links.
    pub(crate) links: &'a [Link],
    /// The end of the size axis, bytes.
    pub(crate) bytes_max: f64,
}

const TOP: f64 = 22.0;
const PLOT: f64 = 240.0;
const BOTTOM: f64 = TOP + PLOT;
const HEIGHT: f64 = BOTTOM + 42.0;
/// Begin and end of the plot, in percent of the width.
const LEFT: f64 = 21.0;
const RIGHT: f64 = 99.0;
/// Distance of a link's name above its line, in pixels.
const LINK_NAME_ABOVE: f64 = 5.0;
/// The least distance between names of dots, in vertical pixels or in percent of the width.
const NAME_APART: f64 = 14.0;
const NAME_WIDTH: f64 = 24.0;
/// The greatest length of a name, in characters.
const NAME_LONGEST: usize = 16;

/// Draws the chart; returns an empty text if there is no dot.
pub(crate) fn links(chart: &Links<'_>) -> String {
    let is_drawable = |dot: &&Dot| dot.bytes.is_finite() && dot.rate_qps.is_finite() && dot.rate_qps > 0.0;
    let dots: Vec<&Dot> = chart.dots.iter().filter(is_drawable).collect();
    if dots.is_empty() {
        return String::new();
    }
    let x_axis = Linear::upto(chart.bytes_max, 4);
    let of_links = chart.links.iter().flat_map(|link| link.carried.iter().map(|(_, rate)| *rate));
    let y_axis = Log::over(dots.iter().map(|dot| dot.rate_qps).chain(of_links));
    let across = |bytes: f64| LEFT + x_axis.place(bytes) * (RIGHT - LEFT);
    let place = |bytes: f64, rate: f64| (across(bytes), BOTTOM - y_axis.place(rate) * PLOT);
    let mut svg = Svg::default();
    axes(&mut svg, &x_axis, &y_axis);
    for link in chart.links {
        let points: Vec<(f64, f64)> = link.carried.iter().map(|&(bytes, rate)| place(bytes, rate)).collect();
        svg.polyline("link", &points, HEIGHT);
        if let Some(&(_, y)) = points.last() {
            svg.text("tick", RIGHT, y - LINK_NAME_ABOVE, Anchor::End, &link.name);
        }
    }
    for dot in &dots {
        let tooltip =
            format!("{}: {} with replies of {:.0} bytes", dot.name, format::rate(dot.rate_qps), dot.bytes);
        svg.of_cell(dot.cell, |svg| svg.dot("median", place(dot.bytes, dot.rate_qps), 3.5, &tooltip));
    }
    name_dots(&mut svg, dots.iter().map(|dot| (dot.name.as_str(), place(dot.bytes, dot.rate_qps))).collect());
    svg.finish(chart.id, HEIGHT, chart.title, chart.description)
}

fn axes(svg: &mut Svg, x_axis: &Linear, y_axis: &Log) {
    for tick in &y_axis.ticks {
        let y = BOTTOM - y_axis.place(*tick) * PLOT;
        svg.line("grid", (LEFT, y), (RIGHT, y));
        svg.text("tick", LEFT - 2.0, y + 4.0, Anchor::End, &format::rate_tick(*tick));
    }
    svg.line("axis", (LEFT, BOTTOM), (RIGHT, BOTTOM));
    for tick in &x_axis.ticks {
        let x = LEFT + x_axis.place(*tick) * (RIGHT - LEFT);
        svg.line("axis", (x, BOTTOM), (x, BOTTOM + 4.0));
        svg.text("tick", x, BOTTOM + 18.0, Anchor::Middle, &format::tick(*tick));
    }
    svg.text("tick", RIGHT, BOTTOM + 36.0, Anchor::End, "bytes of a reply");
}

/// Writes each name on the side of its dot that has room, from the lowest up, without overlap.
fn name_dots(svg: &mut Svg, mut names: Vec<(&str, (f64, f64))>) {
    names.sort_by(|a, b| b.1.1.total_cmp(&a.1.1));
    let mut taken: Vec<(f64, f64)> = Vec::new();
    for (name, (x, y)) in names {
        let is_near =
            |y: f64, other: &(f64, f64)| (other.0 - x).abs() < NAME_WIDTH && (other.1 - y).abs() < NAME_APART;
        let mut y = y;
        while let Some(other) = taken.iter().find(|other| is_near(y, other)) {
            y = other.1 - NAME_APART;
        }
        taken.push((x, y));
        let (x, anchor) = if x > 50.0 { (x - 1.5, Anchor::End) } else { (x + 1.5, Anchor::Start) };
        svg.text("name median", x, y + 4.0, anchor, &format::shortened(name, NAME_LONGEST));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(dots: &[Dot]) -> String {
        let link = Link { name: "10 Gb/s".to_owned(), carried: vec![(0.0, 1e7), (1000.0, 1e6)] };
        let links_ = [link];
        links(&Links { id: "k", title: "t", description: "d", dots, links: &links_, bytes_max: 1000.0 })
    }

    fn dot(name: &str, bytes: f64, rate_qps: f64) -> Dot {
        Dot { name: name.to_owned(), bytes, rate_qps, cell: None }
    }

    #[test]
    fn dots_lie_at_their_size_and_rate_under_the_links() {
        let drawn = draw(&[dot("a", 500.0, 1e5), dot("b", 0.0, 1e6)]);
        assert!(drawn.contains(r#"<circle class="median" cx="60%" cy="262""#), "{drawn}");
        assert!(drawn.contains(r#"<circle class="median" cx="21%" cy="142""#), "{drawn}");
        assert!(drawn.contains(r#"class="link" points="21,22 99,142""#), "{drawn}");
        assert!(drawn.contains("a: ") && drawn.contains("with replies of 500 bytes"), "{drawn}");
    }

    #[test]
    fn names_of_equal_dots_do_not_lie_over_one_another() {
        let drawn = draw(&[dot("a", 500.0, 1e5), dot("b", 500.0, 1e5)]);
        let heights: Vec<&str> = drawn
            .split(r#"class="name median""#)
            .skip(1)
            .map(|text| text.split(r#"y=""#).nth(1).unwrap().split('"').next().unwrap())
            .collect();
        assert_eq!(heights.len(), 2);
        assert_ne!(heights[0], heights[1]);
    }

    #[test]
    fn nothing_and_nonsense_are_not_drawn() {
        assert_eq!(draw(&[]), "");
        assert_eq!(draw(&[dot("a", f64::NAN, 1.0), dot("b", 1.0, 0.0)]), "");
    }
}
