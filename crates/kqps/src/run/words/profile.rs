//! Where the time of profiled servers goes, in a few lines; the page has all of it.

use std::fmt::Write as _;

use kqps_observation::visible::visible_line;
use kqps_verdict::judge::{CellProfile, RunVerdict};

/// The most states and functions in a line.
const MOST: usize = 3;

/// A paragraph for each profiled server; empty if none was profiled.
pub(super) fn paragraphs(verdict: &RunVerdict) -> String {
    let mut text = String::new();
    for profile in &verdict.profiles {
        let _ = writeln!(text, "Where the time of {} goes:", visible_line(&profile.name));
        for (head, line) in lines(profile) {
            text += &super::wrapped(&format!("  {head:<12} "), &visible_line(&line));
        }
        text.push('\n');
    }
    text
}

fn lines(profile: &CellProfile) -> Vec<(&'static str, String)> {
    if let Some(why) = &profile.failure {
        return vec![("not known", why.clone())];
    }
    let mut states: Vec<_> = profile.states.iter().filter(|state| state.share >= 0.01).collect();
    states.sort_by(|one, other| other.share.total_cmp(&one.share));
    let state = |state: &&kqps_verdict::judge::StateTime| {
        format!("{} {:.0} % ({:.1} µs per query)", state.state, state.share * 100.0, state.us)
    };
    let mut lines = vec![("states", joined(states.iter().map(state)))];
    if let (Some(both_us), Some(own_us), Some(echo)) = (profile.both_us, profile.own_us, &profile.echo) {
        let paid = format!("{both_us:.1} µs of CPU time per query in the kernel, which {echo} pays too");
        lines.push(("kernel", paid));
        lines.push(("own", format!("{own_us:.1} µs of CPU time per query")));
    }
    for named in &profile.locks {
        let lock = &named.lock;
        let share = named.share * 100.0;
        let callers = if lock.callers.is_empty() { " (callers not known)" } else { "" };
        lines.push(("lock", format!("{} in {}{callers}: {share:.0} % of the time", lock.kind, lock.place)));
    }
    if let Some(growth) = &profile.growth {
        let grown = [&growth.states, &growth.functions, &growth.locks];
        let grown = grown.into_iter().flat_map(|grown| grown.iter().take(MOST));
        let shown = grown.map(|one| format!("{} {:.1} to {:.1} µs", one.what, one.from_us, one.to_us));
        let shown = joined(shown);
        let shown = if shown.is_empty() { "nothing".to_owned() } else { shown };
        let (from, to) = (growth.from_workers, growth.to_workers);
        lines.push(("grew", format!("from {from} to {to} workers, per query: {shown}")));
    }
    if let Some(overhead) = profile.overhead {
        lines.push(("sampling", format!("cost {:.1} % of the rate", overhead * 100.0)));
    }
    lines
}

fn joined(words: impl Iterator<Item = String>) -> String {
    words.collect::<Vec<String>>().join(", ")
}

#[cfg(test)]
mod tests {
    use kqps_observation::profile::LockFacts;
    use kqps_verdict::judge::{Grown, Growth, NamedLock, StateTime};

    use super::*;

    #[test]
    fn a_profile_is_a_few_lines() {
        let lock =
            LockFacts { kind: "spinlock".into(), place: "inet_csk_accept".into(), ..LockFacts::default() };
        let profile = CellProfile {
            name: "knot".into(),
            overhead: Some(0.031),
            states: vec![StateTime { state: "user".into(), us: 4.0, echo_us: None, share: 0.25 }],
            locks: vec![NamedLock { lock, us: 3.0, share: 0.125 }],
            growth: Some(Growth {
                from_workers: 1,
                to_workers: 2,
                states: vec![Grown { what: "spinning".into(), from_us: 0.0, to_us: 3.0 }],
                functions: Vec::new(),
                locks: vec![Grown { what: "spinlock in inet_csk_accept".into(), from_us: 0.0, to_us: 3.0 }],
            }),
            ..CellProfile::default()
        };
        let wanted = [
            ("states", "user 25 % (4.0 µs per query)"),
            ("lock", "spinlock in inet_csk_accept (callers not known): 12 % of the time"),
            (
                "grew",
                "from 1 to 2 workers, per query: spinning 0.0 to 3.0 µs, spinlock in inet_csk_accept 0.0 to 3.0 µs",
            ),
            ("sampling", "cost 3.1 % of the rate"),
        ];
        assert_eq!(lines(&profile), wanted.map(|(head, line)| (head, line.to_owned())));
        let failed = CellProfile { failure: Some("it died".into()), ..CellProfile::default() };
        assert_eq!(lines(&failed), [("not known", "it died".to_owned())]);
    }
}
