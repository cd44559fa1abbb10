//! Each warning on facts that cause it, and on facts that almost do.

use kqps_observation::ledger::Place;
use kqps_observation::subject::ThreadFacts;
use kqps_observation::trial::{Interval, LoadMode};
use kqps_observation::{Histogram, Quantiles, Trial};
use kqps_verdict::grade::Grade;
use kqps_verdict::warning::{
    Code, Effect, Surroundings, Warning, busiest_thread, busiest_to_mean, client_drops, lagging,
    no_steady_state, noisy_host, of_trial, player_headroom, player_limited, send_failed, subject_cores,
    uneven, unexplained_loss, wrong_answers,
};

use super::facts::{place, starved, subject_busy, thread, trial};

pub(crate) fn pinned() -> Surroundings {
    Surroundings { subject_cpus: vec![1], workers: Some(1), ..Surroundings::default() }
}

pub(crate) fn codes(trial: &Trial, surroundings: &Surroundings) -> Vec<Code> {
    of_trial(trial, surroundings).iter().map(|warning| warning.code).collect()
}

#[test]
fn a_sound_trial_over_loopback_has_only_the_host_against_it() {
    let warnings = of_trial(&trial(100e3, 0), &pinned());
    assert_eq!(warnings.iter().map(|warning| warning.code).collect::<Vec<_>>(), [Code::SingleHost]);
    assert_eq!(warnings[0].effect(), Effect::Cap(Grade::C));
}

#[test]
fn an_address_of_this_host_is_this_host_though_it_is_no_loopback() {
    let mut own = trial(100e3, 0);
    own.target = "192.0.2.7:53".into();
    own.subject = None;
    assert_eq!(codes(&own, &Surroundings::default()), []);
    assert_eq!(
        codes(&own, &Surroundings { one_host: Some(true), ..Surroundings::default() }),
        [Code::SingleHost]
    );
}

#[test]
fn an_empty_record_gives_no_warning() {
    assert_eq!(of_trial(&Trial::default(), &Surroundings::default()), []);
}

#[test]
fn a_player_that_gives_up_queries_is_limited_however_idle_it_looks() {
    let warning = player_limited(&starved(100e3)).unwrap();
    assert_eq!((warning.code, warning.effect()), (Code::PlayerLimited, Effect::Refuse));
    assert!((warning.figure.unwrap() - 0.9).abs() < 1e-9);
    assert!(warning.advice.contains("quota"), "{warning}");
}

#[test]
fn a_player_beside_a_spinner_is_limited_though_it_sends_everything() {
    let mut beside = trial(100e3, 0);
    beside.players.first.per_thread[0].busy = 0.05;
    beside.hosts.first.cpus[0].idle = 0.0;
    beside.lag_us = Quantiles { p50: Some(100), p90: Some(3_000), p99: Some(8_000), ..Quantiles::default() };
    let warning = player_limited(&beside).unwrap();
    assert_eq!(warning.effect(), Effect::Refuse);
    assert!(warning.advice.contains("Other work filled its core"), "{warning}");

    beside.lag_us = trial(100e3, 0).lag_us;
    let warning = player_limited(&beside).unwrap();
    assert_eq!(warning.effect(), Effect::Cap(Grade::C), "on time, yet its core has nothing left to give");
}

#[test]
fn a_busy_player_is_a_doubt_and_no_refusal() {
    let mut busy = trial(100e3, 0);
    busy.players.first.per_thread[0].busy = 0.96;
    assert_eq!(player_limited(&busy).unwrap().effect(), Effect::Cap(Grade::C));
    let ceiling = Surroundings { ceiling: true, ..pinned() };
    assert!(!codes(&busy, &ceiling).contains(&Code::PlayerLimited), "a ceiling is meant to be one");
}

#[test]
fn a_player_that_stays_awake_with_nothing_to_do_is_not_busy() {
    let mut awake = trial(100e3, 0);
    awake.hosts.first.cpus[0].idle = 0.0;
    awake.players.first.per_thread[0] = ThreadFacts { awake_s: 0.5, ..thread("player", 10, 0.4, 0) };
    assert!((busiest_thread(&awake).unwrap() - 0.5).abs() < 1e-9, "a tenth of its core was somebody else's");
    assert_eq!(player_limited(&awake), None);
}

#[test]
fn the_players_own_ceiling_must_be_far_above_the_claim() {
    assert_eq!(player_headroom(2.2), None);
    assert_eq!(player_headroom(2.1).unwrap().effect(), Effect::Cap(Grade::C));
    assert_eq!(player_headroom(1.19).unwrap().effect(), Effect::Refuse);
}

