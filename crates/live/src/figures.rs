//! The figures of a snapshot in words, which the terminal and the page share.

use std::collections::BTreeMap;

use kqps_observation::{LiveClass, LiveCounts, LivePhase, Percentile};
use kqps_report::{LiveCourse, LiveInput, LiveMoment};
use kqps_verdict::rate::{in_thousands, rate};

use crate::history::{Interval, percentile};
use crate::hub::Snapshot;

/// The lines of output that the page shows while the measurement goes on.
const LINES_SHOWN: usize = 12;

/// The phase of a trial, in a few words: `sending, 3.2 of 10 s`.
pub fn phase_words(snapshot: &Snapshot) -> String {
    if snapshot.is_over {
        return "over".to_owned();
    }
    let phase = snapshot.phase().word();
    let ending = if snapshot.is_ending { ", ending early" } else { "" };
    let at_s = snapshot.now.at_s;
    match snapshot.standing.planned_s {
        _ if at_s <= 0.0 || snapshot.now.phase == LivePhase::Over => format!("{phase}{ending}"),
        Some(planned_s) => format!("{phase}, {at_s:.1} of {planned_s:.1} s{ending}"),
        None => format!("{phase}, {at_s:.1} s{ending}"),
    }
}

/// The share of the trial's time that is over, from 0 to 1; `None` if the queries decide when it ends.
pub fn done(snapshot: &Snapshot) -> Option<f64> {
    let planned_s = snapshot.standing.planned_s.filter(|planned_s| *planned_s > 0.0)?;
    Some((snapshot.now.at_s / planned_s).clamp(0.0, 1.0))
}

/// A time in microseconds: `87 µs`, `1.2 ms`, `2.0 s`; `-` if there is none.
pub fn time(time_us: Option<u64>) -> String {
    match time_us {
        None => "-".to_owned(),
        Some(time_us @ ..1_000) => format!("{time_us} µs"),
        Some(time_us @ ..1_000_000) => format!("{:.1} ms", time_us as f64 / 1e3),
        Some(time_us) => format!("{:.1} s", time_us as f64 / 1e6),
    }
}

/// Thousands of queries a second, or connections a second if these alone are the load: `12.3k q/s`,
/// `12,345 connections/s`; `-` if there is no rate.
pub fn thousands(rate_qps: Option<f64>, has_connections_alone: bool) -> String {
    match rate_qps {
        None => "-".to_owned(),
        Some(rate_qps) if has_connections_alone => format!("{} connections/s", rate(rate_qps)),
        Some(rate_qps) => format!("{}k q/s", in_thousands(rate_qps)),
    }
}

/// Busy cores: `0.85 cores`; `-` if they are not known.
pub fn cores(cores: Option<f64>) -> String {
    cores.map_or_else(|| "-".to_owned(), |cores| format!("{cores:.2} cores"))
}

/// Counts by name, the most frequent first: `NOERROR 12,345, NXDOMAIN 7`; `-` without any.
pub fn named(counts: &BTreeMap<String, u64>) -> String {
    let mut counts: Vec<(&String, &u64)> = counts.iter().filter(|(_, count)| **count > 0).collect();
    counts.sort_by_key(|(name, count)| (std::cmp::Reverse(**count), (*name).clone()));
    let each: Vec<String> =
        counts.iter().map(|(name, count)| format!("{name} {}", number(**count))).collect();
    if each.is_empty() { "-".to_owned() } else { each.join(", ") }
}

/// A count with thousands separators.
pub fn number(count: u64) -> String {
    rate(count as f64)
}

