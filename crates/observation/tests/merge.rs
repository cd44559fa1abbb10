//! Merged trials hold what is known without merging: sums, and the histogram of all samples at once.

use std::collections::BTreeMap;

use kqps_observation::merge::{MergeError, Part, ServerFacts, merge};
use kqps_observation::trial::{
    DatasetFacts, Interval, LoadFacts, LoadMode, Mishap, PlayerFacts, ReplyFacts, Transport,
};
use kqps_observation::{
    Accounts, ConnectionFacts, EarlyFacts, Histogram, HostFacts, Ledger, NonEmpty, Replay, StartFacts,
    TlsFacts, Trial,
};

/// Counts by cause that sum to a number.
fn causes(random: &mut fastrand::Rng, names: [&str; 2], sum: u64) -> BTreeMap<String, u64> {
    let first = random.u64(0..=sum);
    let counts = names.into_iter().zip([first, sum - first]);
    counts.filter(|(_, count)| *count > 0).map(|(name, count)| (name.to_owned(), count)).collect()
}

/// Accounts that hold.
fn accounts(random: &mut fastrand::Rng) -> Accounts {
    let [unsent, send_failed, correct, wrong, late, lost, duplicate, unsolicited] =
        std::array::from_fn(|_| random.u64(0..5_000));
    let sent = correct + wrong + late + lost;
    Accounts {
        intended: sent + unsent + send_failed,
        unsent,
        send_failed,
        sent,
        correct,
        wrong,
        late,
        lost,
        truncated: random.u64(0..=correct),
        slipped: 0,
        duplicate,
        unsolicited,
    }
}

/// The samples of a histogram, microseconds.
type Samples = Vec<u64>;

fn histogram(samples: &[u64]) -> Histogram {
    let mut histogram = Histogram::default();
    for sample in samples {
        histogram.record_us(*sample);
    }
    histogram
}

/// A player's record with random counts, and the samples of its latency.
fn played(random: &mut fastrand::Rng) -> (Trial, Samples) {
    let accounts = accounts(random);
    let count = accounts.correct + accounts.late + accounts.lost;
    let samples: Samples = (0..count).map(|_| random.u64(20..2_000_000)).collect();
    let latency = histogram(&samples);
    let lag = histogram(&samples[..samples.len() / 2]);
    let load = LoadFacts {
        mode: LoadMode::Open,
        arrivals: Some("even".into()),
        intended_qps: Some(accounts.intended as f64),
        duration_s: 1.0,
        timeout_s: 1.0,
        correct_in_time: Some(accounts.correct / 2),
        ..LoadFacts::default()
    };
    let trial = Trial {
        target: "192.0.2.1:53".into(),
        dataset: DatasetFacts { hash: "a3".into(), queries: 7, ..DatasetFacts::default() },
        load,
        accounts,
        unsent_causes: causes(random, ["late", "window"], accounts.unsent),
        wrong_causes: causes(random, ["rcode", "short"], accounts.wrong),
        send_failed_causes: causes(random, ["EPERM", "ENOBUFS"], accounts.send_failed),
        lost_causes: causes(random, ["time", "reset"], accounts.lost),
        response_rcodes: causes(random, ["NOERROR", "NXDOMAIN"], accounts.correct),
        request_bytes_mean: Some(random.f64() * 100.0 + 20.0),
        response_bytes_mean: Some(random.f64() * 500.0 + 20.0),
        latency_us: latency.quantiles(),
        lag_us: lag.quantiles(),
        histograms: BTreeMap::from([
            ("latency".into(), latency.encode()),
            ("lag".into(), lag.encode()),
            ("gap".into(), Histogram::default().encode()),
        ]),
        players: NonEmpty::one(PlayerFacts { socket_drops: 3, ..PlayerFacts::default() }),
        hosts: NonEmpty::one(HostFacts::default()),
        intervals: vec![Interval { at_s: 1, sent: accounts.sent, correct: accounts.correct }],
        sent_per_100ms: vec![accounts.sent],
        mishaps: vec![Mishap { at_10ms: 3, intended: 9, bad: 2, lag_us: 5 }],
        late_start_ns: Some(random.u64(0..50_000)),
        ..Trial::default()
    };
    (trial, samples)
}

