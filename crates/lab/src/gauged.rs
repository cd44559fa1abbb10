//! Trials with the state of the host around them: the speed of the cores before and after each, and when the
//! subject's cores stood still. Loads are requested at the reference speed, and played at the speed that the
//! cores have, unless they have a greatest rate, which holds for the packets of each real second.

use std::cell::{Cell as Counter, RefCell};
use std::io;
use std::time::{Duration, Instant};

use kqps_host::Witness;
use kqps_observation::run::{Purpose, RunTrial};
use kqps_observation::{Cell, GaugeFacts, SpeedFacts, StallFacts, Trial};

use kqps_testbed::trial_request::{RequestedPace, TrialRequest};

/// The time of one reading of the gauge, which is enough to show a core's speed.
const READING: Duration = Duration::from_millis(10);

/// The reference is the median of this many readings.
const REFERENCE_READINGS: usize = 25;

/// Readings that fail take at most this share of the time since the first gauge: a core that others hold makes each of
/// them last until the gauge gives up.
const FAILED_MOST: f64 = 0.1;

/// The cores that take part in a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cores {
    /// The cores of player and subject in rising order; empty for all.
    all: Vec<u32>,
    /// The subject's cores; empty for all.
    subject: Vec<u32>,
    /// The subject's cores without the player's: on these, a thread can wake before all others.
    watched: Vec<u32>,
}

impl Cores {
    /// The cores that a player and a subject on this host were given. If either was given none, all cores are
    /// gauged.
    pub fn new(player_cpus: &[u32], subject_cpus: &[u32]) -> Self {
        let mut all = [player_cpus, subject_cpus].concat();
        all.sort_unstable();
        all.dedup();
        if player_cpus.is_empty() || subject_cpus.is_empty() {
            all.clear();
        }
        let watched = subject_cpus.iter().filter(|cpu| !player_cpus.contains(cpu)).copied().collect();
        Self { all, subject: subject_cpus.to_vec(), watched }
    }

    /// The cores of a cell; `None` if its subject is on another host.
    pub fn of_cell(cell: &Cell) -> Option<Self> {
        (!cell.is_elsewhere()).then(|| Self::new(&cell.player_cpus, &cell.subject_cpus))
    }

    fn read(&self) -> io::Result<GaugeFacts> {
        kqps_host::gauge(&self.all, READING)
    }
}

/// The reference speeds of loads, one for each set of cores.
#[derive(Debug)]
pub struct Gauges {
    /// Whether loads are played as they are named, and no core is gauged.
    plays_as_named: bool,
    references: RefCell<Vec<(Cores, f64)>>,
    began: Instant,
    /// The time that went into readings that failed.
    failed: Counter<Duration>,
}

impl Default for Gauges {
    fn default() -> Self {
        let (references, failed) = (RefCell::default(), Counter::default());
        Self { plays_as_named: false, references, began: Instant::now(), failed }
    }
}

impl Gauges {
    /// For loads with a greatest rate. They are played as they are named, and rates are those that were seen: a load
    /// that followed the speed of the cores could pass the greatest rate.
    pub fn for_loads_as_named() -> Self {
        Self { plays_as_named: true, ..Self::default() }
    }

    /// The references of a run's trials, so that a resumed run continues with the same ones.
    pub fn of_trials(cells: &[Cell], trials: &[RunTrial]) -> Self {
        let gauges = Self::default();
        for one in trials {
            let cores = Cores::of_cell(&cells[one.cell as usize]);
            let speed = one.measured().and_then(|trial| trial.speed.as_ref());
            if let (Some(cores), Some(speed)) = (cores, speed) {
                gauges.keep(&cores, speed.reference_turns_per_s);
            }
        }
        gauges
    }

