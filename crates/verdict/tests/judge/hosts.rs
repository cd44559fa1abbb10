//! Trials that several hosts took part in: the warnings that go, the warnings that come, and whom they name.

use kqps_observation::host::CpuFacts;
use kqps_observation::{Accounts, HostFacts, NonEmpty, PlayerPart, StartFacts, Trial};
use kqps_verdict::bottleneck::Resource;
use kqps_verdict::evidence::is_spoiled;
use kqps_verdict::grade::Grade;
use kqps_verdict::warning::{Code, Effect, Surroundings, Warning, of_trial};

use super::facts::{SUBJECT, codes, six_starts, subject, trial};

/// The trial as two players on hosts of their own play it at a server on a third.
fn on_hosts(one: Trial) -> Trial {
    let host = |boot_id: &str| HostFacts { boot_id: Some(boot_id.into()), ..one.hosts.first.clone() };
    let part = |player: u32, host: &str| PlayerPart {
        host: host.into(),
        player,
        accounts: half(one.accounts, player),
        lag_us: one.lag_us,
        latency_us: one.latency_us,
        start: StartFacts { late_ns: 3_000, offset_ns: 5, uncertainty_ns: 20_000 },
        ..PlayerPart::default()
    };
    let parts = vec![part(0, "p1"), part(1, "p2")];
    let hosts = NonEmpty { first: host("a"), others: vec![host("b"), host("s")] };
    let player = one.players.first.clone();
    let players = NonEmpty { first: player.clone(), others: vec![player] };
    let target = "192.0.2.1:53".into();
    Trial { target, players, hosts, parts, start_skew_us: Some(60.0), late_start_ns: Some(3_000), ..one }
}

/// The first half of the counts, or the rest.
fn half(all: Accounts, player: u32) -> Accounts {
    let half = |count: u64| if player == 0 { count / 2 } else { count - count / 2 };
    let (unsent, send_failed, correct, lost) =
        (half(all.unsent), half(all.send_failed), half(all.correct), half(all.lost));
    let sent = correct + lost;
    Accounts {
        intended: sent + unsent + send_failed,
        unsent,
        send_failed,
        sent,
        correct,
        lost,
        ..Accounts::default()
    }
}

/// A cell's surroundings, as a run knows them.
fn surroundings() -> Surroundings {
    Surroundings { subject_cpus: vec![1], workers: Some(1), ..Surroundings::default() }
}

fn sound() -> Trial {
    on_hosts(trial(100e3, 0))
}

/// The only warning about a trial.
fn warning(trial: &Trial) -> Warning {
    let mut warnings = of_trial(trial, &surroundings());
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    warnings.remove(0)
}

#[test]
fn two_players_and_a_server_on_hosts_of_their_own_make_an_a() {
    let rig = six_starts(2e6, |trial| *trial = on_hosts(std::mem::take(trial)));
    let verdict = subject(&rig);
    assert_eq!((verdict.grade, codes(&verdict)), (Grade::A, vec![]), "{:?}", verdict.reasons);
    assert_eq!(verdict.bottleneck.resource, Resource::SubjectCpu, "the subject was watched on its host");
    // With fewer starts it is a B, as on one host it would be a C.
    let mut fewer = six_starts(2e6, |trial| *trial = on_hosts(std::mem::take(trial)));
    fewer.run.trials.retain(|one| one.cell != SUBJECT || one.block < 4);
    assert_eq!(subject(&fewer).grade, Grade::B);
}

#[test]
fn hosts_that_are_one_machine_are_one_host() {
    assert_eq!(of_trial(&sound(), &surroundings()), []);
    let mut one = sound();
    one.hosts.others[0].boot_id = Some("s".into());
    assert_eq!(warning(&one).code, Code::SingleHost);
    // Only there can a player take the subject's core.
    one.players.others[0].cpus = vec![1];
    let found: Vec<Code> = of_trial(&one, &surroundings()).iter().map(|one| one.code).collect();
    assert_eq!(found, [Code::SharedCores, Code::SingleHost]);
    let mut apart = sound();
    apart.players.others[0].cpus = vec![1];
    assert_eq!(of_trial(&apart, &surroundings()), []);
}

#[test]
fn what_is_not_known_of_a_host_does_not_make_it_another_machine() {
    let changed = |change: fn(&mut Trial)| {
        let mut trial = sound();
        change(&mut trial);
        of_trial(&trial, &surroundings()).iter().map(|one| one.code).collect::<Vec<_>>()
    };
    assert_eq!(changed(|trial| trial.hosts.others[0].boot_id = None), [Code::SingleHost], "of a player");
    assert_eq!(changed(|trial| trial.hosts.others[1].boot_id = None), [Code::SingleHost], "of the subject");
    // The subject's host was not watched.
    assert!(changed(|trial| drop(trial.hosts.others.pop())).contains(&Code::SingleHost));
}

