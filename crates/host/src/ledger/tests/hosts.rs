//! Ledgers of two players and a subject, each on a host of its own, with losses that were planted at every place.

use kqps_observation::network::TcpFacts;
use kqps_observation::trial::{PlayerFacts, Transport};
use kqps_observation::{NonEmpty, PlayerPart, Trial};

use super::*;

/// The counters of three hosts after a story.
struct Hosts {
    accounts: Accounts,
    players: [HostFacts; 2],
    subject: SubjectFacts,
    server: HostFacts,
    player_drops: u64,
}

fn device(name: &str) -> DeviceFacts {
    DeviceFacts { name: name.into(), ..DeviceFacts::default() }
}

/// A machine of its own with these counters.
fn host(boot_id: &str, network: NetworkFacts) -> HostFacts {
    HostFacts { boot_id: Some(boot_id.into()), network, ..HostFacts::default() }
}

impl Hosts {
    /// The first player has a third of the packets.
    fn from_story(story: Story) -> Self {
        let counted = story.two_sided();
        let whole = &counted.host.network;
        let third = |count: u64| count / 3;
        let first = NetworkFacts {
            ip4: IpFacts {
                in_receives: third(whole.ip4.in_receives),
                in_segments: third(whole.ip4.in_segments),
                in_delivers: third(whole.ip4.in_delivers),
                out_requests: third(whole.ip4.out_requests),
                out_transmits: whole.ip4.out_transmits.map(third),
                ..IpFacts::default()
            },
            ..NetworkFacts::default()
        };
        let mut second = whole.clone();
        let rest = |all: &mut u64, of_first: u64| *all -= of_first;
        rest(&mut second.ip4.in_receives, first.ip4.in_receives);
        rest(&mut second.ip4.in_segments, first.ip4.in_segments);
        rest(&mut second.ip4.in_delivers, first.ip4.in_delivers);
        rest(&mut second.ip4.out_requests, first.ip4.out_requests);
        second.ip4.out_transmits =
            second.ip4.out_transmits.zip(first.ip4.out_transmits).map(|(all, first)| all - first);
        Self {
            accounts: counted.accounts,
            players: [host("a", first), host("b", second)],
            subject: counted.subject,
            server: host("s", NetworkFacts::default()),
            player_drops: counted.player_drops,
        }
    }

    /// The merged record, with the subject and its host if they were watched.
    fn merged(&self, is_watched: bool) -> Trial {
        let [first, second] = self.players.clone();
        let server = is_watched.then(|| self.server.clone());
        let player = PlayerFacts { socket_drops: self.player_drops, ..PlayerFacts::default() };
        Trial {
            accounts: self.accounts,
            players: NonEmpty { first: player, others: vec![PlayerFacts::default()] },
            hosts: NonEmpty { first, others: [second].into_iter().chain(server).collect() },
            parts: vec![PlayerPart::default(); 2],
            subject: is_watched.then(|| self.subject.clone()),
            ..Trial::default()
        }
    }

    fn ledger(&self) -> Ledger {
        across(&self.merged(true))
    }

    /// Adds what a control link by TCP carries, to the counters of one address family or of the other.
    fn controlled(mut self, over_ipv4: bool) -> Self {
        let there = self.subject.network.as_mut().unwrap();
        let [first, second] = &mut self.players;
        for (network, received, sent) in
            [(there, 9, 7), (&mut first.network, 4, 5), (&mut second.network, 3, 5)]
        {
            network.shared = true;
            let tcp = network.tcp.get_or_insert_with(TcpFacts::default);
            (tcp.segments_received, tcp.segments_sent) = (received, sent);
            let ip = if over_ipv4 { &mut network.ip4 } else { &mut network.ip6 };
            ip.in_receives += received;
            ip.in_segments += received;
            ip.in_delivers += received;
            ip.out_requests += sent;
            ip.out_transmits = Some(ip.out_transmits.unwrap_or(0) + sent);
        }
        self
    }
}

