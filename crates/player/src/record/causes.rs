//! Counts by their cause or their rcode, under the names that records have for them.

use std::collections::BTreeMap;

use kqps_message::rcode;
use kqps_observation::trial::{UNSENT_CONNECTIONS, UNSENT_IDS, UNSENT_LATE, UNSENT_WINDOW};

use crate::plan::Plan;
use crate::reply::Cause;
use crate::tally::Tally;

pub(super) fn unsent_causes(tally: &Tally, (for_ids, for_connections): (u64, u64)) -> BTreeMap<String, u64> {
    let for_window = tally.unsent_for_window;
    let late = tally.accounts.unsent - for_window - for_ids - for_connections;
    let room = [(UNSENT_IDS, for_ids), (UNSENT_CONNECTIONS, for_connections)];
    by_name([(UNSENT_LATE, late), (UNSENT_WINDOW, for_window)].into_iter().chain(room).map(named))
}

pub(super) fn named((name, count): (&str, u64)) -> (String, u64) {
    (name.into(), count)
}

/// Lost queries by their expected reply. A connection that was lost without a query expects none.
pub(super) fn lost_expected(tally: &Tally, plan: &Plan) -> BTreeMap<String, u64> {
    if plan.has_connections_alone() {
        return by_name([("unknown", tally.accounts.lost)].map(named).into_iter());
    }
    by_name(tally.lost_expected.iter().map(|(what, &count)| (what.to_string(), count)))
}

/// Wrong replies by cause; statuses by their number.
pub(super) fn wrong_causes(tally: &Tally) -> BTreeMap<String, u64> {
    let causes = Cause::NAMES.iter().copied().zip(tally.wrong_causes);
    let causes = causes.filter(|(name, _)| *name != Cause::STATUS);
    let statuses = tally.wrong_statuses.iter();
    let statuses = statuses.map(|(status, &count)| (format!("{}-{status}", Cause::STATUS), count));
    by_name(causes.map(named).chain(statuses))
}

pub(super) fn wrong_rcodes(tally: &Tally) -> BTreeMap<String, u64> {
    by_name(tally.wrong_rcodes().map(|((expected, got), count)| {
        (format!("expected {}, got {}", rcode::RcodeName(expected), rcode::RcodeName(got)), count)
    }))
}

pub(super) fn response_rcodes(tally: &Tally) -> BTreeMap<String, u64> {
    let rcodes = (0..).zip(tally.rcodes).chain(tally.extended_rcodes.clone());
    by_name(rcodes.map(|(code, count)| (rcode::RcodeName(code).to_string(), count)))
}

/// Counts by name, without zeros.
pub(super) fn by_name(counts: impl Iterator<Item = (String, u64)>) -> BTreeMap<String, u64> {
    counts.filter(|(_, count)| *count > 0).collect()
}
