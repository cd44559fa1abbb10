//! SIGHUP: the server loads its zones again while it answers queries.

use std::fs;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};

use kqps_kernel::process::{Signal, signal};
use kqps_observation::Trial;
use serde_json::Value;

use super::dns::{A, Reply, TXT, ask, ask_by, connect, query};
use super::{NOERROR, Rig, Running};
use crate::load::bench::kqps;

/// Version `number` of the zone. Every record has that number in it.
fn version(number: u8) -> String {
    format!(
        "$ORIGIN auth.test.\n$TTL 300\n@ SOA ns1 host {number} 3600 600 86400 60\n@ NS ns1\nns1 A 192.0.2.1\n\
         www CNAME v{number}.w\n*.w A 192.0.2.{number}\n"
    )
}

/// The version of a reply, checked in all its records.
fn version_of(reply: &Reply) -> u8 {
    let records = reply.records();
    assert_eq!((reply.rcode(), records.len()), (NOERROR, 2), "{reply:?}");
    // The target of the alias begins with `v` and the number.
    let (label, address) = (&records[0].1, &records[1].1);
    let named: u8 = std::str::from_utf8(&label[2..=usize::from(label[0])]).unwrap().parse().unwrap();
    assert_eq!(named, address[3], "a mix of two versions");
    named
}

pub(super) fn reload(server: &mut Running) -> Value {
    signal(server.child.id(), Signal::HangUp).unwrap();
    let report = server.next_line().unwrap();
    assert_eq!(report["kind"], "reloaded");
    report
}

const WORKERS: [&[&str]; 3] = [
    &[],
    &["--threads", "2", "--sockets", "reuseport", "--io", "segment"],
    &["--processes", "2", "--io", "epoll"],
];

#[test]
fn under_load_no_query_is_lost_and_none_sees_a_mix() {
    let rig = Rig::new();
    let queries = rig.folder.path().join("queries");
    fs::write(&queries, "www.auth.test A NOERROR\nx.w.auth.test A NOERROR\nnone.auth.test A NXDOMAIN\n")
        .unwrap();
    for workers in WORKERS {
        rig.write(&version(1));
        let mut server = rig.start(&[&["--listen", "127.0.0.1:0", "--buffer", "4MiB"], workers].concat());
        let address = server.addresses[0];
        let load = kqps(&["load", &address.to_string(), "-d"])
            .arg(&queries)
            .args(["-Q", "5000", "-l", "2s", "-t", "10s", "--lag", "1m", "--json"])
            .env("XDG_CACHE_HOME", rig.folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let over = AtomicBool::new(false);
        let last = std::thread::scope(|scope| {
            let by_udp = scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    version_of(&ask(address, &query(1, "www.auth.test", A)));
                }
            });
            let by_tcp = scope.spawn(|| {
                let mut stream = connect(address);
                while !over.load(Ordering::Relaxed) {
                    version_of(&ask_by(&mut stream, &query(1, "www.auth.test", A)));
                }
            });
            let mut last = 1;
            while last < 20 {
                last += 1;
                rig.write(&version(last));
                let report = reload(&mut server);
                assert_eq!((&report["zones"], &report["kept"]), (&1.into(), &0.into()));
            }
            let output = load.wait_with_output().unwrap();
            over.store(true, Ordering::Relaxed);
            by_udp.join().unwrap();
            by_tcp.join().unwrap();
            let trial: Trial = serde_json::from_slice(&output.stdout).unwrap();
            let accounts = &trial.accounts;
            assert_eq!((accounts.lost, accounts.wrong, accounts.late), (0, 0, 0), "{workers:?}");
            assert_eq!(accounts.correct, accounts.intended);
            last
        });
        for _ in 0..10 {
            assert_eq!(version_of(&ask(address, &query(1, "www.auth.test", A))), last);
        }
        let report = server.stop(Signal::Terminate);
        assert_eq!(report.received, report.answered);
    }
}

