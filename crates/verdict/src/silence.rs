//! Explains why a trial reveals nothing about its target: nothing could be sent, or nothing answered.

use std::fmt::Write as _;

use kqps_observation::{ConnectionFacts, Trial};

use crate::warning::{most_refused, refusal};

/// The likely cause, in one or two sentences without the last full stop; `None` if anything answered.
pub fn silence(trial: &Trial) -> Option<String> {
    let (accounts, target) = (&trial.accounts, targets(trial));
    if accounts.sent == 0 {
        return nothing_sent(trial);
    }
    if accounts.lost < accounts.sent {
        return None;
    }
    if let Some(connections) = &trial.connections {
        return Some(over_connections(trial, connections, &target));
    }
    if trial.lost_by_player() == accounts.lost {
        return Some(format!(
            "The player's own sockets dropped every reply of {target}: enlarge their buffers, or use more of them"
        ));
    }
    // The kernel counts datagrams for ports without a listener. On one host it counts a segmented send, of a
    // burst at most, as one datagram. Other traffic moves that counter too.
    let at_once = if trial.players.first.io == "gso" { u64::from(trial.load.burst.max(1)) } else { 1 };
    let closed = trial.datagrams_for_closed_ports();
    let mut why = if closed.saturating_mul(at_once) >= accounts.sent {
        format!("Nothing listens at {target}: the kernel counted {closed} datagrams for closed ports")
    } else {
        format!("No reply came from {target} at all")
    };
    if accounts.unsolicited > 0 {
        let _ = write!(
            why,
            ". {} packets came that answer no query: the server may answer from another address or port, or long \
             after the timeout of {} ms (-t)",
            accounts.unsolicited,
            trial.load.timeout_s * 1e3
        );
    }
    if let Some((errno, count)) = most_refused(trial) {
        let advice = refusal(errno).0;
        let _ = write!(why, ". The kernel refused to send {count} further queries ({errno}): {advice}");
    }
    Some(why)
}

/// Why no reply came over connections.
fn over_connections(trial: &Trial, connections: &ConnectionFacts, target: &str) -> String {
    let ConnectionFacts { attempts, established, failed, .. } = connections;
    if *established > 0 {
        let is_by_end = |cause: &str| cause != "time" && !failed.contains_key(cause);
        let causes = trial.lost_causes.iter().filter(|(cause, _)| is_by_end(cause));
        let broken: u64 = causes.map(|(_, count)| count).sum();
        if broken != trial.accounts.lost {
            return format!("No reply came from {target} on any of {established} connections");
        }
        let how = "it closed them with open queries";
        let other = match wants_tls(trial, connections) {
            Some(scheme) => format!(". Its port is usually one of TLS: try {scheme}"),
            None => String::new(),
        };
        return format!("No reply came from {target} on any of {established} connections: {how}{other}");
    }
    match failed.iter().max_by_key(|(_, count)| **count).map(|(cause, _)| cause.as_str()) {
        Some("refused") => format!("Nothing listens at {target}: it refused all of {attempts} connections"),
        Some("local") => {
            format!(
                "No connection to {target} could be made: this host has no descriptor or memory left for it"
            )
        }
        Some("ports") => format!(
            "No connection to {target} could be made: every port that was tried is in use; send from other addresses \
             (-a)"
        ),
        Some("address") => format!(
            "No connection to {target} could be made: the source address is not one of this host's, or does not reach \
             the target; send from another one (-a)"
        ),
        Some("certificate") => certificate(connections, target),
        Some("connect-timeout") if is_mute(connections) => {
            let of = connections.handshake_protocol();
            format!(
                "{target} did not answer the handshake of {of} in any of {attempts} attempts (connect-timeout): look \
                 whether {of} is spoken there"
            )
        }
        Some(cause) => format!("No connection to {target} could be made in {attempts} attempts ({cause})"),
        None => format!("No connection to {target} was made before the trial ended"),
    }
}

/// The scheme to ask by instead if connections without TLS go to the port of DNS over TLS, or to that of HTTPS.
fn wants_tls(trial: &Trial, connections: &ConnectionFacts) -> Option<&'static str> {
    let all_at =
        |port: &str| !trial.targets.is_empty() && trial.targets.iter().all(|one| one.ends_with(port));
    let schemes = [(":853", "tls://"), (":443", "https://")];
    let found = schemes.into_iter().find(|(port, _)| all_at(port)).map(|(_, scheme)| scheme);
    found.filter(|_| connections.tls.is_none())
}

/// Whether attempts that took too long waited for a handshake: over TLS the connections of TCP were made, and QUIC
/// begins with its handshake.
fn is_mute(connections: &ConnectionFacts) -> bool {
    connections.begins_with_handshake() || (connections.tls.is_some() && connections.connect_us.max.is_some())
}

