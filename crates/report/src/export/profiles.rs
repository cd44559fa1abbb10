//! Where the time of profiled subjects goes: states, threads, locks, what grew with the workers, and functions.

use kqps_observation::Run;
use kqps_observation::profile::ThreadTimes;
use kqps_verdict::judge::{Grown, RunVerdict};

use super::sheet::{Field, Sheet, Value, cell, count, name, number, text, trials, words};
use crate::section::profile::facts;

/// A row for every state in which profiled subjects spent time.
pub(super) fn profiles(verdict: &RunVerdict) -> Sheet {
    let mut sheet = Sheet::new("profiles", "where the time of a profiled subject goes");
    for one in &verdict.profiles {
        let mut row = |state: Value, us: Value, share: Value, echo_us: Value| {
            sheet.push([
                cell(one.cell),
                name(&one.name),
                ("state", "the state of a thread", state),
                ("us_per_answer", "microseconds of it per correct answer", us),
                ("share", "share of the time of all states", share),
                ("echo", "the echo beside it", words(one.echo.as_deref().unwrap_or_default())),
                ("echo_us_per_answer", "the same of the echo", echo_us),
                ("absence", "why there is no profile", words(one.failure.as_deref().unwrap_or_default())),
                trials(&[one.trial]),
            ]);
        };
        for state in &one.states {
            row(text(&state.state), number(state.us), number(state.share), number(state.echo_us));
        }
        if one.states.is_empty() {
            row(Value::None, Value::None, Value::None, Value::None);
        }
    }
    sheet
}

/// A row for every thread of every profiled subject, with a column for each state.
pub(super) fn threads(run: &Run, verdict: &RunVerdict) -> Sheet {
    let mut sheet = Sheet::new("profile_threads", "one thread of a profiled subject");
    for one in &verdict.profiles {
        for thread in facts(run, one).iter().flat_map(|facts| &facts.threads) {
            let first = [
                cell(one.cell),
                name(&one.name),
                ("thread", "name of the thread", text(&thread.name)),
                ("tid", "its number; 0 for several together", count(thread.tid)),
            ];
            let owned = |(name, about, value): Field| (name.to_owned(), about.to_owned(), value);
            let states =
                ThreadTimes::STATES.into_iter().zip(thread.times.seconds()).map(|(state, seconds)| {
                    let name = format!("{}_s", state.replace([' ', '/'], "_").to_lowercase());
                    (name, format!("seconds of the profile: {state}"), number(seconds))
                });
            let last = owned(trials(&[one.trial]));
            sheet.push(first.map(owned).into_iter().chain(states).chain([last]));
        }
    }
    sheet
}

/// A row for every lock that threads of a profiled subject waited for.
pub(super) fn locks(verdict: &RunVerdict) -> Sheet {
    let mut sheet = Sheet::new("locks", "one lock of a profiled subject");
    for one in &verdict.profiles {
        for named in &one.locks {
            let lock = &named.lock;
            let waits = Some(lock.waits).filter(|waits| *waits > 0).map_or(Value::None, count);
            sheet.push([
                cell(one.cell),
                name(&one.name),
                ("kind", "kind of lock", text(&lock.kind)),
                ("place", "the function that takes it", text(&lock.place)),
                ("callers", "its callers, from the inside out", words(&lock.callers.join(" < "))),
                ("waits", "how often a thread waited; nothing if that is not known", waits),
                ("us_per_answer", "microseconds of waiting per correct answer", number(named.us)),
                ("share", "share of the time of all states", number(named.share)),
                trials(&[one.trial]),
            ]);
        }
    }
    sheet
}

/// A row for everything that takes longer per answer with more workers.
pub(super) fn growth(verdict: &RunVerdict) -> Sheet {
    let mut sheet = Sheet::new("growth", "what takes longer with more workers");
    for one in &verdict.profiles {
        let Some(growth) = &one.growth else { continue };
        let kinds: [(&str, &[Grown]); 3] =
            [("state", &growth.states), ("function", &growth.functions), ("lock", &growth.locks)];
        for (kind, grown) in kinds {
            for grown in grown {
                let (from_us, to_us) = (number(grown.from_us), number(grown.to_us));
                sheet.push([
                    cell(one.cell),
                    name(&one.name),
                    ("kind", "state, function or lock", text(kind)),
                    ("what", "its name", text(&grown.what)),
                    ("from_workers", "the fewest workers", count(growth.from_workers)),
                    ("to_workers", "the workers of this cell", count(growth.to_workers)),
                    ("from_us_per_answer", "microseconds per correct answer with the fewest", from_us),
                    ("to_us_per_answer", "the same with those of this cell", to_us),
                    trials(&[one.trial]),
                ]);
            }
        }
    }
    sheet
}

/// A row for every function of every call chain. `node` numbers the rows of a profile, and `caller` is one of them.
pub(super) fn functions(run: &Run, verdict: &RunVerdict) -> Sheet {
    let mut sheet = Sheet::new("functions", "one function of a call chain");
    for one in &verdict.profiles {
        let stacks = facts(run, one).map_or(&[][..], |facts| &facts.stacks);
        for (node, function) in stacks.iter().enumerate() {
            let caller = function.parent.map_or(Value::None, count);
            sheet.push([
                cell(one.cell),
                name(&one.name),
                ("node", "number of the row in this profile, from 0", count(node as u64)),
                ("caller", "the node of the caller; nothing for the outermost function", caller),
                ("function", "its name", text(&function.name)),
                ("is_kernel", "whether it is the kernel's", Value::Flag(function.kernel)),
                ("cpu_s", "CPU seconds in it and in what it called", number(function.seconds)),
                ("own_cpu_s", "CPU seconds in it alone", number(function.own_s)),
                trials(&[one.trial]),
            ]);
        }
    }
    sheet
}
