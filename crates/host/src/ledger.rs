//! The drop ledger: where a trial lost its packets, found in two ways that must agree. It is a pure function
//! of the facts.
//!
//! Counters of **drops** are those of sockets, of the backlog and of interfaces. Counters of **passages** show
//! losses as the difference between two of them. So they also find silent losses, in a filter or in the
//! subject. Passages show how many packets were lost on each stretch of the way, drops show where on the
//! stretch. The drops of the player's and the subject's sockets count whatever the passages show, since no
//! other traffic moves those counters.

mod hosts;
mod passages;
mod stretch;
mod way;

use kqps_observation::ledger::FoundBy;
use kqps_observation::{Accounts, HostFacts, Ledger, Place, Placed, SubjectFacts};
use serde::{Deserialize, Serialize};

pub use hosts::across;
use stretch::Backlog;

/// Where the subject's end of the way is, as seen by the player.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SubjectSide {
    /// In the player's own network namespace: both directions move the same counters.
    Here,
    /// In another namespace, whose counters are in [`SubjectFacts::network`].
    There,
    /// In no namespace whose counters can be read.
    #[default]
    Unseen,
}

/// The facts from which the ledger is computed.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    /// The fate of every query.
    pub accounts: &'a Accounts,
    /// Datagrams that the player's own sockets dropped.
    pub player_socket_drops: u64,
    /// Messages that the player passed to the kernel; one may hold several queries.
    pub messages_sent: u64,
    /// Messages that the player read; one may hold several replies.
    pub messages_received: u64,
    /// Whether the messages went over IPv6.
    pub ipv6: bool,
    /// The facts of the host, with the player's namespace.
    pub host: &'a HostFacts,
    /// The facts of the subject, if it was watched.
    pub subject: Option<&'a SubjectFacts>,
    /// Where the subject is.
    pub side: SubjectSide,
    /// Whether the player's packets pass the kernel's network stack, whose counters then say nothing of its side.
    pub past_kernel: bool,
}

/// Places every query that was intended and has no reply at all.
pub fn ledger(evidence: &Evidence<'_>) -> Ledger {
    let backlog = Backlog { dropped: evidence.host.softnet_dropped, stretches: 0..way::STRETCHES.len() };
    placed_by(evidence, &[backlog])
}

/// The ledger of these facts, with the drops of these backlogs.
fn placed_by(evidence: &Evidence<'_>, backlogs: &[Backlog]) -> Ledger {
    let accounts = evidence.accounts;
    let passages = passages::count(evidence);
    let mut places =
        vec![placed(Place::PlayerUnsent, accounts.unsent), placed(Place::PlayerSend, accounts.send_failed)];
    let drops = stretch::Drops::from_evidence(evidence, backlogs);
    if accounts.lost == 0 {
        // The counters of other traffic then have nothing to do with this trial.
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
        unexplained: bad.saturating_sub(explained) as i64,
        surplus: explained.saturating_sub(bad),
        places,
        stages: passages.stages(),
        merged: passages.merged(),
    }
}

/// A loss found by a counter that no other traffic moves.
fn placed(place: Place, count: u64) -> Placed {
    Placed { place, count, by: FoundBy::Drops, shared: false }
}

#[cfg(test)]
mod tests;
