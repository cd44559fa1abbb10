//! Devices that have another name, that are down, that were unplugged, and that others have taken the name of.

use super::*;
use crate::system::Identity;

fn card(last: u8) -> Identity {
    Identity {
        device: Some("eth0".into()),
        mac: Some([2, 0, 0, 0, 0, last]),
        bus: Some("0000:3b:00.0".into()),
        index: Some(2),
    }
}

/// A host with a card, and the settings that were changed on it.
fn tuned() -> (Memory, Journal, tempfile::TempDir, BTreeMap<Setting, String>) {
    let (memory, journal, folder) = host();
    memory.identities.borrow_mut().insert("eth0".into(), card(1));
    memory.linked.borrow_mut().insert("eth0".into());
    memory.change("irq.eth0-TxRx-0", "0-1");
    let before = values(&memory);
    let asked = changes(&["rps.eth0.0=0", "feature.eth0.gro=off", "irq.eth0-TxRx-0=3"]);
    apply(&memory, &journal, &asked, None).unwrap();
    (memory, journal, folder, before)
}

#[test]
fn a_device_is_found_by_what_it_is_when_it_has_another_name() {
    let (memory, journal, _folder, before) = tuned();
    memory.rename("eth0", "lan0");
    memory.linked.borrow_mut().insert("lan0".into());
    let undone = undo(&memory, &journal).unwrap();
    assert!(undone.is_whole() && undone.gone.is_empty(), "{undone:?}");
    let names: Vec<String> = undone.restored.iter().map(|one| one.setting.to_string()).collect();
    assert_eq!(names, ["irq.lan0-TxRx-0", "rps.lan0.0", "feature.lan0.gro"]);
    memory.rename("lan0", "eth0");
    assert_eq!(values(&memory), before);
}

#[test]
fn another_device_with_the_name_is_left_alone() {
    let (memory, journal, _folder, _) = tuned();
    memory.identities.borrow_mut().insert("eth0".into(), card(2));
    let undone = undo(&memory, &journal).unwrap();
    assert!(undone.left.iter().all(|left| left.kind == LeftKind::Another), "{undone:?}");
    assert_eq!((undone.left.len(), undone.over.len(), undone.restored.len()), (3, 3, 0));
    assert_eq!(memory.value("rps.eth0.0"), "0");
}

#[test]
fn names_that_two_devices_exchanged_are_told_apart() {
    let (memory, journal, _folder, _) = tuned();
    memory.rename("eth0", "eth1");
    memory.change("rps.eth0.0", "0");
    memory.identities.borrow_mut().insert("eth0".into(), card(2));
    memory.linked.borrow_mut().insert("eth1".into());
    assert!(undo(&memory, &journal).unwrap().is_whole());
    assert_eq!((memory.value("rps.eth1.0"), memory.value("rps.eth0.0")), ("none".into(), "0".into()));
}

#[test]
fn a_card_that_was_unplugged_is_named_and_undone_when_it_is_back() {
    let (memory, journal, _folder, before) = tuned();
    let unplugged = memory.unplug("eth0");
    let undone = undo(&memory, &journal).unwrap();
    assert!(undone.left.iter().all(|left| left.kind == LeftKind::Absent), "{undone:?}");
    assert_eq!((undone.left.len(), undone.over.len(), undone.gone.len()), (3, 0, 0));
    let expected = "rps.eth0.0 was none: its device (02:00:00:00:00:01 at 0000:3b:00.0) is not here";
    assert!(undone.left[1].to_string().starts_with(expected), "{}", undone.left[1]);
    memory.plug("eth0", unplugged);
    assert!(undo(&memory, &journal).unwrap().is_whole());
    assert_eq!(values(&memory), before);
}

#[test]
fn a_device_without_hardware_that_is_gone_has_nothing_to_undo() {
    let (memory, journal, _folder) = host();
    let number = Identity { device: Some("eth0".into()), index: Some(9), ..Identity::default() };
    memory.identities.borrow_mut().insert("eth0".into(), number);
    apply(&memory, &journal, &changes(&["feature.eth0.gro=off"]), None).unwrap();
    memory.unplug("eth0");
    let undone = undo(&memory, &journal).unwrap();
    assert_eq!((undone.gone.len(), undone.is_whole()), (1, true), "{undone:?}");
    assert!(journal.records().unwrap().is_empty());
}

#[test]
fn the_interrupt_of_a_device_that_is_down_is_undone_when_it_is_up() {
    let (memory, journal, _folder, before) = tuned();
    let irq: Setting = "irq.eth0-TxRx-0".parse().unwrap();
    let cores = memory.values.borrow_mut().remove(&irq).unwrap();
    memory.linked.borrow_mut().clear();
    let undone = undo(&memory, &journal).unwrap();
    assert_eq!((undone.left.len(), undone.left[0].kind), (1, LeftKind::Absent));
    assert!(undone.left[0].reason.ends_with("while its device eth0 is down"), "{undone:?}");
    memory.values.borrow_mut().insert(irq, cores);
    assert!(undo(&memory, &journal).unwrap().is_whole());
    assert_eq!(values(&memory), before);
}

#[test]
fn a_queue_that_is_gone_takes_its_settings_along() {
    let (memory, journal, _folder) = host();
    memory.identities.borrow_mut().insert("eth0".into(), card(1));
    apply(&memory, &journal, &changes(&["rps.eth0.1=0"]), None).unwrap();
    memory.values.borrow_mut().remove(&"rps.eth0.1".parse::<Setting>().unwrap());
    let undone = undo(&memory, &journal).unwrap();
    assert_eq!((undone.gone.len(), undone.is_whole()), (1, true), "{undone:?}");
}
