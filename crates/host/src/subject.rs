//! The subject: a process and all its descendants. Its counters are read before and after a trial, and subtracted.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;

use kqps_observation::SubjectFacts;
use kqps_observation::subject::ThreadFacts;

use crate::network::parse_sockets;
use crate::process::{self, Process, Status, Thread};
use crate::unreadable::noted;

/// CPU time of the subject at one moment.
#[derive(Debug, Default)]
pub(crate) struct CpuReading {
    processes: Vec<Process>,
}

impl CpuReading {
    /// Reads the processes and all their descendants. A process that ends meanwhile is left out.
    pub(crate) fn take(pids: &[u32]) -> Self {
        let family = process::families(pids).into_iter();
        Self { processes: family.filter_map(|pid| Process::read(pid).ok()).collect() }
    }

    fn find(&self, wanted: &Process) -> Option<&Process> {
        self.processes.iter().find(|process| process.is(wanted))
    }
}

/// CPU seconds that a process and its descendants have used so far, including children that have ended and were waited
/// for; 0 if the process has ended.
pub fn cpu_s_so_far(pid: u32) -> f64 {
    let of = |process: &Process| process.cpu_ns + process::ticks_ns(process.children_ticks());
    CpuReading::take(&[pid]).processes.iter().map(of).sum::<u64>() as f64 / 1e9
}

/// Resident memory of these processes and all their descendants now, bytes. Pages that several of them share count in each.
pub fn rss_bytes_now(pids: &[u32]) -> u64 {
    process::families(pids).into_iter().filter_map(process::rss_bytes).sum()
}

/// Counters of the subject at one moment, as far as they could be read.
#[derive(Debug, Default)]
pub(crate) struct CounterReading {
    switches: Vec<(u32, Status)>,
    /// Inode → drops.
    sockets: Option<BTreeMap<u64, u64>>,
}

impl CounterReading {
    /// Reads context switches and socket drops of the processes and all their descendants.
    pub(crate) fn take(pids: &[u32], unreadable: &mut BTreeMap<String, String>) -> Self {
        let family = process::families(pids);
        let switches = family
            .iter()
            .flat_map(|&pid| {
                process::thread_ids(pid).unwrap_or_default().into_iter().map(move |tid| (pid, tid))
            })
            .filter_map(|(pid, tid)| Some((tid, process::read_status(pid, tid).ok()?)))
            .collect();
        let none = || io::Error::other("none of its UDP sockets was found");
        let sockets = udp_sockets(&family)
            .and_then(|sockets| if sockets.is_empty() { Err(none()) } else { Ok(Some(sockets)) });
        let sockets = noted("subject sockets", sockets, unreadable);
        Self { switches, sockets }
    }
}

