//! Attackers: their attempts and what became of them.

use std::collections::BTreeMap;

use kqps_observation::hostile::UNSENT_ROOM;
use kqps_observation::trial::UNSENT_LATE;
use kqps_observation::{HostileConnections, HostileFacts};

use super::moments::Part;
use super::sheet::{Field, Sheet, count, counted, text};

/// A row for every load of attackers, or class of them.
pub(super) fn hostile(trials: &[Part<'_>]) -> Sheet {
    let mut sheet = Sheet::new("hostile", "attackers: their attempts, and what became of them");
    for part in trials {
        if let Some(facts) = part.trial().hostile.as_ref() {
            let of_connections = of_connections(&facts.connections);
            sheet.push(
                part.fields().into_iter().chain(attempts(facts)).chain(of_connections).chain(sent(facts)),
            );
        }
    }
    sheet
}

fn attempts(facts: &HostileFacts) -> [Field; 6] {
    let unsent = |cause: &str| count(facts.unsent.get(cause).copied().unwrap_or(0));
    [
        ("kind", "the kind of the attempts", text(facts.kind.word())),
        ("due", "attempts that were due", count(facts.due)),
        ("begun", "attempts that were begun", count(facts.begun)),
        ("unsent", "attempts that were not begun", count(facts.unsent_in_all())),
        ("unsent_late", "attempts of these to which the player came too late", unsent(UNSENT_LATE)),
        ("unsent_room", "attempts of these that found no room", unsent(UNSENT_ROOM)),
    ]
}

fn of_connections(connections: &HostileConnections) -> [Field; 11] {
    let HostileConnections { begun, connected, refused, timed_out, failed, connecting, .. } = connections;
    let HostileConnections { closed_by_server, reset_by_server, broken, closed_by_player, held, .. } =
        connections;
    [
        ("connections_begun", "connections that were begun", count(*begun)),
        ("connected", "connections that were made", count(*connected)),
        ("refused", "connections that were refused", count(*refused)),
        ("timed_out", "connections without an answer in time", count(*timed_out)),
        ("failed", "connections that could not be made otherwise", count(sum(failed))),
        ("connecting", "connections without an outcome at the end", count(*connecting)),
        ("closed_by_server", "connections that the server closed", count(*closed_by_server)),
        ("reset_by_server", "connections that the server reset", count(*reset_by_server)),
        ("broken", "connections that ended otherwise", count(sum(broken))),
        ("closed_by_player", "connections that the player closed before the end", count(*closed_by_player)),
        ("held", "connections that were open at the end", count(*held)),
    ]
}

fn sent(facts: &HostileFacts) -> [Field; 13] {
    let HostileFacts { handshakes, streams, lived_us, .. } = facts;
    let handshakes = handshakes.as_ref();
    [
        ("handshakes_begun", "handshakes of TLS that were begun", counted(handshakes.map(|all| all.begun))),
        ("handshakes_done", "handshakes of TLS that were completed", counted(handshakes.map(|all| all.done))),
        (
            "handshakes_failed",
            "handshakes of TLS that failed",
            counted(handshakes.map(|all| sum(&all.failed))),
        ),
        (
            "handshakes_under_way",
            "handshakes of TLS without an outcome at the end",
            counted(handshakes.map(|all| all.under_way)),
        ),
        ("streams_reset", "streams that were opened and reset", counted(streams.map(|all| all.reset))),
        ("streams_cut_off", "streams that did not leave", counted(streams.map(|all| all.cut_off))),
        ("initials", "first datagrams of QUIC that were sent", count(facts.initials)),
        ("sent_bytes", "bytes that were sent", count(facts.bytes_sent)),
        ("replies", "messages, frames or datagrams that the server sent", count(sum(&facts.replies))),
        ("goaways", "connections at which the server went away", count(sum(&facts.goaways))),
        ("lived_p50_us", "median life of the connections that the server ended", counted(lived_us.p50)),
        ("lived_p99_us", "p99 of their life", counted(lived_us.p99)),
        ("lived_max_us", "the longest life of one", counted(lived_us.max)),
    ]
}

fn sum(counts: &BTreeMap<String, u64>) -> u64 {
    counts.values().sum()
}