#[test]
fn a_broken_file_keeps_the_old_zone() {
    let rig = Rig::new();
    for processes in ["1", "2"] {
        rig.write(&version(1));
        let mut server = rig.start(&["--listen", "127.0.0.1:0", "--processes", processes]);
        let address = server.addresses[0];
        rig.write(&(version(2) + "more TXT \"no end\n"));
        let report = reload(&mut server);
        assert_eq!((&report["zones"], &report["kept"]), (&1.into(), &1.into()));
        assert_eq!(version_of(&ask(address, &query(1, "www.auth.test", A))), 1);
        fs::remove_file(rig.zone()).unwrap();
        assert_eq!(reload(&mut server)["kept"], 1);
        assert_eq!(version_of(&ask(address, &query(1, "www.auth.test", A))), 1);
        // When the file is whole again, the server takes it.
        rig.write(&(version(3) + "more TXT \"an end\"\n"));
        assert_eq!(reload(&mut server)["kept"], 0);
        assert_eq!(version_of(&ask(address, &query(1, "www.auth.test", A))), 3);
        assert_eq!(ask(address, &query(1, "more.auth.test", TXT)).answers(), 1);
        let (_, errors) = server.stop_saying(Signal::Terminate);
        let place = format!("{}:8:", rig.zone().display());
        assert_eq!(errors.matches(&place).count(), 1, "{errors}");
    }
}

/// Only its text says which zone this file holds.
#[test]
fn an_emptied_file_keeps_the_zone_that_it_named() {
    let rig = Rig::new();
    let path = rig.folder.path().join("db.auth");
    for processes in ["1", "2"] {
        fs::write(&path, version(1)).unwrap();
        let arguments =
            ["--zone", path.to_str().unwrap(), "--listen", "127.0.0.1:0", "--processes", processes];
        let mut server = Running::start_as("auth", &arguments);
        for _ in 0..2 {
            fs::write(&path, "").unwrap();
            let report = reload(&mut server);
            assert_eq!((&report["zones"], &report["kept"]), (&1.into(), &1.into()));
            assert_eq!(report["broken"], 0);
            assert_eq!(version_of(&ask(server.addresses[0], &query(1, "www.auth.test", A))), 1);
        }
        fs::write(&path, version(2)).unwrap();
        assert_eq!(reload(&mut server)["kept"], 0);
        assert_eq!(version_of(&ask(server.addresses[0], &query(1, "www.auth.test", A))), 2);
    }
}

#[test]
fn zones_that_cannot_be_found_again_stay_with_a_message() {
    let rig = Rig::new();
    let (folder, elsewhere) = (rig.folder.path().join("zones"), rig.folder.path().join("elsewhere"));
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("auth.test.zone"), version(1)).unwrap();
    let folder_text = folder.to_str().unwrap();
    let mut server = Running::start_as("auth", &["--zones", folder_text, "--listen", "127.0.0.1:0"]);
    let address = server.addresses[0];

    fs::rename(&folder, &elsewhere).unwrap();
    signal(server.child.id(), Signal::HangUp).unwrap();
    let said = server.next_error();
    assert!(said.contains(folder_text) && said.contains("all zones stay as they were"), "{said}");
    assert_eq!(version_of(&ask(address, &query(1, "www.auth.test", A))), 1);

    fs::rename(&elsewhere, &folder).unwrap();
    fs::write(folder.join("auth.test.zone"), version(2)).unwrap();
    assert_eq!(reload(&mut server)["zones"], 1);
    assert_eq!(version_of(&ask(address, &query(1, "www.auth.test", A))), 2);
}

#[test]
fn a_zone_that_comes_or_goes_is_served_or_refused() {
    let rig = Rig::new();
    rig.write(&version(1));
    let folder = rig.folder.path().to_str().unwrap();
    let mut server = Running::start_as("auth", &["--zones", folder, "--listen", "127.0.0.1:0"]);
    let second = rig.folder.path().join("second.test.zone");
    let address = server.addresses[0];
    assert_eq!(ask(address, &query(1, "ns.second.test", A)).rcode(), super::REFUSED);
    fs::write(&second, "$TTL 1\n@ SOA ns host 1 1 1 1 1\n@ NS ns\nns A 192.0.2.1\n").unwrap();
    assert_eq!(reload(&mut server)["zones"], 2);
    assert_eq!(ask(address, &query(1, "ns.second.test", A)).answers(), 1);
    fs::remove_file(second).unwrap();
    assert_eq!(reload(&mut server)["zones"], 1);
    assert_eq!(ask(address, &query(1, "ns.second.test", A)).rcode(), super::REFUSED);
}
