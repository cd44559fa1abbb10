//! The drop ledger: where the packets of a trial were lost, by counters of drops.
//!
//! A pure function of the facts. Counters see packets as the kernel carries them: a segmented send that is
//! dropped whole counts once however many queries it holds, so with segmentation into a socket that takes
//! coalesced packets part of a loss stays unexplained.

use kqps_observation::ledger::FoundBy;
use kqps_observation::{Accounts, HostFacts, Ledger, Place, Placed, SubjectFacts};

/// Places what was intended and has no reply at all.
///
/// `player_socket_drops` are datagrams that the player's own sockets dropped. Without the subject's own
/// counter, every other datagram of the namespace that found its socket's buffer full is put down to the
/// subject, and marked shared.
pub fn ledger(
    accounts: &Accounts,
    player_socket_drops: u64,
    host: &HostFacts,
    subject: Option<&SubjectFacts>,
) -> Ledger {
    let (subject_drops, shared) = subject.and_then(|subject| subject.socket_drops).map_or_else(
        || {
            let full = host.udp.rcvbuf_errors + host.udp.mem_errors;
            (full.saturating_sub(player_socket_drops), true)
        },
        |drops| (drops, false),
    );
    let unanswered = subject.and_then(|subject| subject.unanswered).unwrap_or(0);
    let places: Vec<Placed> = [
        (Place::PlayerUnsent, accounts.unsent, false),
        (Place::PlayerSend, accounts.send_failed, false),
        (Place::Softnet, host.softnet_dropped, true),
        (Place::SubjectSocketBuffer, subject_drops, shared),
        (Place::SubjectUnanswered, unanswered, false),
        (Place::PlayerSocketBuffer, player_socket_drops, false),
    ]
    .into_iter()
    .filter(|(_, count, _)| *count > 0)
    .map(|(place, count, shared)| Placed { place, count, by: FoundBy::Drops, shared })
    .collect();
    let bad = accounts.unsent + accounts.send_failed + accounts.lost;
    let placed: u64 = places.iter().map(|placed| placed.count).sum();
    Ledger { places, unexplained: bad as i64 - placed as i64 }
}

#[cfg(test)]
mod tests {
    use kqps_observation::host::UdpFacts;

    use super::*;

    fn placed(place: Place, count: u64, shared: bool) -> Placed {
        Placed { place, count, by: FoundBy::Drops, shared }
    }

    fn accounts() -> Accounts {
        Accounts {
            intended: 1000,
            unsent: 10,
            send_failed: 5,
            sent: 985,
            correct: 885,
            lost: 100,
            ..Default::default()
        }
    }

    #[test]
    fn a_trial_without_loss_has_an_empty_ledger() {
        let clean = Accounts { intended: 7, sent: 7, correct: 7, ..Default::default() };
        assert_eq!(ledger(&clean, 0, &HostFacts::default(), None), Ledger::default());
    }

    #[test]
    fn every_loss_is_placed_in_order() {
        let host = HostFacts { softnet_dropped: 3, ..Default::default() };
        let subject = SubjectFacts { socket_drops: Some(60), unanswered: Some(20), ..Default::default() };
        let ledger = ledger(&accounts(), 7, &host, Some(&subject));
        let wanted = [
            placed(Place::PlayerUnsent, 10, false),
            placed(Place::PlayerSend, 5, false),
            placed(Place::Softnet, 3, true),
            placed(Place::SubjectSocketBuffer, 60, false),
            placed(Place::SubjectUnanswered, 20, false),
            placed(Place::PlayerSocketBuffer, 7, false),
        ];
        assert_eq!(ledger.places, wanted);
        assert_eq!(ledger.unexplained, 100 - (3 + 60 + 20 + 7));
    }

    #[test]
    fn without_the_subjects_own_counter_the_namespaces_is_shared() {
        let udp = UdpFacts { rcvbuf_errors: 90, mem_errors: 2, ..Default::default() };
        let host = HostFacts { udp, ..Default::default() };
        for subject in [None, Some(&SubjectFacts::default())] {
            let ledger = ledger(&accounts(), 7, &host, subject);
            assert_eq!(ledger.places[2], placed(Place::SubjectSocketBuffer, 85, true));
            assert_eq!(ledger.unexplained, 8);
        }
    }

    #[test]
    fn counters_may_explain_more_than_was_lost() {
        let host = HostFacts { softnet_dropped: 150, ..Default::default() };
        let subject = SubjectFacts { socket_drops: Some(0), ..Default::default() };
        assert_eq!(ledger(&accounts(), 0, &host, Some(&subject)).unexplained, -50);
    }
}
