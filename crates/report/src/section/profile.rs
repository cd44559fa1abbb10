//! Where the time of profiled subjects goes: states per query and by thread, locks, what grew with the workers, and the
//! call chains as an icicle.

use kqps_observation::Run;
use kqps_observation::profile::{ProfileFacts, ProfileSource, StackNode, ThreadProfile, ThreadTimes};
use kqps_observation::run::RunTrial;
use kqps_verdict::judge::{CellProfile, Grown, NamedLock, RunVerdict};

use crate::chart::{Icicle, Piece, icicle};
use crate::format;

/// Threads beyond this number are one row of the table.
const THREADS_MOST: usize = 12;

/// How far samples may lie from the kernel's count of CPU time without a remark.
const SHARE_OFF: f64 = 0.1;

#[derive(Debug)]
pub(crate) struct Panel {
    pub(crate) name: String,
    /// The profiled trial.
    pub(crate) trial: u64,
    /// How it was sampled and what that cost, and what the server's own time is.
    pub(crate) caption: String,
    /// Whether the table of states has a column for the echo.
    pub(crate) has_echo: bool,
    /// State, microseconds per query, those of the echo, and the share.
    pub(crate) states: Vec<[String; 4]>,
    /// Thread, and the share of its time in each state.
    pub(crate) threads: Vec<Vec<String>>,
    /// The words of the states, for the head of that table.
    pub(crate) heads: [&'static str; 8],
    pub(crate) locks: Vec<Lock>,
    /// A sentence on the growth; empty if nothing is compared.
    pub(crate) growth: String,
    /// State, function or lock that grew, microseconds per query with the fewest workers and with this cell's.
    pub(crate) grown: Vec<[String; 3]>,
    /// SVG; empty if no functions are known.
    pub(crate) drawing: String,
    /// The data that could not be sampled, and why.
    pub(crate) unreadable: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct Lock {
    pub(crate) name: String,
    pub(crate) callers: String,
    pub(crate) waits: String,
    pub(crate) per_query: String,
    pub(crate) share: String,
}

/// A panel for each profiled subject, in the order of the verdict.
pub(crate) fn panels(run: &Run, verdict: &RunVerdict) -> Vec<Panel> {
    verdict.profiles.iter().map(|profile| panel(profile, facts(run, profile))).collect()
}

/// The facts that were sampled of a profiled trial.
pub(crate) fn facts<'a>(run: &'a Run, profile: &CellProfile) -> Option<&'a ProfileFacts> {
    let trial = run.trials.iter().find(|one| one.number == profile.trial).and_then(RunTrial::measured);
    trial?.subject.as_ref()?.profile.as_ref()
}

fn panel(profile: &CellProfile, facts: Option<&ProfileFacts>) -> Panel {
    let micros = format::time_us;
    let state = |state: &kqps_verdict::judge::StateTime| {
        let echo = state.echo_us.map_or(format::NONE.to_owned(), micros);
        [state.state.clone(), micros(state.us), echo, format::percent(state.share)]
    };
    let unreadable = facts.iter().flat_map(|facts| &facts.unreadable);
    let growth = profile.growth.as_ref();
    let all_grown = |growth: &kqps_verdict::judge::Growth| -> Vec<Grown> {
        [&growth.states, &growth.functions, &growth.locks].into_iter().flatten().cloned().collect()
    };
    let grown = growth.map_or_else(Vec::new, all_grown);
    let shown = |one: &Grown| [one.what.clone(), micros(one.from_us), micros(one.to_us)];
    Panel {
        name: profile.name.clone(),
        trial: profile.trial,
        caption: caption(profile, facts),
        has_echo: profile.echo.is_some(),
        states: profile.states.iter().map(state).collect(),
        threads: facts.map_or(Vec::new(), |facts| threads(&facts.threads)),
        heads: ThreadTimes::STATES,
        locks: profile.locks.iter().map(lock).collect(),
        growth: growth.map_or(String::new(), |growth| {
            let workers = |count: u32| format::counted(count as usize, "worker");
            let (from, to) = (workers(growth.from_workers), workers(growth.to_workers));
            if grown.is_empty() {
                format!("From {from} to {to}, nothing takes longer per query.")
            } else {
                format!("What takes longer per query with {to} than with {from}:")
            }
        }),
        grown: grown.iter().map(shown).collect(),
        drawing: facts.map_or(String::new(), |facts| drawing(profile, facts)),
        unreadable: unreadable.map(|(what, why)| format!("{what}: {why}")).collect(),
    }
}

