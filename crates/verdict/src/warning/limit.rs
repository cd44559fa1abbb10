//! Whether the subject limits the rate of its responses: then a figure tells of the limit. Servers do so by default, NSD of
//! Debian for one, and to one client that asks for all.
//!
//! A limit shows in replies that were cut to the header although the answer would have fitted, in REFUSED to what is
//! answered at other times, in losses of one kind of answers and not of another, and in queries that the subject read and
//! kept silent about while it had time to spare. A full socket buffer shows in none of these: it drops whatever comes.

use std::collections::BTreeMap;

use kqps_observation::{Place, Trial};

use super::{Code, Effect, Warning};

/// Shares of two kinds of answers that were lost differ by at least this where a limit may be why.
const SELECTIVE: f64 = 0.2;

/// Of fewer queries than this a share tells nothing.
const ENOUGH_QUERIES: u64 = 100;

/// The subject limits its responses.
pub fn rate_limited(trial: &Trial) -> Option<Warning> {
    let accounts = &trial.accounts;
    let sign =
        slipped(trial).or_else(|| refused(trial)).or_else(|| selective(trial)).or_else(|| silent(trial))?;
    let lost = match accounts.lost {
        0 => String::new(),
        lost => format!(" {lost} queries were lost{}.", by_kind(&trial.lost_expected)),
    };
    let advice = format!(
        "{}{lost} So the subject limits the rate of its responses (RRL), and the figure is that of the limit. {}",
        sign.seen,
        settings(trial)
    );
    Some(Warning::new(Code::RateLimited, sign.effect, sign.count as f64, advice))
}

/// Whether so many of a trial's queries are more than chance.
pub(super) fn is_many(count: u64, trial: &Trial) -> bool {
    count as f64 > (trial.accounts.intended as f64 * 1e-5).max(10.0)
}

/// What shows a limit.
struct Sign {
    seen: String,
    count: u64,
    effect: Effect,
}

fn slipped(trial: &Trial) -> Option<Sign> {
    let (slipped, lost) = (trial.accounts.slipped, trial.accounts.lost);
    if !is_many(slipped, trial) {
        return None;
    }
    // Of what is limited one in so many is sent, and the others are dropped.
    let every = 1 + (lost as f64 / slipped as f64).round() as u64;
    let ratio = if every == 1 {
        String::new()
    } else {
        format!(" (one for every {every} responses that were held back)")
    };
    let seen = format!(
        "{slipped} replies were cut to the header (TC) though answers like theirs came whole{ratio}: they slipped \
         through a limit and answer nothing."
    );
    Some(Sign { seen, count: slipped, effect: Effect::Refuse })
}

fn refused(trial: &Trial) -> Option<Sign> {
    let refused = trial.refused_at_times;
    let seen =
        format!("{refused} queries were answered with REFUSED that were answered properly at other times.");
    is_many(refused, trial).then_some(Sign { seen, count: refused, effect: Effect::DownOne })
}

/// Losses that no counter of drops explains.
pub(super) fn held_back(trial: &Trial) -> u64 {
    let unexplained = u64::try_from(trial.ledger.unexplained).unwrap_or(0);
    unanswered(trial) + unexplained
}

/// Queries that the subject read and did not answer. Where nobody listened nobody read.
fn unanswered(trial: &Trial) -> u64 {
    let placed = trial.ledger.places.iter().filter(|placed| placed.place == Place::SubjectUnanswered);
    let unanswered: u64 = placed.map(|placed| placed.count).sum();
    unanswered.saturating_sub(trial.host.udp.no_ports)
}

