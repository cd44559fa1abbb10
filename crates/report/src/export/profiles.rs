//! Where the time of profiled subjects goes: states, threads, locks, what grew with the workers, and functions.

use kqps_observation::Run;
use kqps_observation::profile::ThreadTimes;
use kqps_verdict::judge::{Grown, RunVerdict};

use super::points::{CELL, NAME, TRIALS};
use super::sheet::{Column, Sheet, Value, count, number, numbers, text, words};
use crate::section::profile::facts;

/// A row for every state in which profiled subjects spent time.
pub(super) fn profiles(verdict: &RunVerdict) -> Sheet {
    let columns = [
        CELL,
        NAME,
        ("state", "the state of a thread"),
        ("us_per_answer", "microseconds of it per correct answer"),
        ("share", "share of the time of all states"),
        ("echo", "the echo beside it"),
        ("echo_us_per_answer", "the same of the echo"),
        ("absence", "why there is no profile"),
        TRIALS,
    ];
    let mut sheet = Sheet::new("profiles", "where the time of a profiled subject goes", &columns);
    for one in &verdict.profiles {
        let mut row = |state: Value, us: Value, share: Value, echo_us: Value| {
            sheet.rows.push(vec![
                count(one.cell),
                text(&one.name),
                state,
                us,
                share,
                words(one.echo.as_deref().unwrap_or_default()),
                echo_us,
                words(one.failure.as_deref().unwrap_or_default()),
                numbers(&[one.trial]),
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
    let first = [CELL, NAME, ("thread", "name of the thread"), ("tid", "its number; 0 for several together")];
    let mut sheet = Sheet::new("profile_threads", "one thread of a profiled subject", &first);
    let state = |state: &&str| Column {
        name: format!("{}_s", state.replace([' ', '/'], "_").to_lowercase()),
        about: format!("seconds of the profile: {state}"),
    };
    sheet.columns.extend(ThreadTimes::STATES.iter().map(state));
    sheet.columns.extend(Sheet::new("", "", &[TRIALS]).columns);
    for one in &verdict.profiles {
        for thread in facts(run, one).iter().flat_map(|facts| &facts.threads) {
            let mut row = vec![count(one.cell), text(&one.name), text(&thread.name), count(thread.tid)];
            row.extend(thread.times.seconds().map(number));
            row.push(numbers(&[one.trial]));
            sheet.rows.push(row);
        }
    }
    sheet
}

/// A row for every lock that threads of a profiled subject waited for.
pub(super) fn locks(verdict: &RunVerdict) -> Sheet {
    let columns = [
        CELL,
        NAME,
        ("kind", "kind of lock"),
        ("place", "the function that takes it"),
        ("callers", "its callers, from the inside out"),
        ("waits", "how often a thread waited; nothing if that is not known"),
        ("us_per_answer", "microseconds of waiting per correct answer"),
        ("share", "share of the time of all states"),
        TRIALS,
    ];
    let mut sheet = Sheet::new("locks", "one lock of a profiled subject", &columns);
    for one in &verdict.profiles {
        for named in &one.locks {
            let lock = &named.lock;
            sheet.rows.push(vec![
                count(one.cell),
                text(&one.name),
                text(&lock.kind),
                text(&lock.place),
                words(&lock.callers.join(" < ")),
                Some(lock.waits).filter(|waits| *waits > 0).map_or(Value::None, count),
                number(named.us),
                number(named.share),
                numbers(&[one.trial]),
            ]);
        }
    }
    sheet
}

/// A row for everything that takes longer per answer with more workers.
pub(super) fn growth(verdict: &RunVerdict) -> Sheet {
    let columns = [
        CELL,
        NAME,
        ("kind", "state, function or lock"),
        ("what", "its name"),
        ("from_workers", "the fewest workers"),
        ("to_workers", "the workers of this cell"),
        ("from_us_per_answer", "microseconds per correct answer with the fewest"),
        ("to_us_per_answer", "the same with those of this cell"),
        TRIALS,
    ];
    let mut sheet = Sheet::new("growth", "what takes longer with more workers", &columns);
    for one in &verdict.profiles {
        let Some(growth) = &one.growth else { continue };
        let kinds: [(&str, &[Grown]); 3] =
            [("state", &growth.states), ("function", &growth.functions), ("lock", &growth.locks)];
        for (kind, grown) in kinds {
            for grown in grown {
                sheet.rows.push(vec![
                    count(one.cell),
                    text(&one.name),
                    text(kind),
                    text(&grown.what),
                    count(growth.from_workers),
                    count(growth.to_workers),
                    number(grown.from_us),
                    number(grown.to_us),
                    numbers(&[one.trial]),
                ]);
            }
        }
    }
    sheet
}

/// A row for every function of every call chain. `node` numbers the rows of a profile, and `caller` is one of them.
pub(super) fn functions(run: &Run, verdict: &RunVerdict) -> Sheet {
    let columns = [
        CELL,
        NAME,
        ("node", "number of the row in this profile, from 0"),
        ("caller", "the node of the caller; nothing for the outermost function"),
        ("function", "its name"),
        ("is_kernel", "whether it is the kernel's"),
        ("cpu_s", "CPU seconds in it and in what it called"),
        ("own_cpu_s", "CPU seconds in it alone"),
        TRIALS,
    ];
    let mut sheet = Sheet::new("functions", "one function of a call chain", &columns);
    for one in &verdict.profiles {
        let stacks = facts(run, one).map_or(&[][..], |facts| &facts.stacks);
        for (node, function) in stacks.iter().enumerate() {
            sheet.rows.push(vec![
                count(one.cell),
                text(&one.name),
                count(node as u64),
                function.parent.map_or(Value::None, count),
                text(&function.name),
                Value::Flag(function.kernel),
                number(function.seconds),
                number(function.own_s),
                numbers(&[one.trial]),
            ]);
        }
    }
    sheet
}
