//! Detects subjects that limit the rate of their responses: the figure is then that of the limit. Some servers
//! do so by default, such as Debian's NSD, and apply it to a single client that sends all queries.
//!
//! A limit shows in three ways: replies that were cut to the header although the answer would have fitted;
//! REFUSED for queries that are answered at other times; losses of one kind of answers and not of another. A full socket
//! buffer shows none of these, since it drops any query. Two more facts may have a limit as their cause, or another one,
//! and the words for them say so: queries that the subject read and did not answer while it had CPU time left
//! ([`super::unexplained_loss`]); and replies that were cut though it is not known if they would have fitted
//! ([`truncated`]).

use std::collections::BTreeMap;

use kqps_observation::{Place, Trial};

use super::{Code, Effect, Warning};
use crate::expected::expected_by_lost;

/// The least difference between the lost shares of two kinds of answers at which a limit may be the cause.
const SELECTIVE: f64 = 0.2;

/// A share of fewer queries than this means nothing.
const ENOUGH_QUERIES: u64 = 100;

/// The subject limits the rate of its responses.
pub fn rate_limited(trial: &Trial) -> Option<Warning> {
    let accounts = &trial.accounts;
    let sign = slipped(trial).or_else(|| refused(trial)).or_else(|| selective(trial))?;
    let lost = match accounts.lost {
        0 => String::new(),
        lost => {
            let expected = expected_by_lost(&trial.lost_expected);
            let expected = expected.map_or_else(String::new, |expected| format!("; of these, {expected}"));
            format!(" {lost} queries were lost{expected}.")
        }
    };
    let advice = format!(
        "{}{lost} So the subject, or a device in front of it, limits its responses (RRL), and the figure is that of the \
         limit. {}",
        sign.seen,
        settings(trial)
    );
    Some(Warning::new(Code::RateLimited, sign.effect, sign.count as f64, advice))
}

/// Whether this many of a trial's queries are more than chance.
pub(super) fn is_many(count: u64, trial: &Trial) -> bool {
    count as f64 > (trial.accounts.intended as f64 * 1e-5).max(10.0)
}

/// The evidence of a limit.
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
    // A limit sends one in so many of the limited responses, and drops the others.
    let every = 1 + (lost as f64 / slipped as f64).round() as u64;
    let ratio = if every == 1 {
        String::new()
    } else {
        format!(" (one for every {every} responses that were held back)")
    };
    let seen = format!(
        "{slipped} replies were cut to the header (TC) though their answers would have fitted{ratio}: they slipped \
         through a limit and answer nothing."
    );
    Some(Sign { seen, count: slipped, effect: Effect::Refuse })
}

fn refused(trial: &Trial) -> Option<Sign> {
    let refused = trial.refused_at_times;
    let seen =
        format!("{refused} queries were answered with REFUSED that got their proper answers at other times.");
    is_many(refused, trial).then_some(Sign { seen, count: refused, effect: Effect::DownOne })
}

/// Losses that no counter of drops explains.
pub(super) fn held_back(trial: &Trial) -> u64 {
    let unexplained = u64::try_from(trial.ledger.unexplained).unwrap_or(0);
    unanswered(trial) + unexplained
}

/// Queries that the subject read and did not answer. Datagrams for ports without a listener are subtracted,
/// since no process read them.
fn unanswered(trial: &Trial) -> u64 {
    let placed = trial.ledger.places.iter().filter(|placed| placed.place == Place::SubjectUnanswered);
    let unanswered: u64 = placed.map(|placed| placed.count).sum();
    unanswered.saturating_sub(trial.datagrams_for_closed_ports())
}

/// The sign that one kind of answers was lost far more often than another. A place that drops queries without reading
/// them cannot cause that.
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

/// Lost and answered queries by the expected rcode. Empty if the query file states no rcode, or if other rcodes
/// came than it states: an answer is identified by its rcode alone.
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

/// Queries that the subject read and did not answer, although it had CPU time left and answered others in time. `None`
/// if they are no more than chance.
pub(super) fn ignored(trial: &Trial) -> Option<u64> {
    let unanswered = unanswered(trial);
    (is_many(unanswered, trial) && trial.accounts.correct > 0 && had_time(trial)).then_some(unanswered)
}

/// The least share of the correct replies, beside those that slipped, at which truncated replies are what was measured.
const MOSTLY_TRUNCATED: f64 = 0.1;

/// Many replies were cut, and it is not known whether their answers would have fitted.
pub fn truncated(trial: &Trial) -> Option<Warning> {
    let accounts = &trial.accounts;
    let cut = accounts.truncated.saturating_sub(accounts.slipped);
    let is_share = cut as f64 >= accounts.correct as f64 * MOSTLY_TRUNCATED;
    (is_many(cut, trial) && is_share).then(|| {
        let advice = format!(
            "{cut} of {} correct replies were truncated (TC), so a client would ask again over TCP. Either their answers \
             are larger than the queries have room for, or the subject limits the rate of its responses (RRL). Ask for \
             one of them over TCP to see which. {}",
            accounts.correct,
            settings(trial)
        );
        Warning::new(Code::Truncated, Effect::DownOne, cut as f64, advice)
    })
}

/// Whether the subject was seen to have CPU time left: none of its threads was busy, and no reply came late, as
/// replies do if queries wait in a queue.
pub(super) fn had_time(trial: &Trial) -> bool {
    let Some(subject) = trial.subject.as_ref().filter(|subject| subject.alive && subject.was_seen()) else {
        return false;
    };
    let is_busy = subject.threads.iter().any(|thread| thread.busy >= super::player::BUSY);
    !is_busy && !is_many(trial.accounts.late, trial)
}

/// The settings of servers: prefixes of their programs' names, and the words.
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

/// How to switch the limit off: in the server that was watched, or in each that it may be.
pub(super) fn settings(trial: &Trial) -> String {
    let program = trial.subject.as_ref().map_or("", |subject| &*subject.program);
    let own = SETTINGS.iter().find(|(names, _)| names.iter().any(|name| program.starts_with(name)));
    let words: Vec<&str> = match own {
        Some((_, words)) => vec![*words],
        None => SETTINGS.iter().map(|(_, words)| *words).collect(),
    };
    format!("To measure the server, switch such a limit off ({}).", words.join("; "))
}