/// The figures of a snapshot by name, in reading order.
pub fn facts(snapshot: &Snapshot) -> Vec<(&'static str, String)> {
    let (now, last) = (&snapshot.now, snapshot.last.as_ref());
    let of_last = |of: fn(&Interval) -> Option<f64>| last.and_then(of);
    let thousands = |rate_qps| thousands(rate_qps, snapshot.standing.has_connections_alone);
    let mut facts = vec![
        ("sent", format!("{}, now {}", number(now.accounts.sent), thousands(of_last(Interval::sent_qps)))),
        (
            "answered",
            format!("{}, now {}", number(now.accounts.correct), thousands(of_last(Interval::answered_qps))),
        ),
        ("bad", bad_words(now)),
        ("outstanding", number(now.outstanding)),
        ("latency", latency_words(now)),
        ("rcodes", named(&now.rcodes)),
    ];
    if let Some(connections) = now.connections {
        facts.push((
            "connections",
            format!(
                "{} open, {} made, {} failed",
                number(connections.open()),
                number(connections.established),
                number(connections.failed)
            ),
        ));
    }
    for class in &now.classes {
        facts.push(("class", class_words(class, last)));
    }
    let (player, subject) = (of_last(Interval::player_cores), of_last(Interval::subject_cores));
    facts.push(("CPU", format!("player {}, subject {}", cores(player), cores(subject))));
    if let Some(bounds) = snapshot.standing.bounds_words() {
        facts.push(("bounds", bounds));
    }
    facts
}

/// The class of clients so far, with its rates in the last second: `good: sent 2.0k q/s, answered 2.0k q/s, bad 0.000 %, p99 96 µs`,
/// or `attack: begun 5,000, now 500 attempts/s`.
fn class_words(class: &LiveClass, last: Option<&Interval>) -> String {
    let name = &class.name;
    let recent = last.and_then(|last| {
        Some((last.counts.classes.iter().find(|recent| recent.name == *name)?, last.seconds))
    });
    let rate_of = |count: fn(&LiveClass) -> u64| {
        recent.filter(|(_, seconds)| *seconds > 0.0).map(|(recent, seconds)| count(recent) as f64 / seconds)
    };
    if class.attempts > 0 {
        let now = rate_of(|class| class.attempts).map_or_else(|| "-".to_owned(), rate);
        return format!("{name}: begun {}, now {now} attempts/s", number(class.attempts));
    }
    let counts =
        LiveCounts { accounts: class.accounts, latency: class.latency.clone(), ..LiveCounts::default() };
    let words = |count| thousands(rate_of(count), false);
    format!(
        "{name}: sent {}, answered {}, bad {:.3} %, {}",
        words(|class| class.accounts.sent),
        words(|class| class.accounts.correct),
        100.0 * counts.bad_share(),
        latency_words(&counts)
    )
}

/// The latency so far: `p50 96 us, p99 at most 5.1 ms`; `-` without replies.
fn latency_words(counts: &LiveCounts) -> String {
    let words = |(name, quantile)| Some(percentile(counts, quantile)?.words(name, |us| time(Some(us))));
    let mut words: Vec<String> = [("p50", 0.5), ("p99", 0.99)].into_iter().filter_map(words).collect();
    words.dedup();
    if words.is_empty() { "-".to_owned() } else { words.join(", ") }
}

/// The share of bad queries so far, with its parts.
fn bad_words(counts: &LiveCounts) -> String {
    let accounts = &counts.accounts;
    let parts = [
        ("lost", accounts.lost),
        ("overdue", counts.overdue),
        ("wrong", accounts.wrong),
        ("late", accounts.late),
        ("unsent", accounts.unsent),
        ("send failed", accounts.send_failed),
    ];
    let seen = parts.iter().filter(|(_, count)| *count > 0);
    let parts: Vec<String> = seen.map(|(name, count)| format!("{name} {}", number(*count))).collect();
    let share = format!("{:.3} %", 100.0 * counts.bad_share());
    if parts.is_empty() { share } else { format!("{share} ({})", parts.join(", ")) }
}

/// Where the command stands, in a line.
pub fn standing_words(snapshot: &Snapshot) -> String {
    let standing = &snapshot.standing;
    let parts = [standing.what.clone(), standing.place_words(), standing.load_words(), phase_words(snapshot)];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" · ")
}

