//! Early data (0-RTT) and tickets over TLS, HTTPS and QUIC, where both sides count the same.

use std::collections::BTreeMap;

use kqps_kernel::process::Signal;
use kqps_observation::{EarlyFacts, TlsFacts, Trial};
use kqps_server::Report;

use super::encrypted::{played, server};

const SCHEMES: [&str; 3] = ["tls", "https", "quic"];

/// A connection for each query, at 16 places.
const EACH: [&str; 6] = ["-q", "20", "-c", "16", "--queries-per-connection", "1"];

fn tls(trial: &Trial) -> &TlsFacts {
    trial.connections.as_ref().and_then(|connections| connections.tls.as_ref()).expect("there is TLS")
}

/// The handshakes that a server counted, and the queries that it answered.
fn counted(report: &Report) -> (BTreeMap<String, u64>, u64) {
    match (&report.tcp, &report.quic) {
        (Some(tcp), None) => (tcp.handshakes.clone(), tcp.answered),
        (None, Some(quic)) => (quic.counts.handshakes.clone(), quic.counts.answered),
        both => panic!("{both:?}"),
    }
}

/// Plays 1,000 queries at a server with these flags, and checks that both sides count the same.
fn both(scheme: &str, of_server: &[&str], of_player: &[&str]) -> Trial {
    let (server, url, ca) = server(scheme, of_server);
    let trial = played(&url, &[&["--ca", &ca][..], of_player].concat());
    assert_eq!(trial.accounts.correct, 1000, "{scheme}: {:?}", trial.accounts);
    let (handshakes, answered) = counted(&server.stop(Signal::Terminate));
    assert_eq!((&tls(&trial).handshakes, answered), (&handshakes, 1000), "{scheme} {of_player:?}");
    trial
}

fn kind(trial: &Trial, name: &str) -> u64 {
    tls(trial).handshakes.get(name).copied().unwrap_or(0)
}

fn early(trial: &Trial) -> EarlyFacts {
    tls(trial).early.expect("it was asked for")
}

/// The note that no early data was sent.
fn note(trial: &Trial) -> Option<&String> {
    trial.players.first.notes.iter().find(|note| note.starts_with("no early data was sent (--early-data): "))
}

#[test]
fn early_data_is_taken_by_servers_that_are_asked_to() {
    for scheme in SCHEMES {
        let flags = [&EACH[..], &["--early-data"]].concat();
        let trial = both(scheme, &["--early-data"], &flags);
        let facts = early(&trial);
        // The first connection of each place has no ticket.
        assert!(facts.accepted > 500, "{scheme}: {facts:?}");
        assert_eq!((facts.offered, kind(&trial, "0-rtt")), (facts.accepted, facts.accepted));
        assert_eq!((facts.rejected, facts.queries, facts.queries_again), (0, facts.accepted, 0));
        assert_eq!(note(&trial), None);
        let trial = both(scheme, &[], &flags);
        assert_eq!((early(&trial), kind(&trial, "0-rtt")), (EarlyFacts::default(), 0));
        assert!(note(&trial).expect("a note").contains("the server's tickets do not allow it"));
    }
    let trial = both("tls", &["--early-data"], &EACH);
    assert_eq!((tls(&trial).early, kind(&trial, "0-rtt")), (None, 0), "nobody asked the player");
}

#[test]
fn many_queries_of_a_connection_are_early_data() {
    for scheme in ["tls", "https"] {
        let flags = ["-q", "100", "-c", "4", "--queries-per-connection", "25", "--early-data"];
        let trial = both(scheme, &["--early-data"], &flags);
        let facts = early(&trial);
        assert!(facts.accepted > 20 && facts.queries > 2 * facts.accepted, "{scheme}: {facts:?}");
    }
}

#[test]
fn rejected_early_data_is_sent_again() {
    for scheme in SCHEMES {
        // Each process knows its own sessions alone, and the kernel deals connections to both.
        let of_server = ["--early-data", "--processes", "2", "--listeners", "reuseport"];
        let of_server = if scheme == "quic" { &of_server[..3] } else { &of_server[..] };
        let trial = both(scheme, of_server, &[&EACH[..], &["--early-data"]].concat());
        let facts = early(&trial);
        assert!(facts.rejected > 0 && facts.accepted > 0, "{scheme}: {facts:?}");
        assert_eq!(facts.offered, facts.accepted + facts.rejected);
        assert_eq!((facts.queries, facts.queries_again), (facts.offered, facts.rejected), "{facts:?}");
        assert_eq!(facts.accepted, kind(&trial, "0-rtt"));
    }
}

#[test]
fn a_note_says_why_no_early_data_was_sent() {
    for (of_server, of_player, why) in [
        (&["--early-data"][..], &["-q", "20", "-c", "4"][..], "kept connections are opened before"),
        (
            &["--early-data"],
            &["-q", "16", "--queries-per-connection", "0"],
            "connections alone have no queries",
        ),
    ] {
        let (server, url, ca) = server("tls", of_server);
        let trial = played(&url, &[&["--ca", &ca, "--early-data"][..], of_player].concat());
        assert!(note(&trial).expect("a note").contains(why), "{:?}", trial.players.first.notes);
        drop(server);
    }
}

#[test]
fn a_ticket_resumes_sessions_of_its_source_address_alone() {
    let one_at_a_time = ["-q", "1", "-c", "16", "--queries-per-connection", "1"];
    for scheme in SCHEMES {
        let apart = both(scheme, &[], &[&one_at_a_time[..], &["-a", "127.4.0.0/16"]].concat());
        assert_eq!((kind(&apart, "full"), kind(&apart, "resumed")), (16, 984), "{scheme}");
        let together = both(scheme, &[], &one_at_a_time);
        assert_eq!((kind(&together, "full"), kind(&together, "resumed")), (1, 999), "{scheme}");
    }
}
