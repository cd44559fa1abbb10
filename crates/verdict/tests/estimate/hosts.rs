//! Whole runs on simulated hosts with changing speed, as the default run of two minutes makes them. Every trial
//! is a record, and the code of real runs searches, refines, leaves out, estimates and judges. The truth, a subject's
//! share of the echo, is known, and the interval must hold it as often as it claims, or the verdict must refuse the figure.

use fastrand::Rng;
use kqps_observation::run::{Outcome, Purpose, Role};
use kqps_observation::{Cell, Run, RunTrial, Trial};
use kqps_verdict::estimate::{Speed, load_beside, of_cell, of_search};
use kqps_verdict::evidence::{counted, counted_at_last};
use kqps_verdict::interval::Interval;
use kqps_verdict::judge::judge_figures;
use kqps_verdict::search::{Goal, Next, Preset, Probe, Start, bounds_found, next_trial};

use super::host::{Host, Kind, normal};
use super::played::Stage;

/// How long the servers of each block take turns in the default run of two minutes, seconds: the part of its
/// budget for the turns of two blocks with ten echoes and three searches (`crates/lab/src/budget/cost.rs`),
/// about 14 rounds in each.
const BLOCKS_S: [f64; 2] = [41.0, 37.0];

/// Servers that take a turn in a round: a subject and its echo, two more subjects, and their echo.
const SERVERS: usize = 5;

/// Seconds of an echo's first trial, of its other trials, and of trials of the other servers.
const CEILING_S: f64 = 0.5;
const BESIDE_OTHERS_S: f64 = 0.1;

/// Seconds from the begin of a block until all of its servers have started and warmed up.
const START_S: f64 = 5.0;

/// The range in which starts of one server scatter, as the standard deviation of logarithms; 1 % in most.
const STARTS_SCATTER: (f64, f64) = (0.005, 0.02);

/// The rate of the echo at the fast speed, queries a second.
const ECHO_QPS: f64 = 400_000.0;

/// The rate of the player without a server, queries a second.
const PLAYER_QPS: f64 = 2e6;

const SUBJECT: usize = 0;
const ECHO: usize = 1;
const PLAYER: usize = 2;

struct Running {
    stage: Stage,
    goal: Goal,
    run: Run,
}

struct Block {
    number: u32,
    /// The rate of this start of the subject and of the echo at the fast speed, queries a second.
    subject_qps: f64,
    echo_qps: f64,
    /// Where its search begins.
    start: Start,
}

/// A wanted trial: the load (`None` for a closed loop), its seconds, its purpose.
type NextTrial = (Option<f64>, f64, Purpose);

impl Running {
    fn new(mut rng: Rng, kind: Kind) -> Self {
        let host = Host::new(&mut rng, kind);
        let cell = |role, name: &str| Cell {
            role,
            name: name.into(),
            workers: 1,
            player_cpus: vec![0],
            subject_cpus: vec![1],
            ..Cell::default()
        };
        let cells = vec![
            cell(Role::Subject, "subject"),
            cell(Role::EchoCeiling, "echo"),
            cell(Role::PlayerCeiling, "player"),
        ];
        let goal = Preset::Quick.goal().name;
        let run = Run { goal, cells, blocks: BLOCKS_S.len() as u32, ..Run::default() };
        Self { stage: Stage::new(rng, host, 5.0), goal: Preset::Quick.goal(), run }
    }

    fn trials(&self, cell: usize, block: u32) -> Vec<(Purpose, &Trial)> {
        let of_block = self.run.trials_of(cell).filter(|one| one.block == block);
        of_block.filter_map(|one| Some((one.purpose, one.measured()?))).collect()
    }

    fn play(&mut self, cell: usize, block: &Block, (load_qps, duration_s, purpose): NextTrial) {
        let capacity_qps = [block.subject_qps, block.echo_qps, PLAYER_QPS][cell];
        let trial = self.stage.play(capacity_qps, load_qps, duration_s);
        let start = u64::from(block.number) * self.run.cells.len() as u64 + cell as u64 + 1;
        self.run.trials.push(RunTrial {
            number: self.run.trials.len() as u64 + 1,
            cell: cell as u32,
            block: block.number,
            start,
            purpose,
            outcome: Outcome::Measured(Box::new(trial)),
        });
    }

