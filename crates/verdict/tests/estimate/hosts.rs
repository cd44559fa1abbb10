//! Whole runs on simulated hosts that do not hold still: they change between two speeds, and stand still for moments. The
//! truth, a subject's share of the echo, is known, and the interval must hold it as often as it says.

use fastrand::Rng;
use kqps_observation::run::Purpose;
use kqps_verdict::estimate::{Estimate, Evidence};
use kqps_verdict::interval::Interval;
use kqps_verdict::search::{Goal, Next, Preset, Probe, Start, next_trial};

/// Starts of a subject in a run of two minutes, and rounds in each, in which every server has a trial.
const STARTS: usize = 3;
const ROUNDS: usize = 12;

/// Servers that have their turn in a round, and seconds of each with all that comes before and after.
const SERVERS: usize = 5;
const TURN_S: f64 = 0.62;
const BEFORE_S: f64 = 0.05;
const TRIAL_S: f64 = 0.5;

/// How much slower the slow speed is.
const SLOWER: f64 = 1.3;

/// Trials at one speed, and starts, scatter by so much: standard deviations of logarithms, as measured on a rented host.
const SCATTER: f64 = 0.025;
const STARTS_SCATTER: f64 = 0.01;

/// A trial whose gauges before and after differ by more is spoiled.
const GAUGES_APART: f64 = 0.12;

/// Packets that a server's buffer holds.
const BUFFER: f64 = 277.0;

/// What an echo answers at the fast speed, queries a second.
const ECHO_QPS: f64 = 400_000.0;

/// What a host does.
#[derive(Clone, Copy, Debug)]
struct Kind {
    changes_speed: bool,
    stands_still: bool,
}

/// A host over the time of a run.
struct Host {
    /// When a speed began, and it.
    speeds: Vec<(f64, f64)>,
    /// When it stood still, and for how long.
    stalls: Vec<(f64, f64)>,
}

fn exponential(rng: &mut Rng, mean: f64) -> f64 {
    -(1.0 - rng.f64()).ln() * mean
}

fn normal(rng: &mut Rng) -> f64 {
    (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (std::f64::consts::TAU * rng.f64()).cos()
}

impl Host {
    fn new(rng: &mut Rng, kind: Kind) -> Self {
        const END_S: f64 = 1000.0;
        let (mut at_s, mut is_fast) = (0.0, rng.bool());
        let dwell_s = 60f64.powf(rng.f64());
        let mut speeds = Vec::new();
        while at_s < END_S {
            speeds.push((at_s, if is_fast || !kind.changes_speed { 1.0 } else { 1.0 / SLOWER }));
            at_s += exponential(rng, dwell_s).max(0.2);
            is_fast = !is_fast;
        }
        let (mut stalls, mut at_s) = (Vec::new(), if kind.stands_still { 0.0 } else { END_S });
        while at_s < END_S {
            at_s += exponential(rng, 1.0);
            stalls.push((at_s, 0.001 + 0.004 * rng.f64()));
        }
        Self { speeds, stalls }
    }

    fn speed(&self, at_s: f64) -> f64 {
        let since = self.speeds.partition_point(|(began_s, _)| *began_s <= at_s);
        self.speeds[since.max(1) - 1].1
    }

    /// The mean speed over a trial.
    fn mean_speed(&self, began_s: f64) -> f64 {
        const STEPS: u32 = 20;
        let step_s = TRIAL_S / f64::from(STEPS);
        (0..STEPS).map(|step| self.speed(began_s + f64::from(step) * step_s)).sum::<f64>() / f64::from(STEPS)
    }

    /// The longest time that it stood still in a trial.
    fn longest_stall(&self, began_s: f64) -> f64 {
        let within = self.stalls.iter().filter(|(at_s, _)| (began_s..began_s + TRIAL_S).contains(at_s));
        within.map(|(_, length_s)| *length_s).fold(0.0, f64::max)
    }
}

/// One turn of a server: how fast the host was by its gauges, and in truth as a multiple of that.
struct Turn {
    began_s: f64,
    gauge_before: f64,
    gauge: f64,
    ratio: f64,
}

/// A run in progress.
struct Run {
    rng: Rng,
    host: Host,
    now_s: f64,
}

impl Run {
    /// The next turn; none where the host changed its speed in it.
    fn turn(&mut self) -> Option<Turn> {
        let (before_s, began_s) = (self.now_s, self.now_s + BEFORE_S);
        self.now_s += TURN_S;
        let (before, after) = (self.host.speed(before_s), self.host.speed(self.now_s));
        let gauge = f64::midpoint(before, after);
        let ratio = self.host.mean_speed(began_s) / gauge * (SCATTER * normal(&mut self.rng)).exp();
        let is_steady = (before / after - 1.0).abs() <= GAUGES_APART;
        is_steady.then_some(Turn { began_s, gauge_before: before, gauge, ratio })
    }

    /// One trial of a subject's search, at a load in the units of the gauge. None where it is spoiled.
    fn trial(&mut self, goal: &Goal, capacity_qps: f64, next: &Next) -> Option<(Probe, Option<Evidence>)> {
        let (load_qps, duration_s, purpose) = match *next {
            Next::Overload { duration_s } => (0.0, duration_s, Purpose::Ceiling),
            Next::Trial { rate_qps, duration_s, purpose } => (rate_qps, duration_s, purpose),
            Next::Done(_) => return None,
        };
        let turn = self.turn()?;
        let capacity_qps = capacity_qps * turn.ratio;
        let played_qps = load_qps * turn.gauge_before / turn.gauge;
        let is_withheld = self.host.longest_stall(turn.began_s) * load_qps * turn.gauge_before > BUFFER;
        if is_withheld {
            return None;
        }
        let bad_ratio = if load_qps > 0.0 { (1.0 - capacity_qps / played_qps).max(0.0) } else { 0.0 };
        let answered_qps = if load_qps > 0.0 { played_qps.min(capacity_qps) } else { capacity_qps };
        let wall_s = duration_s + 0.1;
        let probe =
            Probe { load_qps, duration_s, wall_s, bad_ratio, answered_qps, purpose, ..Probe::default() };
        let evidence =
            if probe.is_bad(goal) { Evidence::Missed(played_qps) } else { Evidence::Met(played_qps) };
        Some((probe, (load_qps > 0.0).then_some(evidence)))
    }
}

/// A run's interval of a subject's share of the echo, and the truth.
fn share(seed: u64, kind: Kind) -> (f64, Option<Interval>) {
    let mut rng = Rng::with_seed(seed);
    let goal = Preset::Quick.goal();
    let subject_qps = 60_000.0 * 4f64.powf(rng.f64());
    let host = Host::new(&mut rng, kind);
    let mut run = Run { rng, host, now_s: 5.0 };
    let (mut subject, mut echo, mut bounds_qps) = (Vec::new(), Vec::new(), None);
    for _ in 0..STARTS {
        run.now_s += 3.0;
        let of_start = |rng: &mut Rng, qps: f64| qps * (STARTS_SCATTER * normal(rng)).exp();
        let (capacity_qps, echo_qps) =
            (of_start(&mut run.rng, subject_qps), of_start(&mut run.rng, ECHO_QPS));
        let (mut probes, mut trials, mut rates) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let mut next = next_trial(&goal, &Start { bounds_qps }, &probes);
            if let Next::Done(bounds) = next.clone() {
                // What time is left goes to the loads on which the estimate rests.
                let qps = if run.rng.bool() { bounds.lower_qps } else { bounds.upper_qps };
                let rate_qps = qps.or(bounds.lower_qps).unwrap_or(subject_qps);
                next = Next::Trial { rate_qps, duration_s: goal.final_s, purpose: Purpose::Latency };
                bounds_qps = bounds.lower_qps.zip(bounds.upper_qps);
            }
            if let Some((probe, evidence)) = run.trial(&goal, capacity_qps, &next) {
                trials.extend(evidence);
                probes.extend((probe.purpose != Purpose::Latency).then_some(probe));
            }
            rates.extend(run.turn().map(|turn| Evidence::Answered(echo_qps * turn.ratio)));
            (2..SERVERS).for_each(|_| {
                run.turn();
            });
        }
        subject.push(trials);
        echo.push(rates);
    }
    let estimate = Estimate::of(&subject).zip(Estimate::of(&echo));
    let interval = estimate.map(|(subject, echo)| subject.over(&echo).interval());
    (subject_qps / ECHO_QPS, interval)
}

