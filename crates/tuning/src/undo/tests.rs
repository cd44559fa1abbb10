//! Undoing on hosts where something stands in its way.

mod devices;

use std::fs;

use super::*;
use crate::apply::apply;
use crate::memory::{Memory, changes, journaled, values};

const HOST: [(&str, &str); 8] = [
    ("channels.eth0", "rx=0,tx=0,combined=2"),
    ("rss.eth0", "0,0,1,1"),
    ("rps.eth0.0", "none"),
    ("rps.eth0.1", "3"),
    ("rings.eth0", "rx=512,tx=512"),
    ("feature.eth0.gro", "on"),
    ("sysctl.net.core.rmem_max", "212992"),
    ("governor.0", "powersave"),
];

/// A host, its journal, and the folder of that.
fn host() -> (Memory, Journal, tempfile::TempDir) {
    journaled(Memory::with_values(&HOST))
}

/// A process that has ended.
fn ended() -> Owner {
    let this = Owner::this_process();
    Owner { started: this.started + 1, ..this }
}

#[test]
fn what_is_refused_stays_in_the_journal_until_it_is_undone() {
    let (memory, journal, _folder) = host();
    let before = values(&memory);
    apply(&memory, &journal, &changes(&["governor.0=performance", "feature.eth0.gro=off"]), None).unwrap();
    *memory.refused.borrow_mut() = Some("governor.0".parse().unwrap());
    let undone = undo(&memory, &journal).unwrap();
    assert_eq!((undone.left[0].kind, undone.restored.len()), (LeftKind::Refused, 1));
    assert_eq!((undone.left.len(), undone.over.len(), undone.is_whole()), (1, 0, false));
    assert_eq!(undone.kept, [2], "it can be undone by its number");
    journal.forget(&undone.over).unwrap();
    let left = journal.records().unwrap().remove(0);
    assert_eq!(left.parts[0].left.as_deref(), Some("permission denied"));
    *memory.refused.borrow_mut() = None;
    assert!(undo(&memory, &journal).unwrap().is_whole());
    assert_eq!(values(&memory), before);
    assert!(journal.records().unwrap().is_empty());
}

#[test]
fn of_a_record_only_what_is_over_is_forgotten() {
    let (memory, journal, _folder) = host();
    apply(&memory, &journal, &changes(&["rps.eth0=0"]), None).unwrap();
    memory.change("rps.eth0.0", "1");
    *memory.refused.borrow_mut() = Some("rps.eth0.1".parse().unwrap());
    let undone = undo(&memory, &journal).unwrap();
    let kinds: Vec<LeftKind> = undone.left.iter().map(|left| left.kind).collect();
    assert_eq!(kinds, [LeftKind::Refused, LeftKind::Changed]);
    assert_eq!(undone.over, [(1, "rps.eth0.0".parse().unwrap())]);
    journal.forget(&undone.over).unwrap();
    *memory.refused.borrow_mut() = None;
    let undone = undo(&memory, &journal).unwrap();
    assert!(undone.is_whole(), "{undone:?}");
    assert_eq!((memory.value("rps.eth0.0"), memory.value("rps.eth0.1")), ("1".into(), "3".into()));
}

#[test]
fn while_a_setting_stays_what_the_driver_changed_with_it_stays_too() {
    let (memory, journal, _folder) = host();
    let before = values(&memory);
    apply(&memory, &journal, &changes(&["channels.eth0=4"]), None).unwrap();
    assert_eq!(memory.value("rss.eth0"), "equal=4");
    *memory.refused.borrow_mut() = Some("channels.eth0".parse().unwrap());
    assert_eq!(undo(&memory, &journal).unwrap().left.len(), 1);
    assert_eq!(memory.value("rss.eth0"), "equal=4", "two queues of four would be without packets");
    *memory.refused.borrow_mut() = None;
    assert!(undo(&memory, &journal).unwrap().is_whole());
    assert_eq!(values(&memory), before, "the table of two queues too");
}