    /// Plays a load that is requested at the reference speed, and adds the state of the host to the record. If
    /// the cores cannot be gauged or witnessed, the record lacks it, and the load is played unchanged. A reading that
    /// failed is not repeated before ten times as long has passed.
    /// `subject_pids` are the subject's processes, empty if they are unknown.
    pub fn play<E>(
        &self,
        cores: &Cores,
        subject_pids: &[u32],
        request: &TrialRequest,
        play: impl FnOnce(&TrialRequest) -> Result<Trial, E>,
    ) -> Result<Trial, E> {
        let gauged = self.reference(cores).and_then(|reference| Ok((reference, self.read(cores)?)));
        let Ok((reference_turns_per_s, before)) = gauged else {
            let (played, stalls) = witnessed(cores, subject_pids, || play(request));
            return played.map(|trial| Trial { stalls, ..trial });
        };
        let scale = before.turns_per_s(&cores.subject).map_or(1.0, |speed| speed / reference_turns_per_s);
        let (scaled, wanted_qps) = scaled(request, scale);
        let (played, stalls) = witnessed(cores, subject_pids, || play(&scaled));
        let after = self.read(cores);
        played.map(|mut trial| {
            trial.stalls = stalls;
            trial.speed = after.ok().map(|after| SpeedFacts {
                before,
                after,
                subject_cpus: cores.subject.clone(),
                reference_turns_per_s,
                wanted_qps,
            });
            trial
        })
    }

    /// Reads the speed of these cores, unless readings that failed have taken too much of the time.
    fn read(&self, cores: &Cores) -> io::Result<GaugeFacts> {
        if self.plays_as_named {
            return Err(io::Error::other("loads are played as they are named"));
        }
        if self.failed.get() > self.began.elapsed().mul_f64(FAILED_MOST) {
            return Err(io::Error::other("other programs held the cores when they were gauged last"));
        }
        let began = Instant::now();
        cores.read().inspect_err(|_| self.failed.set(self.failed.get() + began.elapsed()))
    }

    /// The reference speed of these cores. The first call measures it, when the cores are idle.
    fn reference(&self, cores: &Cores) -> io::Result<f64> {
        let known =
            self.references.borrow().iter().find(|(other, _)| other == cores).map(|(_, speed)| *speed);
        if let Some(reference) = known {
            return Ok(reference);
        }
        let readings = (0..REFERENCE_READINGS).map(|_| self.read(cores)).collect::<io::Result<Vec<_>>>()?;
        let mut speeds: Vec<f64> =
            readings.iter().filter_map(|reading| reading.turns_per_s(&cores.subject)).collect();
        speeds.sort_by(f64::total_cmp);
        let reference = speeds.get(speeds.len() / 2).copied().filter(|speed| *speed > 0.0);
        let reference = reference.ok_or_else(|| io::Error::other("no core could be gauged"))?;
        self.keep(cores, reference);
        Ok(reference)
    }

    fn keep(&self, cores: &Cores, reference_turns_per_s: f64) {
        let mut references = self.references.borrow_mut();
        if !references.iter().any(|(other, _)| other == cores) {
            references.push((cores.clone(), reference_turns_per_s));
        }
    }
}

/// Plays with a witness beside it. Returns the result of `play`, and when the subject's cores stood still meanwhile.
/// Without the right to real-time priority there is no witness.
fn witnessed<T>(cores: &Cores, subject_pids: &[u32], play: impl FnOnce() -> T) -> (T, Option<StallFacts>) {
    let witness =
        (!cores.watched.is_empty()).then(|| Witness::begin(&cores.watched, subject_pids).ok()).flatten();
    (play(), witness.map(Witness::end))
}

