//! Findings of whole runs: which factors vary, and which figure is compared. The runs are written with known figures.

use std::collections::BTreeMap;

use kqps_observation::question::{Experiment, Factor, Figure, Question, Table};
use kqps_observation::run::{CellLoad, Outcome as Recorded, Purpose};
use kqps_observation::trial::LoadMode;
use kqps_observation::{
    Accounts, Cell, ConnectionFacts, Factors, Histogram, Run, RunTrial, SubjectFacts, Trial,
};
use kqps_verdict::finding::{Finding, Outcome, Quantity};
use kqps_verdict::judge::judge;

const BLOCKS: u32 = 6;
const MIB: u64 = 1 << 20;

/// The factors, cores and figures of a cell.
#[derive(Clone, Default)]
struct Made {
    factors: &'static [(&'static str, &'static str)],
    cores: Vec<u32>,
    rate_qps: f64,
    rss_bytes: u64,
    pss_bytes: Option<u64>,
    /// Every answer takes so long at the cell's rate, and so long at twice that rate, which the cell cannot answer. 0: that
    /// rate is not played.
    latency_us: u64,
    beyond_us: u64,
    open: u64,
    ready_s: f64,
    /// The loads that a search tried, and whether each met the goal.
    tried: &'static [(f64, bool)],
}

impl Made {
    fn at(factors: &'static [(&'static str, &'static str)], rate_qps: f64) -> Self {
        Self { factors, rate_qps, cores: vec![1], rss_bytes: 50 * MIB, ready_s: 1.0, ..Self::default() }
    }

    fn trials(&self, load: &CellLoad, block: u32) -> Vec<(Purpose, Trial)> {
        if !self.tried.is_empty() {
            return self
                .tried
                .iter()
                .map(|(qps, is_met)| (Purpose::Search, self.sought(*qps, *is_met)))
                .collect();
        }
        let (purpose, mut within) = self.trial(load, block);
        let with_latency = |trial: &mut Trial, us: u64| {
            let mut latency = Histogram::default();
            latency.record_many_us(us, 20_000);
            trial.histograms.insert("latency".into(), latency.encode());
            trial.latency_us = latency.quantiles();
        };
        if self.latency_us > 0 {
            with_latency(&mut within, self.latency_us);
        }
        if self.beyond_us == 0 {
            return vec![(purpose, within)];
        }
        let mut beyond = within.clone();
        beyond.accounts.intended *= 2;
        beyond.accounts.sent *= 2;
        beyond.accounts.lost = beyond.accounts.correct;
        beyond.load.intended_qps = Some(self.rate_qps * 2.0);
        beyond.load.offered_qps = self.rate_qps * 2.0;
        with_latency(&mut beyond, self.beyond_us);
        vec![(purpose, within), (purpose, beyond)]
    }

    fn sought(&self, rate_qps: f64, is_met: bool) -> Trial {
        let (_, mut trial) = Self { rate_qps, ..self.clone() }.trial(&CellLoad::Search, 0);
        trial.accounts.lost = if is_met { 0 } else { trial.accounts.sent / 10 };
        trial.accounts.correct -= trial.accounts.lost;
        trial
    }

    fn trial(&self, load: &CellLoad, block: u32) -> (Purpose, Trial) {
        // Starts scatter by ±0.2 %.
        let spread = 1.0 + 0.001 * (f64::from(block) - 2.5) * 0.8;
        let is_closed = matches!(load, CellLoad::Closed(_));
        let rate_qps = if is_closed { self.rate_qps * spread } else { self.rate_qps };
        let count = rate_qps as u64;
        let mut trial = Trial {
            accounts: Accounts { intended: count, sent: count, correct: count, ..Accounts::default() },
            subject: Some(SubjectFacts {
                rss_bytes: (self.rss_bytes as f64 * spread) as u64,
                pss_bytes: self.pss_bytes,
                ready_s: Some(self.ready_s * spread),
                cpu_user_s: 0.5,
                ..SubjectFacts::default()
            }),
            connections: Some(ConnectionFacts { open: self.open, ..ConnectionFacts::default() }),
            ..Trial::default()
        };
        trial.load.mode = if is_closed { LoadMode::Closed } else { LoadMode::Open };
        trial.load.intended_qps = Some(rate_qps).filter(|_| !is_closed);
        (trial.load.offered_qps, trial.load.answered_qps, trial.load.duration_s) = (rate_qps, rate_qps, 1.0);
        trial.latency_us.p50 = Some(80);
        trial.latency_us.mean = Some(100.0 * spread);
        (if is_closed { Purpose::Closed } else { Purpose::Rate }, trial)
    }
}

