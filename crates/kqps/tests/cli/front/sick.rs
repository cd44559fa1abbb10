//! Back ends that answer SERVFAIL: the front stops using them, uses them again once they are well, and may
//! send their queries to another.

use std::fs;
use std::time::Instant;

use kqps_kernel::process::{Signal, signal};

use super::peer::Acting;
use super::{Running, asked, echo, front, stop};
use crate::auth::dns::{A, ask, ask_by, connect, query};
use crate::auth::{NXDOMAIN, Rig, SERVFAIL};
use crate::serve::PATIENCE;

/// Checks come only when something is wrong.
const SELDOM: [&str; 2] = ["--check-interval", "1h"];

const BY_TURNS: [&str; 2] = ["--policy", "round-robin"];

/// The rcodes of `answers` answers in a row.
fn heard(server: &Running, answers: u16) -> Vec<u8> {
    (0..answers).map(|id| ask(server.addresses[0], &query(id, "a.test", A)).rcode()).collect()
}

/// How many of these rcodes are `rcode`.
fn count(rcodes: &[u8], rcode: u8) -> usize {
    rcodes.iter().map(|&other| usize::from(other == rcode)).sum()
}

/// Asks until of ten answers in a row, shared by two back ends, `expected` are SERVFAIL.
fn wait_for_servfails(server: &Running, expected: usize) {
    let begin = Instant::now();
    let failed = || count(&heard(server, 10), SERVFAIL);
    while failed() != expected {
        assert!(begin.elapsed() < PATIENCE, "there are never {expected} of ten");
    }
}

#[test]
fn a_back_end_that_answers_clients_and_checks_servfail_is_found_out_without_waiting_for_a_check() {
    let (sick, well) = (Acting::new(0, 0), Acting::new(0, 0));
    let back_ends = [format!("sick={}", sick.url()), format!("well={}", well.url())];
    let server = front(&back_ends.each_ref().map(|url| &**url), &[SELDOM, BY_TURNS].concat());
    wait_for_servfails(&server, 0);
    sick.say(SERVFAIL, SERVFAIL);
    wait_for_servfails(&server, 0);
    let report = stop(server);
    let (sick, well) = (&report.back_ends["sick"], &report.back_ends["well"]);
    assert_eq!((sick.up, sick.downs, well.up, well.downs), (0, 1, 1, 0), "{report:?}");
    // At least two checks, and the client's query that caused them.
    assert!(sick.servfails >= 3 && well.servfails == 0, "{report:?}");
}

/// A server with a broken root zone answers SERVFAIL to everything but the names of its other zone, by every
/// transport.
#[test]
fn a_server_that_is_sick_is_found_out_by_every_way_and_used_again_when_it_is_mended() {
    let rig = Rig::new();
    let root = rig.folder.path().join("root.zone");
    let batches = rig.folder.path().join("batches");
    let (good, argument) =
        ("$TTL 60\n@ SOA ns host 1 1 1 1 1\n@ NS ns\nns A 192.0.2.3\n", format!(".={}", root.display()));
    for way in 0..3 {
        fs::write(&root, format!("{good}x A y\n")).unwrap();
        let listen = ["--listen", "127.0.0.1:0", "--unix", batches.to_str().unwrap(), "--zone", &argument];
        let mut sick = rig.start(&listen);
        let address = sick.addresses[0];
        let url =
            [format!("udp://{address}"), format!("tcp://{address}"), format!("unix:{}", batches.display())];
        let (_echo, well) = echo();
        let back_ends = [format!("sick={}", url[way]), format!("well={well}")];
        let arguments = [BY_TURNS, ["--check-interval", "100ms"]].concat();
        let server = front(&back_ends.each_ref().map(|url| &**url), &arguments);
        // The repaired zone has no such name, and the echo answers it.
        wait_for_servfails(&server, 0);
        assert_eq!(count(&heard(&server, 10), 0), 10, "the echo alone answers");
        fs::write(&root, good).unwrap();
        signal(sick.child.id(), Signal::HangUp).unwrap();
        assert_eq!(sick.next_line().unwrap()["kind"], "reloaded");
        let begin = Instant::now();
        while count(&heard(&server, 10), NXDOMAIN) != 5 {
            assert!(begin.elapsed() < PATIENCE, "{}: it is not used again", url[way]);
        }
        let report = stop(server);
        let counts = &report.back_ends["sick"];
        assert_eq!((counts.up, counts.downs, counts.cut_off), (1, 1, 0), "{report:?}");
        sick.stop_saying(Signal::Terminate);
    }
}

#[test]
fn a_back_end_that_is_sick_is_used_again_when_it_is_well() {
    for way in ["clients too", "checks only"] {
        let (sick, well) = (Acting::new(0, 0), Acting::new(0, 0));
        let rcode = if way == "checks only" { 0 } else { SERVFAIL };
        sick.say(rcode, SERVFAIL);
        let back_ends = [format!("sick={}", sick.url()), format!("well={}", well.url())];
        let arguments = [BY_TURNS, ["--check-interval", "100ms"]].concat();
        let server = front(&back_ends.each_ref().map(|url| &**url), &arguments);
        // An rcode of its own shows whether the back end is used.
        let begin = Instant::now();
        let is_used = |expected: usize, rcode| loop {
            let seen = count(&heard(&server, 10), rcode);
            if seen == expected {
                return;
            }
            assert!(begin.elapsed() < PATIENCE, "{way}: {seen} of ten, not {expected}");
        };
        well.say(3, 0);
        is_used(10, 3);
        sick.say(0, 0);
        is_used(5, 0);
        let report = stop(server);
        assert_eq!((report.back_ends["sick"].up, report.back_ends["sick"].downs), (1, 1), "{report:?}");
    }
}

