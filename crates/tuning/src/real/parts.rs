//! The single settings that one name stands for.

use std::collections::BTreeSet;

use super::files::IdleState;
use super::{interrupts, irqbalance};
use crate::setting::value::{self, ALL};
use crate::setting::{Change, Setting};

/// The table of a device with so many slots. One that is spread over more queues than it has slots is spread over as many
/// as it has.
pub(super) fn table(change: &Change, slots: usize) -> Change {
    let queues = value::table(&change.value, slots).filter(|queues| !queues.is_empty());
    let value = queues.map_or_else(|| change.value.clone(), |queues| value::table_word(&queues));
    Change { value, ..change.clone() }
}

/// Gives each interrupt one core: the queues take turns over the cores.
pub(super) fn in_turn(interrupts: Vec<(u32, String)>, cores: &[u32]) -> Vec<Change> {
    let core = |queue: u32| cores.get(queue as usize % cores.len().max(1)).copied();
    let change = |(queue, irq): (u32, String)| {
        Some(Change { setting: Setting::Irq(irq), value: core(queue)?.to_string() })
    };
    interrupts.into_iter().filter_map(change).collect()
}

/// The changes of interrupts with one before them that asks irqbalance to leave them alone, if irqbalance runs, answers,
/// and has room for so many.
pub(super) fn with_irqbalance(changes: Vec<Change>) -> Vec<Change> {
    let numbers = changes.iter().filter_map(|change| match &change.setting {
        Setting::Irq(irq) => interrupts::number(irq).ok(),
        _ => None,
    });
    let numbers: BTreeSet<u32> = numbers.collect();
    if numbers.is_empty() || irqbalance::banned().is_err() {
        return changes;
    }
    let left_alone = left_alone(numbers);
    if !irqbalance::has_room(&value::numbers(&left_alone.value)) {
        return changes;
    }
    [left_alone].into_iter().chain(changes).collect()
}

/// The change that makes irqbalance leave these interrupts alone, beside those that it does already.
pub(super) fn left_alone(numbers: BTreeSet<u32>) -> Change {
    let before = irqbalance::banned().map(|banned| value::numbers(&banned)).unwrap_or_default();
    let all = before.into_iter().chain(numbers).collect();
    Change { setting: Setting::Irqbalance, value: value::numbers_word(&all) }
}

/// A remark on what irqbalance may do to interrupts that are moved.
pub(super) fn remarks_of_interrupts(parts: &[Change]) -> Option<String> {
    if !parts.iter().any(|part| matches!(part.setting, Setting::Irq(_))) {
        return None;
    }
    let pid = irqbalance::process()?;
    if parts.iter().any(|part| part.setting == Setting::Irqbalance) {
        return Some(format!(
            "irqbalance (process {pid}) is asked to leave these interrupts alone. Some versions move them all the same \
             within 10 s: look after 15 s whether kqps host status shows them as changed"
        ));
    }
    let why = irqbalance::banned().err().unwrap_or_else(|| irqbalance::NO_ROOM.to_owned());
    Some(format!(
        "irqbalance (process {pid}) runs, and cannot be asked to leave interrupts alone ({why}): it may move them"
    ))
}

/// Each idle state of each core: on if it takes no longer to leave than the limit. The lightest state in which a core
/// does not poll stays on in any case: a core that can only poll gets hot, and takes execution units and turbo from
/// others.
pub(super) fn idle_states(states: &[IdleState], limit: &str) -> Vec<Change> {
    let limit_us = limit.trim_end_matches("us").parse::<u64>().ok().filter(|_| limit != ALL);
    let lightest = |cpu: u32| {
        let resting = states.iter().filter(|state| state.cpu == cpu && !state.polls);
        resting.min_by_key(|state| (state.latency_us, state.number)).map(|state| state.number)
    };
    let is_on = |state: &IdleState| {
        limit_us.is_none_or(|limit_us| state.latency_us <= limit_us)
            || lightest(state.cpu) == Some(state.number)
    };
    let change = |state: &IdleState| Change {
        setting: Setting::IdleState { cpu: state.cpu, state: state.number },
        value: if is_on(state) { "on" } else { "off" }.to_owned(),
    };
    states.iter().map(change).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(word: &str) -> Change {
        word.parse().unwrap()
    }

    #[test]
    fn a_table_has_no_more_queues_than_slots() {
        assert_eq!(table(&change("rss.eth0=200"), 128), change("rss.eth0=128"));
        assert_eq!(table(&change("rss.eth0=8"), 128), change("rss.eth0=8"));
        // A table that has another length, or that the driver does not report, is refused when it is written.
        assert_eq!(table(&change("rss.eth0=0,0,1"), 128), change("rss.eth0=0,0,1"));
        assert_eq!(table(&change("rss.eth0=8"), 0), change("rss.eth0=8"));
    }

    #[test]
    fn queues_take_turns_over_the_cores() {
        let interrupts = (0..3).map(|queue| (queue, format!("eth0-TxRx-{queue}"))).collect();
        let words: Vec<String> = in_turn(interrupts, &[2, 5]).iter().map(ToString::to_string).collect();
        assert_eq!(words, ["irq.eth0-TxRx-0=2", "irq.eth0-TxRx-1=5", "irq.eth0-TxRx-2=2"]);
    }

    #[test]
    fn a_core_can_always_rest() {
        let state = |cpu, number, latency_us| IdleState { cpu, number, latency_us, polls: number == 0 };
        let on = |states: &[IdleState], limit: &str| -> Vec<bool> {
            idle_states(states, limit).iter().map(|change| change.value == "on").collect()
        };
        let states = [state(0, 0, 0), state(0, 1, 2), state(0, 2, 10), state(0, 3, 133)];
        assert_eq!(on(&states, "2us"), [true, true, false, false]);
        assert_eq!(on(&states, "all"), [true; 4]);
        // The lightest state takes 3 µs here, and the limit would leave only polling.
        let slow = [state(0, 0, 0), state(0, 1, 3), state(0, 2, 133), state(1, 0, 0), state(1, 1, 50)];
        assert_eq!(on(&slow, "2us"), [true, true, false, true, true]);
    }
}
