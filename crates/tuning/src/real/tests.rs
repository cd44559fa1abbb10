//! Settings of real devices: a veth pair between two namespaces.

use std::fs;

use kqps_kernel::namespace::sysfs;
use kqps_kernel::namespace::veth::{DEVICE, End, VethSettings, join};
use kqps_skips::{Capability, skip};

use super::*;
use crate::apply::{ApplyError, apply};
use crate::journal::Journal;
use crate::memory::{changes, journaled};
use crate::owner::Owner;
use crate::receive_core::receive_core;
use crate::undo::undo;

/// An end of a veth pair with two queues, and the other end, which keeps it; `None` without the rights.
fn pair() -> Option<(NetNs, NetNs)> {
    if let Err(reason) = kqps_kernel::probe::probe_one("veth") {
        skip(Capability::Networks, reason);
        return None;
    }
    let (one, other) = (NetNs::new().unwrap(), NetNs::new().unwrap());
    let end = |namespace, last| End { namespace, address: [198, 18, 0, last].into() };
    let settings = VethSettings { queues: Some(2), ..VethSettings::default() };
    join(end(&one, 1), end(&other, 2), &settings).unwrap();
    Some((one, other))
}

/// The files of all settings that the tests change, byte by byte.
fn files(namespace: &NetNs) -> Vec<(String, Vec<u8>)> {
    let names =
        ["queues/rx-0/rps_cpus", "queues/rx-1/rps_cpus", "queues/tx-0/xps_cpus", "queues/tx-1/xps_cpus"];
    let paths = names.map(|name| format!("/sys/class/net/{DEVICE}/{name}"));
    let sysctls =
        ["net/ipv4/udp_rmem_min", "net/ipv4/ip_local_port_range"].map(|name| format!("/proc/sys/{name}"));
    let read = || {
        sysfs::show_own_devices()?;
        let all = paths.iter().chain(&sysctls);
        all.map(|path| Ok((path.clone(), fs::read(path)?))).collect::<io::Result<Vec<_>>>()
    };
    namespace.within(read).unwrap()
}

#[test]
fn steering_and_sysctls_of_a_device_are_set_and_put_back() {
    let Some((one, _other)) = pair() else { return };
    let before = files(&one);
    let (system, journal, _folder) = journaled(Real::within(one.try_clone().unwrap()).unwrap());
    let changes = changes(&[
        "rps.kqps0=0",
        "xps.kqps0.1=0",
        "sysctl.net.ipv4.udp_rmem_min=8192",
        "sysctl.net.ipv4.ip_local_port_range=20000 30000",
    ]);
    let applied = apply(&system, &journal, &changes, None).unwrap();
    let names: Vec<String> = applied.made.iter().map(|made| made.setting.to_string()).collect();
    assert_eq!(
        names,
        [
            "rps.kqps0.0",
            "rps.kqps0.1",
            "xps.kqps0.1",
            "sysctl.net.ipv4.udp_rmem_min",
            "sysctl.net.ipv4.ip_local_port_range"
        ]
    );
    assert_eq!(system.read(&"rps.kqps0.1".parse().unwrap()).unwrap(), "0");
    assert_eq!(system.read(&"sysctl.net.ipv4.udp_rmem_min".parse().unwrap()).unwrap(), "8192");
    assert!(files(&one).iter().zip(&before).all(|(now, before)| now != before || now.0.contains("tx-0")));
    // The host itself is another namespace, and knows nothing of this.
    let host = fs::read_to_string("/proc/sys/net/ipv4/udp_rmem_min").unwrap();
    assert_ne!(host.trim(), "8192");

    let undone = undo(&system, &journal).unwrap();
    assert_eq!((undone.left, undone.gone), (vec![], vec![]));
    assert_eq!(undone.restored.len(), 5);
    assert_eq!(files(&one), before, "byte by byte");
    assert!(journal.records().unwrap().is_empty());
}

#[test]
fn all_receive_work_of_a_device_without_interrupts_is_steered_to_one_core() {
    let Some((one, _other)) = pair() else { return };
    let system = Real::within(one).unwrap();
    let words: Vec<String> =
        receive_core(&system, DEVICE, 0).unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(words, ["rps.kqps0=0"]);
    assert!(matches!(receive_core(&system, "none", 0), Err(SettingError::Absent { .. })));
}

#[test]
fn what_a_device_does_not_have_is_one_sentence_and_changes_nothing() {
    let Some((one, _other)) = pair() else { return };
    let before = files(&one);
    let (system, journal, _folder) = journaled(Real::within(one.try_clone().unwrap()).unwrap());
    for (word, expected) in [
        ("coalesce.kqps0=75", "coalesce.kqps0: the device's driver does not have it"),
        ("rings.none=64", "rings.none: "),
        ("rps.kqps0.7=0", "rps.kqps0.7: this host has no such setting"),
        ("rps.none=0", "rps.none: this host has no such setting"),
        ("sysctl.net.ipv4.no_such_thing=1", "sysctl.net.ipv4.no_such_thing: this host has no such setting"),
        ("feature.kqps0.no-such-thing=on", "feature.kqps0.no-such-thing: "),
    ] {
        let words = changes(&["rps.kqps0.0=0", word]);
        let error = apply(&system, &journal, &words, None).unwrap_err();
        assert!(matches!(error, ApplyError::Setting(_)), "{word}: {error:?}");
        assert!(error.to_string().starts_with(expected), "{word}: {error}");
        assert_eq!(files(&one), before, "{word}: nothing is half applied");
        assert!(journal.records().unwrap().is_empty());
    }
}

