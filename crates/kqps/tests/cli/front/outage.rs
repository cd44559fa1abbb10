//! All back ends down, and one of them back: clients are served soon, even with a long check interval.

use std::fs;
use std::time::Instant;

use kqps_kernel::process::Signal;

use super::peer::Datagrams;
use super::{Running, authority, echo, front, stop};
use crate::auth::dns::{A, Reply, ask, ask_by, connect, query, query_edns};
use crate::auth::{REFUSED, Rig, SERVFAIL};
use crate::serve::PATIENCE;

/// No check comes by the interval while the test runs.
const SELDOM: [&str; 2] = ["--check-interval", "1h"];

/// Asks until an answer has this rcode.
fn wait_for(server: &Running, asked: &[u8], rcode: u8) {
    let begin = Instant::now();
    while ask(server.addresses[0], asked).rcode() != rcode {
        assert!(begin.elapsed() < PATIENCE, "rcode {rcode} never comes");
    }
}

#[test]
fn a_back_end_that_comes_back_after_all_were_down_is_used_before_the_next_check_would_be_due() {
    let rig = Rig::new();
    for way in 0..3 {
        let (mut back_end, ways) = authority(&rig);
        let server = front(&[&ways[way]], &SELDOM);
        let address = back_end.addresses[0].to_string();
        // Only the zone's server refuses names outside of its zone.
        let asked = query(1, "www.other.test", A);
        for _ in 0..3 {
            wait_for(&server, &asked, REFUSED);
            back_end.stop(Signal::Terminate);
            wait_for(&server, &asked, SERVFAIL);
            let path = rig.folder.path().join("batches");
            back_end = rig.start(&["--listen", &address, "--unix", path.to_str().unwrap()]);
        }
        wait_for(&server, &asked, REFUSED);
        // By TCP, clients get the whole of a long answer as soon as they are served.
        let whole = ask_by(&mut connect(server.addresses[0]), &query_edns(2, "big.auth.test", 16, 1232));
        assert_eq!((whole.answers(), whole.is_truncated()), (40, false));
        let report = stop(server);
        assert_eq!(report.back_ends[&ways[way]].up, 1, "{report:?}");
        back_end.stop(Signal::Terminate);
    }
}

#[test]
fn the_only_one_of_a_rule_is_looked_for_though_others_are_up() {
    let (_echo, url) = echo();
    let rig = Rig::new();
    let (gone, [by_udp, ..]) = authority(&rig);
    let address = gone.addresses[0].to_string();
    gone.stop(Signal::Terminate);
    let file = rig.folder.path().join("front.toml");
    let text = format!(
        "[[backend]]\nname = \"echo\"\nurl = \"{url}\"\n[[backend]]\nname = \"zone\"\nurl = \"{by_udp}\"\n\
         [[rule]]\nsuffix = [\"auth.test\"]\nto = [\"zone\"]\n[[rule]]\nto = [\"echo\"]\n"
    );
    fs::write(&file, text).unwrap();
    let server = front(&[], &[&SELDOM[..], &["--config", file.to_str().unwrap()]].concat());
    let asked = query(1, "www.auth.test", A);
    wait_for(&server, &asked, SERVFAIL);
    assert_eq!(ask(server.addresses[0], &query(2, "www.other.test", A)).rcode(), 0);
    let again = rig.start(&["--listen", &address]);
    wait_for(&server, &asked, 0);
    let report = stop(server);
    let checks = |name: &str| report.back_ends[name].checks;
    assert!(checks("echo") == 1 && checks("zone") >= 3, "{report:?}");
    again.stop(Signal::Terminate);
}

/// Messages that a back end reads and does not answer.
const LOST: u64 = 12;

/// A silent back end is checked again and again, and comes back, although earlier checks never get a reply.
#[test]
fn checks_that_were_lost_do_not_keep_a_back_end_away() {
    let back_end = Datagrams::new();
    let server =
        front(&[&back_end.url()], &[&SELDOM[..], &["--silence", "100ms", "--timeout", "4s"]].concat());
    back_end.pass();
    // The query of a client shows that it is silent. That query and the checks of more than half a second are
    // lost.
    assert_eq!(ask(server.addresses[0], &query(1, "a.test", A)).rcode(), SERVFAIL);
    (0..LOST).for_each(|_| drop(back_end.query()));
    // The checks after that are answered, until a query of a client comes.
    let client = crate::serve::sent::flow(server.addresses[0]);
    let begin = Instant::now();
    let mut buffer = [0; 512];
    client.set_read_timeout(Some(std::time::Duration::from_millis(1))).unwrap();
    loop {
        client.send(&query(2, "b.test", A)).unwrap();
        let (asked, from) = back_end.query();
        back_end.say(&super::peer::answer(&asked), from);
        if client.recv(&mut buffer).is_ok_and(|bytes| Reply(buffer[..bytes].to_vec()).rcode() == 0) {
            break;
        }
        assert!(begin.elapsed() < PATIENCE, "it is never used again");
    }
    let report = stop(server);
    let counts = &report.back_ends[&back_end.url()];
    assert!(counts.downs == 1 && counts.up == 1 && counts.checks > LOST, "{counts:?}");
}