/// Losses at every place that counts nothing but passages, or drops of sockets.
const EVERYWHERE: Story = Story {
    path_out: 100,
    filter_in: 20,
    subject_buffer: 300,
    unheard: 0,
    unanswered: 40,
    filter_out: 5,
    path_back: 60,
    filter_back: 7,
    player_buffer: 800,
    together: 1,
};

/// The hosts of [`EVERYWHERE`], with drops that interfaces and backlogs at both ends counted.
fn planted() -> Hosts {
    let mut hosts = Hosts::from_story(EVERYWHERE);
    hosts.players[1].network.devices =
        vec![DeviceFacts { tx_dropped: 30, ..device("eth1") }, DeviceFacts { tx_errors: 99, ..device("lo") }];
    hosts.subject.network.as_mut().unwrap().devices = vec![
        DeviceFacts { rx_dropped: 20, qdisc_dropped: Some(15), ..device("eth0") },
        DeviceFacts { rx_dropped: 9, ..device("eth7") },
    ];
    hosts.server.device = Some("eth0".into());
    hosts.server.softnet_dropped = 10;
    hosts.players[0].softnet_dropped = 8;
    hosts
}

fn expected(shared: bool) -> [Placed; 13] {
    [
        by_passages(Place::PathOut, 40, shared),
        by_drops(Place::NicOut, 30, shared),
        by_drops(Place::NicIn, 20, shared),
        by_drops(Place::Softnet, 10, true),
        by_drops(Place::Softnet, 8, true),
        by_passages(Place::FilterIn, 20, shared),
        by_drops(Place::SubjectSocketBuffer, 300, false),
        by_passages(Place::SubjectUnanswered, 40, shared),
        by_passages(Place::FilterOut, 5, shared),
        by_drops(Place::PathBack, 15, shared),
        by_passages(Place::PathBack, 37, shared),
        by_passages(Place::PathBack, 7, shared),
        by_drops(Place::PlayerSocketBuffer, 800, false),
    ]
}

#[test]
fn every_loss_is_placed_at_the_end_where_it_was_planted() {
    let ledger = planted().ledger();
    assert_eq!(ledger.places, expected(false));
    assert_eq!((ledger.unexplained, ledger.merged.len()), (0, 0));
    assert_eq!(ledger.stages.len(), 10, "intended, and every stage of the way");
}

#[test]
fn a_loss_alone_is_found_at_each_place() {
    let of = |story: Story| {
        let ledger = Hosts::from_story(story).ledger();
        assert_eq!(ledger.unexplained, 0);
        ledger.places.into_iter().map(|placed| (placed.place, placed.count)).collect::<Vec<_>>()
    };
    let none = Story::default();
    assert!(of(none).is_empty());
    assert_eq!(of(Story { path_out: 3, ..none }), [(Place::PathOut, 3)]);
    assert_eq!(of(Story { filter_in: 3, ..none }), [(Place::FilterIn, 3)]);
    assert_eq!(of(Story { subject_buffer: 3, ..none }), [(Place::SubjectSocketBuffer, 3)]);
    assert_eq!(of(Story { unanswered: 3, ..none }), [(Place::SubjectUnanswered, 3)]);
    assert_eq!(of(Story { filter_out: 3, ..none }), [(Place::FilterOut, 3)]);
    assert_eq!(of(Story { path_back: 3, ..none }), [(Place::PathBack, 3)]);
    assert_eq!(of(Story { player_buffer: 3, ..none }), [(Place::PlayerSocketBuffer, 3)]);
}

#[test]
fn the_control_links_packets_are_not_the_trials() {
    assert_eq!(planted().controlled(true).ledger().places, expected(true));
    // The link may go over the other address family, whose counters the trial does not move.
    let hosts = Hosts::from_story(Story { unanswered: 40, ..Story::default() }).controlled(false);
    let ledger = hosts.ledger();
    assert_eq!(ledger.places, [by_passages(Place::SubjectUnanswered, 40, true)]);
    assert_eq!(ledger.unexplained, 0);
}