#[test]
fn a_check_that_is_answered_by_any_other_rcode_has_passed() {
    // FORMERR, NXDOMAIN, NOTIMP, REFUSED, NOTAUTH: the check's name need not be in its zones.
    for rcode in [1, 3, 4, 5, 9] {
        let back_end = Acting::new(0, rcode);
        let server = front(&[&back_end.url()], &["--check-interval", "5ms", "--fall", "1"]);
        let begin = Instant::now();
        while back_end.checks() < 10 {
            assert_eq!(heard(&server, 1), [0]);
            assert!(begin.elapsed() < PATIENCE, "it is not checked");
        }
        let report = stop(server);
        assert_eq!((report.back_ends[&back_end.url()].up, report.back_ends[&back_end.url()].downs), (1, 0));
    }
}

#[test]
fn servfail_to_clients_alone_is_no_sign_that_a_back_end_is_sick() {
    let (broken, well) = (Acting::new(SERVFAIL, 0), Acting::new(0, 0));
    let server = front(&[&broken.url(), &well.url()], &[SELDOM, BY_TURNS].concat());
    // A zone that is broken there, for instance.
    let begin = Instant::now();
    let before = broken.checks();
    while broken.checks() < before + 5 {
        assert_eq!(count(&heard(&server, 2), SERVFAIL), 1);
        assert!(begin.elapsed() < PATIENCE, "it is not checked");
    }
    let report = stop(server);
    let broken = &report.back_ends[&broken.url()];
    assert_eq!((broken.up, broken.downs), (1, 0), "{broken:?}");
    assert_eq!(broken.servfails, report.response_rcodes["SERVFAIL"]);
}

#[test]
fn servfail_goes_to_the_client_or_where_that_is_wanted_to_another_back_end() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("front.toml");
    for way in ["", "flag", "file"] {
        let (broken, well) = (Acting::new(SERVFAIL, 0), Acting::new(0, 0));
        let (first, second) = (format!("broken={}", broken.url()), format!("well={}", well.url()));
        let server = if way == "file" {
            let entry = |name, url| format!("[[backend]]\nname = \"{name}\"\nurl = \"{url}\"\n");
            let head = "policy = \"round-robin\"\nretry-servfail = true\n";
            fs::write(&file, head.to_owned() + &entry("broken", broken.url()) + &entry("well", well.url()))
                .unwrap();
            front(&[], &[&SELDOM[..], &["--config", file.to_str().unwrap()]].concat())
        } else {
            let retry: &[&str] = if way == "flag" { &["--retry-servfail"] } else { &[] };
            front(&[&first, &second], &[&SELDOM[..], &BY_TURNS, retry].concat())
        };
        let mut stream = connect(server.addresses[0]);
        let mut failed = 0;
        for id in 0..20 {
            let asked = query(id, "a.test", A);
            let replies = [ask(server.addresses[0], &asked), ask_by(&mut stream, &asked)];
            failed += replies.iter().filter(|reply| reply.rcode() == SERVFAIL).count();
        }
        let report = stop(server);
        let (broken, second_tries) = (&report.back_ends["broken"], report.back_ends["well"].second_tries);
        // The second try takes a turn too, so the first try of every query goes to the same back end.
        let expected = if way.is_empty() { (20, 0, 20) } else { (0, broken.servfails, broken.servfails) };
        assert_eq!((failed as u64, second_tries, broken.servfails), expected, "{way}: {report:?}");
        assert!(broken.servfails >= 20);
    }
}

#[test]
fn servfail_everywhere_is_said_once_each_had_the_query_once() {
    let (one, two) = (Acting::new(SERVFAIL, 0), Acting::new(SERVFAIL, 0));
    let server = front(&[&one.url(), &two.url()], &[&SELDOM[..], &["--retry-servfail"]].concat());
    assert_eq!(heard(&server, 10), [SERVFAIL; 10]);
    let report = stop(server);
    assert_eq!((asked(&report, &one.url()), asked(&report, &two.url())), (10, 10));
    let second_tries: u64 = report.back_ends.values().map(|counts| counts.second_tries).sum();
    assert_eq!((second_tries, report.answered), (10, 10));
}

#[test]
fn servfail_of_the_only_back_end_is_handed_on_as_it_is() {
    let only = Acting::new(SERVFAIL, 0);
    let server = front(&[&only.url()], &[&SELDOM[..], &["--retry-servfail"]].concat());
    let asked = query(1, "a.test", A);
    let mut expected = asked.clone();
    (expected[2], expected[3]) = (0x80, SERVFAIL);
    assert_eq!(ask(server.addresses[0], &asked).0, expected);
    let report = stop(server);
    assert_eq!(super::asked(&report, &only.url()), 1);
}