/// The figures for the page's panel.
pub fn panel(snapshot: &Snapshot) -> LiveInput {
    let history = &snapshot.history;
    let time_us = |seen: Option<Percentile>| seen.map(|seen| seen.time_us() as f64);
    let moment = |(interval, (p50, p99)): (&Interval, (Option<Percentile>, Option<Percentile>))| LiveMoment {
        at_s: interval.end_s,
        sent_qps: interval.sent_qps(),
        answered_qps: interval.answered_qps(),
        p50_us: time_us(p50),
        p99_us: time_us(p99),
    };
    let course = |class: &LiveClass| LiveCourse {
        name: class.name.clone(),
        answered_qps: history
            .intervals()
            .iter()
            .map(|interval| (interval.end_s, interval.class_answered_qps(&class.name)))
            .collect(),
    };
    let percentiles = history.percentiles(0.5).zip(history.percentiles(0.99));
    // The result has the exact figures.
    let has_result = snapshot.is_over && !snapshot.result.is_empty();
    let facts = if has_result { Vec::new() } else { facts(snapshot) };
    let hidden = snapshot.lines.len().saturating_sub(LINES_SHOWN);
    LiveInput {
        headline: snapshot.command.clone(),
        standing: standing_words(snapshot),
        facts: facts.into_iter().map(|(name, words)| (name.to_owned(), words)).collect(),
        moments: history.intervals().iter().zip(percentiles).map(moment).collect(),
        classes: snapshot.now.classes.iter().filter(|class| class.attempts == 0).map(course).collect(),
        lines: snapshot.lines.iter().skip(hidden).cloned().collect(),
        result: if has_result { snapshot.result.to_string() } else { String::new() },
    }
}

#[cfg(test)]
mod tests {
    use kqps_observation::Accounts;

    use super::*;

    #[test]
    fn figures_are_words_with_units() {
        assert_eq!(
            [time(None), time(Some(999)), time(Some(1_500)), time(Some(2_000_000))],
            ["-", "999 µs", "1.5 ms", "2.0 s"]
        );
        assert_eq!(
            (thousands(Some(12_345.0), false).as_str(), cores(Some(0.5)).as_str()),
            ("12.3k q/s", "0.50 cores")
        );
        assert_eq!(thousands(Some(12_345.0), true), "12,345 connections/s");
        let rcodes =
            BTreeMap::from([("NXDOMAIN".to_owned(), 7), ("NOERROR".to_owned(), 12_345), ("X".to_owned(), 0)]);
        assert_eq!(named(&rcodes), "NOERROR 12,345, NXDOMAIN 7");
    }

    #[test]
    fn what_is_bad_is_divided_by_its_cause() {
        let accounts = Accounts { correct: 90, lost: 5, unsent: 5, ..Accounts::default() };
        let counts = LiveCounts { accounts, ..LiveCounts::default() };
        assert_eq!(bad_words(&counts), "10.000 % (lost 5, unsent 5)");
        let counts = LiveCounts { overdue: 10, ..counts };
        assert_eq!(bad_words(&counts), "18.182 % (lost 5, overdue 10, unsent 5)");
        assert_eq!(bad_words(&LiveCounts::default()), "0.000 %");
    }

    #[test]
    fn a_class_has_its_rates_of_the_last_second() {
        let class = |name: &str, sent, correct, attempts| LiveClass {
            name: name.to_owned(),
            accounts: Accounts { sent, correct, lost: sent - correct, ..Accounts::default() },
            attempts,
            ..LiveClass::default()
        };
        let classes = vec![class("good", 500, 400, 0), class("attack", 0, 0, 250)];
        let last = Interval {
            seconds: 0.5,
            counts: LiveCounts { classes, ..LiveCounts::default() },
            ..Interval::default()
        };
        assert_eq!(
            class_words(&class("good", 1000, 900, 0), Some(&last)),
            "good: sent 1.0k q/s, answered 0.8k q/s, bad 10.000 %, -"
        );
        let attackers = class("attack", 0, 0, 5000);
        assert_eq!(class_words(&attackers, Some(&last)), "attack: begun 5,000, now 500 attempts/s");
        assert_eq!(class_words(&attackers, None), "attack: begun 5,000, now - attempts/s");
    }

    #[test]
    fn at_the_end_the_result_replaces_the_figures_of_the_moment() {
        let hub = crate::Hub::new("kqps load x".into());
        hub.print("a notice");
        hub.result("sent 7");
        let now = || hub.read(panel);
        assert!(now().result.is_empty() && !now().facts.is_empty(), "it is not over");
        hub.end();
        assert_eq!(
            (now().result.as_str(), now().facts.len(), &*now().lines),
            ("sent 7", 0, &["a notice".to_owned()][..])
        );
    }
}