/// Why the certificate was not accepted, and which flag helps.
fn certificate(connections: &ConnectionFacts, target: &str) -> String {
    let attempts = connections.attempts;
    let failures = connections.tls.iter().flat_map(|tls| &tls.failures);
    let faults =
        failures.filter_map(|(failure, count)| Some((failure.strip_prefix("certificate: ")?, count)));
    let Some((fault, _)) = faults.max_by_key(|(_, count)| **count) else {
        return format!(
            "The certificate of {target} was not accepted in any of {attempts} handshakes: name the file of its issuer \
             with --ca, or the server's name in it with --server-name"
        );
    };
    if fault.starts_with("expired") {
        return format!(
            "The certificate of {target} {fault}, so none of {attempts} handshakes was completed: the server needs a \
             new one, or play with --insecure, which accepts any certificate"
        );
    }
    let help = match fault {
        "unknown issuer" => "name the file of its issuer, or of the certificate itself, with --ca",
        // `openssl req -x509` makes such a certificate, which signs itself.
        "that of an issuer" => "it signs itself: name its file with --ca, such as --ca cert.pem",
        "another name" => "give the server's name in it with --server-name",
        fault if fault.starts_with("not valid yet") => "look at the clocks of both hosts",
        _ => "the server needs another one, or play with --insecure, which accepts any certificate",
    };
    format!("The certificate of {target} was not accepted in any of {attempts} handshakes ({fault}): {help}")
}

fn nothing_sent(trial: &Trial) -> Option<String> {
    let (accounts, target) = (&trial.accounts, targets(trial));
    if let Some((errno, count)) = most_refused(trial) {
        let (what, advice) = refusal(errno);
        let advice = advice.trim_end_matches('.');
        return Some(format!(
            "Nothing could be sent to {target}: the kernel refused {count} queries with {errno}: {what}. {advice}"
        ));
    }
    (accounts.intended > 0).then(|| {
        format!(
            "Nothing was sent to {target}: the player came too late for all {} queries. Give it a core of its own, or \
             allow more lag",
            accounts.intended
        )
    })
}