fn caption(profile: &CellProfile, facts: Option<&ProfileFacts>) -> String {
    if let Some(why) = &profile.failure {
        return format!("Trial {} was to be profiled, which failed: {why}.", profile.trial);
    }
    let how = match profile.by {
        ProfileSource::Cores => "sampled by the kernel",
        ProfileSource::Threads => "sampled by the kernel without what threads wait for",
        ProfileSource::Proc => "read from /proc, which shows no functions",
    };
    let mut sentences =
        vec![format!("Trial {}, {how}, with {} answers.", profile.trial, format::count(profile.answers))];
    if let Some(overhead) = profile.overhead {
        let change = if overhead < 0.0 { "raised" } else { "lowered" };
        sentences.push(format!("Sampling {change} the rate by {}.", format::percent(overhead.abs())));
    }
    if let Some(lost) = facts.map(|facts| facts.lost).filter(|lost| *lost > 0) {
        sentences.push(format!("The kernel dropped {} samples.", format::count(lost)));
    }
    let share = facts.and_then(|facts| facts.sampled_share).filter(|share| (share - 1.0).abs() > SHARE_OFF);
    if let Some(share) = share {
        sentences.push(format!(
            "Samples show {} of the CPU time that the kernel counted; times on a core are scaled to it.",
            format::percent(share)
        ));
    }
    if let (Some(both_us), Some(own_us), Some(echo)) = (profile.both_us, profile.own_us, &profile.echo) {
        sentences.push(format!(
            "Of the CPU time per query, {} are the kernel's path, which {echo} pays too, and {} are the server's own.",
            format::time_us(both_us),
            format::time_us(own_us)
        ));
    }
    sentences.join(" ")
}

/// The rows of the threads; the last one sums up those for which there is no row.
fn threads(threads: &[ThreadProfile]) -> Vec<Vec<String>> {
    let (first, rest) = threads.split_at(threads.len().min(THREADS_MOST));
    let mut rows: Vec<Vec<String>> = first.iter().map(thread).collect();
    if !rest.is_empty() {
        // The record sums up threads, too: `65 others`.
        let of_row = |thread: &ThreadProfile| {
            thread.name.strip_suffix(" others").and_then(|count| count.parse::<usize>().ok()).unwrap_or(1)
        };
        let count: usize = rest.iter().map(of_row).sum();
        let mut others = ThreadProfile { name: format!("and {count} others"), ..ThreadProfile::default() };
        for thread in rest {
            others.times += thread.times;
        }
        rows.push(thread(&others));
    }
    rows
}

fn thread(thread: &ThreadProfile) -> Vec<String> {
    let all_s = thread.times.all_s();
    let share = |seconds: f64| if seconds > 0.0 { format::percent(seconds / all_s) } else { String::new() };
    let name =
        if thread.tid == 0 { thread.name.clone() } else { format!("{} ({})", thread.name, thread.tid) };
    std::iter::once(name).chain(thread.times.seconds().map(share)).collect()
}

fn lock(named: &NamedLock) -> Lock {
    let lock = &named.lock;
    Lock {
        name: format!("{} in {}", lock.kind, lock.place),
        callers: match (lock.callers.is_empty(), lock.address) {
            (true, Some(address)) => format!("callers not known, at {address:#x}"),
            (true, None) => "callers not known".to_owned(),
            _ => lock.callers.iter().take(4).map(String::as_str).collect::<Vec<_>>().join(" ← "),
        },
        waits: if lock.waits > 0 { format::count(lock.waits) } else { format::NONE.to_owned() },
        per_query: format::time_us(named.us),
        share: format::percent(named.share),
    }
}

fn drawing(profile: &CellProfile, facts: &ProfileFacts) -> String {
    let roots = facts.stacks.iter().filter(|node| node.parent.is_none());
    let all_s: f64 = roots.map(|node| node.seconds).sum();
    let piece = |node: &StackNode| {
        let share = if all_s > 0.0 { node.seconds / all_s } else { 0.0 };
        Piece {
            label: node.name.clone(),
            tooltip: format!("{}: {} of the CPU time", node.name, format::percent(share)),
            class: if node.kernel { "kernel" } else { "user" },
            parent: node.parent.map(|parent| parent as usize),
            share,
        }
    };
    let pieces: Vec<Piece> = facts.stacks.iter().map(piece).collect();
    let mut heaviest: Vec<_> = facts.stacks.iter().filter(|node| node.own_s > 0.0).collect();
    heaviest.sort_by(|one, other| other.own_s.total_cmp(&one.own_s));
    let said =
        heaviest.iter().take(5).map(|node| format!("{}: {}", node.name, format::percent(node.own_s / all_s)));
    icicle(&Icicle {
        id: &format!("profile-{}", profile.cell),
        title: &format!("CPU time of {} by function", profile.name),
        description: &said.collect::<Vec<String>>().join(", "),
        pieces: &pieces,
        rows_most: StackNode::DEPTH_MOST,
    })
}