/// One kind of answers was lost far more often than another: what drops queries without reading them cannot do that.
fn selective(trial: &Trial) -> Option<Sign> {
    if !is_many(held_back(trial), trial) {
        return None;
    }
    let shares: Vec<(&str, f64)> = kinds(trial)
        .into_iter()
        .filter(|(_, (lost, answered))| lost + answered >= ENOUGH_QUERIES)
        .map(|(kind, (lost, answered))| (kind, lost as f64 / (lost + answered) as f64))
        .collect();
    let most = shares.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let least = shares.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
    let seen = format!(
        "{:.0} % of the queries for {} were lost, and {:.0} % of those for {}: what was lost depends on the answer.",
        most.1 * 100.0,
        most.0,
        least.1 * 100.0,
        least.0
    );
    let count = trial.accounts.lost;
    (most.1 - least.1 >= SELECTIVE).then_some(Sign { seen, count, effect: Effect::DownOne })
}

/// Lost and answered queries by the expected rcode. None where the file tells no rcode, or where other rcodes came than it
/// tells: an answer is known by its rcode alone.
fn kinds(trial: &Trial) -> BTreeMap<&str, (u64, u64)> {
    let mut kinds: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for (expected, lost) in &trial.lost_expected {
        let kind = if matches!(&**expected, "NODATA" | "referral") { "NOERROR" } else { expected };
        kinds.entry(kind).or_default().0 += lost;
    }
    if kinds.contains_key("unknown") || !trial.wrong_rcodes.is_empty() {
        return BTreeMap::new();
    }
    for (rcode, answered) in &trial.response_rcodes {
        kinds.entry(rcode).or_default().1 += answered;
    }
    kinds
}

/// The subject read queries, had time to spare, answered others in time, and kept silent.
fn silent(trial: &Trial) -> Option<Sign> {
    let unanswered = unanswered(trial);
    let accounts = &trial.accounts;
    if !is_many(unanswered, trial) || accounts.correct == 0 || !had_time(trial) {
        return None;
    }
    let seen = format!(
        "The subject read {unanswered} queries and did not answer them, while it was not busy and answered others in time."
    );
    Some(Sign { seen, count: unanswered, effect: Effect::DownOne })
}

/// Whether the subject was seen to have time to spare: no thread of it was busy, and no reply came late, as they do where
/// queries wait in a queue.
pub(super) fn had_time(trial: &Trial) -> bool {
    let Some(subject) = trial.subject.as_ref().filter(|subject| subject.alive && subject.was_seen()) else {
        return false;
    };
    let is_busy = subject.threads.iter().any(|thread| thread.busy >= super::player::BUSY);
    !is_busy && !is_many(trial.accounts.late, trial)
}

/// Lost queries by what was expected, where anything was.
fn by_kind(lost: &BTreeMap<String, u64>) -> String {
    if lost.keys().all(|expected| expected == "unknown") {
        return String::new();
    }
    let kinds: Vec<String> = lost.iter().map(|(expected, count)| format!("{expected}: {count}")).collect();
    format!(" ({})", kinds.join(", "))
}

/// What to set in a server: beginnings of its programs' names, and the words.
const SETTINGS: [(&[&str], &str); 6] = [
    (&["nsd"], "NSD: `rrl-ratelimit: 0` and `rrl-whitelist-ratelimit: 0`"),
    (&["knot"], "Knot DNS: no `mod-rrl` in the template or the zones"),
    (&["named", "bind"], "BIND: no `rate-limit { ... }` in options and views"),
    (&["pdns"], "PowerDNS: has no such limit, look at the dnsdist before it"),
    (
        &["dnsdist"],
        "dnsdist: no `MaxQPSIPRule` or `MaxQPSRule`, and no dynamic blocks (`setDynBlocks...`, `dynBlockRulesGroup`)",
    ),
    (&["unbound"], "Unbound: `ip-ratelimit: 0` and `ratelimit: 0`"),
];

/// How to switch the limit off: in the server that was watched, or in each that may be meant.
pub(super) fn settings(trial: &Trial) -> String {
    let program = trial.subject.as_ref().map_or("", |subject| &*subject.program);
    let own = SETTINGS.iter().find(|(names, _)| names.iter().any(|name| program.starts_with(name)));
    let words: Vec<&str> = match own {
        Some((_, words)) => vec![*words],
        None => SETTINGS.iter().map(|(_, words)| *words).collect(),
    };
    format!("Switch it off to measure the server ({}).", words.join("; "))
}
