//! SIGHUP: the front reads its file again while it answers queries.

use std::fs;
use std::io::Read as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use kqps_kernel::process::{Signal, signal};
use serde_json::Value;
use tempfile::TempDir;

use super::peer::{Datagrams, Host, answer};
use super::{PATIENT, Running, asked, assert_sums, echo, front, stop};
use crate::auth::dns::{A, ask, query};
use crate::serve::sent::flow;

/// A file with back ends.
struct File {
    folder: TempDir,
}

impl File {
    fn new(back_ends: &[(&str, &str)], rest: &str) -> Self {
        let file = Self { folder: tempfile::tempdir().unwrap() };
        file.write(back_ends, rest);
        file
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("front.toml")
    }

    fn write(&self, back_ends: &[(&str, &str)], rest: &str) {
        let entry = |(name, url): &(&str, &str)| format!("[[backend]]\nname = \"{name}\"\nurl = \"{url}\"\n");
        let text: String = back_ends.iter().map(entry).collect();
        fs::write(self.path(), text + rest).unwrap();
    }

    fn start(&self, arguments: &[&str]) -> Running {
        front(&[], &[&["--config", self.path().to_str().unwrap()], arguments].concat())
    }
}

/// Has a front read its file again, which is valid. Returns what it printed.
fn reload(server: &mut Running) -> Value {
    signal(server.child.id(), Signal::HangUp).unwrap();
    let report = server.next_line().unwrap();
    assert_eq!(report["kind"], "reloaded");
    report
}

/// Has a front read its file again, which is invalid. Returns what it printed.
fn reload_in_vain(server: &mut Running) -> String {
    signal(server.child.id(), Signal::HangUp).unwrap();
    server.next_error()
}

#[test]
fn back_ends_come_and_go_while_queries_are_answered() {
    let ((_one, one_url), (_two, two_url)) = (echo(), echo());
    for workers in [&["--threads", "1"], &["--threads", "2"]] {
        let file = File::new(&[("one", &one_url)], "");
        let mut server = file.start(workers);
        let (address, over) = (server.addresses[0], AtomicBool::new(false));
        let asked_in_all = std::thread::scope(|scope| {
            let play = || {
                let mut count = 0;
                while !over.load(Ordering::Relaxed) {
                    assert_eq!(ask(address, &query(1, "a.test", A)).rcode(), 0);
                    count += 1;
                }
                count
            };
            let players = [scope.spawn(play), scope.spawn(play)];
            for _ in 0..20 {
                for back_ends in [
                    &[("two", &*two_url), ("one", &*one_url)][..],
                    &[("two", &two_url)],
                    &[("one", &one_url)],
                ] {
                    file.write(back_ends, "");
                    let report = reload(&mut server);
                    assert_eq!(report["back_ends"].as_object().unwrap().len(), back_ends.len());
                }
            }
            over.store(true, Ordering::Relaxed);
            players.map(|player| player.join().unwrap()).iter().sum::<u64>()
        });
        let report = stop(server);
        assert_eq!((report.received, report.answered), (asked_in_all, asked_in_all));
        assert_eq!(asked(&report, "one") + asked(&report, "two"), asked_in_all);
        let lost: u64 = report.back_ends.values().map(|counts| counts.timed_out + counts.cut_off).sum();
        assert_eq!(lost, 0, "{report:?}");
    }
}

#[test]
fn a_back_end_that_is_drained_finishes_what_it_has() {
    let host = Host::new();
    let (_echo, url) = echo();
    let file = File::new(&[("host", &host.url())], "");
    let mut server = file.start(&PATIENT);
    let mut back_end = host.peer();
    let waiting = flow(server.addresses[0]);
    waiting.send(&query(9, "held.test", A)).unwrap();
    let held = back_end.query();
    file.write(&[("echo", &url)], "");
    assert_eq!(reload(&mut server)["back_ends"], serde_json::json!({ "echo": url }));
    // From now on the other back end answers every client.
    for id in 0..5 {
        assert_eq!(ask(server.addresses[0], &query(id, "new.test", A)).rcode(), 0);
    }
    back_end.say(&answer(&held));
    let mut buffer = [0; 512];
    let bytes = waiting.recv(&mut buffer).unwrap();
    assert_eq!(buffer[..bytes], answer(&query(9, "held.test", A)));
    // Then the front closes the connection.
    assert_eq!(back_end.stream.read(&mut buffer).unwrap(), 0);
    let report = stop(server);
    assert_eq!((asked(&report, "host"), asked(&report, "echo")), (1, 5));
    assert_eq!((report.back_ends["host"].up, report.back_ends["echo"].up), (0, 1));
}

