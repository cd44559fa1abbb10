//! The drop ledger: where the packets of a trial were lost, found in two ways that must agree. A pure function
//! of the facts.
//!
//! Counters of **drops** say it themselves: those of sockets, of the backlog, of interfaces. Counters of
//! **passages** say it by what is missing between two of them, and so find what is dropped silently, by a
//! filter or by the subject. Passages tell how many were lost on each stretch of the way, drops tell where on
//! it. Only what sockets of player and subject dropped is believed whatever the passages say: nobody else
//! moves those counters.

mod passages;
mod stretch;

use kqps_observation::ledger::FoundBy;
use kqps_observation::{Accounts, HostFacts, Ledger, Place, Placed, SubjectFacts};

/// Where the subject's end of the way is, as seen by the player.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SubjectSide {
    /// In the player's own network namespace: both directions move the same counters.
    Here,
    /// In another namespace, whose counters are in [`SubjectFacts::network`].
    There,
    /// Out of sight.
    #[default]
    Unseen,
}

/// What the ledger is drawn up from.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    /// What became of every query.
    pub accounts: &'a Accounts,
    /// Datagrams that the player's own sockets dropped.
    pub player_socket_drops: u64,
    /// Messages that the player handed to the kernel; one may hold several queries.
    pub messages_sent: u64,
    /// Messages that the player read; one may hold several replies.
    pub messages_heard: u64,
    /// Whether they went over IPv6.
    pub ipv6: bool,
    /// The host, with the player's namespace.
    pub host: &'a HostFacts,
    /// The subject, where it was watched.
    pub subject: Option<&'a SubjectFacts>,
    /// Where it is.
    pub side: SubjectSide,
}

/// Places what was intended and has no reply at all.
pub fn ledger(evidence: &Evidence<'_>) -> Ledger {
    let accounts = evidence.accounts;
    let passages = passages::count(evidence);
    let mut places =
        vec![placed(Place::PlayerUnsent, accounts.unsent), placed(Place::PlayerSend, accounts.send_failed)];
    let drops = stretch::Drops::of(evidence);
    if accounts.lost == 0 {
        // What somebody else may have lost is none of this trial's business then.
        places.extend(drops.alone().into_iter().filter(|placed| !placed.shared));
    } else if passages.are_disturbed() {
        places.extend(drops.alone());
    } else {
        places.extend(stretch::place_all(&passages, drops));
    }
    places.retain(|placed| placed.count > 0);
    places.sort_by_key(|placed| placed.place);
    let bad = accounts.unsent + accounts.send_failed + accounts.lost;
    let explained: u64 = places.iter().map(|placed| placed.count).sum();
    Ledger {
        unexplained: bad as i64 - explained as i64,
        places,
        stages: passages.stages(),
        merged: passages.merged(),
    }
}

/// A loss that nobody else's counters are in.
fn placed(place: Place, count: u64) -> Placed {
    Placed { place, count, by: FoundBy::Drops, shared: false }
}

#[cfg(test)]
mod tests;