#[test]
fn lag_is_measured_by_the_latency_and_only_in_an_open_loop() {
    let mut late = trial(100e3, 0);
    late.lag_us.p99 = Some(51);
    assert_eq!(lagging(&late).unwrap().effect(), Effect::RedoThenRefuse);
    // Too few samples for a quantile, but the histogram shows it.
    let mut unquantified = late.clone();
    unquantified.lag_us.p99 = None;
    let mut lag = Histogram::default();
    lag.record_many_us(90, 100_000);
    unquantified.histograms.insert("lag".into(), lag.encode());
    let advice = lagging(&unquantified).unwrap().advice;
    assert!(
        advice.starts_with("More than 1 % of the queries left more than 50 µs late, which is"),
        "{advice}"
    );
    late.latency_us.p50 = Some(600);
    assert_eq!(lagging(&late), None, "a tenth of the median latency is allowed");
    late.latency_us.p50 = None;
    late.load.mode = LoadMode::Closed;
    assert_eq!(lagging(&late), None);

    let mut few = trial(500.0, 0);
    few.lag_us.p99 = Some(51);
    assert_eq!(lagging(&few), None, "five hundred queries show nothing");
}

#[test]
fn an_offer_short_by_a_quarter_percent_lags() {
    let mut short = trial(100e3, 0);
    short.accounts.sent -= 240;
    short.accounts.unsent = 240;
    assert_eq!(lagging(&short), None);
    short.accounts.sent -= 20;
    short.accounts.send_failed = 20;
    assert_eq!(lagging(&short).unwrap().code, Code::Lagging);
}

#[test]
fn cores_are_shared_by_pinning_or_by_what_was_seen() {
    let mut seen = trial(100e3, 0);
    assert!(
        codes(&seen, &Surroundings { subject_cpus: vec![0, 1], ..Surroundings::default() })
            .contains(&Code::SharedCores)
    );
    assert!(!codes(&seen, &Surroundings::default()).contains(&Code::SharedCores));
    seen.subject.as_mut().unwrap().threads[0].cpu = 0;
    assert!(codes(&seen, &Surroundings::default()).contains(&Code::SharedCores));
    assert!(codes(&seen, &pinned()).contains(&Code::SharedCores), "it was given core 1, and ran on core 0");
    seen.subject.as_mut().unwrap().threads[0].busy = 0.04;
    assert!(!codes(&seen, &pinned()).contains(&Code::SharedCores), "a thread that hardly runs takes nothing");
    seen.subject = None;
    assert!(
        !codes(&seen, &Surroundings::default()).contains(&Code::SharedCores),
        "what is unknown is not judged"
    );
}

#[test]
fn noise_is_summed_over_trials_and_asks_for_a_second() {
    let mut noisy = trial(100e3, 0);
    noisy.hosts.first.foreign_cpu_s = Some(0.1);
    assert_eq!(noisy_host([&noisy], &pinned()).unwrap().effect(), Effect::DownOne);
    assert_eq!(noisy_host([&noisy, &trial(100e3, 0), &trial(100e3, 0)], &pinned()), None);
    noisy.hosts.first.foreign_cpu_s = Some(0.3);
    assert_eq!(noisy_host([&noisy], &pinned()).unwrap().effect(), Effect::Cap(Grade::C));
    noisy.hosts.first.wall_s = 0.5;
    assert_eq!(noisy_host([&noisy], &pinned()), None);

    let mut stolen = trial(100e3, 0);
    stolen.hosts.first.cpus[1].steal = 0.005;
    assert_eq!(noisy_host([&stolen], &pinned()).unwrap().effect(), Effect::DownOne);
    stolen.hosts.first.cpus[1].steal = 0.05;
    assert_eq!(noisy_host([&stolen], &pinned()).unwrap().effect(), Effect::Cap(Grade::C));

    // The hypervisor reports nothing as stolen, but withheld the core from a player with nothing else to do.
    // The larger of the two counts.
    let mut withheld = trial(100e3, 0);
    withheld.players.first.per_thread[0].withheld_s = 0.001;
    assert_eq!(noisy_host([&withheld], &pinned()), None);
    withheld.players.first.per_thread[0].withheld_s = 0.005;
    assert_eq!(noisy_host([&withheld], &pinned()).unwrap().effect(), Effect::DownOne);
    withheld.hosts.first.cpus[0].steal = 0.018;
    assert_eq!(noisy_host([&withheld], &pinned()).unwrap().effect(), Effect::DownOne);
    withheld.players.first.per_thread[0].withheld_s = 0.05;
    assert_eq!(noisy_host([&withheld], &pinned()).unwrap().effect(), Effect::Cap(Grade::C));
}