#[test]
fn a_second_try_goes_by_the_rules_of_now() {
    let silent = Datagrams::new();
    let (_echo, url) = echo();
    let file = File::new(&[("silent", &silent.url())], "[[rule]]\ntype = [\"A\"]\nto = [\"silent\"]\n");
    // The first try has half of it, in which the front reads its file again.
    let mut server = file.start(&["--timeout", "6s", "--silence", "1m", "--check-interval", "1m"]);
    silent.pass();
    let flow = flow(server.addresses[0]);
    flow.send(&query(1, "a.test", A)).unwrap();
    silent.query();
    file.write(&[("echo", &url)], "");
    reload(&mut server);
    let mut buffer = [0; 512];
    let bytes = flow.recv(&mut buffer).unwrap();
    assert_eq!(buffer[..bytes], answer(&query(1, "a.test", A)));
    let report = stop(server);
    assert_eq!((report.back_ends["silent"].timed_out, report.back_ends["echo"].second_tries), (1, 1));
}

#[test]
fn a_broken_file_keeps_the_back_ends_and_is_explained() {
    let (_echo, url) = echo();
    let file = File::new(&[("echo", &url)], "");
    let mut server = file.start(&[]);
    let good = [("echo", &*url)];
    for (rest, why) in [
        ("[[rule]]\nto = [\"ecko\"]\n", "5:7: there is no back end `ecko`; did you mean `echo`?"),
        ("wieght = 2\n", "4:1: unknown field `wieght`"),
        ("[[rule]]\nto = [\"echo\"]\ntype = [\"AAA\"]\n", "6:9: there is no type `AAA`"),
        ("[[rule]\n", "4:8: "),
    ] {
        file.write(&good, rest);
        let said = reload_in_vain(&mut server);
        assert!(said.starts_with(&format!("kqps: {}:{why}", file.path().display())), "{said}");
        assert!(said.ends_with("; all back ends stay as they were\n"), "{said}");
        assert_eq!(ask(server.addresses[0], &query(1, "a.test", A)).rcode(), 0);
    }
    fs::remove_file(file.path()).unwrap();
    let said = reload_in_vain(&mut server);
    assert!(said.contains(&*file.path().to_string_lossy()) && said.contains("stay as they were"), "{said}");
    // When the file is valid again, the front takes it.
    file.write(&[("other", &url)], "");
    assert_eq!(reload(&mut server)["back_ends"], serde_json::json!({ "other": url }));
    assert_eq!(ask(server.addresses[0], &query(2, "a.test", A)).rcode(), 0);
    let (report, _) = server.stop_saying(Signal::Terminate);
    assert_sums(&report);
}

#[test]
fn a_front_does_not_become_a_back_end_of_its_own() {
    let (_echo, url) = echo();
    let file = File::new(&[("echo", &url)], "");
    // The kernel chooses the port, so the test learns it here.
    let mut server = file.start(&["--listen", "0.0.0.0:0"]);
    for (at, ip) in server.addresses.clone().into_iter().zip(["127.0.0.1", "127.0.0.2"]) {
        for way in ["udp", "tcp"] {
            let itself = format!("{way}://{ip}:{}", at.port());
            file.write(&[("echo", &url), ("loop", &itself)], "");
            let said = reload_in_vain(&mut server);
            let path = file.path();
            let why = format!("kqps: {}: the back end {itself} is an address of this front", path.display());
            assert_eq!(said, why + "; all back ends stay as they were\n");
            assert_eq!(ask(server.addresses[0], &query(1, "a.test", A)).rcode(), 0);
        }
    }
    let report = stop(server);
    assert_eq!((report.back_ends.len(), asked(&report, "echo")), (1, 4), "{report:?}");
}

#[test]
fn a_lack_of_sockets_is_reported() {
    let (_echo, url) = echo();
    let file = File::new(&[("echo", &url)], "");
    let mut server = file.start(&["--threads", "2"]);
    // Broadcasts take a permission that a front does not ask for (SO_BROADCAST).
    file.write(&[("other", &url), ("all", "udp://255.255.255.255")], "");
    let said = reload_in_vain(&mut server);
    let why =
        "kqps: a worker goes on with the back ends that it had: back end all (udp://255.255.255.255:53): ";
    assert!(said.starts_with(why), "{said}");
    assert_eq!(ask(server.addresses[0], &query(1, "a.test", A)).rcode(), 0);
    let report = stop(server);
    assert_eq!((asked(&report, "echo"), asked(&report, "other")), (1, 0));
}

#[test]
fn without_a_file_there_is_nothing_to_read_again() {
    let (_echo, url) = echo();
    let mut server = front(&[&url], &[]);
    let said = reload_in_vain(&mut server);
    assert_eq!(said, "kqps: there is no --config to read again; all back ends stay as they were\n");
    assert_eq!(ask(server.addresses[0], &query(1, "a.test", A)).rcode(), 0);
    stop(server);
}