#[test]
fn players_that_began_apart_spoil_the_trial_from_a_hundredth_of_it_on() {
    let apart = |skew_us| Trial { start_skew_us: Some(skew_us), ..sound() };
    assert!(!is_spoiled(&apart(10_000.0)));
    let skewed = apart(10_001.0);
    assert!(is_spoiled(&skewed));
    let skewed = warning(&skewed);
    assert_eq!((skewed.code, skewed.effect()), (Code::SkewedStart, Effect::RedoThenRefuse));
    assert!(skewed.advice.contains("may have begun 10.00 ms apart, which is 1.0 % of the trial"), "{skewed}");
    // A trial without a duration has no share.
    let mut empty = apart(5.0);
    (empty.load.duration_s, empty.start_skew_us) = (0.0, Some(0.0));
    assert!(!is_spoiled(&empty));
}

#[test]
fn a_late_player_is_named_and_is_not_called_skewed_as_well() {
    let mut late = sound();
    late.parts[1].start.late_ns = 10_000_001;
    late.start_skew_us = Some(10_040.0);
    assert!(is_spoiled(&late));
    let warning = warning(&late);
    assert_eq!((warning.code, warning.effect()), (Code::LatePlayer, Effect::RedoThenRefuse));
    assert!(warning.advice.starts_with("The player on p2 began 10.0 ms later than asked"), "{warning}");
    late.parts[1].start.late_ns = 10_000_000;
    late.start_skew_us = Some(9_999.0);
    assert!(!is_spoiled(&late), "the limit itself is in time");
}

#[test]
fn a_skew_that_stays_refuses_the_figure() {
    let rig = six_starts(2e6, |trial| {
        *trial = on_hosts(std::mem::take(trial));
        trial.start_skew_us = Some(50_000.0);
    });
    let verdict = subject(&rig);
    assert_eq!((verdict.grade, verdict.figure_qps), (Grade::F, None));
    assert!(verdict.reasons[0].starts_with("skewed-start"), "{:?}", verdict.reasons);
}

#[test]
fn a_warning_about_one_player_names_its_host() {
    let says = |change: fn(&mut Trial), code: Code, words: &str| {
        let mut changed = sound();
        change(&mut changed);
        let found = of_trial(&changed, &surroundings());
        let found = found.iter().find(|one| one.code == code).unwrap_or_else(|| panic!("{code}: {found:?}"));
        assert!(found.advice.contains(words), "{found}");
    };
    says(
        |trial| trial.players.others[0].per_thread[0].busy = 0.97,
        Code::PlayerLimited,
        "A player thread on p2 or its core was 97 % busy",
    );
    says(
        |trial| trial.parts[0].lag_us.p99 = Some(700),
        Code::Lagging,
        "of the queries on p1 left 700 µs late",
    );
    says(
        |trial| {
            trial.players.first.socket_drops = 2;
            trial.players.others[0].socket_drops = 40;
        },
        Code::ClientDrops,
        "dropped 42 replies, 40 of them on p2",
    );
    says(
        |trial| {
            let part = &mut trial.parts[1];
            part.accounts.unsent = part.accounts.intended / 10;
        },
        Code::PlayerLimited,
        "The player on p2 gave up 10.00 % of its queries",
    );
    says(
        |trial| {
            let part = &mut trial.parts[0];
            part.accounts.send_failed = part.accounts.intended / 10;
            part.send_failed_causes.insert("EPERM".into(), part.accounts.send_failed);
        },
        Code::SendFailed,
        "The kernel on p1 refused to send 10.00 % of the queries",
    );
    says(
        |trial| trial.hosts.others[0].foreign_cpu_s = Some(0.3),
        Code::NoisyHost,
        "of the cores in use of p2",
    );
    says(
        |trial| {
            let core = CpuFacts { cpu: 1, steal: 0.05, ..CpuFacts::default() };
            trial.hosts.others[1].cpus = vec![core];
        },
        Code::NoisyHost,
        "of the cores in use of the subject's host",
    );
}

#[test]
fn one_noisy_host_of_many_is_not_diluted() {
    let mut noisy = sound();
    // A host of three lost 4 % of its core to others, which is 1.3 % of all.
    noisy.hosts.others[0].foreign_cpu_s = Some(0.04);
    assert_eq!(warning(&noisy).code, Code::NoisyHost);
}

#[test]
fn a_ceiling_of_fewer_players_is_none_of_theirs() {
    let mut rig = six_starts(2e6, |trial| *trial = on_hosts(std::mem::take(trial)));
    for cell in &mut rig.run.cells {
        cell.factors.set("hosts.players", "2").unwrap();
    }
    assert!(subject(&rig).player_headroom.is_some());
    for cell in &mut rig.run.cells[..3] {
        cell.factors.set("hosts.players", "1").unwrap();
    }
    assert_eq!(subject(&rig).player_headroom, None);
}
