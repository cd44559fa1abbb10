//! Values that are not what was asked for, settings that are asked for twice, and links that take their time.

use super::*;
use crate::memory::HIGHEST;

#[test]
fn a_value_that_the_kernel_makes_another_of_is_refused_and_taken_back() {
    let (memory, journal, _folder) = journaled(Memory::with_values(&HOST));
    let before = values(&memory);
    let asked = changes(&["feature.eth0.gro=off", "sysctl.net.core.rmem_max=9000000000"]);
    let error = apply(&memory, &journal, &asked, None).unwrap_err().to_string();
    let expected = format!(
        "sysctl.net.core.rmem_max: the kernel was given 9000000000 and has {HIGHEST}; what was set before it is undone"
    );
    assert_eq!(error, expected);
    assert_eq!(values(&memory), before);
    assert!(journal.records().unwrap().is_empty());
}

#[test]
fn a_value_that_the_kernel_rounds_is_taken_and_put_back() {
    let name = "sysctl.net.core.rps_sock_flow_entries";
    let (memory, journal, _folder) = journaled(Memory::with_values(&[(name, "0")]));
    let applied =
        apply(&memory, &journal, &changes(&["sysctl.net.core.rps_sock_flow_entries=5000"]), None).unwrap();
    assert_eq!((applied.made[0].now.as_str(), memory.value(name).as_str()), ("8192", "8192"));
    assert!(undo(&memory, &journal).unwrap().is_whole());
    assert_eq!(memory.value(name), "0");
}

#[test]
fn a_text_that_the_kernel_writes_otherwise_is_taken_with_a_remark_and_put_back() {
    let name = "sysctl.kernel.core_pattern";
    let (memory, journal, _folder) = journaled(Memory::with_values(&[(name, "core")]));
    let applied =
        apply(&memory, &journal, &changes(&["sysctl.kernel.core_pattern=|/bin/dump"]), None).unwrap();
    assert_eq!(applied.made[0].now, "|/bin/du");
    assert_eq!(applied.remarks, [format!("{name}: the kernel was given |/bin/dump and has |/bin/du")]);
    assert!(undo(&memory, &journal).unwrap().is_whole());
    assert_eq!(memory.value(name), "core");
}

#[test]
fn of_a_setting_that_is_typed_twice_the_last_value_counts() {
    let (memory, journal, _folder) = journaled(Memory::with_values(&HOST));
    let before = values(&memory);
    let twice = changes(&["sysctl.net.core.rmem_max=1000", "sysctl.net.core.rmem_max=2000"]);
    apply(&memory, &journal, &twice, None).unwrap();
    assert_eq!(memory.value("sysctl.net.core.rmem_max"), "2000");
    assert!(undo(&memory, &journal).unwrap().is_whole());
    assert_eq!(values(&memory), before);
}

#[test]
fn a_link_that_was_there_is_waited_for() {
    let (memory, journal, _folder) = journaled(Memory::with_values(&HOST));
    memory.linked.borrow_mut().insert("eth0".into());
    memory.looks.set(3);
    let applied = apply(&memory, &journal, &changes(&["channels.eth0=4", "rings.eth0=1024"]), None).unwrap();
    assert!(memory.is_linked("eth0") && applied.remarks.is_empty(), "{applied:?}");
    let undone = undo(&memory, &journal).unwrap();
    assert!(memory.is_linked("eth0") && undone.is_whole(), "{undone:?}");
}

#[test]
fn a_guard_waits_for_no_link() {
    let (memory, journal, _folder) = journaled(Memory::with_values(&HOST));
    memory.linked.borrow_mut().insert("eth0".into());
    memory.looks.set(3);
    let owner = Owner::this_process();
    apply(&memory, &journal, &changes(&["channels.eth0=4"]), Some(owner)).unwrap();
    assert!(undo::undo_of(&memory, &journal, owner).unwrap().is_whole());
    assert!(!memory.is_linked("eth0"), "it is not back");
    assert_eq!(memory.value("channels.eth0"), "rx=0,tx=0,combined=2");
}

#[test]
fn a_journal_that_cannot_be_written_does_not_keep_a_failed_change_from_being_undone() {
    let (memory, mut journal, folder) = journaled(Memory::with_values(&HOST));
    let before = values(&memory);
    *memory.refused.borrow_mut() = Some("governor.0".parse().unwrap());
    // From here on the record of the queues cannot be written, as on a full disk.
    let full = folder.path().to_owned();
    journal.after_step = Some(Box::new(move || {
        let blocked = full.join("00000001.unfinished");
        if full.join("00000002.json").exists() && !blocked.exists() {
            std::fs::create_dir(blocked).unwrap();
        }
    }));
    let asked = changes(&["channels.eth0=4", "governor.0=performance"]);
    let error = apply(&memory, &journal, &asked, None).unwrap_err().to_string();
    assert!(error.starts_with("governor.0: permission denied; of what was set before it"), "{error}");
    assert!(error.contains("the journal of host settings"), "{error}");
    assert_eq!(values(&memory), before, "it is undone nevertheless");
    assert!(journal.records().unwrap().is_empty());
}