#[test]
fn what_the_driver_changed_and_refuses_to_take_back_is_named_and_kept() {
    let (memory, journal, _folder) = host();
    let before = values(&memory);
    apply(&memory, &journal, &changes(&["channels.eth0=4"]), None).unwrap();
    *memory.refused.borrow_mut() = Some("rss.eth0".parse().unwrap());
    let undone = undo(&memory, &journal).unwrap();
    let names: Vec<String> = undone.left.iter().map(|left| left.setting.to_string()).collect();
    assert_eq!((names, undone.is_whole()), (vec!["rss.eth0".to_owned()], false));
    *memory.refused.borrow_mut() = None;
    assert!(undo(&memory, &journal).unwrap().is_whole());
    assert_eq!(values(&memory), before);
    assert!(journal.records().unwrap().is_empty());
}

#[test]
fn what_the_driver_changed_and_cannot_be_read_now_is_named_and_put_back_later() {
    let (memory, journal, _folder) = host();
    let before = values(&memory);
    apply(&memory, &journal, &changes(&["channels.eth0=4"]), None).unwrap();
    *memory.unreadable.borrow_mut() = Some("rss.eth0".parse().unwrap());
    let undone = undo(&memory, &journal).unwrap();
    let left: Vec<(String, LeftKind)> =
        undone.left.iter().map(|left| (left.setting.to_string(), left.kind)).collect();
    assert_eq!((left, undone.is_whole()), (vec![("rss.eth0".to_owned(), LeftKind::Refused)], false));
    *memory.unreadable.borrow_mut() = None;
    assert!(undo(&memory, &journal).unwrap().is_whole());
    assert_eq!(values(&memory), before);
    assert!(journal.records().unwrap().is_empty());
}

#[test]
fn forgetting_one_setting_keeps_what_the_driver_refused_to_take_back() {
    let (memory, journal, _folder) = host();
    let before = values(&memory);
    apply(&memory, &journal, &changes(&["channels.eth0=4", "governor.0=performance"]), None).unwrap();
    memory.change("governor.0", "schedutil");
    *memory.refused.borrow_mut() = Some("rss.eth0".parse().unwrap());
    let undone = undo(&memory, &journal).unwrap();
    assert_eq!(undone.over, [(2, "governor.0".parse().unwrap())]);
    journal.forget(&undone.over).unwrap();
    let records = journal.records().unwrap();
    assert_eq!((records.len(), records[0].number, records[0].parts.len()), (1, 1, 0));
    *memory.refused.borrow_mut() = None;
    memory.change("governor.0", "powersave");
    assert!(undo(&memory, &journal).unwrap().is_whole());
    assert_eq!(values(&memory), before);
}

#[test]
fn an_irqbalance_that_does_not_answer_is_asked_again_and_one_that_has_ended_is_not() {
    let (memory, journal, _folder) = host();
    memory.change("irqbalance", "none");
    apply(&memory, &journal, &changes(&["irqbalance=45"]), None).unwrap();
    *memory.unreadable.borrow_mut() = Some(Setting::Irqbalance);
    let undone = undo(&memory, &journal).unwrap();
    assert_eq!((undone.left.len(), undone.left[0].kind, undone.gone.len()), (1, LeftKind::Refused, 0));
    *memory.unreadable.borrow_mut() = None;
    assert!(undo(&memory, &journal).unwrap().is_whole());
    assert_eq!(memory.value("irqbalance"), "none");
    apply(&memory, &journal, &changes(&["irqbalance=45"]), None).unwrap();
    memory.values.borrow_mut().remove(&Setting::Irqbalance);
    let undone = undo(&memory, &journal).unwrap();
    assert_eq!((undone.left.len(), undone.gone.len()), (0, 1), "{undone:?}");
}

