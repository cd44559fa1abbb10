//! The ledger of a trial over several hosts. The players' counters are added, and the subject's host has its own. So each
//! stage of the way stands alone: interfaces and backlogs count at both ends. Hosts may be one machine, or even one
//! network namespace, whose counters count once.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use kqps_observation::network::{DeviceFacts, IpFacts};
use kqps_observation::trial::Transport;
use kqps_observation::{HostFacts, Ledger, NetworkFacts, SubjectFacts, Trial};

use super::stretch::Backlog;
use super::way::{STRETCHES, WAY_BACK};
use super::{Evidence, SubjectSide, placed_by};

/// Whether no, all or some players are in the network namespace of the subject's host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inside {
    /// None: each side has counters of its own.
    NoPlayer,
    /// All: both directions move the same counters.
    AllPlayers,
    /// Some: the counters of the subject's side then show both directions of some players, and one of the others.
    SomePlayers,
}

/// Places every query of all players that was intended and has no reply at all, of a merged trial. Lost segments and
/// packets of a connection are sent again, so there is no ledger for connections.
pub fn across(trial: &Trial) -> Ledger {
    if trial.transport != Transport::Udp {
        return Ledger::default();
    }
    // The players' hosts come first, one for each part.
    let players: Vec<&HostFacts> = trial.hosts.iter().take(trial.parts.len()).collect();
    let server = trial.subject.as_ref().zip(trial.subject_host());
    let inside = inside(&players, server.map(|(_, host)| host));
    let host = match (inside, server) {
        (Inside::AllPlayers, Some((_, server))) => {
            let views: Vec<&HostFacts> = players.iter().copied().chain([server]).collect();
            HostFacts { network: widest(&views).clone(), ..HostFacts::default() }
        }
        _ => HostFacts { network: together(&players), ..HostFacts::default() },
    };
    let subject = server.map(|(subject, host)| {
        let network = subject.network.as_ref().filter(|_| inside == Inside::NoPlayer);
        SubjectFacts { network: network.map(|network| carried(network, &[host])), ..subject.clone() }
    });
    let is_seen = subject.as_ref().is_some_and(|subject| subject.network.is_some());
    let accounts = &trial.accounts;
    let drops = trial.players.iter().map(|player| player.socket_drops);
    let evidence = Evidence {
        accounts,
        player_socket_drops: drops.fold(0, u64::saturating_add),
        // They separate the directions only where both move the same counters, and there each datagram is one message
        // unless the player uses segmentation.
        messages_sent: accounts.sent,
        messages_received: accounts.correct + accounts.wrong + accounts.late,
        ipv6: trial.target.parse().is_ok_and(|target: SocketAddr| target.is_ipv6()),
        host: &host,
        subject: subject.as_ref(),
        side: match inside {
            Inside::AllPlayers => SubjectSide::Here,
            Inside::NoPlayer if is_seen => SubjectSide::There,
            Inside::NoPlayer | Inside::SomePlayers => SubjectSide::Unseen,
        },
        // The kernel's counters then say nothing of the players' side.
        past_kernel: trial.players.iter().any(|player| player.io.contains("xdp")),
    };
    placed_by(&evidence, &backlogs(&players, server.map(|(_, host)| host)))
}

fn inside(players: &[&HostFacts], server: Option<&HostFacts>) -> Inside {
    let Some(server) = server else { return Inside::NoPlayer };
    match players.iter().filter(|player| player.shares_namespace(server)).count() {
        0 => Inside::NoPlayer,
        all if all == players.len() => Inside::AllPlayers,
        _ => Inside::SomePlayers,
    }
}

/// The counters of all players' network namespaces as one. Each namespace counts once, however many players are in it.
fn together(players: &[&HostFacts]) -> NetworkFacts {
    let mut namespaces: Vec<Vec<&HostFacts>> = Vec::new();
    for &player in players {
        match namespaces.iter_mut().find(|views| views[0].shares_namespace(player)) {
            Some(views) => views.push(player),
            None => namespaces.push(vec![player]),
        }
    }
    let mut networks = namespaces.iter().map(|views| carried(widest(views), views));
    let Some(mut sum) = networks.next() else { return NetworkFacts::default() };
    for network in networks {
        sum.add(&network);
    }
    sum
}

/// Picks the view that saw the most packets, of several views of one network namespace. There is at least one view.
fn widest<'a>(views: &[&'a HostFacts]) -> &'a NetworkFacts {
    let packets = |network: &NetworkFacts| {
        let of = |ip: &IpFacts| ip.in_receives.saturating_add(ip.out_requests);
        of(&network.ip4).saturating_add(of(&network.ip6))
    };
    let networks = views.iter().copied().map(|host| &host.network);
    networks.max_by_key(|network| packets(network)).expect("a namespace is that of a host")
}

/// A namespace with the interfaces by which packets of these hosts may leave it: those that carry the queries, if they
/// are known, and otherwise all except loopback.
fn carried(network: &NetworkFacts, hosts: &[&HostFacts]) -> NetworkFacts {
    let carries = |device: &DeviceFacts| {
        hosts.iter().any(|host| match &host.device {
            Some(name) => device.name == *name,
            None => device.name != "lo",
        })
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