#[test]
fn a_clock_that_changes_between_trials_is_noise_where_the_core_was_busy() {
    let at_mhz = |mhz, idle| {
        let mut trial = trial(100e3, 0);
        trial.hosts.first.cpus[1].frequency_mhz = Some(mhz);
        trial.hosts.first.cpus[1].idle = idle;
        trial
    };
    let effect = |trials: &[Trial]| noisy_host(trials, &pinned()).map(|warning| warning.effect());
    assert_eq!(effect(&[at_mhz(3000.0, 0.1), at_mhz(2950.0, 0.1)]), None);
    assert_eq!(effect(&[at_mhz(3000.0, 0.1), at_mhz(2900.0, 0.1)]), Some(Effect::DownOne));
    assert_eq!(effect(&[at_mhz(3000.0, 0.1), at_mhz(2600.0, 0.1)]), Some(Effect::Cap(Grade::C)));
    assert_eq!(effect(&[at_mhz(3000.0, 0.1), at_mhz(800.0, 0.9)]), None, "an idle core may clock down");
}

#[test]
fn workers_are_uneven_when_the_busiest_has_a_quarter_more_than_the_mean() {
    let mut spread = trial(100e3, 0);
    let threads = &mut spread.subject.as_mut().unwrap().threads;
    *threads = vec![thread("worker", 1, 0.50, 1), thread("worker", 2, 0.45, 1), thread("main", 3, 0.0, 1)];
    let surroundings = Surroundings { workers: Some(2), ..Surroundings::default() };
    assert_eq!(uneven(&spread, &surroundings), None);
    assert!((busiest_to_mean(&spread, 2).unwrap() - 0.50 / 0.475).abs() < 1e-9);
    spread.subject.as_mut().unwrap().threads[1].busy = 0.2;
    assert_eq!(uneven(&spread, &surroundings).unwrap().effect(), Effect::DownOne);
    assert_eq!(uneven(&spread, &pinned()), None, "one worker cannot be uneven");
}

#[test]
fn one_wrong_answer_refuses_the_figure_and_names_its_cause() {
    let mut wrong = trial(100e3, 0);
    wrong.accounts.correct -= 1;
    wrong.accounts.wrong = 1;
    wrong.wrong_causes.insert("rcode".into(), 1);
    let warning = wrong_answers(&wrong).unwrap();
    assert_eq!(warning.effect(), Effect::Refuse);
    assert!(warning.advice.contains("(rcode: 1)"), "{warning}");
    wrong.wrong_rcodes.insert("expected NXDOMAIN, got NOERROR".into(), 1);
    wrong.wrong_causes.insert("short".into(), 2);
    let warning = wrong_answers(&wrong).unwrap();
    assert!(warning.advice.contains("(short: 2; expected NXDOMAIN, got NOERROR: 1)"), "{warning}");
}

#[test]
fn loss_that_no_counter_explains_counts_while_the_subject_is_idle() {
    let mut vanished = trial(100e3, 50);
    vanished.ledger.places.clear();
    vanished.ledger.unexplained = 50;
    assert_eq!(unexplained_loss(&vanished).unwrap().effect(), Effect::DownOne);
    subject_busy(&mut vanished, 0.97);
    assert_eq!(unexplained_loss(&vanished), None, "a busy subject may have dropped them itself");
    subject_busy(&mut vanished, 0.5);
    vanished.ledger.unexplained = 10;
    assert_eq!(unexplained_loss(&vanished), None);
    vanished.ledger.unexplained = 50;
    let subject = vanished.subject.as_mut().unwrap();
    (subject.alive, subject.threads) = (false, Vec::new());
    assert_eq!(unexplained_loss(&vanished), None, "a subject that has ended was not idle");
}

#[test]
fn many_losses_of_a_subject_that_was_not_watched_may_be_a_limit() {
    let mut vanished = trial(100e3, 5_000);
    vanished.subject = None;
    vanished.ledger.places.clear();
    vanished.ledger.unexplained = 5_000;
    let warning = unexplained_loss(&vanished).unwrap();
    assert!(
        warning.advice.contains("not watched, so it may have been too busy. If it was not, look"),
        "{warning}"
    );
    assert!(warning.advice.contains("rrl-ratelimit: 0"), "{warning}");
    let sent = vanished.accounts.sent;
    vanished.ledger.unexplained = i64::try_from(sent / 100).unwrap() - 1;
    assert_eq!(unexplained_loss(&vanished), None, "below 1 % of what was sent");
}

#[test]
fn a_subject_on_other_cores_than_it_is_said_to_have_is_doubted() {
    let mut moved = trial(100e3, 0);
    moved.subject.as_mut().unwrap().cpus = vec![1];
    assert_eq!(subject_cores(&moved, &pinned()), None);
    assert_eq!(subject_cores(&moved, &Surroundings::default()), None, "its cores were not stated");
    moved.subject.as_mut().unwrap().cpus = vec![0, 1];
    let warning = subject_cores(&moved, &pinned()).unwrap();
    assert_eq!((warning.code, warning.effect()), (Code::SubjectCores, Effect::DownOne));
    assert!(
        warning.advice.contains("said to have core 1, and its threads may run on core 0, 1"),
        "{warning}"
    );
    moved.subject.as_mut().unwrap().cpus = Vec::new();
    assert_eq!(subject_cores(&moved, &pinned()), None, "they could not be read");
}

