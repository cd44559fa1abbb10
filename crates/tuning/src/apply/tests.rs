//! Changes that are killed between any two steps, and undone.

mod cards;
mod outcomes;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;

use super::*;
use crate::memory::{Killed, Memory, Steps, changes, journaled, values};
use crate::undo::{Undone, undo};

const HOST: [(&str, &str); 12] = [
    ("channels.eth0", "rx=0,tx=0,combined=2"),
    ("rss.eth0", "0,0,1,1"),
    ("rps.eth0.0", "none"),
    ("rps.eth0.1", "3"),
    ("rings.eth0", "rx=512,tx=512"),
    ("irq.eth0-TxRx-0", "0-1"),
    ("irq.eth0-TxRx-1", "0-1"),
    ("feature.eth0.gro", "on"),
    ("sysctl.net.core.rmem_max", "212992"),
    ("sysctl.net.ipv4.udp_mem", "1\t2\t3"),
    ("governor.0", "powersave"),
    ("governor.1", "powersave"),
];

const CHANGES: [&str; 9] = [
    "channels.eth0=4",
    "rss.eth0=equal=4",
    "rps.eth0=0-1",
    "rings.eth0=1000",
    "irqs.eth0=3",
    "feature.eth0.gro=off",
    "sysctl.net.core.rmem_max=16777216",
    "sysctl.net.ipv4.udp_mem=4 5 6",
    "governor.0=performance",
];

fn journal(folder: &Path, steps: &Steps) -> Journal {
    let steps = steps.clone();
    let mut journal = Journal::at(folder).unwrap();
    journal.after_step = Some(Box::new(move || steps.take()));
    journal
}

/// Runs `act` until it ends or is killed after some steps. Returns whether it ended.
fn killed_after(steps: &Steps, after: Option<u32>, act: impl FnOnce()) -> bool {
    steps.kill_after(after);
    let ended = catch_unwind(AssertUnwindSafe(act));
    steps.kill_after(None);
    match ended {
        Ok(()) => true,
        Err(kill) if kill.is::<Killed>() => false,
        Err(panic) => resume_unwind(panic),
    }
}

#[test]
fn whatever_step_it_is_killed_after_undoing_brings_every_value_back() {
    let changes = changes(&CHANGES);
    let whole = {
        let (memory, folder) = (Memory::with_values(&HOST), tempfile::tempdir().unwrap());
        let journal = journal(folder.path(), &memory.steps);
        memory.steps.kill_after(None);
        let applied = apply(&memory, &journal, &changes, None).unwrap();
        // With other queues the driver spreads packets over all of them by itself.
        assert_eq!(applied.already, [CHANGES[1].parse().unwrap()]);
        assert_eq!(applied.records.len(), CHANGES.len() - 1);
        assert!(
            applied.made.iter().any(|made| made.now == "rx=1024,tx=1024"),
            "the driver rounds: {applied:?}"
        );
        memory.steps.taken()
    };
    assert!(whole > 50, "{whole} steps");
    for kill in 0..whole {
        let (memory, folder) = (Memory::with_values(&HOST), tempfile::tempdir().unwrap());
        let journal = journal(folder.path(), &memory.steps);
        let before = values(&memory);
        let ended = killed_after(&memory.steps, Some(kill), || {
            apply(&memory, &journal, &changes, None).unwrap();
        });
        assert!(!ended, "killed after step {kill} of {whole}");
        // Undoing is killed as well, after ever more steps.
        let mut again = 0;
        while !killed_after(&memory.steps, Some(again), || {
            let undone = undo(&memory, &journal).unwrap();
            assert_eq!(undone.left, [], "after step {kill}");
        }) {
            again += 3;
        }
        assert_eq!(values(&memory), before, "killed after step {kill}");
        assert!(journal.records().unwrap().is_empty());
    }
}

