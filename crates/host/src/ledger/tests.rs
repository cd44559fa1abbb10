use kqps_observation::NetworkFacts;
use kqps_observation::ledger::StageName;
use kqps_observation::network::{DeviceFacts, IpFacts, UdpFacts};

use super::*;

mod hosts;

fn by_drops(place: Place, count: u64, shared: bool) -> Placed {
    Placed { place, count, by: FoundBy::Drops, shared }
}

fn by_passages(place: Place, count: u64, shared: bool) -> Placed {
    Placed { by: FoundBy::Passages, ..by_drops(place, count, shared) }
}

/// A trial as the network saw it: how many packets were lost at each place.
#[derive(Clone, Copy, Default)]
struct Story {
    path_out: u64,
    filter_in: u64,
    subject_buffer: u64,
    /// These came to a port without a listener.
    unheard: u64,
    unanswered: u64,
    filter_out: u64,
    path_back: u64,
    filter_back: u64,
    player_buffer: u64,
    /// Queries in one message of the player's.
    together: u64,
}

const SENT: u64 = 12_800;

/// The counters of all sides after a story.
struct Counted {
    accounts: Accounts,
    host: HostFacts,
    subject: SubjectFacts,
    player_drops: u64,
    messages_sent: u64,
    side: SubjectSide,
}

impl Counted {
    fn evidence(&self) -> Evidence<'_> {
        Evidence {
            accounts: &self.accounts,
            player_socket_drops: self.player_drops,
            messages_sent: self.messages_sent,
            messages_received: self.accounts.correct,
            ipv6: false,
            host: &self.host,
            subject: Some(&self.subject),
            side: self.side,
            past_kernel: false,
        }
    }

    fn ledger(&self) -> Ledger {
        ledger(&self.evidence())
    }
}

impl Story {
    /// The counters of two namespaces.
    fn sides(self) -> (NetworkFacts, NetworkFacts, u64) {
        let together = self.together.max(1);
        let received = SENT - self.path_out;
        let delivered = received - self.filter_in;
        let read = delivered - self.subject_buffer - self.unheard;
        let replied = read - self.unanswered;
        let transmitted = replied - self.filter_out;
        let back = transmitted - self.path_back;
        let answered = back - self.filter_back - self.player_buffer;
        let subject = NetworkFacts {
            ip4: IpFacts {
                in_receives: received / together,
                in_segments: received,
                in_delivers: delivered / together,
                out_requests: replied,
                out_transmits: Some(transmitted),
                ..IpFacts::default()
            },
            udp4: UdpFacts {
                in_datagrams: read,
                rcvbuf_errors: self.subject_buffer,
                no_ports: self.unheard,
                out_datagrams: transmitted,
                ..UdpFacts::default()
            },
            ..NetworkFacts::default()
        };
        let player = NetworkFacts {
            ip4: IpFacts {
                in_receives: back,
                in_segments: back,
                in_delivers: back - self.filter_back,
                out_requests: SENT / together,
                out_transmits: Some(SENT / together),
                ..IpFacts::default()
            },
            udp4: UdpFacts {
                in_datagrams: answered,
                rcvbuf_errors: self.player_buffer,
                out_datagrams: SENT / together,
                ..UdpFacts::default()
            },
            ..NetworkFacts::default()
        };
        (player, subject, answered)
    }

    fn two_sided(self) -> Counted {
        let (player, subject, answered) = self.sides();
        let accounts = Accounts {
            intended: SENT,
            sent: SENT,
            correct: answered,
            lost: SENT - answered,
            ..Accounts::default()
        };
        Counted {
            accounts,
            host: HostFacts { network: player, ..HostFacts::default() },
            subject: SubjectFacts {
                socket_drops: Some(self.subject_buffer),
                network: Some(subject),
                ..SubjectFacts::default()
            },
            player_drops: self.player_buffer,
            messages_sent: SENT / self.together.max(1),
            side: SubjectSide::There,
        }
    }

    /// The counters on loopback: one namespace counts for both.
    fn one_sided(self) -> Counted {
        let mut counted = self.two_sided();
        let there = counted.subject.network.take().unwrap();
        let ours = &mut counted.host.network;
        let (a, b) = (&mut ours.ip4, &there.ip4);
        a.in_receives += b.in_receives;
        a.in_segments += b.in_segments;
        a.in_delivers += b.in_delivers;
        a.out_requests += b.out_requests;
        a.out_transmits = a.out_transmits.zip(b.out_transmits).map(|(a, b)| a + b);
        let (a, b) = (&mut ours.udp4, &there.udp4);
        a.in_datagrams += b.in_datagrams;
        a.rcvbuf_errors += b.rcvbuf_errors;
        a.no_ports += b.no_ports;
        a.out_datagrams += b.out_datagrams;
        counted.side = SubjectSide::Here;
        counted
    }
}

