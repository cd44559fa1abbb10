//! Warnings about connections, on facts that cause them, and on facts that almost do.

use kqps_observation::network::TcpFacts;
use kqps_observation::trial::{ClassTrial, UNSENT_CONNECTIONS, UNSENT_WINDOW};
use kqps_observation::{ConnectionFacts, Histogram, NetworkFacts, Quantiles, Trial};
use kqps_verdict::grade::Grade;
use kqps_verdict::warning::{Code, Effect, delayed_ack, few_places, listen_overflow, lost_syn};

use super::facts::{subject_busy, trial};
use super::warnings::{codes, pinned};

#[test]
fn a_listen_queue_that_overflowed_is_the_subjects() {
    let mut full = trial(100e3, 0);
    let tcp = |listen_overflows| Some(TcpFacts { listen_overflows, ..TcpFacts::default() });
    full.hosts.first.network.tcp = tcp(11);
    assert_eq!(listen_overflow(&full), None, "it was played without connections");
    full.connections = Some(ConnectionFacts::default());
    let warning = listen_overflow(&full).unwrap();
    assert_eq!((warning.code, warning.effect()), (Code::ListenOverflow, Effect::DownOne));
    let advice = &warning.advice;
    assert!(advice.contains("overflowed 11 times: the kernel") && advice.contains("backlog"), "{advice}");
    assert!(codes(&full, &pinned()).contains(&Code::ListenOverflow));
    full.hosts.first.network.shared = true;
    assert!(listen_overflow(&full).unwrap().advice.contains("(other servers beside it count, too)"));

    // A namespace of its own has counters of its own.
    let own = NetworkFacts { tcp: tcp(10), ..NetworkFacts::default() };
    full.subject.as_mut().unwrap().network = Some(own);
    assert_eq!(listen_overflow(&full), None, "ten are no sign");
    full.subject = None;
    assert!(listen_overflow(&full).is_some(), "it listens on a loopback address");
    full.target = "192.0.2.7:53".into();
    assert_eq!(listen_overflow(&full), None, "nothing is known of another host");
}

#[test]
fn lost_requests_for_connections_are_named_once() {
    let mut again = trial(100e3, 0);
    assert_eq!(lost_syn(&again), None, "it was played without connections");
    let with = |connections_with_retransmitted_syn| {
        Some(ConnectionFacts { connections_with_retransmitted_syn, ..ConnectionFacts::default() })
    };
    again.connections = with(10);
    assert_eq!(lost_syn(&again), None, "ten are no sign");
    again.connections = with(11);
    let warning = lost_syn(&again).unwrap();
    assert_eq!((warning.code, warning.effect()), (Code::LostSyn, Effect::DownOne));
    assert!(warning.advice.starts_with("11 connections were asked for again"), "{warning}");
    assert!(codes(&again, &pinned()).contains(&Code::LostSyn));
    // If the listen queue is known to be the cause, one warning says both.
    again.hosts.first.network.tcp = Some(TcpFacts { listen_overflows: 11, ..TcpFacts::default() });
    assert_eq!(lost_syn(&again), None);
    let warning = listen_overflow(&again).unwrap();
    assert!(warning.advice.contains(" 11 of the player's connections had to ask again"), "{warning}");
}

/// A trial of 1,000 replies, 900 of them as late as a delayed acknowledgement, and as many of those were counted. The rest
/// came after 0.3 ms.
fn delayed() -> Trial {
    let mut trial = trial(1e3, 0);
    let connect_us = Quantiles { mean: Some(80.0), ..Quantiles::default() };
    trial.connections = Some(ConnectionFacts { connect_us, ..ConnectionFacts::default() });
    trial.hosts.first.network.tcp = Some(TcpFacts { delayed_acks: 900, ..TcpFacts::default() });
    set_times(&mut trial, &[(300, 100), (43_600, 900)]);
    trial
}

/// Sets the times from write to reply, each with its count.
fn set_times(trial: &mut Trial, times: &[(u64, u64)]) {
    let mut histogram = Histogram::default();
    for (time_us, count) in times {
        histogram.record_many_us(*time_us, *count);
    }
    trial.histograms.insert("write to reply".into(), histogram.encode());
}

#[test]
fn replies_that_wait_for_a_delayed_acknowledgement_are_explained_and_lower_no_grade() {
    let trial = delayed();
    let warning = delayed_ack(&trial).unwrap();
    assert_eq!((warning.code, warning.effect()), (Code::DelayedAck, Effect::Mention));
    assert!(warning.advice.starts_with("90 % of the replies came about 40 ms late"), "{warning}");
    assert!(
        warning.advice.contains("900 acknowledgements were delayed")
            && warning.advice.contains("TCP_NODELAY"),
        "{warning}"
    );
    assert!(codes(&trial, &pinned()).contains(&Code::DelayedAck));
}

#[test]
fn other_delays_are_no_delayed_acknowledgements() {
    let not = |why: &str, change: fn(&mut Trial)| {
        let mut trial = delayed();
        change(&mut trial);
        assert_eq!(delayed_ack(&trial), None, "{why}");
    };
    not("no connections", |trial| trial.connections = None);
    not("none were counted", |trial| trial.hosts.first.network.tcp = Some(TcpFacts::default()));
    not("a busy subject's queue may be as long", |trial| subject_busy(trial, 1.0));
    not("a queue has shorter times, too", |trial| {
        set_times(trial, &[(300, 100), (25_000, 90), (43_600, 810)]);
    });
    not("a far subject", |trial| {
        trial.connections.as_mut().unwrap().connect_us.mean = Some(40_000.0);
    });
    not("few", |trial| set_times(trial, &[(300, 960), (43_600, 40)]));
    not("older records have no such histogram", |trial| trial.histograms.clear());
}

#[test]
fn too_few_places_are_named_if_the_subject_had_time() {
    let held_back = |cause: &str, count: u64| {
        let mut trial = trial(100e3, 0);
        trial.unsent_causes = [(cause.to_owned(), count)].into();
        trial.players.first.sockets = 8;
        trial
    };
    let intended = trial(100e3, 0).accounts.intended;
    assert_eq!(few_places(&held_back(UNSENT_CONNECTIONS, intended / 400)), None, "0.25 % are no sign");
    let mut full = held_back(UNSENT_CONNECTIONS, intended / 2);
    let warning = few_places(&full).unwrap();
    assert_eq!((warning.code, warning.effect()), (Code::FewPlaces, Effect::Cap(Grade::C)));
    assert!(
        warning.advice.starts_with("50.00 % of the queries were not sent because all 8 connections"),
        "{warning}"
    );
    assert!(codes(&full, &pinned()).contains(&Code::FewPlaces));
    let class =
        |name: &str, trial: Trial| ClassTrial { name: name.into(), trial, is_sought: name == "attack" };
    let mut seen = held_back(UNSENT_CONNECTIONS, intended / 4);
    seen.players.first.sockets = 256;
    seen.classes = vec![class("good", trial(100e3, 0)), class("attack", full.clone())];
    let advice = few_places(&seen).unwrap().advice;
    assert!(
        advice.starts_with("50.00 % of the queries of class attack were not sent because all 8"),
        "{advice}"
    );
    assert!(advice.contains("good clients may bear a greater attack than this"), "{advice}");
    let warning = few_places(&held_back(UNSENT_WINDOW, intended / 2)).unwrap();
    assert!(warning.advice.contains("because the window was full"), "{warning}");
    subject_busy(&mut full, 1.0);
    assert_eq!(few_places(&full), None, "a busy subject fills all places");
    full.subject = None;
    assert_eq!(few_places(&full), None, "so may one that was not watched");
}
