//! Whether the servers that wait for their turn are idle, and whether there is memory for one more.

use kqps_observation::trial::Beside;
use kqps_observation::{Run, Trial};
use kqps_verdict::disturbed::is_restless;

use super::Member;

/// A server is assumed to need this multiple of the most memory that it was seen to use.
const ROOM: f64 = 1.25;

/// The CPU time of the other members when a trial began.
pub(super) struct Idle {
    /// For each: the index of the member, the name of its cell, and its CPU seconds so far.
    spent: Vec<(usize, String, f64)>,
}

impl Idle {
    /// Reads the CPU time before a trial of the member at index `at`.
    pub(super) fn read(run: &Run, members: &[Member<'_>], at: usize) -> Self {
        let others = members.iter().enumerate().filter(|(other, _)| *other != at);
        let spent = others.filter_map(|(other, member)| {
            let spent_s = member.play.as_ref()?.cpu_s()?;
            Some((other, run.cells[member.key.cell].name.clone(), spent_s))
        });
        Self { spent: spent.collect() }
    }

    /// The CPU time that they used since, read after the trial.
    pub(super) fn beside(&self, members: &[Member<'_>]) -> Vec<Beside> {
        let since = |(at, name, before_s): &(usize, String, f64)| Beside {
            name: name.clone(),
            cpu_s: members[*at]
                .play
                .as_ref()
                .and_then(|play| play.cpu_s())
                .map_or(0.0, |s| (s - before_s).max(0.0)),
        };
        self.spent.iter().map(since).collect()
    }

    /// The members that were busy during a trial, in their order, with a reason in words.
    pub(super) fn restless(&self, trial: &Trial) -> Vec<(usize, String)> {
        let each = self.spent.iter().zip(&trial.beside);
        let restless = each.filter(|(_, beside)| is_restless(trial, beside));
        let words = |cpu_s: f64| {
            format!(
                "it is not idle while others are measured: it used {:.1} ms of CPU time during a trial",
                cpu_s * 1e3
            )
        };
        restless.map(|((at, ..), beside)| (*at, words(beside.cpu_s))).collect()
    }
}

/// Why there is no memory to start a cell's subject beside these; `None` if there is. Its need follows from the
/// most memory that it was seen to use or, if it never ran, from the most that any of these used. The memory of
/// another host is not known here.
pub(super) fn why_no_room(run: &Run, cell: usize, members: &[Member<'_>]) -> Option<String> {
    if members.is_empty() || !run.hosts.is_empty() {
        return None;
    }
    let most = |cell: usize| {
        let measured = run.trials_of(cell).filter_map(|one| one.measured()?.subject.as_ref());
        measured.map(|subject| subject.rss_bytes).max()
    };
    let beside = members.iter().filter_map(|member| most(member.key.cell)).max();
    let wanted = most(cell).or(beside)? as f64 * ROOM;
    let available = kqps_host::memory_available()?;
    let in_mib = |bytes: f64| bytes / 1_048_576.0;
    (wanted > available as f64).then(|| {
        format!(
            "its memory would not fit beside the others: it may take {:.0} MiB, and {:.0} MiB are available",
            in_mib(wanted),
            in_mib(available as f64)
        )
    })
}