#[test]
fn network_namespaces_of_one_machine_share_a_backlog() {
    let mut hosts = Hosts::from_story(Story { path_out: 50, path_back: 50, ..Story::default() });
    for host in hosts.players.iter_mut().chain([&mut hosts.server]) {
        (host.boot_id, host.softnet_dropped) = (Some("one".into()), 70);
    }
    let softnet: u64 = hosts.ledger().at(Place::Softnet);
    assert_eq!(softnet, 70, "in both directions together, and once for all three");
}

#[test]
fn a_subjects_host_out_of_sight_leaves_what_the_players_saw() {
    let hosts = Hosts::from_story(Story { filter_in: 20, player_buffer: 7, ..Story::default() });
    let ledger = across(&hosts.merged(false));
    assert_eq!(ledger.places, [by_drops(Place::PlayerSocketBuffer, 7, false)]);
    assert_eq!(ledger.unexplained, 20);
}

#[test]
fn connections_send_again_what_is_lost_and_have_no_ledger() {
    let trial = Trial { transport: Transport::Tls, ..planted().merged(true) };
    assert_eq!(across(&trial), Ledger::default());
}

#[test]
fn players_in_one_network_namespace_count_once() {
    let mut hosts = planted();
    let mut whole = hosts.players[0].network.clone();
    whole.add(&hosts.players[1].network);
    for player in &mut hosts.players {
        (player.boot_id, player.network_namespace) = (Some("a".into()), Some(7));
        player.network = whole.clone();
    }
    // Its counters were read while the other player's last replies came.
    hosts.players[0].network.ip4.in_receives -= 5;
    hosts.players[0].network.ip4.in_segments -= 5;
    hosts.players[0].network.ip4.in_delivers -= 5;
    // A machine has one backlog.
    (hosts.players[0].softnet_dropped, hosts.players[1].softnet_dropped) = (8, 8);
    assert_eq!(hosts.ledger().places, expected(false));
    // Two players by two interfaces of the namespace have the counters of both.
    hosts.players[0].device = Some("eth1".into());
    hosts.players[1].device = Some("eth2".into());
    assert_eq!(hosts.ledger().at(Place::NicOut), 30);
    hosts.players[0].device = Some("eth3".into());
    assert_eq!(hosts.ledger().at(Place::NicOut), 0);
}

/// All hosts of a story in one network namespace.
fn in_one_namespace(story: Story) -> Hosts {
    let network = story.one_sided().host.network;
    let mut hosts = Hosts::from_story(story);
    for host in hosts.players.iter_mut().chain([&mut hosts.server]) {
        (host.boot_id, host.network_namespace) = (Some("one".into()), Some(7));
        host.network = network.clone();
    }
    hosts.subject.network = Some(network);
    hosts
}

#[test]
fn in_the_subjects_own_namespace_the_ledger_is_that_of_loopback() {
    let story =
        Story { filter_in: 20, subject_buffer: 300, unanswered: 40, player_buffer: 800, ..Story::default() };
    let (hosts, alone) = (in_one_namespace(story), story.one_sided().ledger());
    let ledger = hosts.ledger();
    assert_eq!((&ledger.places, &ledger.stages), (&alone.places, &alone.stages));
    assert_eq!(ledger.unexplained, alone.unexplained);
}

#[test]
fn a_namespace_that_counts_both_directions_of_some_players_shows_nothing() {
    let mut hosts = in_one_namespace(Story { filter_in: 20, player_buffer: 7, ..Story::default() });
    hosts.players[1].network_namespace = Some(8);
    let ledger = hosts.ledger();
    assert_eq!(ledger.places, [by_drops(Place::PlayerSocketBuffer, 7, false)]);
    assert_eq!(ledger.unexplained, 20);
}
