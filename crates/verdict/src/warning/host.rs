//! Warnings about what player and subject share: the host, its cores, and other programs on it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::SocketAddr;

use kqps_observation::Trial;
use kqps_observation::host::CpuFacts;

use super::{Code, Effect, Surroundings, Warning};
use crate::grade::Grade;
use crate::percent;

/// A thread that uses less than this share of a core does not disturb the others.
const IDLE_THREAD: f64 = 0.05;

/// `/proc` counts CPU time in hundredths of a second: over fewer seconds than this, a share of 2 % is a
/// rounding error.
const LONG_ENOUGH_S: f64 = 1.0;

/// Player and subject ran on the same core. The subject's cores are those that it was given and those on which
/// its threads were seen, since a server may set affinities of its own.
pub fn shared_cores(trial: &Trial, surroundings: &Surroundings) -> Option<Warning> {
    let player: BTreeSet<u32> = if trial.players.first.cpus.is_empty() {
        trial.players.first.per_thread.iter().map(|thread| thread.cpu).collect()
    } else {
        trial.players.first.cpus.iter().copied().collect()
    };
    let threads = trial.subject.iter().flat_map(|subject| &subject.threads);
    let seen = threads.filter(|thread| thread.busy >= IDLE_THREAD).map(|thread| thread.cpu);
    let subject: BTreeSet<u32> = seen.chain(surroundings.subject_cpus.iter().copied()).collect();
    let shared: Vec<String> = player.intersection(&subject).map(u32::to_string).collect();
    (!shared.is_empty()).then(|| {
        let advice = format!(
            "Player and subject shared core {}: each took time from the other. Pin them apart.",
            shared.join(", ")
        );
        Warning::new(Code::SharedCores, Effect::Cap(Grade::C), shared.len() as f64, advice)
    })
}

/// The subject's threads may run on other cores than those that it was given. Facts about the given cores are
/// then no facts about the subject.
pub fn subject_cores(trial: &Trial, surroundings: &Surroundings) -> Option<Warning> {
    let real: BTreeSet<u32> = trial.subject.iter().flat_map(|subject| &subject.cpus).copied().collect();
    let said: BTreeSet<u32> = surroundings.subject_cpus.iter().copied().collect();
    if real.is_empty() || said.is_empty() || real == said {
        return None;
    }
    let list = |cpus: &BTreeSet<u32>| cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    let advice = format!(
        "The subject is said to have core {}, and its threads may run on core {}. Say which cores it has in fact, or \
         confine it to those (taskset).",
        list(&said),
        list(&real)
    );
    Some(Warning::new(
        Code::SubjectCores,
        Effect::DownOne,
        real.symmetric_difference(&said).count() as f64,
        advice,
    ))
}

/// Player and subject ran on one host: the surroundings say so, the target is a loopback address, or the
/// subject's processes could be watched from here.
pub fn single_host(trial: &Trial, surroundings: &Surroundings) -> Option<Warning> {
    let is_loopback = trial.target.parse::<SocketAddr>().is_ok_and(|target| target.ip().is_loopback());
    surroundings.one_host.unwrap_or(is_loopback || trial.subject.is_some()).then(|| {
        let advice = "Player and subject were on one host and shared its memory, caches and kernel: the \
                      figure is relative only, for comparison with others of the same host and session. \
                      Play from a second host for an absolute one.";
        Warning::new(Code::SingleHost, Effect::Cap(Grade::C), None, advice.into())
    })
}

/// The share of the cores in use that other programs may take, and by which the clock of a busy core may vary.
const FOREIGN_MOST: f64 = 0.02;

/// The share of the cores in use that a hypervisor may withhold.
const STOLEN_MOST: f64 = 0.001;

/// A core that is less busy than this may lower its clock at will.
const BUSY_CORE: f64 = 0.5;

