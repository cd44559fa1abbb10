//! The parts of a load beside each other: the lanes of a replay, and the classes of a scenario.

use std::fmt::Write as _;

use kqps_observation::trial::ClassTrial;
use kqps_observation::{Accounts, HostileFacts, Percentile, Quantiles, ReplayLane};
use kqps_verdict::rate::rate;

use crate::table;

/// The columns that every part has.
const COLUMNS: [&str; 8] = ["sent", "unsent", "correct", "wrong", "late", "lost", "p50", "p99"];

/// A line for each lane: its clients, the fates of its queries, and its latency; empty of a single lane.
pub(super) fn by_lane(lanes: &[ReplayLane]) -> String {
    if lanes.len() < 2 {
        return String::new();
    }
    let row = |lane: &ReplayLane| {
        ([lane.transport.clone(), lane.clients.to_string()], fates(&lane.accounts, &lane.latency_us))
    };
    lines(["over", "clients"], lanes.iter().map(row), "   ")
}

/// A line for each class: its mean rate, the fates of its queries, and its latency; empty without classes.
pub(crate) fn by_class(classes: &[ClassTrial]) -> String {
    if classes.is_empty() {
        return String::new();
    }
    let row = |ClassTrial { name, trial, .. }: &ClassTrial| {
        if let Some(facts) = &trial.hostile {
            return attackers(name, facts, trial.load.duration_s);
        }
        let due = trial.accounts.intended as f64 / trial.load.duration_s.max(f64::MIN_POSITIVE);
        ([name.clone(), rate(due)], fates(&trial.accounts, &trial.latency_us))
    };
    String::from("\nClasses:\n\n") + &lines(["class", "due/s"], classes.iter().map(row), " ")
}

/// The line of attackers: their attempts are no queries, and have no reply.
fn attackers(name: &str, facts: &HostileFacts, duration_s: f64) -> ([String; 2], Vec<String>) {
    let due = facts.due as f64 / duration_s.max(f64::MIN_POSITIVE);
    let counts = [facts.begun, facts.unsent_in_all()].map(|count| count.to_string());
    let none = std::iter::repeat_n("-".to_owned(), COLUMNS.len() - counts.len());
    ([name.to_owned(), rate(due)], counts.into_iter().chain(none).collect())
}

fn fates(accounts: &Accounts, latency_us: &Quantiles) -> Vec<String> {
    let Accounts { sent, unsent, correct, wrong, late, lost, .. } = *accounts;
    let counts = [sent, unsent, correct, wrong, late, lost].map(|count| count.to_string());
    let times = [latency_us.p50.map(Percentile::Is), latency_us.p99()].map(time);
    counts.into_iter().chain(times).collect()
}

fn lines(
    heads: [&'static str; 2],
    rows: impl Iterator<Item = ([String; 2], Vec<String>)>,
    indent: &str,
) -> String {
    let mut lines = table::titled(heads.into_iter().chain(COLUMNS));
    for (head, fates) in rows {
        lines.add_row(head.into_iter().chain(fates));
    }
    let mut text = String::new();
    for line in table::text(lines, &[1, 2, 3, 4, 5, 6, 7, 8, 9]).lines() {
        let _ = writeln!(text, "{indent}{line}");
    }
    text
}

fn time(seen: Option<Percentile>) -> String {
    match seen {
        None => "-".into(),
        Some(Percentile::Is(us)) => format!("{us} µs"),
        Some(Percentile::AtMost(us)) => format!("≤ {us} µs"),
        Some(Percentile::Greatest(us)) => format!("greatest {us} µs"),
    }
}
