//! Trials with what the host did around them: the speed of the cores before and after each, and when the subject's cores
//! stood still in it. Loads are wanted at one speed, the reference, and played at the speed that the cores have.

use std::io;

use kqps_host::gauge::{self, USUAL};
use kqps_host::witness::Witness;
use kqps_observation::{GaugeFacts, SpeedFacts, Trial};

use crate::load::{Load, Pace};

/// Gauges of which the median is the reference: half a second of them sees both speeds of a host that changes often.
const REFERENCE_GAUGES: usize = 25;

/// The cores that trials use on this host, and the speed that loads are counted at.
#[derive(Clone, Debug)]
pub struct Gauged {
    cpus: Vec<u32>,
    subject_cpus: Vec<u32>,
    reference_turns_per_s: f64,
}

impl Gauged {
    /// Gauges the cores of player and subject, none of which is at work, and takes their usual speed for the reference.
    pub fn new(player_cpus: &[u32], subject_cpus: &[u32]) -> io::Result<Self> {
        let mut cpus = [player_cpus, subject_cpus].concat();
        cpus.sort_unstable();
        cpus.dedup();
        let gauges = (0..REFERENCE_GAUGES).map(|_| gauge::read(&cpus, USUAL));
        let gauges = gauges.collect::<io::Result<Vec<GaugeFacts>>>()?;
        let mut speeds: Vec<f64> =
            gauges.iter().filter_map(|gauge| gauge.turns_per_s(subject_cpus)).collect();
        speeds.sort_by(f64::total_cmp);
        let reference_turns_per_s = speeds[speeds.len() / 2];
        Ok(Self { cpus, subject_cpus: subject_cpus.to_vec(), reference_turns_per_s })
    }

    /// The same cores with a reference that was found before.
    pub fn with_reference(self, turns_per_s: f64) -> Self {
        Self { reference_turns_per_s: turns_per_s, ..self }
    }

    /// The speed that loads are counted at, turns of the gauge a second.
    pub fn reference_turns_per_s(&self) -> f64 {
        self.reference_turns_per_s
    }

    /// Plays a load that is wanted at the reference speed, and adds what the host did to the record. Where it cannot be
    /// gauged or witnessed the record has none of it, and the load is played as it is.
    pub fn play<E>(&self, load: &Load, play: impl FnOnce(&Load) -> Result<Trial, E>) -> Result<Trial, E> {
        let Ok(before) = gauge::read(&self.cpus, USUAL) else { return play(load) };
        let scale = before.turns_per_s(&self.subject_cpus).map(|speed| speed / self.reference_turns_per_s);
        let scale = scale.filter(|scale| scale.is_finite() && *scale > 0.0).unwrap_or(1.0);
        let (wanted_qps, scaled) = match load.pace {
            Pace::Open { rate_qps } => {
                (Some(rate_qps), Load { pace: Pace::Open { rate_qps: rate_qps * scale }, ..*load })
            }
            Pace::Closed => (None, *load),
        };
        // Without the right to run first nothing is witnessed.
        let witness = Witness::begin(&self.subject_cpus).ok();
        let played = play(&scaled);
        let stalls = witness.map(Witness::end);
        let after = gauge::read(&self.cpus, USUAL);
        played.map(|mut trial| {
            let (from_ns, to_ns) = span_ns(&trial);
            trial.stalls = stalls.map(|stalls| stalls.within(from_ns, to_ns));
            trial.speed = after.ok().map(|after| SpeedFacts {
                before,
                after,
                subject_cpus: self.subject_cpus.clone(),
                reference_turns_per_s: self.reference_turns_per_s,
                wanted_qps,
            });
            trial
        })
    }
}

/// When queries were sent, on the host's monotonic clock.
fn span_ns(trial: &Trial) -> (u64, u64) {
    let from_ns = trial.started_monotonic_ns;
    (from_ns, from_ns + (trial.load.duration_s * 1e9) as u64)
}