/// The drops of all UDP sockets of some processes, each from the table of its process's namespace.
fn udp_sockets(family: &[u32]) -> io::Result<BTreeMap<u64, u64>> {
    let mut inodes = BTreeSet::new();
    let mut namespaces = BTreeMap::new();
    for &pid in family {
        match process::socket_inodes(pid) {
            Ok(of_process) => inodes.extend(of_process),
            // The process has ended since the family was listed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        }
        namespaces.entry(fs::read_link(format!("/proc/{pid}/ns/net")).ok()).or_insert(pid);
    }
    let mut sockets = BTreeMap::new();
    for pid in namespaces.into_values() {
        for family in ["udp", "udp6"] {
            // A kernel without IPv6 has no udp6.
            let table = fs::read_to_string(format!("/proc/{pid}/net/{family}")).unwrap_or_default();
            sockets.extend(parse_sockets(&table, &inodes));
        }
    }
    Ok(sockets)
}

/// CPU seconds of the whole subject between two readings.
///
/// When a process ends, its CPU time is added to its parent's counters of waited-for children. That time covers its
/// whole life and its children's, so its CPU time at the first reading is subtracted.
pub(crate) fn cpu_s(before: &CpuReading, after: &CpuReading) -> f64 {
    let mut spent_ns = 0i128;
    for process in &after.processes {
        let earlier = before.find(process);
        spent_ns += i128::from(process.cpu_ns.saturating_sub(earlier.map_or(0, |earlier| earlier.cpu_ns)));
    }
    spent_ns += ended_ns(before, after);
    spent_ns as f64 / 1e9
}

fn ended_ns(before: &CpuReading, after: &CpuReading) -> i128 {
    let waited_for: u64 = after
        .processes
        .iter()
        .map(|process| {
            let earlier = before.find(process).map_or(0, Process::children_ticks);
            process.children_ticks().saturating_sub(earlier)
        })
        .sum();
    let known: u64 = before
        .processes
        .iter()
        .filter(|process| after.find(process).is_none())
        .map(|process| process.cpu_ns + process::ticks_ns(process.children_ticks()))
        .sum();
    (i128::from(process::ticks_ns(waited_for)) - i128::from(known)).max(0)
}

/// Fewer ticks than this do not show how time divides into user and system.
const ENOUGH_TICKS: u64 = 10;

/// The user share of the CPU time between two readings, 0 to 1. If there are too few ticks in between, it is the share
/// since the start of the processes.
fn user_share(before: &CpuReading, after: &CpuReading) -> f64 {
    let sum = |reading: &CpuReading| {
        reading.processes.iter().fold((0, 0), |(user, system), process| {
            let stat = &process.stat;
            (
                user + stat.user_ticks + stat.children_user_ticks,
                system + stat.system_ticks + stat.children_system_ticks,
            )
        })
    };
    share_between(sum(before), sum(after)).unwrap_or(0.0)
}

/// The user share between two readings of user and system ticks; `None` if no tick was ever counted.
fn share_between(before: (u64, u64), after: (u64, u64)) -> Option<f64> {
    let between = (after.0.saturating_sub(before.0), after.1.saturating_sub(before.1));
    let (user, system) = if between.0 + between.1 >= ENOUGH_TICKS { between } else { after };
    (user + system > 0).then(|| user as f64 / (user + system) as f64)
}

/// The usage of threads between two readings, busiest first. Threads that used nothing are left out.
pub(crate) fn threads_between(before: &[Thread], after: &[Thread], wall_s: f64) -> Vec<ThreadFacts> {
    let mut facts: Vec<ThreadFacts> = after
        .iter()
        .filter_map(|thread| {
            let earlier = before.iter().find(|earlier| earlier.is(thread));
            let spent_ns = thread.on_cpu_ns.saturating_sub(earlier.map_or(0, |earlier| earlier.on_cpu_ns));
            let cpu_s = spent_ns as f64 / 1e9;
            let earlier_waited_ns = earlier.map_or(Some(0), |earlier| earlier.waited_ns);
            let waited_ns =
                thread.waited_ns.zip(earlier_waited_ns).map(|(all, before)| all.saturating_sub(before));
            let ticks = |thread: &Thread| (thread.user_ticks, thread.system_ticks);
            let user_share = share_between(earlier.map_or((0, 0), ticks), ticks(thread));
            (spent_ns > 0).then(|| ThreadFacts {
                pid: thread.pid,
                tid: thread.tid,
                name: thread.name.clone(),
                cpu_s,
                cpu_user_s: user_share.map(|share| cpu_s * share),
                cpu_system_s: user_share.map(|share| cpu_s * (1.0 - share)),
                awake_s: 0.0,
                withheld_s: 0.0,
                waited_s: waited_ns.map(|ns| ns as f64 / 1e9),
                busy: if wall_s > 0.0 { (cpu_s / wall_s).min(1.0) } else { 0.0 },
                cpu: thread.cpu,
            })
        })
        .collect();
    facts.sort_by(|one, other| other.cpu_s.total_cmp(&one.cpu_s));
    facts
}

/// Both readings of CPU time and of counters, and the seconds between the readings of CPU time.
pub(crate) struct Readings<'a> {
    pub(crate) cpu: [&'a CpuReading; 2],
    pub(crate) counters: [&'a CounterReading; 2],
    pub(crate) wall_s: f64,
}

/// The record of the subject. `pids` are its processes that do not descend from each other.
pub(crate) fn facts(
    pids: &[u32],
    readings: &Readings<'_>,
    unreadable: &mut BTreeMap<String, String>,
) -> SubjectFacts {
    let [before, after] = readings.cpu;
    let ended = pids.iter().find(|pid| !process::lives(**pid));
    if let Some(pid) = ended {
        unreadable.insert("subject".into(), format!("process {pid} was not alive at the end"));
    }
    let pid = ended.or(pids.first()).copied().unwrap_or_default();
    let cpu_s = cpu_s(before, after);
    let user_share = user_share(before, after);
    let threads = |reading: &CpuReading| -> Vec<Thread> {
        reading.processes.iter().flat_map(|process| process.threads.clone()).collect()
    };
    let [voluntary_switches, involuntary_switches] = switches(readings.counters);
    let running = after.processes.iter().filter(|process| !process.stat.ended);
    SubjectFacts {
        pid,
        other_pids: pids.iter().copied().filter(|other| *other != pid).collect(),
        program: process::program(pid).unwrap_or_default(),
        cpus: process::allowed_cpus(pids),
        alive: ended.is_none(),
        niceness: after
            .processes
            .iter()
            .find(|process| process.pid == pid)
            .map(|process| process.stat.niceness),
        processes: u32::try_from(running.count()).unwrap_or(u32::MAX),
        cpu_user_s: cpu_s * user_share,
        cpu_system_s: cpu_s * (1.0 - user_share),
        voluntary_switches,
        involuntary_switches,
        rss_bytes: rss_bytes(after),
        pss_bytes: pss_bytes(after, unreadable),
        socket_drops: socket_drops(readings.counters),
        // Only the program that started the subject knows this.
        ready_s: None,
        network: None,
        threads: threads_between(&threads(before), &threads(after), readings.wall_s),
        profile: None,
    }
}

/// Voluntary and involuntary switches. Those of threads that ended in between are not known.
fn switches([before, after]: [&CounterReading; 2]) -> [u64; 2] {
    after.switches.iter().fold([0, 0], |[voluntary, involuntary], (tid, now)| {
        let then = before.switches.iter().find(|(earlier, _)| earlier == tid);
        let then = then.map(|(_, status)| *status).unwrap_or_default();
        [
            voluntary + now.voluntary_switches.saturating_sub(then.voluntary_switches),
            involuntary + now.involuntary_switches.saturating_sub(then.involuntary_switches),
        ]
    })
}

/// The drops of sockets. A socket opened in between counts from 0. The drops of a socket closed in between are not
/// known.
fn socket_drops([before, after]: [&CounterReading; 2]) -> Option<u64> {
    let (before, after) = (before.sockets.as_ref()?, after.sockets.as_ref()?);
    let drops =
        after.iter().map(|(inode, drops)| drops.saturating_sub(before.get(inode).copied().unwrap_or(0)));
    Some(drops.sum())
}

fn rss_bytes(reading: &CpuReading) -> u64 {
    reading.processes.iter().filter_map(|process| process::rss_bytes(process.pid)).sum()
}

fn pss_bytes(reading: &CpuReading, unreadable: &mut BTreeMap<String, String>) -> Option<u64> {
    let sum =
        reading.processes.iter().map(|process| process::read_pss_bytes(process.pid)).sum::<io::Result<u64>>();
    noted("subject pss", sum.map(Some), unreadable)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(on_cpu_s: u64, user_ticks: u64, system_ticks: u64) -> Thread {
        Thread { tid: 7, on_cpu_ns: on_cpu_s * 1_000_000_000, user_ticks, system_ticks, ..Thread::default() }
    }

    #[test]
    fn a_threads_time_divides_as_its_ticks_do() {
        // 100 of its 400 ticks in between were user time, and the exact time is 5 s.
        let used = threads_between(&[thread(1, 50, 0)], &[thread(6, 150, 300)], 10.0);
        assert_eq!((used[0].cpu_s, used[0].busy), (5.0, 0.5));
        assert_eq!((used[0].cpu_user_s, used[0].cpu_system_s), (Some(1.25), Some(3.75)));
    }

    #[test]
    fn few_ticks_divide_as_all_since_the_start_and_none_do_not() {
        let used = threads_between(&[thread(1, 74, 20)], &[thread(3, 75, 25)], 10.0);
        assert_eq!((used[0].cpu_user_s, used[0].cpu_system_s), (Some(1.5), Some(0.5)));
        let used = threads_between(&[], &[thread(1, 0, 0)], 10.0);
        assert_eq!((used[0].cpu_s, used[0].cpu_user_s, used[0].cpu_system_s), (1.0, None, None));
    }
}
