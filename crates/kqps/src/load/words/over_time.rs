//! A load along a course, over its time.

use std::fmt::Write as _;

use kqps_observation::Trial;
use kqps_observation::moments::{Moment, Moments};
use kqps_verdict::rate::rate;

use crate::table;

/// The most lines. More moments than these are joined.
const LINES_MOST: usize = 12;

/// A line for each part of the load: the rates, and the latency; empty unless the load had a course, or other classes
/// were played beside it.
pub(super) fn over_time(trial: &Trial, is_beside_others: bool) -> String {
    if trial.load.course.is_none() && !is_beside_others {
        return String::new();
    }
    let moments = joined(&trial.moments, LINES_MOST);
    let mut lines = table::titled(["from", "due/s", "sent/s", "answered/s", "p50", "p99"]);
    for moment in &moments {
        let per_second = |count: u64| rate((count as f64 / moment.seconds).round());
        let us = |us: Option<f64>| us.map_or_else(|| "-".to_owned(), |us| format!("{us:.0} µs"));
        lines.add_row(vec![
            format!("{:.1} s", moment.at_s),
            per_second(moment.intended),
            per_second(moment.sent),
            per_second(moment.answered),
            us(moment.p50_us),
            us(moment.p99_us),
        ]);
    }
    let mut text = String::from("\nOver time, by when queries were due:\n\n");
    for line in table::text(lines, &[0, 1, 2, 3, 4, 5]).lines() {
        let _ = writeln!(text, "  {line}");
    }
    text
}

/// The moments, joined until they are few enough.
fn joined(moments: &[Moment], most: usize) -> Vec<Moment> {
    let mut sum = Moments::from_record(moments);
    while sum.len() > most {
        sum.widen();
    }
    sum.record()
}