/// The finding of an experiment with these cells, which lists these factors and shows these figures.
fn finding(listed: &[&str], show: &[Figure], load: &CellLoad, made: &[Made]) -> Finding {
    let found = judge(&run(listed, show, load, made)).findings.remove(0);
    assert_eq!((found.experiment.as_str(), &found.sentence), ("e", &found.finding.to_string()));
    found.finding
}

/// A run with one experiment.
fn run(listed: &[&str], show: &[Figure], load: &CellLoad, made: &[Made]) -> Run {
    let words = |made: &Made| -> BTreeMap<String, String> {
        made.factors.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    let factor = |name: &&str| Factor { name: (*name).to_owned(), ..Factor::default() };
    let experiment = Experiment {
        name: "e".into(),
        factors: listed.iter().map(factor).collect(),
        tables: vec![Table { show: show.to_vec(), ..Table::default() }],
        ..Experiment::default()
    };
    let cell = |(index, made): (usize, &Made)| Cell {
        name: format!("cell {index}"),
        experiment: "e".into(),
        subject: "echo".into(),
        io: words(made).get("io").cloned().unwrap_or_default(),
        workers: words(made).get("workers").map_or(1, |workers| workers.parse().unwrap()),
        load: load.clone(),
        player_cpus: vec![0],
        subject_cpus: made.cores.clone(),
        factors: Factors::read(words(made)).unwrap(),
        ..Cell::default()
    };
    let mut run = Run {
        goal: "quick".into(),
        question: Some(Question { experiments: vec![experiment], ..Question::default() }),
        cells: made.iter().enumerate().map(cell).collect(),
        ..Run::default()
    };
    for block in 0..BLOCKS {
        for (cell, made) in (0..).zip(made) {
            let start = run.trials.len() as u64 + 1;
            for (purpose, trial) in made.trials(load, block) {
                let number = run.trials.len() as u64 + 1;
                let outcome = Recorded::Measured(Box::new(trial));
                run.trials.push(RunTrial { number, cell, block, start, purpose, outcome });
            }
        }
    }
    run
}

const CLOSED: CellLoad = CellLoad::Closed(1.0);

/// Every number of workers has cores of its own, so no cell shows which of both mattered.
#[test]
fn factors_that_always_change_together_are_one() {
    let made = [(&[("workers", "1")][..], 1), (&[("workers", "2")], 2), (&[("workers", "4")], 4)].map(
        |(factors, workers)| Made {
            cores: (1..=workers).collect(),
            ..Made::at(factors, 1e5 * f64::from(workers))
        },
    );
    let found = finding(&["workers"], &[Figure::Median], &CLOSED, &made);
    assert_eq!((found.quantity, found.factors.as_slice()), (Quantity::Rate, &["workers".to_owned()][..]));
    assert_eq!(one_of(&found).changes_with, ["cores"]);
    let said = found.to_string().replace('\u{a0}', " ");
    assert!(
        said.starts_with("workers mattered: with workers 4 the rate is 4.00 times that with workers 1 "),
        "{said}"
    );
    assert!(said.ends_with(" cores changes with workers: the difference includes its effect."), "{said}");
    // With the same cores in all cells, the workers stand alone.
    let made = made.map(|made| Made { cores: vec![1, 2, 3, 4], ..made });
    let found = finding(&["workers"], &[Figure::Median], &CLOSED, &made);
    assert_eq!(
        (found.factors.as_slice(), one_of(&found).changes_with.len()),
        (&["workers".to_owned()][..], 0)
    );
    assert!(!found.to_string().contains("cores"), "{found}");
}

/// The settings of a bundle take fewer values than the bundle, so none of them alone names each of its values.
#[test]
fn a_bundle_is_compared_by_its_name_and_its_settings_are_listed() {
    let set = |way, transport, connections, window, rate_qps| {
        let factors: &[(&str, &str)] = Box::leak(Box::new([
            ("way", way),
            ("player.transport", transport),
            ("player.connections", connections),
            ("player.window", window),
        ]));
        Made::at(factors, rate_qps)
    };
    let made = [
        set("TCP, kept", "tcp", "64", "9", 100e3),
        set("TCP, new", "tcp", "500", "9", 10e3),
        set("TLS, kept", "tls", "64", "9", 80e3),
        set("TLS, new", "tls", "500", "9", 1e3),
    ];
    let found = finding(&["way"], &[Figure::Median], &CLOSED, &made);
    assert_eq!(found.factors, ["way"]);
    assert_eq!(one_of(&found).changes_with, ["player.connections", "player.transport"]);
    let said = found.to_string().replace('\u{a0}', " ");
    let first =
        r#"way mattered: with way "TCP, kept" the rate is 100 times that with way "TLS, new" (95 %: "#;
    assert!(said.starts_with(first), "{said}");
    let last = ", one pair of cells). player.connections and player.transport change with way: the difference includes their effect.";
    assert!(said.ends_with(last), "{said}");
    // Settings that the study lists beside the bundle are factors of their own.
    let found = finding(&["way", "player.transport"], &[Figure::Median], &CLOSED, &made);
    assert_eq!(found.factors, ["way", "player.transport"]);
    assert_eq!(found.unpaired, ["player.transport"]);
}

/// A setting that one of three transports has not does not keep the others apart.
#[test]
fn a_setting_that_follows_from_a_listed_factor_is_none_of_its_own() {
    let made = [
        Made::at(&[("player.transport", "udp"), ("player.sockets", "8")], 300e3),
        Made::at(&[("player.transport", "tcp"), ("player.connections", "64")], 100e3),
        Made::at(&[("player.transport", "tls"), ("player.connections", "64")], 80e3),
    ];
    let found = finding(&["player.transport"], &[Figure::Median], &CLOSED, &made);
    let Outcome::Mattered { most, .. } = &found.outcome else { panic!("{found:?}") };
    assert_eq!((most.greater.as_str(), most.lesser.as_str()), ("udp", "tls"));
    assert_eq!(most.changes_with, ["player.connections", "player.sockets"]);
    let said = found.to_string();
    assert!(
        said.ends_with(
            " player.connections and player.sockets change with player.transport: the difference includes their effect."
        ),
        "{said}"
    );
    // TCP and TLS have the same connections, so nothing else differs between them.
    let found = finding(&["player.transport"], &[Figure::Median], &CLOSED, &made[1..]);
    assert!(one_of(&found).changes_with.is_empty() && !found.to_string().contains("change"), "{found}");
    let slow = Made { rate_qps: 1e3, ..made[0].clone() };
    let found =
        finding(&["player.transport"], &[Figure::Median], &CLOSED, &[slow, made[1].clone(), made[2].clone()]);
    assert_eq!((one_of(&found).greater.as_str(), one_of(&found).lesser.as_str()), ("tcp", "udp"));
}

#[test]
fn servers_are_named_without_the_word_subject_and_great_differences_are_factors() {
    let made = [Made::at(&[("subject", "knot")], 2_270e3), Made::at(&[("subject", "nsd")], 28.5e3)];
    let found = finding(&["subject"], &[Figure::Median], &CLOSED, &made);
    let said = found.to_string().replace('\u{a0}', " ");
    assert!(
        said.starts_with("subject mattered: with knot the rate is 79.6 times that with nsd (95 %: 79."),
        "{said}"
    );
    assert!(said.contains(" times, one pair of cells)."), "{said}");
}

#[test]
fn cells_that_differ_in_two_factors_are_no_pair() {
    // z differs from both others in io and in workers; x and y differ in io alone.
    let made = [
        Made::at(&[("io", "mmsg"), ("workers", "1")], 100e3),
        Made::at(&[("io", "uring"), ("workers", "1")], 120e3),
        Made::at(&[("io", "poll"), ("workers", "2")], 300e3),
    ];
    let found = finding(&["io", "workers"], &[Figure::Median], &CLOSED, &made);
    assert_eq!(found.factors, ["io", "workers"]);
    let Outcome::Mattered { most, others, .. } = &found.outcome else { panic!("{found:?}") };
    assert_eq!((most.factor.as_str(), most.greater.as_str(), most.lesser.as_str()), ("io", "uring", "mmsg"));
    assert!((most.ratio - 1.2).abs() < 1e-3 && others.is_empty(), "{found:?}");
    assert!(!found.to_string().contains("poll"), "{found}");
    // Nothing is known of the workers, and the sentence does not say that they did nothing.
    assert_eq!(found.unpaired, ["workers"]);
    let said = found.to_string();
    assert!(said.starts_with("io mattered: with io uring "), "{said}");
    assert!(
        said.ends_with(" workers was not judged: no two cells with a number differ in it alone."),
        "{said}"
    );
    // Without y, io and workers always change together.
    let two = [made[0].clone(), made[2].clone()];
    let found = finding(&["io", "workers"], &[Figure::Median], &CLOSED, &two);
    assert_eq!(found.factors, ["io"]);
    assert!(
        found.to_string().ends_with(" workers changes with io: the difference includes its effect."),
        "two cells cannot show which of both mattered: {found}"
    );
    // Only uring and poll of these three differ in io alone.
    let three = [
        Made::at(&[("io", "mmsg"), ("workers", "1")], 100e3),
        Made::at(&[("io", "uring"), ("workers", "2")], 120e3),
        Made::at(&[("io", "poll"), ("workers", "2")], 300e3),
    ];
    let found = finding(&["io", "workers"], &[Figure::Median], &CLOSED, &three);
    let Outcome::Mattered { most, .. } = &found.outcome else { panic!("{found:?}") };
    assert_eq!((most.greater.as_str(), most.lesser.as_str(), most.pairs), ("poll", "uring", 1));
}

/// The contrast of a finding without an interval, or of one that claims something.
fn one_of(found: &Finding) -> kqps_verdict::finding::Contrast {
    match &found.outcome {
        Outcome::NoInterval(one) | Outcome::None(one) | Outcome::Mattered { most: one, .. } => one.clone(),
        other => panic!("{other:?}"),
    }
}

/// A factor that no cell names, but that all cells have in common, is none.
#[test]
fn a_factor_with_one_value_is_not_named() {
    let made = [
        Made::at(&[("io", "mmsg"), ("player.sockets", "8")], 100e3),
        Made::at(&[("io", "uring"), ("player.sockets", "8")], 120e3),
    ];
    let found = finding(&["io", "player.sockets"], &[Figure::Median], &CLOSED, &made);
    assert_eq!(found.factors, ["io"]);
}

/// The second cell held little more than half of its rate: at more it missed the goal three times in five.
#[test]
fn rates_of_searches_are_compared_as_the_tables_show_them() {
    let tried = |factors, loads: &'static [(f64, bool)]| Made { tried: loads, ..Made::at(factors, 0.0) };
    let made = [
        tried(&[("io", "mmsg")], &[(190e3, true), (190e3, true), (210e3, false), (210e3, false)]),
        tried(
            &[("io", "uring")],
            &[
                (50e3, true),
                (50e3, true),
                (90e3, false),
                (90e3, true),
                (90e3, false),
                (90e3, true),
                (90e3, false),
            ],
        ),
    ];
    let run = run(&["io"], &[Figure::Median], &CellLoad::Search, &made);
    let verdict = judge(&run);
    let figures: Vec<f64> = verdict.subjects.iter().map(|cell| cell.figure_qps.unwrap().median).collect();
    let held =
        |cell: usize| verdict.subjects[cell].starts[0].bounds.as_ref().unwrap().throughput_qps.unwrap();
    assert!(held(0) / held(1) > 1.2 * figures[0] / figures[1], "{} {} {figures:?}", held(0), held(1));
    let one = one_of(&verdict.findings[0].finding);
    assert!((one.ratio / (figures[0] / figures[1]) - 1.0).abs() < 0.02, "{one:?} {figures:?}");
}

/// At a load that the study chose, the tables' first figure is compared.
#[test]
fn the_figure_that_the_tables_show_is_compared() {
    let chosen = CellLoad::Rates { rates_qps: vec![100.0], duration_s: 1.0 };
    let made = [("mmsg", 50, 1.0), ("uring", 100, 3.0)].map(|(io, mib, ready_s)| {
        let factors: &[(&str, &str)] = if io == "mmsg" { &[("io", "mmsg")] } else { &[("io", "uring")] };
        Made { rss_bytes: mib * MIB, ready_s, latency_us: 100, ..Made::at(factors, 100.0) }
    });
    let of = |show: &[Figure]| {
        let found = finding(&["io"], show, &chosen, &made);
        (found.quantity, one_of(&found).ratio, one_of(&found).greater)
    };
    for (show, quantity, ratio) in [
        (&[Figure::Memory, Figure::LatencyMean][..], Quantity::Memory, 2.0),
        (&[Figure::Median, Figure::LoadTime], Quantity::LoadTime, 3.0),
    ] {
        let (found, by, greater) = of(show);
        assert!(found == quantity && (by - ratio).abs() < 1e-3 && greater == "uring", "{found:?} {by}");
    }
    assert_eq!(of(&[Figure::LatencyMean]).0, Quantity::LatencyMean);
    assert_eq!(of(&[Figure::Median]).0, Quantity::Latency, "the rate was chosen");
    let closed = |show: &[Figure]| finding(&["io"], show, &CLOSED, &made).quantity;
    assert_eq!((closed(&[Figure::Median, Figure::Memory]), closed(&[])), (Quantity::Rate, Quantity::Rate));
}

/// A connection takes 10 kB over TCP and 40 kB over TLS, beyond what one connection needs.
#[test]
fn the_memory_of_a_connection_is_compared_beyond_that_of_the_fewest() {
    let chosen = CellLoad::Rates { rates_qps: vec![100.0], duration_s: 1.0 };
    let cell = |factors, open: u64, bytes: u64| Made {
        open,
        rss_bytes: 50 * MIB + (open - 1) * bytes,
        ..Made::at(factors, 100.0)
    };
    let made = [
        cell(&[("player.transport", "tcp"), ("player.connections", "1")], 1, 10_000),
        cell(&[("player.transport", "tcp"), ("player.connections", "50000")], 50_000, 10_000),
        cell(&[("player.transport", "tls"), ("player.connections", "1")], 1, 40_000),
        cell(&[("player.transport", "tls"), ("player.connections", "50000")], 50_000, 40_000),
    ];
    let factors = ["player.transport", "player.connections"];
    let found = finding(&factors, &[Figure::MemoryPerConnection, Figure::Memory], &chosen, &made);
    assert_eq!(
        (found.quantity, found.cells, found.without),
        (Quantity::MemoryPerConnection, 2, 0),
        "{found:?}"
    );
    let Outcome::Mattered { most, .. } = &found.outcome else { panic!("{found:?}") };
    assert_eq!((most.factor.as_str(), most.greater.as_str()), ("player.transport", "tls"));
    assert!((most.ratio - 4.0).abs() < 0.05, "{most:?}");
    assert!(found.to_string().contains("the memory per connection is 4.00 times"), "{found}");
    // A single number of connections is left, so it was not tested, and the sentence does not say that it did nothing.
    assert_eq!(found.factors, ["player.transport"]);
    assert!(found.to_string().ends_with(", one pair of cells)."), "{found}");
    // A connection that takes less than the base scatters looks the same as none.
    let mut made = made;
    made[1].rss_bytes = made[0].rss_bytes - MIB;
    let found = finding(&factors, &[Figure::MemoryPerConnection], &chosen, &made);
    assert_eq!((found.outcome.clone(), found.cells, found.without), (Outcome::NoPair, 2, 1), "{found:?}");
}

/// The cells with the shorter latency at their own rate have the longer one beyond it, as a search plays it, too.
#[test]
fn latency_is_compared_at_the_rate_of_the_cell_as_the_tables_show_it() {
    let made = |beyond: [u64; 2]| {
        [
            Made { latency_us: 100, beyond_us: beyond[0], ..Made::at(&[("io", "mmsg")], 100e3) },
            Made { latency_us: 200, beyond_us: beyond[1], ..Made::at(&[("io", "uring")], 100e3) },
        ]
    };
    let rates = CellLoad::Rates { rates_qps: vec![100e3, 200e3], duration_s: 1.0 };
    for (load, beyond) in [(&rates, [900, 300]), (&CLOSED, [0, 0])] {
        for figure in [Figure::LatencyMean, Figure::LatencyP99] {
            let found = finding(&["io"], &[figure], load, &made(beyond));
            let one = one_of(&found);
            assert_eq!((found.without, one.greater.as_str()), (0, "uring"), "{found:?}");
            assert!((one.ratio - 2.0).abs() < 1e-3, "{found:?}");
            assert!(found.to_string().contains(" Each cell is at its own rate."), "{found}");
        }
    }
    let chosen = CellLoad::Rates { rates_qps: vec![100e3], duration_s: 1.0 };
    let found = finding(&["io"], &[Figure::LatencyMean], &chosen, &made([0, 0]));
    assert!((one_of(&found).ratio - 2.0).abs() < 1e-3, "{found:?}");
    assert!(!found.to_string().contains("own rate"), "{found}");
}

/// PSS of one cell beside RSS of the other would be a difference that is none.
#[test]
fn memory_is_of_one_kind_in_all_cells() {
    let made = [Some(20 * MIB), None].map(|pss_bytes| Made {
        pss_bytes,
        ..Made::at(if pss_bytes.is_some() { &[("io", "mmsg")] } else { &[("io", "uring")] }, 100e3)
    });
    let ratio = |made: &[Made]| one_of(&finding(&["io"], &[Figure::Memory], &CLOSED, made)).ratio;
    assert!((ratio(&made) - 1.0).abs() < 1e-3, "both have 50 MiB of RSS");
    let both = made.map(|made| Made { pss_bytes: Some(made.pss_bytes.unwrap_or(40 * MIB)), ..made });
    assert!((ratio(&both) - 2.0).abs() < 1e-3, "20 and 40 MiB of PSS");
}
