//! The ledger of a trial over several hosts. The players' counters are added, and the subject's host has its own, so
//! each stage of the way stands alone: interfaces and backlogs count at both ends.

use std::collections::BTreeSet;

use kqps_observation::network::DeviceFacts;
use kqps_observation::{Accounts, HostFacts, Ledger, NetworkFacts, SubjectFacts};

use super::stretch::Backlog;
use super::way::{STRETCHES, WAY_BACK};
use super::{Evidence, SubjectSide, placed_by};

/// The facts from which the ledger of several hosts is computed.
#[derive(Clone, Copy, Debug)]
pub struct Sides<'a> {
    /// The fate of every query of all players.
    pub accounts: &'a Accounts,
    /// Datagrams that the players' own sockets dropped.
    pub player_socket_drops: u64,
    /// Whether queries went over IPv6.
    pub ipv6: bool,
    /// Whether the players' packets pass the kernel's network stack, whose counters then say nothing of their side.
    pub past_kernel: bool,
    /// The host of each player.
    pub players: &'a [&'a HostFacts],
    /// The subject and its host, if they were watched.
    pub server: Option<(&'a SubjectFacts, &'a HostFacts)>,
}

/// Places every query of all players that was intended and has no reply at all.
pub fn across(sides: &Sides<'_>) -> Ledger {
    let Sides { accounts, players, server, .. } = *sides;
    let host = HostFacts { network: together(players), ..HostFacts::default() };
    let subject = server.map(|(subject, host)| {
        let network = subject.network.as_ref().map(|network| between_hosts(network, host));
        SubjectFacts { network, ..subject.clone() }
    });
    let is_seen = subject.as_ref().is_some_and(|subject| subject.network.is_some());
    let evidence = Evidence {
        accounts,
        player_socket_drops: sides.player_socket_drops,
        // They separate the directions only where both move the same counters.
        messages_sent: accounts.sent,
        messages_received: accounts.correct + accounts.wrong + accounts.late,
        ipv6: sides.ipv6,
        host: &host,
        subject: subject.as_ref(),
        side: if is_seen { SubjectSide::There } else { SubjectSide::Unseen },
        past_kernel: sides.past_kernel,
    };
    placed_by(&evidence, &backlogs(players, server.map(|(_, host)| host)))
}

/// The counters of all players' network namespaces as one.
fn together(players: &[&HostFacts]) -> NetworkFacts {
    let mut networks = players.iter().map(|host| between_hosts(&host.network, host));
    let Some(mut sum) = networks.next() else { return NetworkFacts::default() };
    for network in networks {
        sum.add(&network);
    }
    sum
}

/// A namespace with the interfaces by which packets may leave the host: the one that carries the queries, if it is
/// known, and otherwise all except loopback.
fn between_hosts(network: &NetworkFacts, host: &HostFacts) -> NetworkFacts {
    let is_named = |device: &DeviceFacts| Some(&device.name) == host.device.as_ref();
    let carries = |device: &DeviceFacts| match host.device {
        Some(_) => is_named(device),
        None => device.name != "lo",
    };
    let devices = network.devices.iter().filter(|device| carries(device)).cloned().collect();
    NetworkFacts { devices, ..network.clone() }
}

/// The backlog of the subject's host drops queries, and those of the players' hosts drop replies. All network
/// namespaces of one machine share a backlog: it counts once, and if both sides share it, for both directions.
fn backlogs(players: &[&HostFacts], server: Option<&HostFacts>) -> Vec<Backlog> {
    let server_boot = server.and_then(|host| host.boot_id.as_ref());
    let mut seen: BTreeSet<&String> = server_boot.into_iter().collect();
    let is_shared =
        server_boot.is_some() && players.iter().any(|player| player.boot_id.as_ref() == server_boot);
    let of_players =
        players.iter().filter(|player| player.boot_id.as_ref().is_none_or(|boot| seen.insert(boot)));
    let on_way_back: u64 = of_players.map(|player| player.softnet_dropped).sum();
    let mut backlogs = vec![Backlog { dropped: on_way_back, stretches: WAY_BACK..STRETCHES.len() }];
    if let Some(server) = server {
        let stretches = if is_shared { 0..STRETCHES.len() } else { 0..WAY_BACK };
        backlogs.insert(0, Backlog { dropped: server.softnet_dropped, stretches });
    }
    backlogs
}
