//! The sample run as two players on hosts of their own would have played it, at a server on a third.

use kqps_observation::fingerprint::BinaryFacts;
use kqps_observation::run::{Outcome, Purpose};
use kqps_observation::{
    HostFacts, HostRole, NonEmpty, PlayerPart, Quantiles, ResidenceFacts, Run, RunHost, RunTrial, StartFacts,
    Trial,
};

use super::sample;

pub(crate) fn run() -> Run {
    let mut run = sample::run();
    let host = |name: &str, role, last| RunHost {
        name: name.to_owned(),
        role,
        address: [192, 0, 2, last].into(),
        fingerprint: run.fingerprint.clone(),
        kqps: BinaryFacts { version: Some("0.1.0".to_owned()), ..BinaryFacts::default() },
    };
    let hosts = vec![
        host("ns1", HostRole::Server, 1),
        host("p1", HostRole::Player, 2),
        host("p2", HostRole::Player, 3),
    ];
    run.hosts = hosts;
    stamp(&mut run);
    for one in &mut run.trials {
        if let Outcome::Measured(trial) = &mut one.outcome {
            share(trial);
        }
    }
    run
}

/// A trial of nsd whose packets were stamped, and one of knot whose host could not.
fn stamp(run: &mut Run) {
    for name in ["nsd", "knot"] {
        let cell = run.cells.iter().position(|cell| cell.subject == name).unwrap() as u32;
        let is_latency = |one: &&RunTrial| one.cell == cell && one.purpose == Purpose::Latency;
        let mut one = run.trials.iter().find(is_latency).unwrap().clone();
        (one.number, one.purpose) = (run.trials.len() as u64 + 1, Purpose::Residence);
        let Outcome::Measured(trial) = &mut one.outcome else { unreachable!("latency was measured") };
        if name == "nsd" {
            let residence_us = Quantiles { p50: Some(17), p90: Some(23), ..Quantiles::default() };
            let pairs = trial.accounts.sent / 2;
            trial.residence = Some(ResidenceFacts {
                device: "eth1".to_owned(),
                one_in: 2,
                queries: pairs,
                replies: pairs,
                pairs,
                residence_us,
                ..ResidenceFacts::default()
            });
            trial.disturbed = true;
        } else {
            let why = "a packet socket: Operation not permitted".to_owned();
            trial.hosts.first.unreadable.insert("residence".to_owned(), why);
        }
        run.trials.push(one);
    }
}

/// Lists two players and three hosts.
fn share(trial: &mut Trial) {
    let host = trial.hosts.first.clone();
    let named = |boot_id: &str| HostFacts { boot_id: Some(boot_id.to_owned()), ..host.clone() };
    trial.hosts = NonEmpty { first: named("a"), others: vec![named("b"), named("s")] };
    trial.players.others = vec![trial.players.first.clone()];
    let part = |player: u32, host: &str| PlayerPart {
        host: host.to_owned(),
        player,
        accounts: trial.accounts,
        offered_qps: trial.load.offered_qps / 2.0,
        answered_qps: trial.load.answered_qps / 2.0,
        latency_us: trial.latency_us,
        start: StartFacts { late_ns: 12_000, offset_ns: 7, uncertainty_ns: 40_000 },
        ..PlayerPart::default()
    };
    let parts = vec![part(0, "p1"), part(1, "p2")];
    (trial.parts, trial.start_skew_us, trial.speed) = (parts, Some(85.0), None);
}