fn part(host: &str, trial: Trial) -> Part {
    Part { host: host.into(), trial, start: StartFacts::default() }
}

fn no_ledger(_: &Trial) -> Ledger {
    Ledger::default()
}

fn merged(parts: Vec<Part>) -> Trial {
    merge(parts, None, no_ledger).unwrap()
}

fn total(counts: &BTreeMap<String, u64>) -> u64 {
    counts.values().sum()
}

#[test]
fn the_sum_of_random_trials_is_exact() {
    for seed in 0..20 {
        let mut random = fastrand::Rng::with_seed(seed);
        let players: Vec<(Trial, Samples)> = (0..2 + seed % 3).map(|_| played(&mut random)).collect();
        let parts = players.iter().map(|(trial, _)| part("p", trial.clone())).collect();
        let sum = merged(parts);
        sum.accounts.check().unwrap();
        for (index, count) in sum.accounts.to_array().into_iter().enumerate() {
            let of_all: u64 = players.iter().map(|(trial, _)| trial.accounts.to_array()[index]).sum();
            assert_eq!(count, of_all, "account {index}, seed {seed}");
        }
        let counts: [fn(&Trial) -> u64; 4] = [
            |trial| trial.sent_per_100ms.iter().sum(),
            |trial| trial.intervals.iter().map(|second| second.correct).sum(),
            |trial| trial.load.correct_in_time.unwrap(),
            |trial| trial.player_socket_drops(),
        ];
        for (index, count) in counts.into_iter().enumerate() {
            let of_all: u64 = players.iter().map(|(trial, _)| count(trial)).sum();
            assert_eq!(count(&sum), of_all, "count {index}, seed {seed}");
        }
        // Causes sum to their accounts, as in each player's record.
        assert_eq!(total(&sum.unsent_causes), sum.accounts.unsent);
        assert_eq!(total(&sum.wrong_causes), sum.accounts.wrong);
        assert_eq!(total(&sum.send_failed_causes), sum.accounts.send_failed);
        assert_eq!(total(&sum.lost_causes), sum.accounts.lost);
        assert_eq!(total(&sum.response_rcodes), sum.accounts.correct);
        let rates = players.iter().map(|(trial, _)| trial.load.intended_qps.unwrap()).sum::<f64>();
        assert!((sum.load.intended_qps.unwrap() - rates).abs() < 1e-6);
        assert!((sum.load.offered_qps - sum.accounts.sent as f64).abs() < 1e-6, "in one second");
        // Every player's part is there as it was.
        let parts: Vec<Accounts> = sum.parts.iter().map(|part| part.accounts).collect();
        assert_eq!(parts, players.iter().map(|(trial, _)| trial.accounts).collect::<Vec<_>>());
        assert_eq!(sum.late_start_ns, players.iter().filter_map(|(trial, _)| trial.late_start_ns).max());
    }
}

#[test]
fn the_histograms_of_parts_are_the_histogram_of_the_whole() {
    let mut random = fastrand::Rng::with_seed(7);
    let players: Vec<(Trial, Samples)> = (0..3).map(|_| played(&mut random)).collect();
    let sum = merged(players.iter().map(|(trial, _)| part("p", trial.clone())).collect());
    let all: Samples = players.iter().flat_map(|(_, samples)| samples.iter().copied()).collect();
    let whole = histogram(&all);
    assert_eq!(sum.latency_us, whole.quantiles());
    let stored = Histogram::decode(&sum.histograms["latency"]).unwrap();
    assert_eq!((stored.len(), stored.quantiles()), (whole.len(), whole.quantiles()));
    // The median of one slow player and one fast one is not the mean of their medians.
    let player = |time_us: u64, count: u64| {
        let latency = histogram(&vec![time_us; count as usize]);
        let mut trial = played(&mut fastrand::Rng::with_seed(1)).0;
        trial.latency_us = latency.quantiles();
        trial.histograms.insert("latency".into(), latency.encode());
        trial
    };
    let sum = merged(vec![part("slow", player(1_000, 1_000)), part("fast", player(10, 3_000))]);
    assert_eq!(sum.latency_us.p50, Some(10));
}