    /// The next trial: what the search asks for after the trials that count, as in the lab; once it is over, a
    /// load that refines the estimate.
    fn wanted(&self, block: &Block) -> Option<NextTrial> {
        let all = self.trials(SUBJECT, block.number);
        let sought: Vec<_> = all.iter().copied().filter(|(purpose, _)| purpose.is_of_search()).collect();
        let probe = |(purpose, trial): &(Purpose, &Trial)| Probe::from_trial(trial, &self.goal, *purpose);
        let mut probes: Vec<Probe> = counted(&sought, |one| *one).into_iter().map(probe).collect();
        let spent_s: f64 = sought.iter().map(probe).map(|probe| probe.wall_s).sum();
        let counted_s: f64 = probes.iter().map(|probe| probe.wall_s).sum();
        if let Some(last) = probes.last_mut() {
            last.wall_s += spent_s - counted_s;
        }
        match next_trial(&self.goal, &block.start, &probes) {
            Next::Overload { duration_s } => Some((None, duration_s, Purpose::Ceiling)),
            Next::Trial { rate_qps, duration_s, purpose } => Some((Some(rate_qps), duration_s, purpose)),
            Next::Done(_) => {
                let refined = all.iter().filter(|(purpose, _)| *purpose == Purpose::Refine).count();
                let estimate = of_cell(&self.run, SUBJECT, &self.goal, Speed::Reference)?;
                let load_qps = load_beside(&self.goal, &estimate, refined)?;
                Some((Some(load_qps), self.goal.final_s, Purpose::Refine))
            }
        }
    }

    /// Where the search of the next block begins: at the bounds of a search that was over or cut short.
    fn bounds_qps(&self, block: &Block) -> Option<(f64, f64)> {
        let all = self.trials(SUBJECT, block.number);
        let sought: Vec<_> = all.iter().copied().filter(|(purpose, _)| purpose.is_of_search()).collect();
        let at_last = counted_at_last(&sought, |one| *one).into_iter();
        let probes: Vec<_> =
            at_last.map(|(purpose, trial)| Probe::from_trial(trial, &self.goal, *purpose)).collect();
        let bounds = bounds_found(&self.goal, &probes);
        let beside = |qps: f64| (qps * (1.0 - self.goal.width), qps * (1.0 + self.goal.width));
        let figure = || of_search(&self.goal, &all, Speed::Reference);
        bounds
            .lower_qps
            .zip(bounds.upper_qps)
            .or_else(|| figure().map(|estimate| beside(estimate.interval().median)))
    }

    fn round(&mut self, block: &Block) {
        let mut turns: Vec<usize> = (0..SERVERS).collect();
        self.stage.rng.shuffle(&mut turns);
        for turn in turns {
            match turn {
                SUBJECT => {
                    if let Some(wanted) = self.wanted(block) {
                        self.play(SUBJECT, block, wanted);
                    }
                }
                ECHO => {
                    let has_any = !counted(&self.trials(ECHO, block.number), |one| *one).is_empty();
                    let duration_s = if has_any { BESIDE_OTHERS_S } else { CEILING_S };
                    self.play(ECHO, block, (None, duration_s, Purpose::Ceiling));
                }
                // The other servers take time, and half of the searched loads lose queries and need a drain.
                2 => drop(self.stage.play(ECHO_QPS, None, BESIDE_OTHERS_S)),
                _ => {
                    let load_qps = ECHO_QPS * if self.stage.rng.bool() { 0.9 } else { 1.1 };
                    self.stage.play(ECHO_QPS, Some(load_qps), self.goal.final_s);
                }
            }
        }
    }
}

/// A run's interval of a subject's share of the echo, and the true share.
fn share(seed: u64, kind: Kind) -> (f64, Option<Interval>) {
    let mut rng = Rng::with_seed(seed);
    let subject_qps = 60_000.0 * 4f64.powf(rng.f64());
    let (least, most) = STARTS_SCATTER;
    let scatter = least * (most / least).powf(rng.f64());
    let mut running = Running::new(rng, kind);
    let mut start = Start::default();
    for (number, block_s) in (0..).zip(BLOCKS_S) {
        running.stage.now_s += START_S;
        let mut of_start = |qps: f64| qps * (scatter * normal(&mut running.stage.rng)).exp();
        let (subject_qps, echo_qps) = (of_start(subject_qps), of_start(ECHO_QPS));
        let block = Block { number, subject_qps, echo_qps, start };
        running.play(PLAYER, &block, (None, CEILING_S, Purpose::Ceiling));
        let until_s = running.stage.now_s + block_s;
        while running.stage.now_s < until_s {
            running.round(&block);
        }
        start.bounds_qps = running.bounds_qps(&block).or(start.bounds_qps);
    }
    let verdict = judge_figures(&running.run).subjects.remove(SUBJECT);
    (subject_qps / ECHO_QPS, verdict.share)
}

