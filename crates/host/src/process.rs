//! A process and its threads, from `/proc/PID`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;

use crate::cpu_time::TICKS_PER_S;

/// Fields of `/proc/PID/stat` or `/proc/PID/task/TID/stat`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) name: String,
    pub(crate) ended: bool,
    /// It runs, or could.
    pub(crate) is_ready: bool,
    pub(crate) parent: u32,
    /// Its process group; `None` while the kernel removes it.
    pub(crate) group: Option<u32>,
    pub(crate) user_ticks: u64,
    pub(crate) system_ticks: u64,
    /// User ticks of children that have ended and were waited for.
    pub(crate) children_user_ticks: u64,
    /// System ticks of children that have ended and were waited for.
    pub(crate) children_system_ticks: u64,
    pub(crate) niceness: i32,
    /// In ticks since boot. Distinguishes a process from a later one with the same number.
    pub(crate) started: u64,
    pub(crate) cpu: u32,
}

/// Parses `proc_pid_stat(5)`. The name is in parentheses, and may itself hold any character.
pub(crate) fn parse_stat(text: &str) -> Option<Stat> {
    let (head, tail) = text.rsplit_once(')')?;
    let (_, name) = head.split_once('(')?;
    // The manual counts from 1, and the first field after the name is its third.
    let fields: Vec<&str> = tail.split_whitespace().collect();
    let text_of = |number: usize| fields.get(number - 3);
    let field = |number: usize| text_of(number)?.parse::<u64>().ok();
    Some(Stat {
        name: name.to_owned(),
        ended: matches!(*fields.first()?, "Z" | "X" | "x"),
        is_ready: *fields.first()? == "R",
        parent: text_of(4)?.parse().ok()?,
        group: text_of(5).and_then(|group| group.parse().ok()),
        user_ticks: field(14)?,
        system_ticks: field(15)?,
        children_user_ticks: field(16)?,
        children_system_ticks: field(17)?,
        niceness: text_of(19)?.parse().ok()?,
        started: field(22)?,
        cpu: text_of(39)?.parse().ok()?,
    })
}

/// A thread at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Thread {
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    pub(crate) name: String,
    pub(crate) started: u64,
    pub(crate) cpu: u32,
    /// Time on a core. At most a scheduler tick (1 to 10 ms) behind while the thread runs.
    pub(crate) on_cpu_ns: u64,
    /// Time ready to run without a core, up to the moment at which it last got one; `None` without `schedstat`.
    pub(crate) waited_ns: Option<u64>,
    /// Too coarse for a time, but good enough for its division into user and system time.
    pub(crate) user_ticks: u64,
    pub(crate) system_ticks: u64,
}

impl Thread {
    /// Reads a thread. The time comes from `schedstat`, in nanoseconds, since the ticks of `stat` are too coarse for
    /// a trial of half a second. Without `schedstat` this falls back to ticks.
    pub(crate) fn read(pid: u32, tid: u32) -> io::Result<Self> {
        let folder = format!("/proc/{pid}/task/{tid}");
        let stat = read_stat(&folder)?;
        let scheduled = fs::read_to_string(format!("{folder}/schedstat")).unwrap_or_default();
        let mut times_ns = scheduled.split_whitespace().map_while(|field| field.parse().ok());
        let on_cpu_ns = times_ns.next().unwrap_or_else(|| ticks_ns(stat.user_ticks + stat.system_ticks));
        let waited_ns = times_ns.next();
        let Stat { name, started, cpu, user_ticks, system_ticks, .. } = stat;
        Ok(Self { pid, tid, name, started, cpu, on_cpu_ns, waited_ns, user_ticks, system_ticks })
    }

    /// Whether both are readings of one thread.
    pub(crate) fn is(&self, other: &Self) -> bool {
        (self.tid, self.started) == (other.tid, other.started)
    }
}

/// A process at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) stat: Stat,
    /// CPU time of all its threads, including those that have ended.
    pub(crate) cpu_ns: u64,
    pub(crate) threads: Vec<Thread>,
}

impl Process {
    /// Reads a process. Threads that end meanwhile are left out.
    pub(crate) fn read(pid: u32) -> io::Result<Self> {
        let stat = read_stat(&format!("/proc/{pid}"))?;
        let cpu_ns = kqps_kernel::clock::process_cpu_ns_of(pid)
            .unwrap_or_else(|_| ticks_ns(stat.user_ticks + stat.system_ticks));
        let threads = thread_ids(pid)?.into_iter().filter_map(|tid| Thread::read(pid, tid).ok()).collect();
        Ok(Self { pid, stat, cpu_ns, threads })
    }

    /// CPU time of its children that have ended and were waited for, in ticks.
    pub(crate) fn children_ticks(&self) -> u64 {
        self.stat.children_user_ticks + self.stat.children_system_ticks
    }