#[test]
fn an_irqbalance_that_runs_and_does_not_answer_is_not_gone() {
    let why = || "its socket: Resource temporarily unavailable (os error 11)".to_owned();
    let of = |it_runs| unanswered(&Setting::Irqbalance, why(), it_runs);
    assert!(matches!(of(true), SettingError::Refused { .. }) && of(true).to_string().ends_with(&why()));
    assert!(matches!(of(false), SettingError::Absent { .. }));
}

/// A process that has ended.
fn ended() -> Owner {
    let this = Owner::this_process();
    Owner { started: this.started + 1, ..this }
}

#[test]
fn a_namespace_that_is_gone_with_its_owner_has_nothing_to_undo() {
    let Some((one, other)) = pair() else { return };
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::at(folder.path()).unwrap();
    let system = Real::within(one).unwrap();
    apply(&system, &journal, &changes(&["rps.kqps0=0"]), Some(ended())).unwrap();
    assert_eq!(journal.records().unwrap().len(), 1);
    drop((system, other));
    let undone = undo(&Real::host(), &journal).unwrap();
    assert_eq!(undone, crate::undo::Undone::default());
    assert!(journal.records().unwrap().is_empty());
}

#[test]
fn settings_of_a_namespace_are_named_elsewhere_and_undone_there() {
    let Some((one, _other)) = pair() else { return };
    let before = files(&one);
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::at(folder.path()).unwrap();
    let system = Real::within(one.try_clone().unwrap()).unwrap();
    apply(&system, &journal, &changes(&["rps.kqps0=0"]), None).unwrap();
    let undone = undo(&Real::host(), &journal).unwrap();
    assert_eq!((undone.elsewhere.len(), undone.is_whole()), (2, false), "{undone:?}");
    assert_eq!(undone.elsewhere[0].1, one.number().unwrap());
    assert!(undo(&system, &journal).unwrap().is_whole());
    assert_eq!(files(&one), before);
}

#[test]
fn an_empty_value_is_put_back() {
    let Some((one, _other)) = pair() else { return };
    let (system, journal, _folder) = journaled(Real::within(one).unwrap());
    let setting: Setting = "sysctl.net.ipv4.ip_local_reserved_ports".parse().unwrap();
    assert_eq!(system.read(&setting).unwrap(), "");
    apply(&system, &journal, &changes(&["sysctl.net.ipv4.ip_local_reserved_ports=8053"]), None).unwrap();
    assert_eq!(system.read(&setting).unwrap(), "8053");
    let undone = undo(&system, &journal).unwrap();
    assert!(undone.is_whole(), "{undone:?}");
    assert_eq!(system.read(&setting).unwrap(), "");
}

#[test]
fn a_namespace_has_what_can_be_set_there() {
    let Some((one, _other)) = pair() else { return };
    let system = Real::within(one).unwrap();
    let has = |name: &str| system.has(&name.parse().unwrap());
    assert!(has("sysctl.net.ipv4.udp_rmem_min") && has("rps.kqps0.0"));
    // They are the host's. Newer kernels show them in every namespace, read-only.
    assert!(!has("sysctl.net.core.rmem_default") && !has("sysctl.net.core.rmem_max"));
    assert!(!has("governor") && !has("rps.none.0"));
}

#[test]
fn a_device_that_is_gone_with_its_peer_has_nothing_to_undo() {
    let Some((one, other)) = pair() else { return };
    let (system, journal, _folder) = journaled(Real::within(one).unwrap());
    let identity = system.identity(&"rps.kqps0.0".parse().unwrap());
    assert_eq!((identity.index, identity.has_hardware()), (Some(2), false));
    assert_eq!(system.find(&identity).as_deref(), Some(DEVICE));
    assert!(system.is_linked(DEVICE) && !system.places_interrupts(DEVICE));
    apply(&system, &journal, &changes(&["rps.kqps0=0"]), None).unwrap();
    drop(other);
    // The kernel removes a namespace on another thread.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while system.find(&identity).is_some() {
        assert!(std::time::Instant::now() < deadline, "the device outlived its peer");
        std::thread::yield_now();
    }
    let undone = undo(&system, &journal).unwrap();
    assert_eq!((undone.gone.len(), undone.is_whole()), (2, true), "{undone:?}");
    assert!(journal.records().unwrap().is_empty());
}