/// The results of many runs on hosts of a kind.
struct KindResults {
    /// The number of runs with an interval, and of runs without one.
    with: usize,
    without: usize,
    /// The number of runs in which the truth lies below the interval, and above it.
    below: usize,
    above: usize,
    /// The median width of the interval, as a share of its middle, and the median error of the middle. `None` without an
    /// interval.
    width: Option<f64>,
    error: Option<f64>,
}

impl KindResults {
    /// The share of the intervals that hold the truth.
    fn holding(&self) -> f64 {
        (self.with - self.below - self.above) as f64 / self.with as f64
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

fn shown(kind: Kind, runs: u64) -> KindResults {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    let shares: Vec<(f64, Option<Interval>)> = std::thread::scope(|scope| {
        let of_core = |core| {
            scope.spawn(move || {
                (core..runs).step_by(cores as usize).map(|seed| share(seed, kind)).collect::<Vec<_>>()
            })
        };
        let threads: Vec<_> = (0..cores).map(of_core).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no run panics")).collect()
    });
    let intervals: Vec<(f64, Interval)> =
        shares.iter().filter_map(|(truth, interval)| Some((*truth, (*interval)?))).collect();
    let count = |is: fn(&(f64, Interval)) -> bool| intervals.iter().filter(|one| is(one)).count();
    let (below, above) = (count(|(truth, of)| *truth < of.low), count(|(truth, of)| *truth > of.high));
    KindResults {
        with: intervals.len(),
        without: shares.len() - intervals.len(),
        width: median(intervals.iter().map(|(_, of)| (of.high - of.low) / of.median).collect()),
        error: median(intervals.iter().map(|(truth, of)| of.median / truth - 1.0).collect()),
        below,
        above,
    }
}

const KINDS: [Kind; 8] = [
    Kind::QUIET,
    Kind { changes_speed: true, ..Kind::QUIET },
    Kind { stands_still: true, ..Kind::QUIET },
    Kind { changes_speed: true, stands_still: true, ..Kind::QUIET },
    Kind { beside: 0.05, ..Kind::QUIET },
    Kind { beside: 0.15, ..Kind::QUIET },
    Kind { beside: 0.3, ..Kind::QUIET },
    Kind { changes_speed: true, stands_still: true, beside: 0.3 },
];

/// The number of runs of each kind: a few in the tests, and a thousand with `KQPS_RUNS=1000`.
fn runs() -> u64 {
    std::env::var("KQPS_RUNS").ok().and_then(|text| text.parse().ok()).unwrap_or(20)
}

/// The share of the runs on hosts with few other programs that may have no interval.
const WITHOUT_MOST: f64 = 0.05;

#[test]
fn the_interval_holds_the_truth_as_often_as_it_says_on_hosts_that_do_not_hold_still() {
    let runs = runs();
    let all = KINDS.map(|kind| (kind, shown(kind, runs)));
    let percent = |share: Option<f64>| share.map_or(f64::NAN, |share| share * 100.0);
    for (kind, of) in &all {
        println!(
            "{kind:?}: {:.1} % of {} hold it ({} lie below, {} above), {} have none, median width {:.2} %, median error {:+.2} %",
            of.holding() * 100.0,
            of.with,
            of.below,
            of.above,
            of.without,
            percent(of.width),
            percent(of.error)
        );
    }
    for (kind, of) in &all {
        // With few runs, the share may be off by three standard deviations of a count.
        let slack = if of.with < 1000 { 3.0 * (0.95 * 0.05 / of.with as f64).sqrt() } else { 0.0 };
        assert!(of.with == 0 || of.holding() >= 0.93 - slack, "{kind:?}: {}", of.holding());
        if kind.beside <= 0.05 {
            assert!(of.without as f64 <= WITHOUT_MOST * runs as f64, "{kind:?}: {} have none", of.without);
        }
        if kind.beside == 0.0 {
            // A run without an interval does not hold the truth.
            let held = of.holding() * of.with as f64 / runs as f64;
            assert!(held >= 0.93 - slack, "{kind:?}: {held}");
            assert!(of.holding() <= 0.98 + slack, "{kind:?}: {}", of.holding());
            assert!(of.width.is_some_and(|width| width <= 0.08), "{kind:?}: {:?}", of.width);
            assert!(of.error.is_some_and(|error| error.abs() <= 0.01), "{kind:?}: {:?}", of.error);
        }
    }
}
