//! Whether those that wait for their turn are idle, and whether there is memory for one more.

use kqps_observation::trial::Beside;
use kqps_observation::{Run, Trial};
use kqps_verdict::disturbed::is_restless;

use super::Member;

/// A server is taken to need this many times the most memory that it was seen to have.
const ROOM: f64 = 1.25;

/// What the others of a group had spent when a trial began.
pub(super) struct Idle {
    /// Which member, the name of its cell, and CPU seconds so far.
    spent: Vec<(usize, String, f64)>,
}

impl Idle {
    /// Before a trial of the member at `at`.
    pub(super) fn of(run: &Run, members: &[Member<'_>], at: usize) -> Self {
        let others = members.iter().enumerate().filter(|(other, _)| *other != at);
        let spent = others.filter_map(|(other, member)| {
            let spent_s = member.play.as_ref()?.cpu_s()?;
            Some((other, run.cells[member.place.cell].name.clone(), spent_s))
        });
        Self { spent: spent.collect() }
    }

    /// What they did since, after it.
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

    /// Those that were not idle in a trial, in the order of the members, and in words what they did.
    pub(super) fn restless(&self, trial: &Trial) -> Vec<(usize, String)> {
        let each = self.spent.iter().zip(&trial.beside);
        let restless = each.filter(|(_, beside)| is_restless(trial, beside));
        let words = |cpu_s: f64| {
            format!(
                "it is not quiet while others are measured: it took {:.1} ms of CPU time in a trial of theirs",
                cpu_s * 1e3
            )
        };
        restless.map(|((at, ..), beside)| (*at, words(beside.cpu_s))).collect()
    }
}

/// Why a cell's subject cannot be started beside these, if so: by the most memory that it was seen to have, or where it was
/// never seen, that any of these has.
pub(super) fn why_no_room(run: &Run, cell: usize, members: &[Member<'_>]) -> Option<String> {
    if members.is_empty() {
        return None;
    }
    let most = |cell: usize| {
        let measured = run.trials_of(cell).filter_map(|one| one.measured()?.subject.as_ref());
        measured.map(|subject| subject.rss_bytes).max()
    };
    let beside = members.iter().filter_map(|member| most(member.place.cell)).max();
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
