//! Cards of seven kinds, which begin anew with the rest when some settings change. Whatever the order in which settings
//! are typed, all have their values at the end, and undoing brings every value back.

use super::*;
use crate::memory::card::{CARDS, Recorded};

/// A host with a card on which somebody has set things already, which drivers forget when they begin anew.
fn used(card: Recorded) -> Memory {
    let memory = Memory::with_card(card);
    for (setting, value) in memory.values.borrow_mut().iter_mut() {
        match setting {
            Setting::Irq(_) => "1".clone_into(value),
            Setting::Xps { queue: Some(3), .. } => "0,1".clone_into(value),
            _ => {}
        }
    }
    memory
}

/// The settings for a card, in an order in which each of the last ones resets those before it.
fn typed(memory: &Memory) -> Vec<Change> {
    let queues = memory.card.as_ref().unwrap().queues_most().min(8);
    // The card of a virtual machine has no more queues.
    let queues = if queues == 4 { 2 } else { queues };
    let words = [
        "irqs.eth0=2".to_owned(),
        "xps.eth0.1=3".to_owned(),
        "rps.eth0=0-1".to_owned(),
        "rss.eth0=1".to_owned(),
        "rss-fields.eth0.udp4=sdfnl".to_owned(),
        "coalesce.eth0=rx-usecs=75,adaptive-rx=off".to_owned(),
        "feature.eth0.gro=off".to_owned(),
        "rings.eth0=250".to_owned(),
        format!("channels.eth0={queues}"),
    ];
    let changes = words.iter().map(|word| word.parse::<Change>().unwrap());
    changes.filter(|change| memory.parts(change).is_ok()).collect()
}

#[test]
fn every_setting_has_its_value_and_gets_its_old_one_back() {
    for card in CARDS {
        let (memory, journal, _folder) = journaled(used(card));
        let (before, typed) = (values(&memory), typed(&memory));
        assert!(typed.len() >= 6, "{typed:?}");
        let applied = apply(&memory, &journal, &typed, None).unwrap();
        assert_eq!(applied.made[0].setting.to_string(), "channels.eth0", "it comes first");
        assert_eq!(memory.value("rings.eth0"), "rx=256,tx=256", "the driver rounds");
        let irqs = values(&memory).into_iter().filter(|(setting, _)| matches!(setting, Setting::Irq(_)));
        let irqs: Vec<String> = irqs.map(|(_, cores)| cores).collect();
        assert!(irqs.iter().all(|cores| cores == "2"), "{irqs:?}");
        assert_eq!((memory.value("xps.eth0.1"), memory.value("rps.eth0.1")), ("3".into(), "0,1".into()));
        for made in &applied.made {
            assert_eq!(memory.read(&made.setting).as_ref(), Ok(&made.now), "{}", made.setting);
        }
        let undone = undo(&memory, &journal).unwrap();
        assert!(undone.is_whole(), "{undone:?}");
        assert_eq!(values(&memory), before);
        assert!(journal.records().unwrap().is_empty());
    }
}

#[test]
fn killed_between_any_two_steps_nothing_of_a_card_is_left() {
    for card in CARDS {
        let whole = {
            let (memory, folder) = (used(card), tempfile::tempdir().unwrap());
            let journal = journal(folder.path(), &memory.steps);
            memory.steps.kill_after(None);
            apply(&memory, &journal, &typed(&memory), None).unwrap();
            memory.steps.taken()
        };
        for kill in (0..whole).step_by(3) {
            let (memory, folder) = (used(card), tempfile::tempdir().unwrap());
            let journal = journal(folder.path(), &memory.steps);
            let (before, typed) = (values(&memory), typed(&memory));
            let ended = killed_after(&memory.steps, Some(kill), || {
                apply(&memory, &journal, &typed, None).unwrap();
            });
            assert!(!ended, "killed after step {kill} of {whole}");
            let undone = undo(&memory, &journal).unwrap();
            assert_eq!(undone.left, [], "after step {kill}");
            assert_eq!(values(&memory), before, "killed after step {kill}");
        }
    }
}

#[test]
fn a_table_that_was_put_back_does_not_keep_the_number_of_queues() {
    let (memory, journal, _folder) = journaled(used(CARDS[0]));
    let before = values(&memory);
    apply(&memory, &journal, &changes(&["channels.eth0=8", "rss.eth0=2"]), None).unwrap();
    assert_eq!(memory.value("rss.eth0"), "equal=2");
    // With a table of 8 queues that somebody set, the kernel would refuse 4 queues.
    assert!(undo(&memory, &journal).unwrap().is_whole());
    assert_eq!(values(&memory), before);
}

#[test]
fn a_table_that_names_queues_that_are_gone_comes_back_with_them() {
    let (memory, journal, _folder) = journaled(Memory::with_card(CARDS[6]));
    let before = values(&memory);
    apply(&memory, &journal, &changes(&["channels.eth0=2"]), None).unwrap();
    assert_eq!(memory.value("rss.eth0"), "equal=4", "the driver leaves it");
    // With two queues the driver refuses the table of four, so it comes back last.
    apply(&memory, &journal, &changes(&["rss.eth0=1"]), None).unwrap();
    let undone = undo(&memory, &journal).unwrap();
    assert!(undone.is_whole() && undone.kept.is_empty(), "{undone:?}");
    let names: Vec<String> = undone.restored.iter().map(|one| one.setting.to_string()).collect();
    assert_eq!(names, ["channels.eth0", "rss.eth0"]);
    assert_eq!(values(&memory), before);
    assert!(journal.records().unwrap().is_empty());
    // The table is the driver's own again.
    assert!(apply(&memory, &journal, &changes(&["channels.eth0=1"]), None).is_ok());
}

#[test]
fn what_a_driver_refuses_leaves_nothing_behind() {
    let (memory, journal, _folder) = journaled(used(CARDS[4]));
    let before = values(&memory);
    let too_many = changes(&["rings.eth0=512", "irqs.eth0=3", "channels.eth0=9"]);
    let error = apply(&memory, &journal, &too_many, None).unwrap_err();
    assert_eq!(error.to_string(), "channels.eth0: Invalid argument (os error 22)");
    let too_long = changes(&["channels.eth0=8", "rings.eth0=2048"]);
    let error = apply(&memory, &journal, &too_long, None).unwrap_err().to_string();
    assert_eq!(error, "rings.eth0: Invalid argument (os error 22); what was set before it is undone");
    assert_eq!(values(&memory), before);
    assert!(journal.records().unwrap().is_empty());
}
