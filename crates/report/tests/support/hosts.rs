//! The sample run as two players on hosts of their own would have played it, at a server on a third.

use kqps_observation::fingerprint::BinaryFacts;
use kqps_observation::run::Outcome;
use kqps_observation::{HostFacts, HostRole, NonEmpty, PlayerPart, Run, RunHost, StartFacts, Trial};

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
    for one in &mut run.trials {
        if let Outcome::Measured(trial) = &mut one.outcome {
            share(trial);
        }
    }
    run
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