#[test]
fn a_warm_up_that_still_rises_is_no_steady_state() {
    let bins = |step: u64| -> Vec<Interval> {
        (1..=12).map(|at_s| Interval { at_s, sent: 0, correct: 100_000 + step * at_s }).collect()
    };
    assert_eq!(no_steady_state(&bins(50)), None);
    assert_eq!(no_steady_state(&bins(200)).unwrap().code, Code::NoSteadyState);
    assert_eq!(no_steady_state(&bins(200)[..9]), None, "nine seconds are too short to judge");
}

#[test]
fn advice_names_flags_only_for_commands_that_have_them() {
    let mut bad = trial(100e3, 0);
    bad.players.first.per_thread[0].busy = 0.99;
    bad.players.first.socket_drops = 1;
    bad.lag_us.p99 = Some(500);
    let threads = &mut bad.subject.as_mut().unwrap().threads;
    *threads = vec![thread("worker", 1, 0.9, 0), thread("worker", 2, 0.1, 1)];
    let surroundings = Surroundings { workers: Some(2), ..pinned() };
    let mut warnings = of_trial(&bad, &surroundings);
    warnings.retain(|warning| warning.code != Code::SingleHost);
    warnings.extend([Warning::irregular(1e6, "queries"), player_headroom(2.0).unwrap()]);
    let codes: Vec<&str> = warnings.iter().map(|warning| warning.code.name()).collect();
    let all = ["player-limited", "lagging", "client-drops", "shared-cores", "uneven"];
    assert_eq!(codes, [&all[..], &["irregular", "player-limited"]].concat());
    for warning in warnings {
        assert!(!warning.advice.contains(" -") && !warning.advice.contains("(-"), "{warning}");
        let named = warning.with_flags();
        assert!(named.advice.contains(". See -"), "{named}");
    }
    assert_eq!(Warning::drifted(1e5, "queries").with_flags(), Warning::drifted(1e5, "queries"));
}

#[test]
fn a_warning_is_written_with_its_code_and_advice() {
    let written = serde_json::to_value(Warning::drifted(1e5, "queries")).unwrap();
    assert_eq!(written["code"], "drifted");
    assert_eq!(written["effect"], "down-one");
    assert!(written["advice"].as_str().unwrap().starts_with("At the end of the search 100,000 queries"));
    let read: Warning = serde_json::from_value(written).unwrap();
    assert_eq!(read, Warning::drifted(1e5, "queries"));
}

#[test]
fn what_the_kernel_refused_is_no_want_of_threads() {
    let refused = |errno: &str, count: u64| {
        let mut refused = trial(100e3, 0);
        refused.accounts.sent -= count;
        refused.accounts.correct -= count;
        refused.accounts.send_failed = count;
        refused.send_failed_causes.insert(errno.into(), count);
        refused
    };
    for (errno, wanted) in
        [("ENETUNREACH", "route"), ("EPERM", "nftables"), ("EMSGSIZE", "shorter queries"), ("EAGAIN", "-b")]
    {
        let refused = refused(errno, 10_000);
        assert_eq!(lagging(&refused), None, "{errno}");
        let warning = send_failed(&refused).unwrap();
        assert_eq!(warning.effect(), Effect::RedoThenRefuse);
        let advice = &warning.advice;
        assert!(advice.contains(errno) && advice.contains(wanted) && !advice.contains("threads"), "{advice}");
    }
    let intended = trial(100e3, 0).accounts.intended;
    assert_eq!(send_failed(&refused("EPERM", intended / 400)), None, "0.25 % is allowed");
}

#[test]
fn what_a_full_window_kept_back_is_not_the_players() {
    let mut held = trial(100e3, 0);
    let half = held.accounts.intended / 2;
    held.accounts.sent -= half;
    held.accounts.correct -= half;
    held.accounts.unsent = half;
    assert!(player_limited(&held).is_some() && lagging(&held).is_some(), "a cause is not known");
    for cause in ["window", "connections"] {
        held.unsent_causes = [(cause.to_owned(), half)].into();
        assert_eq!((player_limited(&held), lagging(&held)), (None, None), "{cause}");
    }
}

#[test]
fn replies_that_the_player_dropped_are_reported_beside_the_lost_queries() {
    let mut dropped = trial(100e3, 50);
    dropped.players.first.socket_drops = 30;
    place(&mut dropped, Place::PlayerSocketBuffer, 30);
    assert_eq!(dropped.lost_by_player(), 30);
    let warning = client_drops(&dropped).unwrap();
    assert!(warning.advice.contains("so 30 of the 50 lost queries are the player's own"), "{warning}");
}