#[test]
fn of_two_owners_of_a_setting_neither_leaves_its_value() {
    let (memory, journal, _folder) = host();
    let name = "sysctl.net.core.rmem_max";
    let this = Owner::this_process();
    apply(&memory, &journal, &changes(&["sysctl.net.core.rmem_max=1000"]), Some(ended())).unwrap();
    let ours = apply(&memory, &journal, &changes(&["sysctl.net.core.rmem_max=2000"]), Some(this)).unwrap();
    // The guard of the one that has ended can do nothing as long as the other one's value is there.
    let undone = undo_of(&memory, &journal, ended()).unwrap();
    assert_eq!((undone.left[0].kind, undone.over.len()), (LeftKind::Above, 0));
    assert_eq!(memory.value(name), "2000");
    let undone = undo_records(&memory, &journal, &ours.records, Links::Await).unwrap();
    assert!(undone.kept.is_empty());
    let values: Vec<&str> = undone.restored.iter().map(|one| one.value.as_str()).collect();
    assert_eq!(values, ["1000", "212992"], "what it undoes for the ended process is named");
    assert_eq!(memory.value(name), "212992");
    assert!(journal.records().unwrap().is_empty());
}

#[test]
fn settings_of_another_namespace_are_named_and_kept_and_those_of_the_host_are_undone_from_anywhere() {
    let (memory, journal, _folder) = host();
    memory.network.set(7);
    apply(&memory, &journal, &changes(&["feature.eth0.gro=off", "governor.0=performance"]), None).unwrap();
    memory.network.set(1);
    let undone = undo(&memory, &journal).unwrap();
    assert_eq!(undone.elsewhere, [("feature.eth0.gro".parse().unwrap(), 7)]);
    assert_eq!((undone.restored.len(), undone.is_whole()), (1, false));
    assert_eq!(
        (memory.value("governor.0"), memory.value("feature.eth0.gro")),
        ("powersave".into(), "off".into())
    );
    assert_eq!(journal.records().unwrap().len(), 1, "a namespace may live without a process");
    memory.network.set(7);
    assert!(undo(&memory, &journal).unwrap().is_whole());
    assert_eq!(memory.value("feature.eth0.gro"), "on");
}

#[test]
fn a_namespace_that_its_owner_made_ends_with_the_owner() {
    type Undo = fn(&dyn System, &Journal) -> Result<Undone, JournalError>;
    let ways: [Undo; 2] = [undo, |memory, journal| undo_of(memory, journal, ended())];
    for undo_it in ways {
        let (memory, journal, _folder) = host();
        memory.network.set(7);
        memory.is_private.set(true);
        apply(&memory, &journal, &changes(&["feature.eth0.gro=off"]), Some(ended())).unwrap();
        memory.network.set(1);
        assert_eq!(undo_it(&memory, &journal).unwrap(), Undone::default());
        assert!(journal.records().unwrap().is_empty());
    }
}

#[test]
fn a_record_that_cannot_be_read_is_named_and_keeps_nothing_else() {
    let (memory, journal, folder) = host();
    let before = values(&memory);
    apply(&memory, &journal, &changes(&["governor.0=performance", "feature.eth0.gro=off"]), None).unwrap();
    fs::write(folder.path().join("00000002.json"), "{").unwrap();
    let undone = undo(&memory, &journal).unwrap();
    assert_eq!((undone.troubles.len(), undone.restored.len()), (1, 1), "{undone:?}");
    assert!(undone.troubles[0].contains("00000002.json") && !undone.is_whole(), "{undone:?}");
    let differ = values(&memory).into_iter().filter(|(setting, value)| before[setting] != *value).count();
    assert_eq!((differ, journal.unreadable().unwrap().len()), (1, 1));
}

#[test]
fn a_journal_that_cannot_be_written_keeps_nothing_from_being_undone() {
    let (memory, journal, folder) = host();
    let before = values(&memory);
    apply(&memory, &journal, &changes(&["channels.eth0=4"]), None).unwrap();
    // In place of the file that is written first.
    fs::create_dir(folder.path().join("00000001.unfinished")).unwrap();
    let undone = undo(&memory, &journal).unwrap();
    assert_eq!((undone.troubles.len(), undone.left.len()), (1, 0), "{undone:?}");
    assert_eq!(values(&memory), before);
    assert!(journal.records().unwrap().is_empty());
}

#[test]
fn an_empty_journal_is_not_locked_for_which_a_user_may_have_no_right() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::at(folder.path()).unwrap();
    assert_eq!(undo(&Memory::with_values(&HOST), &journal).unwrap(), Undone::default());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