/// What so many runs on hosts of a kind show: in how many the interval holds the truth, and its median width.
fn shown(kind: Kind, runs: u64) -> (f64, f64, f64) {
    let (mut holding, mut widths, mut errors) = (0, Vec::new(), Vec::new());
    for seed in 0..runs {
        let (truth, interval) = share(seed, kind);
        let Some(interval) = interval else { continue };
        holding += u64::from((interval.low..=interval.high).contains(&truth));
        widths.push((interval.high - interval.low) / interval.median);
        errors.push(interval.median / truth - 1.0);
    }
    widths.sort_by(f64::total_cmp);
    errors.sort_by(f64::total_cmp);
    (holding as f64 / runs as f64, widths[widths.len() / 2], errors[errors.len() / 2])
}

const KINDS: [Kind; 4] = [
    Kind { changes_speed: false, stands_still: false },
    Kind { changes_speed: true, stands_still: false },
    Kind { changes_speed: false, stands_still: true },
    Kind { changes_speed: true, stands_still: true },
];

/// How many runs of each kind: a few in the tests, and a thousand with `KQPS_RUNS=1000`, which takes a quarter of an hour.
fn runs() -> u64 {
    std::env::var("KQPS_RUNS").ok().and_then(|text| text.parse().ok()).unwrap_or(20)
}

#[test]
fn the_interval_holds_the_truth_as_often_as_it_says_on_hosts_that_do_not_hold_still() {
    let runs = runs();
    // With so few runs the share scatters by three standard deviations of a count.
    let slack = 3.0 * (0.95 * 0.05 / runs as f64).sqrt();
    for kind in KINDS {
        let (holding, width, error) = shown(kind, runs);
        println!(
            "{kind:?}: {:.1} % hold it, median width {:.2} %, median error {:+.2} %",
            holding * 100.0,
            width * 100.0,
            error * 100.0
        );
        let (least, most) = if runs < 1000 { (0.93 - slack, 1.0) } else { (0.93, 0.98) };
        assert!((least..=most).contains(&holding), "{kind:?}: {holding}");
        assert!(width <= 0.08, "{kind:?}: {width}");
        assert!(error.abs() <= 0.01, "{kind:?}: {error}");
    }
}