/// The sample standard deviation of 1, 3 and 8 is the root of 13.
#[test]
fn replies_of_all_players_are_one_sample() {
    let with = |replies: ReplyFacts| part("p", Trial { replies: Some(replies), ..Trial::default() });
    let one = ReplyFacts {
        count: 2,
        bytes_mean: Some(30.0),
        mean_us: Some(2.0),
        min_us: Some(1),
        max_us: Some(3),
        last_s: Some(0.5),
        stddev_us: Some(2.0_f64.sqrt()),
    };
    let other = ReplyFacts {
        count: 1,
        bytes_mean: Some(60.0),
        mean_us: Some(8.0),
        min_us: Some(8),
        max_us: Some(8),
        last_s: Some(0.7),
        stddev_us: None,
    };
    let all = merged(vec![with(one), with(ReplyFacts::default()), with(other)]).replies.unwrap();
    assert_eq!((all.count, all.min_us, all.max_us, all.last_s), (3, Some(1), Some(8), Some(0.7)));
    assert_eq!((all.bytes_mean, all.mean_us), (Some(40.0), Some(4.0)));
    assert!((all.stddev_us.unwrap() - 13.0_f64.sqrt()).abs() < 1e-9, "{all:?}");
    let older = merged(vec![with(one), part("p", Trial::default())]);
    assert_eq!(older.replies, None, "one player's record has none");
}

#[test]
fn connections_of_all_players_are_added() {
    let with = |established: u64, kind: &str| {
        let (mut trial, _) = played(&mut fastrand::Rng::with_seed(established));
        let counts = |name: &str, count| BTreeMap::from([(name.to_owned(), count)]);
        let early = EarlyFacts {
            offered: established + 1,
            rejected: established,
            undecided: 1,
            queries: 9,
            ..EarlyFacts::default()
        };
        let handshakes = counts(kind, established);
        let tls = TlsFacts { handshakes, early: Some(early), ..TlsFacts::default() };
        trial.connections = Some(ConnectionFacts {
            attempts: established + 2,
            established,
            failed: counts("refused", 2),
            open: established,
            handed: trial.accounts.sent,
            tls: Some(tls),
            ..ConnectionFacts::default()
        });
        trial.histograms.insert("connect".into(), histogram(&vec![50; 200]).encode());
        trial.transport = Transport::Tls;
        trial
    };
    let sum = merged(vec![part("a", with(5, "full")), part("b", with(7, "resumed"))]);
    let connections = sum.connections.as_ref().unwrap();
    connections.check(sum.sent_on_connections()).unwrap();
    assert_eq!((connections.attempts, connections.failed["refused"]), (16, 4));
    let handshakes = BTreeMap::from([("full".to_owned(), 5), ("resumed".to_owned(), 7)]);
    assert_eq!(connections.tls.as_ref().unwrap().handshakes, handshakes);
    let early = EarlyFacts { offered: 14, rejected: 12, undecided: 2, queries: 18, ..EarlyFacts::default() };
    assert_eq!(connections.early_data(), Some(early));
    assert_eq!(connections.connect_us.p50, Some(50));
}