#[cfg(test)]
mod tests {
    use kqps_observation::profile::{LockFacts, StackNode};
    use kqps_verdict::judge::{Growth, StateTime};

    use super::*;

    fn facts() -> ProfileFacts {
        let times = ThreadTimes { user_s: 0.25, io_s: 0.75, ..ThreadTimes::default() };
        let node = |name: &str, kernel, parent, seconds| StackNode {
            name: name.into(),
            kernel,
            parent,
            seconds,
            own_s: seconds / 2.0,
        };
        ProfileFacts {
            threads: vec![ThreadProfile { tid: 7, name: "worker".into(), times, ..ThreadProfile::default() }],
            stacks: vec![node("main", false, None, 0.25), node("udp_recvmsg", true, Some(0), 0.125)],
            unreadable: [("waits".to_owned(), "no".to_owned())].into(),
            lost: 3,
            sampled_share: Some(0.8),
            ..ProfileFacts::default()
        }
    }

    fn profile() -> CellProfile {
        let lock =
            LockFacts { kind: "futex".into(), place: "answer".into(), waits: 5, ..LockFacts::default() };
        let lock = LockFacts { address: Some(0x7f00), ..lock };
        CellProfile {
            name: "nsd".into(),
            answers: 1000,
            overhead: Some(0.05),
            states: vec![StateTime { state: "user".into(), us: 4.0, echo_us: Some(1.0), share: 0.25 }],
            echo: Some("echo mmsg".into()),
            both_us: Some(5.0),
            own_us: Some(2.0),
            locks: vec![NamedLock { lock, us: 3.0, share: 0.5 }],
            growth: Some(Growth { from_workers: 1, to_workers: 2, ..Growth::default() }),
            ..CellProfile::default()
        }
    }

    #[test]
    fn a_panel_says_where_the_time_went_and_what_that_cost() {
        let panel = panel(&profile(), Some(&facts()));
        let caption = panel.caption.replace('\u{a0}', " ");
        assert!(caption.contains("Sampling lowered the rate by 5.0 %"), "{caption}");
        assert!(caption.contains("dropped 3 samples") && caption.contains("which echo mmsg pays too"));
        assert_eq!((panel.locks[0].name.as_str(), panel.has_echo), ("futex in answer", true));
        assert_eq!(panel.locks[0].callers, "callers not known, at 0x7f00");
        assert!(caption.contains("Samples show 80 % of the CPU time that the kernel counted"), "{caption}");
        assert_eq!((panel.threads[0].len(), panel.threads[0][0].as_str()), (9, "worker (7)"));
        assert!(panel.growth.contains("nothing takes longer") && panel.grown.is_empty());
        assert!(panel.drawing.contains("frame kernel") && panel.drawing.contains("width=\"50%\""));
        assert_eq!(panel.unreadable, ["waits: no"]);
    }

    #[test]
    fn threads_without_a_row_are_in_the_last_one() {
        let times = ThreadTimes { user_s: 1.0, ..ThreadTimes::default() };
        let mut all: Vec<ThreadProfile> =
            (1..=63).map(|tid| ThreadProfile { tid, times, ..ThreadProfile::default() }).collect();
        all.push(ThreadProfile { name: "65 others".into(), times, ..ThreadProfile::default() });
        let rows = threads(&all);
        assert_eq!((rows.len(), rows[12][0].as_str()), (13, "and 116 others"), "128 threads");
        assert_eq!(threads(&all[..12]).len(), 12);
    }

    #[test]
    fn a_profile_that_failed_says_why() {
        let failed = CellProfile { failure: Some("it died".into()), trial: 9, ..CellProfile::default() };
        let panel = panel(&failed, None);
        assert!(panel.caption.contains("Trial 9") && panel.caption.contains("it died"));
        assert!(panel.drawing.is_empty() && panel.states.is_empty());
    }
}
