//! Trials with the state of the host around them: the speed of the cores before and after each, and when the
//! subject's cores stood still. Loads are requested at the reference speed, and played at the speed that the
//! cores have.

use std::cell::RefCell;
use std::io;
use std::time::Duration;

use kqps_host::Witness;
use kqps_observation::run::{Purpose, RunTrial};
use kqps_observation::{Cell, GaugeFacts, SpeedFacts, Trial};

use crate::trial_request::{RequestedPace, TrialRequest};

/// One reading of the gauge takes this long, which is enough to show a core's speed.
const READING: Duration = Duration::from_millis(10);

/// The reference is the median of this many readings.
const REFERENCE_READINGS: usize = 25;

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
    pub fn of(player_cpus: &[u32], subject_cpus: &[u32]) -> Self {
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
        (!cell.is_elsewhere()).then(|| Self::of(&cell.player_cpus, &cell.subject_cpus))
    }

    fn read(&self) -> io::Result<GaugeFacts> {
        kqps_host::gauge(&self.all, READING)
    }
}

/// The reference speeds of loads, one for each set of cores.
#[derive(Debug, Default)]
pub struct Gauges {
    references: RefCell<Vec<(Cores, f64)>>,
}

impl Gauges {
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
    /// the cores cannot be gauged or witnessed, the record lacks it, and the load is played unchanged.
    /// `subject_pids` are the subject's processes, empty if they are unknown.
    pub fn play<E>(
        &self,
        cores: &Cores,
        subject_pids: &[u32],
        request: &TrialRequest,
        play: impl FnOnce(&TrialRequest) -> Result<Trial, E>,
    ) -> Result<Trial, E> {
        let gauged = self.reference(cores).and_then(|reference| Ok((reference, cores.read()?)));
        let Ok((reference_turns_per_s, before)) = gauged else { return play(request) };
        let scale = before.of(&cores.subject).map_or(1.0, |speed| speed / reference_turns_per_s);
        let (scaled, wanted_qps) = scaled(request, scale);
        // Without the right to real-time priority, there is no witness.
        let witness =
            (!cores.watched.is_empty()).then(|| Witness::begin(&cores.watched, subject_pids).ok()).flatten();
        let played = play(&scaled);
        let stalls = witness.map(Witness::end);
        let after = cores.read();
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

    /// The reference speed of these cores. The first call measures it, when the cores are idle.
    fn reference(&self, cores: &Cores) -> io::Result<f64> {
        let known =
            self.references.borrow().iter().find(|(other, _)| other == cores).map(|(_, speed)| *speed);
        if let Some(reference) = known {
            return Ok(reference);
        }
        let readings = (0..REFERENCE_READINGS).map(|_| cores.read()).collect::<io::Result<Vec<_>>>()?;
        let mut speeds: Vec<f64> = readings.iter().filter_map(|reading| reading.of(&cores.subject)).collect();
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
    fn cores_are_gauged_together_and_watched_where_the_player_is_not() {
        let cores = Cores::of(&[1, 0], &[1, 2]);
        assert_eq!((cores.all, cores.subject, cores.watched), (vec![0, 1, 2], vec![1, 2], vec![2]));
        assert!(Cores::of(&[0], &[]).all.is_empty(), "it is not known where the subject runs");
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