/// The load as it is played on cores with `scale` times the reference speed, and the requested rate if that
/// differs. A rate that a study names is played as it is named.
fn scaled(request: &TrialRequest, scale: f64) -> (TrialRequest, Option<f64>) {
    let is_sought =
        matches!(request.purpose, Purpose::Search | Purpose::Retest | Purpose::Refine | Purpose::Latency);
    match request.pace {
        RequestedPace::Open { rate_qps } if is_sought && scale.is_finite() && scale > 0.0 => {
            let pace = RequestedPace::Open { rate_qps: rate_qps * scale };
            (TrialRequest { pace, ..*request }, Some(rate_qps))
        }
        _ => (*request, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sought_is_played_at_the_speed_that_there_is_and_what_is_named_as_named() {
        let pace = RequestedPace::Open { rate_qps: 1000.0 };
        let request = |purpose| TrialRequest { pace, duration_s: 0.5, purpose };
        let (played, wanted_qps) = scaled(&request(Purpose::Search), 0.8);
        assert_eq!((played.pace, wanted_qps), (RequestedPace::Open { rate_qps: 800.0 }, Some(1000.0)));
        for named in [Purpose::Rate, Purpose::Canary, Purpose::Reasons { of: 7 }] {
            assert_eq!(scaled(&request(named), 0.8), (request(named), None));
        }
    }

    #[test]
    fn a_load_with_a_greatest_rate_is_played_as_it_is_named() {
        let cores = Cores::new(&[0], &[0]);
        let gauges = Gauges { plays_as_named: true, ..Gauges::default() };
        // These cores are far faster than that.
        gauges.keep(&cores, 1.0);
        let pace = RequestedPace::Open { rate_qps: 1000.0 };
        let request = TrialRequest { pace, duration_s: 0.1, purpose: Purpose::Search };
        let mut asked = None;
        let played = gauges.play(&cores, &[], &request, |request| {
            asked = Some(*request);
            Ok::<_, ()>(Trial::default())
        });
        assert_eq!((asked, played.unwrap().speed), (Some(request), None));
    }

    #[test]
    fn readings_that_fail_take_a_tenth_of_the_time() {
        let cores = Cores { all: vec![1023], subject: vec![1023], watched: Vec::new() };
        let gauges = Gauges::default();
        let why = |gauges: &Gauges| gauges.read(&cores).unwrap_err().to_string();
        assert!(why(&gauges).starts_with("cannot gauge core 1023"));
        gauges.failed.set(Duration::from_hours(1));
        assert_eq!(why(&gauges), "other programs held the cores when they were gauged last");
    }

    #[test]
    fn cores_are_gauged_together_and_watched_where_the_player_is_not() {
        let cores = Cores::new(&[1, 0], &[1, 2]);
        assert_eq!((cores.all, cores.subject, cores.watched), (vec![0, 1, 2], vec![1, 2], vec![2]));
        assert!(Cores::new(&[0], &[]).all.is_empty(), "it is not known where the subject runs");
    }

    #[test]
    fn a_run_that_goes_on_counts_at_the_speed_that_it_began_with() {
        let cell = Cell { player_cpus: vec![0], subject_cpus: vec![0], ..Cell::default() };
        let speed = SpeedFacts { reference_turns_per_s: 123.0, ..SpeedFacts::default() };
        let trial = Trial { speed: Some(speed), ..Trial::default() };
        let outcome = kqps_observation::run::Outcome::Measured(Box::new(trial));
        let one = RunTrial { number: 1, cell: 0, block: 0, start: 1, purpose: Purpose::Search, outcome };
        let cores = Cores::of_cell(&cell).unwrap();
        let gauges = Gauges::of_trials(&[cell], &[one]);
        let pace = RequestedPace::Open { rate_qps: 1000.0 };
        let request = TrialRequest { pace, duration_s: 0.1, purpose: Purpose::Search };
        let played = gauges.play(&cores, &[], &request, |_| Ok::<_, ()>(Trial::default())).unwrap();
        let speed = played.speed.expect("the first core can be gauged");
        assert_eq!((speed.reference_turns_per_s, speed.wanted_qps), (123.0, Some(1000.0)));
        assert!(speed.speed().unwrap() > 1.0, "and it is faster than that");
    }
}