#[test]
fn a_thousand_kills_leave_only_what_somebody_else_changed_and_say_so() {
    let all = changes(&CHANGES);
    let mut random = fastrand::Rng::with_seed(31);
    for round in 0..1000 {
        let (memory, folder) = (Memory::with_values(&HOST), tempfile::tempdir().unwrap());
        let journal = journal(folder.path(), &memory.steps);
        let before = values(&memory);
        let mut chosen: Vec<Change> = all.iter().filter(|_| random.bool()).cloned().collect();
        random.shuffle(&mut chosen);
        killed_after(&memory.steps, Some(random.u32(0..90)), || {
            // A change of a queue that does not exist yet is refused, which is an end as well.
            let _ = apply(&memory, &journal, &chosen, None);
        });
        let theirs = random.bool().then_some("sysctl.net.core.rmem_max");
        if let Some(name) = theirs {
            memory.change(name, "4711");
        }
        let mut undone = Undone::default();
        while !killed_after(&memory.steps, Some(random.u32(0..60)), || {
            undone = undo(&memory, &journal).unwrap();
        }) {}
        let differ: Vec<String> = values(&memory)
            .iter()
            .filter(|(setting, value)| before.get(*setting) != Some(*value))
            .map(|(setting, _)| setting.to_string())
            .collect();
        let left: Vec<String> = undone.left.iter().map(|left| left.setting.to_string()).collect();
        assert!(left.iter().all(|name| Some(name.as_str()) == theirs), "round {round}: {left:?}");
        assert!(differ.iter().all(|name| Some(name.as_str()) == theirs), "round {round}: {differ:?}");
        if !left.is_empty() {
            assert!(
                undone.left[0]
                    .to_string()
                    .contains("stays 4711, and was 212992: somebody else has changed it")
            );
            journal.forget(&undone.over).unwrap();
        }
        assert!(journal.records().unwrap().is_empty(), "round {round}");
    }
}

#[test]
fn a_change_that_fails_takes_those_before_it_back() {
    let (memory, journal, _folder) = journaled(Memory::with_values(&HOST));
    let before = values(&memory);
    *memory.refused.borrow_mut() = Some("governor.0".parse().unwrap());
    let error = apply(&memory, &journal, &changes(&CHANGES), None).unwrap_err();
    assert_eq!(error.to_string(), "governor.0: permission denied; what was set before it is undone");
    assert_eq!(values(&memory), before);
    let unknown = apply(&memory, &journal, &changes(&["governor.0=x", "rps.eth1=0"]), None).unwrap_err();
    assert_eq!(unknown.to_string(), "rps.eth1: this host has no such setting");
    assert_eq!(values(&memory), before);
    assert!(journal.records().unwrap().is_empty());
}

#[test]
fn another_boot_has_nothing_to_undo() {
    let (memory, state) = (Memory::with_values(&HOST), tempfile::tempdir().unwrap());
    let before_reboot = Journal::at(&state.path().join("one")).unwrap();
    apply(&memory, &before_reboot, &changes(&["feature.eth0.gro=off"]), None).unwrap();
    let after = Journal::at(&state.path().join("other")).unwrap();
    assert_eq!(undo(&memory, &after).unwrap(), Undone::default());
    assert_eq!(memory.read(&"feature.eth0.gro".parse().unwrap()).unwrap(), "off");
}

#[test]
fn what_has_its_value_already_is_not_recorded() {
    let (memory, journal, _folder) = journaled(Memory::with_values(&HOST));
    let same = changes(&["feature.eth0.gro=on", "sysctl.net.ipv4.udp_mem=1 2 3", "rss.eth0=0,0,1,1"]);
    let applied = apply(&memory, &journal, &same, None).unwrap();
    assert_eq!((applied.already, applied.made), (same, vec![]));
    assert!(journal.records().unwrap().is_empty());
}

#[test]
fn a_setting_of_a_process_stays_while_it_runs_and_keeps_what_is_below_it() {
    let (memory, journal, _folder) = journaled(Memory::with_values(&HOST));
    let name = "sysctl.net.core.rmem_max";
    apply(&memory, &journal, &changes(&["sysctl.net.core.rmem_max=1000"]), None).unwrap();
    let owner = Owner::this_process();
    apply(&memory, &journal, &changes(&["sysctl.net.core.rmem_max=2000"]), Some(owner)).unwrap();
    let value = || memory.read(&name.parse().unwrap()).unwrap();

    let undone = undo(&memory, &journal).unwrap();
    assert_eq!(undone.held, [(name.parse().unwrap(), owner)]);
    assert_eq!(undone.left[0].reason, format!("{owner} has set it since"));
    assert_eq!(value(), "2000");

    let undone = undo::undo_of(&memory, &journal, owner).unwrap();
    assert_eq!((undone.restored.len(), value().as_str()), (1, "1000"));
    let undone = undo(&memory, &journal).unwrap();
    assert_eq!((undone.restored.len(), value().as_str()), (1, "212992"));
    assert!(journal.records().unwrap().is_empty());
}

#[test]
fn a_setting_that_is_kept_has_no_owner() {
    let (memory, journal, _folder) = journaled(Memory::with_values(&HOST));
    let owner = Owner { started: 0, ..Owner::this_process() };
    let applied = apply(&memory, &journal, &changes(&["feature.eth0.gro=off"]), Some(owner)).unwrap();
    journal.keep(&applied.records).unwrap();
    assert_eq!(undo::undo_of_the_ended(&memory, &journal).unwrap(), Undone::default());
    assert_eq!(undo(&memory, &journal).unwrap().restored.len(), 1);
}