fn targets(trial: &Trial) -> String {
    if trial.targets.is_empty() { trial.target.clone() } else { trial.targets.join(", ") }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use kqps_observation::ledger::{FoundBy, Place, Placed};
    use kqps_observation::tls::TlsFacts;
    use kqps_observation::{Accounts, Quantiles, QuicFacts};

    use super::*;

    fn trial(accounts: Accounts) -> Trial {
        Trial { accounts, targets: vec!["192.0.2.1:53".into()], ..Trial::default() }
    }

    fn lost(count: u64) -> Accounts {
        Accounts { intended: count, sent: count, lost: count, ..Accounts::default() }
    }

    #[test]
    fn the_cause_is_that_of_the_facts() {
        let refused = |errno: &str| Trial {
            send_failed_causes: BTreeMap::from([(errno.into(), 10)]),
            ..trial(Accounts { intended: 10, send_failed: 10, ..Accounts::default() })
        };
        let mut closed = trial(lost(10));
        closed.hosts.first.network.udp4.no_ports = 10;
        let mut stray = trial(Accounts { unsolicited: 7, ..lost(10) });
        stray.load.timeout_s = 0.25;
        let mut own = trial(lost(10));
        own.ledger.places =
            vec![Placed { place: Place::PlayerSocketBuffer, count: 12, by: FoundBy::Drops, shared: false }];
        let late = trial(Accounts { intended: 10, unsent: 10, ..Accounts::default() });
        let says = |trial: &Trial, expected: &str| {
            let why = silence(trial).unwrap();
            assert!(why.contains(expected), "{why}");
        };
        says(&refused("ENETUNREACH"), "no route");
        says(&refused("EPERM"), "packet filter");
        says(&closed, "Nothing listens at 192.0.2.1:53");
        says(&stray, "7 packets came that answer no query");
        says(&stray, "after the timeout of 250 ms (-t)");
        says(&own, "own sockets dropped every reply");
        says(&late, "too late for all 10 queries");
        says(&trial(lost(10)), "No reply came from 192.0.2.1:53 at all");
    }

    #[test]
    fn anything_that_answers_is_no_silence() {
        let one = |accounts: Accounts| silence(&trial(Accounts { intended: 10, sent: 10, ..accounts }));
        assert_eq!(one(Accounts { lost: 9, wrong: 1, ..Accounts::default() }), None);
        assert_eq!(one(Accounts { lost: 9, late: 1, ..Accounts::default() }), None);
        assert_eq!(silence(&trial(Accounts::default())), None);
    }

    #[test]
    fn a_certificate_is_refused_with_the_flag_that_helps() {
        let with = |failures: &[(&str, u64)]| {
            let count = |(failure, count): &(&str, u64)| ((*failure).into(), *count);
            let tls = TlsFacts { failures: failures.iter().map(count).collect(), ..TlsFacts::default() };
            failed("certificate", Some(tls), None)
        };
        let expired = with(&[("certificate: expired at 2026-11-20 10:00 UTC", 3)]);
        assert!(expired.contains("192.0.2.1:53 expired at 2026-11-20 10:00 UTC, so"), "{expired}");
        assert!(!expired.contains("--ca") && !expired.contains("--server-name"), "{expired}");
        let issuer = with(&[("certificate: another name", 1), ("certificate: unknown issuer", 2)]);
        assert!(issuer.ends_with("issuer, or of the certificate itself, with --ca"), "{issuer}");
        let own = with(&[("certificate: that of an issuer", 2)]);
        assert!(own.ends_with("it signs itself: name its file with --ca, such as --ca cert.pem"), "{own}");
        assert!(!own.contains("--insecure"), "{own}");
        let name = with(&[("certificate: another name", 3)]);
        assert!(name.ends_with("(another name): give the server's name in it with --server-name"), "{name}");
        assert!(with(&[("certificate: not valid yet", 3)]).ends_with("look at the clocks of both hosts"));
        assert!(with(&[("certificate: revoked", 3)]).contains("(revoked): the server needs another one"));
    }

    #[test]
    fn a_target_that_is_mute_in_the_handshake_is_asked_for_tls() {
        let connected = Quantiles { max: Some(90), ..Quantiles::default() };
        let tls = || Some(TlsFacts::default());
        let made = failed("connect-timeout", tls(), Some(connected));
        assert!(made.ends_with("(connect-timeout): look whether TLS is spoken there"), "{made}");
        let unmade = failed("connect-timeout", tls(), None);
        assert!(unmade.ends_with("in 3 attempts (connect-timeout)"), "{unmade}");
        let connections = ConnectionFacts {
            attempts: 3,
            failed: [("connect-timeout".into(), 3)].into(),
            quic: Some(QuicFacts::default()),
            ..ConnectionFacts::default()
        };
        let over_quic = silence(&Trial { connections: Some(connections), ..trial(lost(10)) }).unwrap();
        assert!(over_quic.ends_with("look whether QUIC is spoken there"), "{over_quic}");
    }

    /// The words about three attempts that failed for this cause. `connect_us` is the time of TCP.
    fn failed(cause: &str, tls: Option<TlsFacts>, connect_us: Option<Quantiles>) -> String {
        let connections = ConnectionFacts {
            attempts: 3,
            failed: [(cause.into(), 3)].into(),
            tls,
            connect_us: connect_us.unwrap_or_default(),
            ..ConnectionFacts::default()
        };
        silence(&Trial { connections: Some(connections), ..trial(lost(10)) }).unwrap()
    }

    #[test]
    fn without_a_connection_the_failures_say_why() {
        let with = |established, failed: &[(&str, u64)]| {
            let failed = failed.iter().map(|(cause, count)| ((*cause).into(), *count)).collect();
            let connections =
                ConnectionFacts { attempts: 3, established, failed, ..ConnectionFacts::default() };
            let mut trial = Trial { connections: Some(connections), ..trial(lost(10)) };
            trial.lost_causes = BTreeMap::from([("closed".into(), 10)]);
            silence(&trial).unwrap()
        };
        assert!(with(0, &[("refused", 3)]).starts_with("Nothing listens at 192.0.2.1:53"));
        assert!(with(0, &[("refused", 1), ("connect-timeout", 2)]).ends_with("(connect-timeout)"));
        assert!(with(0, &[("local", 3)]).contains("no descriptor"));
        assert!(with(0, &[("ports", 3)]).contains("every port"));
        assert!(with(0, &[("address", 3)]).contains("the source address is not one of this host's"));
        assert!(with(0, &[("certificate", 3)]).contains("not accepted in any of 3 handshakes"));
        assert!(with(3, &[]).ends_with("on any of 3 connections: it closed them with open queries"));
        let facts = |port: &str, tls| {
            let connections =
                ConnectionFacts { attempts: 3, established: 3, tls, ..ConnectionFacts::default() };
            let mut trial = Trial { connections: Some(connections), ..trial(lost(10)) };
            trial.targets = vec![format!("192.0.2.1:{port}")];
            trial.lost_causes = BTreeMap::from([("closed".into(), 10)]);
            silence(&trial).unwrap()
        };
        assert!(
            facts("853", None).ends_with("with open queries. Its port is usually one of TLS: try tls://")
        );
        assert!(facts("443", None).ends_with(": try https://"));
        assert!(facts("853", Some(TlsFacts::default())).ends_with("with open queries"));
    }
}
