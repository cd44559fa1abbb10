//! Additions to every query beside its line: EDNS options and random labels, over every transport.

use std::collections::BTreeSet;

use super::bench::{Bench, kqps, words};
use super::encrypted;
use super::sent;
use super::trouble::offered_io;

/// The bytes of a header.
const HEADER: usize = 12;

#[test]
fn each_query_has_random_labels_of_its_own_and_its_reply_repeats_them() {
    let bench = Bench::new();
    sent::write_queries(&bench, 20);
    for io in offered_io() {
        let (_, heard) = sent::played(&bench, &["--prefix", "label:6x2", "-n", "10", "--io", io]);
        let labels: BTreeSet<&[u8]> =
            heard.iter().map(|(_, message)| &message[HEADER..HEADER + 14]).collect();
        assert_eq!((heard.len(), labels.len()), (200, 200), "{io}");
        for (_, message) in &heard {
            assert_eq!((message[HEADER], message[HEADER + 7], message[HEADER + 14]), (6, 6, 3), "{io}");
            assert!(message[HEADER + 14..].starts_with(b"\x03n"), "{io}");
        }
    }
    let (_, numbers) = sent::played(&bench, &["--prefix", "number:7-9", "-n", "5"]);
    assert!(numbers.iter().all(|(_, message)| (b'7'..=b'9').contains(&message[HEADER + 1])));
}

/// A player that checked another name than the one that it sent would count no correct reply.
#[test]
fn random_labels_pass_every_transport() {
    for scheme in ["tcp", "tls", "https", "quic"] {
        let (_server, url, ca) = encrypted::server(scheme, &[]);
        let mut flags = vec!["--prefix", "bytes:9", "-q", "50", "-E", "65001:0a0b"];
        if scheme != "tcp" {
            flags.extend(["--ca", &ca]);
        }
        let trial = encrypted::played(&url, &flags);
        assert_eq!(
            (trial.accounts.correct, trial.accounts.wrong),
            (1000, 0),
            "{scheme}: {:?}",
            trial.accounts
        );
    }
}

#[test]
fn options_of_edns_are_in_every_query() {
    let bench = Bench::new();
    sent::write_queries(&bench, 5);
    let (_, heard) = sent::played(&bench, &["-E", "65001:0a0b", "-E", "3:", "-D"]);
    let options = b"\x00\x0a\xfd\xe9\x00\x02\x0a\x0b\x00\x03\x00\x00";
    assert!(heard.iter().all(|(_, message)| message[11] == 1 && message.ends_with(options)));
}

/// RFC 7828, section 3.2.1, and RFC 9250, section 5.5.2, forbid edns-tcp-keepalive over UDP and QUIC.
#[test]
fn an_option_that_the_transport_forbids_is_refused() {
    let bench = Bench::new();
    // A file may have the option, too: here the second of two messages has it, behind another one.
    let query = |additionals: u8| {
        [&[0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, additionals][..], b"\x04test\0\0\x01\0\x01"].concat()
    };
    let opt = b"\0\0\x29\x04\xd0\0\0\0\0\0\x0b\0\x03\0\x03123\0\x0b\0\0";
    let messages = [query(0), [&query(1)[..], opt].concat()];
    let framed = messages.map(|message| [&(message.len() as u16).to_be_bytes()[..], &message].concat());
    let binary = bench.folder.path().join("binary");
    std::fs::write(&binary, framed.concat()).unwrap();
    let (udp, quic) = ("127.0.0.1:1", "quic://127.0.0.1:1");
    for (target, file, flags, number) in [
        (udp, bench.queries(), &["-E", "65001:0b", "-E", "11:"][..], 1),
        (quic, bench.queries(), &["--insecure", "-E", "11:0046"], 1),
        (udp, binary.clone(), &["-B"], 2),
        (quic, binary, &["--insecure", "-B"], 2),
    ] {
        let mut load = kqps(&["load", target, "-d"]);
        let output = load.arg(file).args(flags).env("XDG_CACHE_HOME", bench.folder.path()).output().unwrap();
        let (_, err) = words(&output);
        assert_eq!(output.status.code(), Some(2), "{target} {flags:?}: {err}");
        let wanted = format!("query {number} has the option edns-tcp-keepalive (code 11)");
        let rule =
            if target == udp { "over udp (RFC 7828, section 3.2.1)" } else { "over quic (RFC 9250, section" };
        assert!(err.contains(&wanted) && err.contains(rule), "{target} {flags:?}: {err}");
    }
    for scheme in ["tcp", "tls"] {
        let (_server, url, ca) = encrypted::server(scheme, &[]);
        let flags = ["-E", "11:", "-q", "50", "--ca", &ca];
        let trial = encrypted::played(&url, if scheme == "tcp" { &flags[..4] } else { &flags });
        assert_eq!(trial.accounts.correct, 1000, "{scheme}: {:?}", trial.accounts);
    }
}

#[test]
fn interval_lines_have_the_rcodes() {
    let bench = Bench::new();
    let output = bench.load(&["-Q", "1k", "-l", "0.5s", "-S", "100ms"]).output().unwrap();
    let (_, err) = words(&output);
    // A hundred replies show no bound of p99.
    let is_whole = |line: &str| {
        line.split_once(" %, p50 ")
            .is_some_and(|(_, more)| more.contains(" µs, greatest ") && more.contains(" µs, NOERROR "))
    };
    assert!(err.lines().any(is_whole), "{err}");
}

#[test]
fn what_does_not_go_together_is_refused() {
    let bench = Bench::new();
    for (flags, wanted) in [
        (&["--prefix", "label:99"][..], "a label has 1 to 63 bytes"),
        (&["--prefix", "label", "-u"], "cannot be used with"),
        (&["--prefix", "bytes:63", "-l", "0"], "-l 0"),
        (&["-E", "1:0"], "expected CODE:HEX"),
    ] {
        let output = bench.load(flags).output().unwrap();
        let (_, err) = words(&output);
        assert!(output.status.code() == Some(2) && err.contains(wanted), "{flags:?}: {err}");
    }
    let long = format!("{0}.{0}.{0}.{1} A\n", "x".repeat(63), "y".repeat(55));
    std::fs::write(bench.queries(), long).unwrap();
    let (_, err) = words(&bench.load(&["--prefix", "label"]).output().unwrap());
    assert!(err.contains("the name is longer than 255 bytes"), "{err}");
}
