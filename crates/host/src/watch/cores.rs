//! The cores of one side of a trial: how busy they were, and how much of that was the side's own work.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::cpu_time::{self, CpuTicks, TICKS_PER_S};
use crate::files::Root;

/// The host of a reading: the kernel's random number of this boot; empty if the kernel has none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct HostId(String);

impl HostId {
    /// The number, if the kernel has one.
    pub(super) fn known(&self) -> Option<String> {
        Some(self.0.clone()).filter(|number| !number.is_empty())
    }

    /// Reads it under a root of `/proc`.
    pub(super) fn read(root: &Root) -> Self {
        Self(root.text("proc/sys/kernel/random/boot_id").unwrap_or_default())
    }
}

/// The busy time of a host's cores during a trial, and the cores that one side used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Cores {
    /// The host that the cores belong to.
    pub(super) host: HostId,
    /// The cores that the side is pinned to; all cores if it is not pinned.
    used: BTreeSet<u32>,
    /// Core → CPU seconds in which it was busy. It has each core that was online at both readings.
    busy_s: BTreeMap<u32, f64>,
    /// CPU seconds of the side itself.
    own_s: f64,
    /// Core → clock frequency in MHz at the end, for the used cores whose frequency is known.
    pub(super) mhz: BTreeMap<u32, f64>,
}

/// All cores of a host at two moments.
pub(super) struct Ticks<'a> {
    pub(super) before: &'a [CpuTicks],
    pub(super) after: &'a [CpuTicks],
    /// Seconds in between.
    pub(super) wall_s: f64,
}

impl Cores {
    /// The cores of a side that is pinned to `pinned` (empty: to none) and used `own_s` CPU seconds.
    pub(super) fn new(
        host: HostId,
        pinned: &[u32],
        ticks: &Ticks<'_>,
        own_s: f64,
        mhz: BTreeMap<u32, f64>,
    ) -> Self {
        let busy_s = cpu_time::busy_s(ticks.before, ticks.after, ticks.wall_s);
        Self { host, used: used(pinned, ticks.after).collect(), busy_s, own_s, mhz }
    }

    /// Both sides as one. They are on the same host, and this side's readings stand for both.
    fn together(&self, other: &Self) -> Self {
        Self {
            used: self.used.union(&other.used).copied().collect(),
            own_s: self.own_s + other.own_s,
            ..self.clone()
        }
    }

    /// CPU seconds of the used cores that no side here accounts for; `None` if one of them went offline.
    ///
    /// This is an approximation: the time in which those cores were not idle, less the CPU time of the sides, less the
    /// resolution of idle time (one tick of 10 ms per core), so that rounding alone never counts as a neighbour. The
    /// kernel handles packets on loopback within the thread that sends them, and charges that thread. Packets handled
    /// while a core was idle, and the kernel's own threads, look like a neighbour unless the kernel measures interrupt
    /// time. The time that the hypervisor steals counts for no thread. If the kernel charges it to the thread that was
    /// stopped, the result is too low by as much.
    fn foreign_s(&self) -> Option<f64> {
        let busy_s = self.used.iter().map(|cpu| self.busy_s.get(cpu).copied()).sum::<Option<f64>>()?;
        let rounding_s = self.used.len() as f64 / TICKS_PER_S;
        Some((busy_s - self.own_s - rounding_s).max(0.0))
    }
}

/// CPU seconds of the cores of both sides that neither side accounts for, on one host or on two. Returns the
/// reason if they are not known.
pub(super) fn foreign_cpu_s(player: &Cores, subject: &Cores) -> Result<f64, String> {
    let foreign_s = if player.host == subject.host {
        player.together(subject).foreign_s()
    } else {
        player.foreign_s().zip(subject.foreign_s()).map(|(player_s, subject_s)| player_s + subject_s)
    };
    foreign_s.ok_or_else(|| "a core of player and subject went offline".into())
}

/// CPU seconds of the cores of a side that it does not account for, on a host without the other side. Returns the
/// reason if they are not known.
pub(super) fn foreign_cpu_s_alone(side: &Cores) -> Result<f64, String> {
    side.foreign_s().ok_or_else(|| "a core in use went offline".into())
}

/// The cores that a side is pinned to; all cores if it is not pinned.
pub(super) fn used(pinned: &[u32], cores: &[CpuTicks]) -> impl Iterator<Item = u32> {
    let all = if pinned.is_empty() { cores } else { &[] };
    pinned.iter().copied().chain(all.iter().map(CpuTicks::cpu))
}

/// A side of a made-up host with two cores, of which the first was busy for half of 2 s and the second for all of it.
#[cfg(test)]
pub(super) fn made_up(host: &str, pinned: &[u32], own_s: f64) -> Cores {
    let before = cpu_time::parse("cpu0 0 0 0 0 0 0 0 0\ncpu1 0 0 0 0 0 0 0 0\n");
    let after = cpu_time::parse("cpu0 100 0 0 100 0 0 0 0\ncpu1 200 0 0 0 0 0 0 0\n");
    let ticks = Ticks { before: &before, after: &after, wall_s: 2.0 };
    Cores::new(HostId(host.into()), pinned, &ticks, own_s, BTreeMap::new())
}

#[cfg(test)]
mod tests {
    use super::made_up as side;
    use super::*;

    fn foreign_s(player: &Cores, subject: &Cores) -> f64 {
        foreign_cpu_s(player, subject).unwrap()
    }

    #[test]
    fn a_host_is_known_by_its_boot() {
        let machine = tempfile::tempdir().unwrap();
        let folder = machine.path().join("proc/sys/kernel/random");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("boot_id"), "6a2f\n").unwrap();
        assert_eq!(HostId::read(&Root::at(machine.path())), HostId("6a2f".into()));
        assert_eq!(HostId::read(&Root::at(&folder)), HostId::default());
    }

    #[test]
    fn sides_of_one_host_share_its_cores() {
        // 3 s busy, less 0.75 s and 1.5 s, less a tick of each core.
        assert!((foreign_s(&side("a", &[0], 0.75), &side("a", &[1], 1.5)) - 0.73).abs() < 1e-9);
        // Both may run on all cores, which count once.
        assert!((foreign_s(&side("a", &[], 0.75), &side("a", &[], 1.5)) - 0.73).abs() < 1e-9);
        assert!((foreign_s(&side("a", &[0], 0.25), &side("a", &[0], 0.25)) - 0.49).abs() < 1e-9);
    }

    #[test]
    fn sides_of_two_hosts_have_their_own_cores() {
        // Core 0 of each: 1 s busy, less the side's own time and a tick.
        assert!((foreign_s(&side("a", &[0], 0.75), &side("b", &[0], 0.5)) - (0.24 + 0.49)).abs() < 1e-9);
        // Time to spare on one host does not cover the other's neighbour.
        assert!((foreign_s(&side("a", &[0], 9.0), &side("b", &[0], 0.5)) - 0.49).abs() < 1e-9);
    }

    #[test]
    fn a_core_that_went_offline_leaves_the_time_of_others_unknown() {
        assert!(foreign_cpu_s(&side("a", &[0], 0.0), &side("a", &[7], 0.0)).is_err());
        assert!(foreign_cpu_s(&side("a", &[0], 0.0), &side("b", &[7], 0.0)).is_err());
    }
}