#[test]
fn bins_are_added_by_when_the_players_truly_began() {
    let begun = |at_ms: u64, offset_s: i64| {
        let (mut trial, _) = played(&mut fastrand::Rng::with_seed(3));
        trial.started_monotonic_ns = at_ms * 1_000_000;
        trial.load.duration_s = 10.0;
        let start = StartFacts {
            offset_ns: offset_s * 1_000_000_000,
            uncertainty_ns: 20_000,
            ..StartFacts::default()
        };
        Part { host: "p".into(), trial, start }
    };
    // The second began 200 ms later, on a clock that is 60 s ahead.
    let sum = merged(vec![begun(5_000, 0), begun(65_200, 60)]);
    let sent = sum.parts[0].accounts.sent;
    assert_eq!(sum.sent_per_100ms, [sent, 0, sent]);
    assert_eq!(sum.mishaps.iter().map(|mishap| mishap.at_10ms).collect::<Vec<_>>(), [3, 23]);
    assert_eq!(sum.started_monotonic_ns, 5_000_000_000);
    assert!((sum.start_skew_us.unwrap() - 200_040.0).abs() < 1e-6);
}

#[test]
fn players_and_hosts_are_listed_and_the_subjects_host_is_the_last() {
    let on = |boot: &str| {
        let (mut trial, _) = played(&mut fastrand::Rng::with_seed(2));
        trial.hosts.first.boot_id = Some(boot.into());
        part(boot, trial)
    };
    let host = HostFacts { boot_id: Some("s".into()), ..HostFacts::default() };
    let server = ServerFacts { host, ..ServerFacts::default() };
    let ledger =
        |trial: &Trial| Ledger { unexplained: trial.accounts.sent.cast_signed(), ..Ledger::default() };
    let sum = merge(vec![on("a"), on("b")], Some(server), ledger).unwrap();
    assert_eq!(sum.ledger.unexplained, sum.accounts.sent.cast_signed(), "it is that of the merged trial");
    let boots: Vec<&str> = sum.hosts.iter().filter_map(|host| host.boot_id.as_deref()).collect();
    assert_eq!((boots, sum.players.iter().count()), (vec!["a", "b", "s"], 2));
    assert_eq!(sum.subject_host().unwrap().boot_id.as_deref(), Some("s"));
    assert!(!sum.is_beside_subject(0) && !sum.is_beside_subject(1));
    assert_eq!(
        sum.parts.iter().map(|part| (&*part.host, part.player)).collect::<Vec<_>>(),
        [("a", 0), ("b", 1)]
    );
    let unwatched = merged(vec![on("a"), on("b")]);
    assert!(unwatched.subject_host().is_none() && unwatched.is_beside_subject(0), "it may be on any machine");
    let one = merged(vec![on("a")]);
    assert_eq!((one.parts.len(), one.start_skew_us), (1, None));
}

#[test]
fn records_that_are_not_of_one_trial_name_their_host() {
    let good = || played(&mut fastrand::Rng::with_seed(4)).0;
    let error = |change: fn(&mut Trial)| {
        let mut bad = good();
        change(&mut bad);
        merge(vec![part("p1", good()), part("p2", bad)], None, no_ledger).unwrap_err()
    };
    assert_eq!(merge(Vec::new(), None, no_ledger).unwrap_err(), MergeError::Nothing);
    let says = |change: fn(&mut Trial), words: &[&str]| {
        let said = error(change).to_string();
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
    };
    says(|trial| trial.dataset.hash = "b4".into(), &["p2 and p1", "the hash of the queries was b4 and a3"]);
    says(|trial| trial.target = "192.0.2.9:53".into(), &["the target was 192.0.2.9:53"]);
    says(|trial| trial.accounts.lost += 1, &["the record of p2", "please report it"]);
    says(|trial| drop(trial.histograms.remove("lag")), &["p2", "`lag`"]);
    says(|trial| drop(trial.histograms.insert("latency".into(), "nonsense".into())), &["p2", "`latency`"]);
    says(|trial| trial.players.others.push(PlayerFacts::default()), &["p2", "2 players and 1 hosts"]);
    says(|trial| trial.replay = Some(Replay::default()), &["2 players cannot share a replay"]);
    let much = |trial: &mut Trial| {
        trial.accounts = Accounts { intended: u64::MAX, unsent: u64::MAX, ..Accounts::default() };
    };
    assert_eq!(error(much), MergeError::TooLarge { host: "p2".into() });
}
