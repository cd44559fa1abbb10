//! Warnings about what player and subject share: the host, its cores, and other programs on it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::SocketAddr;

use kqps_observation::host::CpuFacts;
use kqps_observation::subject::ThreadFacts;
use kqps_observation::trial::PlayerFacts;
use kqps_observation::{HostFacts, Trial};

use super::players::{self, Player};
use super::{Code, Effect, Surroundings, Warning};
use crate::grade::Grade;
use crate::percent;

/// A thread that uses less than this share of a core does not disturb the others.
const IDLE_THREAD: f64 = 0.05;

/// `/proc` counts CPU time in hundredths of a second: over fewer seconds than this, a share of 2 % is a
/// rounding error.
const LONG_ENOUGH_S: f64 = 1.0;

/// Player and subject ran on the same core. The subject's cores are those that it was given and those on which
/// its threads were seen, since a server may set affinities of its own. Players on other machines share no core with
/// it.
pub fn shared_cores(trial: &Trial, surroundings: &Surroundings) -> Option<Warning> {
    let beside = trial.players.iter().enumerate().filter(|(number, _)| trial.is_beside_subject(*number));
    let cores = |player: &PlayerFacts| -> Vec<u32> {
        if player.cpus.is_empty() {
            player.per_thread.iter().map(|thread| thread.cpu).collect()
        } else {
            player.cpus.clone()
        }
    };
    let player: BTreeSet<u32> = beside.flat_map(|(_, player)| cores(player)).collect();
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
/// subject's processes could be watched from here. If several hosts took part, the numbers of their boots decide:
/// network namespaces and containers of one machine share its memory, caches and kernel.
pub fn single_host(trial: &Trial, surroundings: &Surroundings) -> Option<Warning> {
    let is_loopback = trial.target.parse::<SocketAddr>().is_ok_and(|target| target.ip().is_loopback());
    let is_one = if trial.parts.is_empty() {
        surroundings.one_host.unwrap_or(is_loopback || trial.subject.is_some())
    } else {
        is_loopback || (0..trial.parts.len()).any(|player| trial.is_beside_subject(player))
    };
    // Attackers have no figure.
    (is_one && trial.hostile.is_none()).then(|| {
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
/// also shows time that a hypervisor withheld without reporting it. Each of several hosts is judged by itself, and the
/// noisiest is named.
pub fn noisy_host<'a>(
    trials: impl IntoIterator<Item = &'a Trial>,
    surroundings: &Surroundings,
) -> Option<Warning> {
    let mut hosts: Vec<Vec<UsedHost<'a>>> = Vec::new();
    for trial in trials {
        for (number, host) in hosts_of(trial, surroundings).into_iter().enumerate() {
            if hosts.len() <= number {
                hosts.push(Vec::new());
            }
            hosts[number].push(host);
        }
    }
    let warnings = hosts.iter().filter_map(|of_host| noise_warning(of_host));
    warnings.max_by(|one, other| {
        let figure = |warning: &Warning| warning.figure.unwrap_or(0.0);
        one.effect.cmp(&other.effect).then_with(|| figure(one).total_cmp(&figure(other)))
    })
}

/// The warning about one host over one or several trials.
fn noise_warning(of_host: &[UsedHost<'_>]) -> Option<Warning> {
    let noise = Noise::from_trials(of_host)?;
    let worst = noise.foreign.max(noise.frequency);
    if worst <= FOREIGN_MOST && noise.stolen <= STOLEN_MOST {
        return None;
    }
    let effect = if worst > 0.1 || noise.stolen > 0.01 { Effect::Cap(Grade::C) } else { Effect::DownOne };
    let place = of_host.first().and_then(|host| host.name.as_deref());
    let place = place.map_or(String::new(), |name| format!(" of {name}"));
    let mut advice = format!(
        "Other programs took {} % of the cores in use{place}, and {} % were withheld by the hypervisor (the limits are \
         2 % and 0.1 %). Stop what else runs, or use a machine of your own.",
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
    hosts_of(trial, surroundings).iter().any(|host| Noise::from_trials(std::slice::from_ref(host)).is_some())
}

/// A host of a trial, and the cores that the trial used on it.
struct UsedHost<'a> {
    /// Its name; `None` if one host has both sides.
    name: Option<String>,
    facts: &'a HostFacts,
    used: Vec<&'a CpuFacts>,
    /// The player's threads on it.
    threads: &'a [ThreadFacts],
}

/// The hosts of a trial, in the order of its record.
fn hosts_of<'a>(trial: &'a Trial, surroundings: &Surroundings) -> Vec<UsedHost<'a>> {
    let players = players::all(trial);
    if trial.parts.is_empty() {
        let facts = &trial.hosts.first;
        let used = facts.cpus.iter().filter(|core| is_used(trial, surroundings, core.cpu)).collect();
        return vec![UsedHost { name: None, facts, used, threads: &trial.players.first.per_thread }];
    }
    let used = |facts: &'a HostFacts, cpus: &[u32]| -> Vec<&'a CpuFacts> {
        facts.cpus.iter().filter(|core| cpus.is_empty() || cpus.contains(&core.cpu)).collect()
    };
    let of_player = |player: &Player<'a>| UsedHost {
        name: player.host.map(str::to_owned),
        facts: player.machine,
        used: used(player.machine, &player.facts.cpus),
        threads: &player.facts.per_thread,
    };
    let of_subject = trial.subject_host().map(|facts| UsedHost {
        name: Some("the subject's host".to_owned()),
        facts,
        used: used(facts, &surroundings.subject_cpus),
        threads: &[],
    });
    players.iter().map(of_player).chain(of_subject).collect()
}

/// The disturbances of the cores in use on one host, as shares.
struct Noise {
    foreign: f64,
    stolen: f64,
    /// How far the slowest busy clock of a core is below its fastest, for the worst core; 0 if the host reports
    /// no clocks.
    frequency: f64,
}

impl Noise {
    /// The noise of one host over trials; `None` if they are too short.
    fn from_trials(trials: &[UsedHost<'_>]) -> Option<Self> {
        let (mut foreign_s, mut known_s, mut stolen_s, mut cores_s) = (0.0, 0.0, 0.0, 0.0);
        let mut wall_s = 0.0;
        let mut clocks_mhz: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
        for host in trials {
            let trial_s = host.facts.wall_s * host.used.len() as f64;
            wall_s += host.facts.wall_s;
            cores_s += trial_s;
            stolen_s += host.used.iter().map(|core| host.stolen_s(core)).sum::<f64>();
            if let Some(seconds) = host.facts.foreign_cpu_s {
                foreign_s += seconds;
                known_s += trial_s;
            }
            let busy = host.used.iter().filter(|core| core.idle < 1.0 - BUSY_CORE);
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

impl UsedHost<'_> {
    /// Seconds of a trial in which a core was withheld from this host: as the hypervisor reports, or as a player
    /// thread there observed, whichever is more. The two overlap for the most part.
    fn stolen_s(&self, core: &CpuFacts) -> f64 {
        let threads = self.threads.iter().filter(|thread| thread.cpu == core.cpu);
        threads.map(|thread| thread.withheld_s).fold(core.steal * self.facts.wall_s, f64::max)
    }
}

/// Whether player or subject used a core of the host that both are on. If it is not known which cores they used, all
/// count.
fn is_used(trial: &Trial, surroundings: &Surroundings, cpu: u32) -> bool {
    trial.players.first.cpus.is_empty()
        || surroundings.subject_cpus.is_empty()
        || trial.players.first.cpus.contains(&cpu)
        || surroundings.subject_cpus.contains(&cpu)
}