/// Other programs or another virtual machine took CPU time from the cores in use over one or several trials, or
/// those cores did not keep their clock from one trial to the next. A player thread that had a core for itself
/// also shows time that a hypervisor withheld without reporting it.
pub fn noisy_host<'a>(
    trials: impl IntoIterator<Item = &'a Trial>,
    surroundings: &Surroundings,
) -> Option<Warning> {
    let noise = Noise::of(trials, surroundings)?;
    let worst = noise.foreign.max(noise.frequency);
    if worst <= FOREIGN_MOST && noise.stolen <= STOLEN_MOST {
        return None;
    }
    let effect = if worst > 0.1 || noise.stolen > 0.01 { Effect::Cap(Grade::C) } else { Effect::DownOne };
    let mut advice = format!(
        "Other programs took {} % of the cores in use, and {} % were withheld by the hypervisor (the limits are 2 % \
         and 0.1 %). Stop what else runs, or use a machine of your own.",
        percent::beside(noise.foreign, FOREIGN_MOST, 1),
        percent::beside(noise.stolen, STOLEN_MOST, 2)
    );
    if noise.frequency > FOREIGN_MOST {
        let differed = percent::beside(noise.frequency, FOREIGN_MOST, 1);
        let _ = write!(
            advice,
            " A busy core's clock differed by {differed} % between trials (the limit is 2 %). Fix it: governor \
             performance, no turbo."
        );
    }
    Some(Warning::new(Code::NoisyHost, effect, worst.max(noise.stolen), advice))
}

/// Whether a trial is long enough to show what else ran on the cores in use.
pub fn is_noise_known(trial: &Trial, surroundings: &Surroundings) -> bool {
    Noise::of([trial], surroundings).is_some()
}

/// The disturbances of the cores in use, as shares.
struct Noise {
    foreign: f64,
    stolen: f64,
    /// How far the slowest busy clock of a core is below its fastest, for the worst core; 0 if the host reports
    /// no clocks.
    frequency: f64,
}

impl Noise {
    /// `None` if the trials are too short.
    fn of<'a>(trials: impl IntoIterator<Item = &'a Trial>, surroundings: &Surroundings) -> Option<Self> {
        let (mut foreign_s, mut known_s, mut stolen_s, mut cores_s) = (0.0, 0.0, 0.0, 0.0);
        let mut wall_s = 0.0;
        let mut clocks_mhz: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
        for trial in trials {
            let used: Vec<_> =
                trial.hosts.first.cpus.iter().filter(|core| is_used(trial, surroundings, core.cpu)).collect();
            let trial_s = trial.hosts.first.wall_s * used.len() as f64;
            wall_s += trial.hosts.first.wall_s;
            cores_s += trial_s;
            stolen_s += used.iter().map(|core| stolen_s_of(trial, core)).sum::<f64>();
            if let Some(seconds) = trial.hosts.first.foreign_cpu_s {
                foreign_s += seconds;
                known_s += trial_s;
            }
            let busy = used.iter().filter(|core| core.idle < 1.0 - BUSY_CORE);
            for (cpu, mhz) in busy.filter_map(|core| Some((core.cpu, core.frequency_mhz?))) {
                let (least, most) = clocks_mhz.entry(cpu).or_insert((mhz, mhz));
                (*least, *most) = (least.min(mhz), most.max(mhz));
            }
        }
        if wall_s < LONG_ENOUGH_S || cores_s <= 0.0 {
            return None;
        }
        let spread = clocks_mhz.values().map(|(least, most)| (most - least) / most);
        Some(Self {
            foreign: if known_s > 0.0 { foreign_s / known_s } else { 0.0 },
            stolen: stolen_s / cores_s,
            frequency: spread.fold(0.0, f64::max),
        })
    }
}

/// Seconds of a trial in which a core was withheld from this host: as the hypervisor reports, or as a player
/// thread there observed, whichever is more. The two overlap for the most part.
fn stolen_s_of(trial: &Trial, core: &CpuFacts) -> f64 {
    let threads = trial.players.first.per_thread.iter().filter(|thread| thread.cpu == core.cpu);
    threads.map(|thread| thread.withheld_s).fold(core.steal * trial.hosts.first.wall_s, f64::max)
}

/// Whether player or subject used a core. If it is not known which cores they used, all count.
fn is_used(trial: &Trial, surroundings: &Surroundings, cpu: u32) -> bool {
    trial.players.first.cpus.is_empty()
        || surroundings.subject_cpus.is_empty()
        || trial.players.first.cpus.contains(&cpu)
        || surroundings.subject_cpus.contains(&cpu)
}