    /// Whether both are readings of one process.
    pub(crate) fn is(&self, other: &Self) -> bool {
        (self.pid, self.stat.started) == (other.pid, other.stat.started)
    }
}

/// Converts ticks of `USER_HZ` to nanoseconds.
pub(crate) fn ticks_ns(ticks: u64) -> u64 {
    ticks * (1e9 / TICKS_PER_S) as u64
}

fn read_stat(folder: &str) -> io::Result<Stat> {
    parse_stat(&fs::read_to_string(format!("{folder}/stat"))?)
        .ok_or_else(|| io::Error::other("stat has another form than expected"))
}

/// Whether a process exists and has not ended.
pub fn lives(pid: u32) -> bool {
    read_stat(&format!("/proc/{pid}")).is_ok_and(|stat| !stat.ended)
}

/// When a process started, ticks since boot, which distinguishes it from a later one with the same number; `None` if
/// there is no such process.
pub fn started(pid: u32) -> Option<u64> {
    read_stat(&format!("/proc/{pid}")).ok().map(|stat| stat.started)
}

/// The process group of a process that has not ended.
pub fn group(pid: u32) -> Option<u32> {
    read_stat(&format!("/proc/{pid}")).ok().filter(|stat| !stat.ended)?.group
}

/// The parent of a process, if it runs the same program, as a server does for its worker. `None` if this process
/// descends from the parent too, since a program that started both is not part of a server.
pub fn parent_of_same_program(pid: u32) -> Option<u32> {
    let parent = parent(pid)?;
    let same = runs_same_program(pid, parent);
    (same && !family(parent).contains(&std::process::id())).then_some(parent)
}

/// The parent of a process; `None` for the first process, and for one that has ended.
pub(crate) fn parent(pid: u32) -> Option<u32> {
    read_stat(&format!("/proc/{pid}")).ok().map(|stat| stat.parent).filter(|parent| *parent > 0)
}

/// Whether two processes run the same program, as far as this process may see it.
pub(crate) fn runs_same_program(one: u32, other: u32) -> bool {
    let program = |pid: u32| fs::read_link(format!("/proc/{pid}/exe")).ok();
    program(one).is_some_and(|program_of_one| program(other) == Some(program_of_one))
}

/// The threads of a process, by number.
pub(crate) fn thread_ids(pid: u32) -> io::Result<Vec<u32>> {
    let mut tids: Vec<u32> = fs::read_dir(format!("/proc/{pid}/task"))?
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    tids.sort_unstable();
    Ok(tids)
}

/// The name of the program that a process runs, or the name of the process if its file may not be read.
pub fn program(pid: u32) -> Option<String> {
    let file = fs::read_link(format!("/proc/{pid}/exe")).ok();
    let name = file.as_ref().and_then(|file| file.file_name()?.to_str());
    // The file may have been replaced since.
    let name = name.map(|name| name.strip_suffix(" (deleted)").unwrap_or(name).to_owned());
    name.or_else(|| read_stat(&format!("/proc/{pid}")).ok().map(|stat| stat.name))
}

/// The cores that any thread of these processes and their descendants may run on. Empty if they cannot be read.
pub fn allowed_cpus(pids: &[u32]) -> Vec<u32> {
    let threads = families(pids).into_iter().flat_map(|pid| thread_ids(pid).unwrap_or_default());
    let cpus = threads.filter_map(|thread| kqps_kernel::affinity::allowed_to(thread).ok()).flatten();
    cpus.collect::<BTreeSet<u32>>().into_iter().collect()
}

/// The threads of a process and of all its descendants, by number. Threads that end meanwhile are left out.
pub fn threads_of(pid: u32) -> Vec<u32> {
    family(pid).into_iter().flat_map(|pid| thread_ids(pid).unwrap_or_default()).collect()
}

/// The threads of a process that run or could, by number, each with its time on a core so far, nanoseconds. A thread that
/// stays among them with the same time gets no core.
pub fn ready_threads(pid: u32) -> BTreeMap<u32, u64> {
    let ready = |tid: &u32| read_stat(&format!("/proc/{pid}/task/{tid}")).is_ok_and(|stat| stat.is_ready);
    let tids = thread_ids(pid).unwrap_or_default().into_iter().filter(ready);
    tids.filter_map(|tid| Some((tid, Thread::read(pid, tid).ok()?.on_cpu_ns))).collect()
}

/// Whether a thread of a process was last on this core, and runs or could.
pub(crate) fn is_ready_on(pid: u32, cpu: u32) -> bool {
    let stat = |tid| read_stat(&format!("/proc/{pid}/task/{tid}")).ok();
    let stats = thread_ids(pid).unwrap_or_default().into_iter().filter_map(stat);
    stats.into_iter().any(|stat| stat.is_ready && stat.cpu == cpu)
}