#[test]
fn a_trial_without_loss_has_no_places() {
    for counted in [Story::default().two_sided(), Story::default().one_sided()] {
        let ledger = counted.ledger();
        assert_eq!((ledger.places, ledger.unexplained), (vec![], 0));
    }
}

#[test]
fn between_namespaces_every_loss_is_placed() {
    let story = Story {
        path_out: 1,
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
    let mut counted = story.two_sided();
    counted.accounts = Accounts { intended: SENT + 13, unsent: 11, send_failed: 2, ..counted.accounts };
    let ledger = counted.ledger();
    let wanted = [
        by_drops(Place::PlayerUnsent, 11, false),
        by_drops(Place::PlayerSend, 2, false),
        by_passages(Place::PathOut, 1, false),
        by_passages(Place::FilterIn, 20, false),
        by_drops(Place::SubjectSocketBuffer, 300, false),
        by_passages(Place::SubjectUnanswered, 40, false),
        by_passages(Place::FilterOut, 5, false),
        by_passages(Place::PathBack, 60, false),
        by_passages(Place::PathBack, 7, false),
        by_drops(Place::PlayerSocketBuffer, 800, false),
    ];
    assert_eq!(ledger.places, wanted);
    assert_eq!((ledger.unexplained, ledger.merged.len()), (0, 0));
    let stages: Vec<(StageName, u64)> = ledger.stages.iter().map(|stage| (stage.name, stage.count)).collect();
    assert_eq!(stages.len(), 10, "intended, and every stage of the way");
    assert_eq!(stages[0], (StageName::Intended, SENT + 13));
    assert_eq!(stages[4], (StageName::SubjectRead, SENT - 321));
}

#[test]
fn on_loopback_the_players_counts_separate_the_directions() {
    let story =
        Story { filter_in: 20, subject_buffer: 300, unanswered: 40, player_buffer: 800, ..Story::default() };
    let ledger = story.one_sided().ledger();
    let wanted = [
        by_passages(Place::FilterIn, 20, false),
        by_drops(Place::SubjectSocketBuffer, 300, false),
        by_passages(Place::SubjectUnanswered, 40, false),
        by_drops(Place::PlayerSocketBuffer, 800, false),
    ];
    assert_eq!(ledger.places, wanted);
    let merged: Vec<&[Place]> = ledger.merged.iter().map(|merged| &merged.places[..]).collect();
    let out: &[Place] = &[Place::PathOut, Place::NicOut, Place::NicIn, Place::Softnet, Place::FilterIn];
    assert_eq!(merged[0], out);
    assert!(ledger.merged[0].reason.contains("both directions"));
    // The replies that the player did not receive show a filter that drops replies.
    let back = Story { filter_back: 9, filter_out: 4, ..Story::default() }.one_sided().ledger();
    let wanted = [by_passages(Place::FilterOut, 4, false), by_passages(Place::PathBack, 9, false)];
    assert_eq!(back.places, wanted);
}

#[test]
fn queries_to_a_port_without_a_listener_are_placed_there() {
    for together in [1, 64] {
        let story = Story { subject_buffer: 300, unheard: 1024, together, ..Story::default() };
        let wanted = [
            by_drops(Place::SubjectSocketBuffer, 300, false),
            by_drops(Place::SubjectUnanswered, 1024, false),
        ];
        for counted in [story.two_sided(), story.one_sided()] {
            let ledger = counted.ledger();
            assert_eq!((&ledger.places[..], ledger.unexplained), (&wanted[..], 0), "{together} together");
        }
    }
}

#[test]
fn losses_of_others_are_not_reported_if_nothing_was_lost() {
    let mut counted = Story::default().one_sided();
    counted.host.network.shared = true;
    counted.host.network.udp4.no_ports = 22;
    counted.host.softnet_dropped = 3;
    let ledger = counted.ledger();
    assert_eq!((ledger.places, ledger.unexplained), (vec![], 0));
}

#[test]
fn queries_that_travel_together_are_counted_one_by_one() {
    let story = Story { filter_in: 64, subject_buffer: 300, unanswered: 4, together: 64, ..Story::default() };
    let wanted = [
        by_passages(Place::FilterIn, 64, false),
        by_drops(Place::SubjectSocketBuffer, 300, false),
        by_passages(Place::SubjectUnanswered, 4, false),
    ];
    for counted in [story.two_sided(), story.one_sided()] {
        let ledger = counted.ledger();
        assert_eq!((&ledger.places[..], ledger.unexplained), (&wanted[..], 0));
    }
}

#[test]
fn a_subject_that_reads_and_replies_in_segments_leaves_one_stretch() {
    let mut counted = Story { subject_buffer: 640, together: 64, ..Story::default() }.one_sided();
    // The subject's socket dropped ten packets of 64 queries. It read queries, and replied to them, in groups
    // of 64.
    let answered = counted.accounts.correct;
    counted.subject.socket_drops = Some(10);
    counted.host.network.udp4.in_datagrams = answered / 64 + answered / 64;
    let ip = &mut counted.host.network.ip4;
    ip.out_requests = SENT / 64 + answered / 64;
    ip.out_transmits = Some(ip.out_requests);
    ip.in_receives = SENT / 64 + answered / 64;
    ip.in_segments = SENT + answered;
    let evidence = Evidence { messages_received: answered / 64, ..counted.evidence() };
    let ledger = ledger(&evidence);
    let wanted = [
        by_drops(Place::SubjectSocketBuffer, 10, false),
        by_passages(Place::SubjectSocketBuffer, 630, false),
    ];
    assert_eq!((&ledger.places[..], ledger.unexplained), (&wanted[..], 0));
    assert!(ledger.merged[0].reason.contains("together"));
}

#[test]
fn a_reply_that_is_sent_again_after_a_filter_refused_it_is_one() {
    let mut counted = Story { filter_out: 200, ..Story::default() }.two_sided();
    counted.subject.network.as_mut().unwrap().ip4.out_requests += 190;
    assert_eq!(counted.ledger().places, [by_passages(Place::FilterOut, 200, false)]);
}

#[test]
fn drops_show_the_place_on_a_stretch() {
    let mut counted = Story { path_out: 100, ..Story::default() }.two_sided();
    counted.host.softnet_dropped = 30;
    let device = DeviceFacts { name: "eth0".into(), ..DeviceFacts::default() };
    counted.host.network.devices = vec![DeviceFacts { tx_dropped: 50, ..device.clone() }];
    counted.subject.network.as_mut().unwrap().devices = vec![DeviceFacts { rx_dropped: 15, ..device }];
    let wanted = [
        by_passages(Place::PathOut, 5, false),
        by_drops(Place::NicOut, 50, false),
        by_drops(Place::NicIn, 15, false),
        by_drops(Place::Softnet, 30, true),
    ];
    assert_eq!(counted.ledger().places, wanted);
}

#[test]
fn other_traffic_leaves_only_the_counters_of_drops() {
    let mut counted = Story { unanswered: 100, subject_buffer: 50, ..Story::default() }.one_sided();
    counted.host.network.shared = true;
    let ip = &mut counted.host.network.ip4;
    ip.in_receives += 5000;
    ip.in_segments += 5000;
    ip.in_delivers += 5000;
    let ledger = counted.ledger();
    assert_eq!(ledger.places, [by_drops(Place::SubjectSocketBuffer, 50, false)]);
    assert_eq!(ledger.unexplained, 100);
    assert_eq!(ledger.stages.len(), 3);
    assert!(ledger.merged[0].reason.contains("other traffic"));
}

#[test]
fn without_the_subjects_own_counter_the_namespaces_is_shared() {
    let mut counted = Story { subject_buffer: 85, player_buffer: 7, ..Story::default() }.one_sided();
    counted.host.network.shared = true;
    counted.subject.socket_drops = None;
    let ledger = counted.ledger();
    let wanted =
        [by_drops(Place::SubjectSocketBuffer, 85, true), by_drops(Place::PlayerSocketBuffer, 7, false)];
    assert_eq!((&ledger.places[..], ledger.unexplained), (&wanted[..], 0));
}

#[test]
fn a_subject_out_of_sight_explains_nothing() {
    let counted = Story { filter_in: 20, player_buffer: 7, ..Story::default() }.two_sided();
    let evidence = Evidence { side: SubjectSide::Unseen, subject: None, ..counted.evidence() };
    let ledger = ledger(&evidence);
    assert_eq!(ledger.places, [by_drops(Place::PlayerSocketBuffer, 7, false)]);
    assert_eq!(ledger.unexplained, 20);
    assert!(ledger.merged[0].reason.contains("subject's side"));
}

#[test]
fn past_the_players_kernel_its_counters_say_nothing() {
    let mut counted = Story { unanswered: 20, player_buffer: 7, ..Story::default() }.two_sided();
    counted.host.network.ip4 = IpFacts::default();
    counted.host.network.udp4 = UdpFacts::default();
    let ledger = ledger(&Evidence { past_kernel: true, ..counted.evidence() });
    let wanted =
        [by_passages(Place::SubjectUnanswered, 20, false), by_drops(Place::PlayerSocketBuffer, 7, false)];
    assert_eq!((&ledger.places[..], ledger.unexplained), (&wanted[..], 0));
    assert!(ledger.merged[0].reason.contains("pass its kernel"), "{:?}", ledger.merged);
}

#[test]
fn counters_may_explain_more_than_was_lost() {
    let mut counted = Story { subject_buffer: 10, ..Story::default() }.two_sided();
    counted.subject.socket_drops = Some(60);
    let ledger = counted.ledger();
    assert_eq!((ledger.unexplained, ledger.surplus, ledger.beyond()), (0, 50, 50));
    let stored_before = Ledger { unexplained: -2, ..Default::default() };
    assert_eq!(stored_before.beyond(), 2);
}
