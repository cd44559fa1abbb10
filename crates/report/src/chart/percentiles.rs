//! The logarithmic percentile histogram: how long the slowest replies took, against their share, with both axes
//! logarithmic. One line for each load.

use super::scale::Log;
use super::svg::{Anchor, Svg};
use crate::format;

/// The replies of one load.
#[derive(Clone, Debug)]
pub(crate) struct Replies {
    /// The name of the load, for screen readers.
    pub(crate) name: String,
    /// Style class of its line.
    pub(crate) class: String,
    /// Times, the shortest first, and the number of replies that took so long. The unit is a microsecond.
    pub(crate) times: Vec<(u64, u64)>,
}

#[derive(Debug)]
pub(crate) struct Percentiles<'a> {
    /// Unique on the page.
    pub(crate) id: &'a str,
    /// Text for screen readers.
    pub(crate) title: &'a str,
    /// Text for screen readers, after the title.
    pub(crate) description: &'a str,
    pub(crate) loads: &'a [Replies],
}

const TOP: f64 = 14.0;
const PLOT: f64 = 220.0;
const BOTTOM: f64 = TOP + PLOT;
const HEIGHT: f64 = BOTTOM + 42.0;
/// Begin and end of the plot, in percent of the width.
const LEFT: f64 = 15.0;
const RIGHT: f64 = 96.0;
/// Points nearer to each other than this are drawn as one, in percent of the width.
const APART: f64 = 0.2;

/// Draws the chart; returns an empty text if there is no reply.
pub(crate) fn percentiles(chart: &Percentiles<'_>) -> String {
    let lines: Vec<(&Replies, Vec<(f64, f64)>)> =
        chart.loads.iter().map(|load| (load, by_share(&load.times))).collect();
    let least = lines.iter().flat_map(|(_, points)| points).map(|point| point.0).fold(1.0, f64::min);
    let y_axis = Log::over(lines.iter().flat_map(|(_, points)| points).map(|point| point.1));
    let decades = (-least.log10()).ceil().clamp(1.0, 9.0);
    let across = |share: f64| LEFT + (-share.log10() / decades).clamp(0.0, 1.0) * (RIGHT - LEFT);
    let down = |us: f64| BOTTOM - y_axis.place(us) * PLOT;
    if lines.iter().all(|(_, points)| points.is_empty()) {
        return String::new();
    }
    let mut svg = Svg::default();
    for tick in &y_axis.ticks {
        svg.line("grid", (LEFT, down(*tick)), (RIGHT, down(*tick)));
        svg.text("tick", LEFT - 2.0, down(*tick) + 4.0, Anchor::End, &format::time_tick(*tick));
    }
    svg.line("axis", (LEFT, BOTTOM), (RIGHT, BOTTOM));
    for decade in 0..=i32::try_from(decades as i64).expect("9 at most") {
        let share = 10f64.powi(-decade);
        svg.line("grid", (across(share), TOP), (across(share), BOTTOM));
        // On a phone all of many labels would lie over one another.
        if decade % 2 == 0 || decades < 4.0 {
            // The last label would be cut at the edge of a phone.
            let anchor = if f64::from(decade) < decades { Anchor::Middle } else { Anchor::End };
            svg.text("tick", across(share), BOTTOM + 18.0, anchor, &share_tick(decade));
        }
    }
    svg.text("tick", RIGHT, BOTTOM + 36.0, Anchor::End, "share of the slowest replies");
    for (load, points) in &lines {
        let mut places: Vec<(f64, f64)> = Vec::new();
        for (share, us) in points {
            let place = (across(*share), down(*us));
            // A step: so many replies took at least so long.
            if places.last().is_none_or(|last| (last.0 - place.0).abs() >= APART) {
                places.push(place);
            } else if let Some(last) = places.last_mut() {
                last.1 = last.1.min(place.1);
            }
        }
        match places[..] {
            [] => {}
            [only] => svg.dot(&load.class, only, 3.0, &load.name),
            _ => svg.polyline(&load.class, &places, HEIGHT),
        }
    }
    svg.finish(chart.id, HEIGHT, chart.title, chart.description)
}

/// The share of the replies that took each time or longer, the greatest share first.
fn by_share(times: &[(u64, u64)]) -> Vec<(f64, f64)> {
    let all: u64 = times.iter().map(|(_, count)| count).sum();
    let mut left = all;
    let mut points = Vec::new();
    for (us, count) in times.iter().filter(|(_, count)| *count > 0) {
        points.push((left as f64 / all as f64, (*us).max(1) as f64));
        left -= count;
    }
    points
}

/// A share of a power of ten: `100 %`, `1 %`, `0.01 %`.
fn share_tick(decade: i32) -> String {
    let decimals = usize::try_from(decade - 2).unwrap_or(0);
    format!("{:.decimals$}\u{a0}%", 100.0 * 10f64.powi(-decade))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(times: &[(u64, u64)]) -> String {
        let loads = [Replies { name: "a".into(), class: "load0".into(), times: times.to_vec() }];
        percentiles(&Percentiles { id: "p", title: "t", description: "d", loads: &loads })
    }

    #[test]
    fn each_point_is_the_share_that_took_as_long() {
        assert_eq!(by_share(&[(10, 90), (100, 9), (1_000, 1)]), [(1.0, 10.0), (0.1, 100.0), (0.01, 1_000.0)]);
        let drawn = draw(&[(10, 90), (100, 9), (1_000, 1)]);
        assert!(drawn.contains(r#"points="15,234 55.5,124 96,14""#), "{drawn}");
        assert!(drawn.contains("100\u{a0}%") && drawn.contains("1\u{a0}%"), "{drawn}");
    }

    #[test]
    fn nothing_is_not_drawn_and_one_reply_is_a_dot() {
        assert_eq!(draw(&[]), "");
        assert_eq!(draw(&[(7, 1)]).matches("<circle").count(), 1);
    }

    #[test]
    fn shares_are_written_as_people_do() {
        assert_eq!(
            [0, 1, 2, 3, 5].map(share_tick),
            ["100\u{a0}%", "10\u{a0}%", "1\u{a0}%", "0.1\u{a0}%", "0.001\u{a0}%"]
        );
    }
}