/// The name of a process.
pub(crate) fn name(pid: u32) -> Option<String> {
    fs::read_to_string(format!("/proc/{pid}/comm")).ok().map(|name| name.trim_end().to_owned())
}

/// The name of a thread.
pub(crate) fn thread_name(pid: u32, tid: u32) -> Option<String> {
    fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm")).ok().map(|name| name.trim_end().to_owned())
}

/// These processes and all their descendants, each once.
pub fn families(pids: &[u32]) -> Vec<u32> {
    let mut all: Vec<u32> = Vec::new();
    for &pid in pids {
        let family = family(pid);
        all.extend(family.into_iter().filter(|one| !all.contains(one)).collect::<Vec<u32>>());
    }
    all
}

/// A process and all its descendants, parents first. Processes that got another parent because their own ended are
/// not found.
pub(crate) fn family(pid: u32) -> Vec<u32> {
    let listed = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).is_ok();
    let parents = if listed { Vec::new() } else { every_parent() };
    let mut family = vec![pid];
    let mut next = 0;
    while let Some(&parent) = family.get(next) {
        if listed {
            family.extend(children(parent));
        } else {
            family.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(child, _)| child));
        }
        next += 1;
    }
    family
}

fn children(pid: u32) -> Vec<u32> {
    let of_thread = |tid| {
        let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/children")).unwrap_or_default();
        text.split_whitespace().filter_map(|child| child.parse().ok()).collect::<Vec<u32>>()
    };
    thread_ids(pid).unwrap_or_default().into_iter().flat_map(of_thread).collect()
}

/// Every process with its parent, for kernels that do not list children (`CONFIG_PROC_CHILDREN`).
fn every_parent() -> Vec<(u32, u32)> {
    processes().filter_map(|pid| Some((pid, read_stat(&format!("/proc/{pid}")).ok()?.parent))).collect()
}

/// Every visible process.
pub fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Fields of `/proc/PID/task/TID/status` and `/proc/PID/status`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) rss_bytes: u64,
    pub(crate) voluntary_switches: u64,
    pub(crate) involuntary_switches: u64,
}

/// Reads a thread's status. The memory is that of its process.
pub(crate) fn read_status(pid: u32, tid: u32) -> io::Result<Status> {
    Ok(parse_status(&fs::read_to_string(format!("/proc/{pid}/task/{tid}/status"))?))
}

fn parse_status(text: &str) -> Status {
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    Status {
        rss_bytes: value("VmRSS:").unwrap_or(0) * 1024,
        voluntary_switches: value("voluntary_ctxt_switches:").unwrap_or(0),
        involuntary_switches: value("nonvoluntary_ctxt_switches:").unwrap_or(0),
    }
}

/// Resident memory in bytes; `None` of a process that has ended.
pub(crate) fn rss_bytes(pid: u32) -> Option<u64> {
    read_status(pid, pid).ok().map(|status| status.rss_bytes)
}

/// Proportional memory in bytes: every page divided by the number of processes that share it. The kernel takes about
/// a millisecond per 100 MB.
pub(crate) fn read_pss_bytes(pid: u32) -> io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok())
        .map(|kib| kib * 1024)
        .ok_or_else(|| io::Error::other("smaps_rollup has no Pss"))
}

/// The inodes of all sockets that a process has open.
pub(crate) fn socket_inodes(pid: u32) -> io::Result<BTreeSet<u64>> {
    let inode = |entry: fs::DirEntry| {
        let link = fs::read_link(entry.path()).ok()?;
        link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    };
    Ok(fs::read_dir(format!("/proc/{pid}/fd"))?.flatten().filter_map(inode).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_anything() {
        let text = "9891 (a) R (b) S 9889 9889 5976 0 -1 4194304 88 0 0 0 101 7 2 3 20 0 1 0 129566 2654208 380 \
                    18446744073709551615 1 1 1 0 0 0 0 0 65538 0 0 0 17 3 0 0 0 0 0 1 1 1 1 1 1 1 0";
        let wanted = Stat {
            name: "a) R (b".into(),
            ended: false,
            is_ready: false,
            parent: 9889,
            group: Some(9889),
            user_ticks: 101,
            system_ticks: 7,
            children_user_ticks: 2,
            children_system_ticks: 3,
            niceness: 0,
            started: 129_566,
            cpu: 3,
        };
        assert_eq!(parse_stat(text), Some(wanted));
        assert_eq!(parse_stat("1 (cut) S 1"), None);
    }

    #[test]
    fn status_is_given_in_kib() {
        let status = parse_status(
            "Name:\tnsd\nVmRSS:\t    1848 kB\nvoluntary_ctxt_switches:\t31\nnonvoluntary_ctxt_switches:\t4\n",
        );
        let wanted = Status { rss_bytes: 1848 * 1024, voluntary_switches: 31, involuntary_switches: 4 };
        assert_eq!(status, wanted);
    }
}
