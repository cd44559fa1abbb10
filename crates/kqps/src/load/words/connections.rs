//! The lines about connections in the output of `kqps load`.

use std::collections::BTreeMap;

use kqps_observation::network::TcpFacts;
use kqps_observation::{ConnectionFacts, EarlyFacts, HttpFacts, QuicFacts, SessionFacts, TlsFacts, Trial};
use kqps_testbed::words::counted;

use super::{line, quantiles, times};

/// The connections: how many were made, failed and ended, and how long making one took.
pub(super) fn connection_lines(connections: &ConnectionFacts) -> String {
    let ConnectionFacts { attempts, established, before_load, unfinished, open, .. } = connections;
    let ConnectionFacts { retransmitted, connections_with_retransmitted_syn, ports_in_use, .. } = connections;
    let mut text = String::new();
    let made = format!(
        "{established} of {attempts} attempts, {before_load} before the load; failed: {}; unfinished: {unfinished}",
        causes(&connections.failed)
    );
    line(&mut text, "Connections", &made);
    line(&mut text, "Closed", &format!("{}; open at the end: {open}", causes(&connections.closed)));
    // Over QUIC a connection is made by its handshake.
    if connections.quic.is_none() {
        times(&mut text, "Connect (µs)", &connections.connect_us);
    }
    times(&mut text, "First query (µs)", &connections.first_query_us);
    times(&mut text, "Write to reply (µs)", &connections.write_to_reply_us);
    if *retransmitted > 0 {
        let again = format!(
            "{} by the player; {} sent their SYN again",
            counted(*retransmitted, "segment"),
            counted(*connections_with_retransmitted_syn, "connection")
        );
        line(&mut text, "Sent again", &again);
    }
    if *ports_in_use > 0 {
        line(&mut text, "Ports in use", &format!("{ports_in_use} were passed over"));
    }
    if let Some(tls) = &connections.tls {
        text += &tls_lines(tls, connections.early_data());
    }
    if let Some(http) = &connections.http {
        text += &http_lines(http);
    }
    if let Some(quic) = &connections.quic {
        text += &quic_lines(quic);
    }
    text
}

/// Counts by cause in one line.
pub(crate) fn causes(counts: &BTreeMap<String, u64>) -> String {
    let parts: Vec<String> = counts.iter().map(|(cause, count)| format!("{count} {cause}")).collect();
    if parts.is_empty() { "0".into() } else { parts.join(", ") }
}

/// The note of a play that checked no certificate.
pub(crate) const ANY_CERTIFICATE: &str =
    "any certificate was accepted (--insecure): another server may have answered";

/// TLS of the connections: what was agreed on, by which handshakes, and what failed.
fn tls_lines(tls: &TlsFacts, early: Option<EarlyFacts>) -> String {
    let mut text = String::new();
    for session in &tls.sessions {
        let connections = counted(session.connections, "connection");
        line(&mut text, "TLS", &format!("{} ({connections})", agreed(session)));
    }
    let tickets = if tls.resume {
        let of_kind = |kind| tls.handshakes.get(kind).copied().unwrap_or(0);
        let taken = of_kind("resumed") + of_kind("0-rtt");
        format!("tickets: {} received, {} offered, {taken} taken", tls.tickets_received, tls.tickets_offered)
    } else {
        format!("tickets: {} received, none used (--resume no)", tls.tickets_received)
    };
    line(&mut text, "Handshakes", &format!("{}; {tickets}", causes(&tls.handshakes)));
    for (kind, times) in &tls.handshake_us {
        line(&mut text, "Handshake (µs)", &format!("{kind}: {}", quantiles(times)));
    }
    text += &early.map_or_else(String::new, |early| early_line(&early));
    if !tls.failures.is_empty() {
        line(&mut text, "TLS failed", &causes(&tls.failures));
    }
    if tls.accepted_unchecked() {
        line(&mut text, "Note", ANY_CERTIFICATE);
    }
    text
}

/// HTTP on the connections: how queries were asked, how many waited for a stream, and what the subject ended.
fn http_lines(http: &HttpFacts) -> String {
    let HttpFacts { method, paths, blocked, blocked_s, goaways, resets, failures } = http;
    let mut text = String::new();
    let waited = if *blocked > 0 {
        let each_ms = blocked_s * 1e3 / *blocked as f64;
        format!("{} waited for a stream, {each_ms:.3} ms each", counted(*blocked, "query"))
    } else {
        "no query waited for a stream".into()
    };
    line(&mut text, "HTTP", &format!("{method} {}; {waited}", paths.join(", ")));
    if !goaways.is_empty() || !resets.is_empty() {
        line(
            &mut text,
            "HTTP ended",
            &format!("GOAWAY: {}; streams reset: {}", causes(goaways), causes(resets)),
        );
    }
    if !failures.is_empty() {
        line(&mut text, "HTTP failed", &causes(failures));
    }
    text
}

/// Early data of the connections, if there was any. Without it a note says why.
fn early_line(early: &EarlyFacts) -> String {
    let mut text = String::new();
    if early.offered > 0 {
        let early = format!(
            "offered by {}: {} accepted, {} rejected, {} undecided; queries sent early: {}, sent again: {}",
            counted(early.offered, "attempt"),
            early.accepted,
            early.rejected,
            early.undecided,
            early.queries,
            early.queries_again
        );
        line(&mut text, "Early data", &early);
    }
    text
}

/// QUIC below the connections: streams, packets, and what failed.
fn quic_lines(quic: &QuicFacts) -> String {
    let QuicFacts { congestion, blocked_queries, blocked_us, retries, tokens_received, .. } = quic;
    let mut text = String::new();
    let streams = format!(
        "congestion {congestion}; waited for a stream: {}, {blocked_us} µs in all; Retry {retries}; tokens received \
         {tokens_received}",
        counted(*blocked_queries, "query")
    );
    line(&mut text, "QUIC", &streams);
    let waits = match quic.send_waits {
        0 => String::new(),
        waits => format!("; the kernel had no room for datagrams {}", counted(waits, "time")),
    };
    let packets = format!(
        "{} sent, {} of them lost; datagrams: {} sent, {} received{waits}",
        quic.packets_sent, quic.packets_lost, quic.datagrams_sent, quic.datagrams_received
    );
    line(&mut text, "Packets", &packets);
    if !quic.failures.is_empty() {
        line(&mut text, "QUIC failed", &causes(&quic.failures));
    }
    text
}

/// Parameters that handshakes agreed on: version, suite, group and type of key, as far as they are known.
pub(crate) fn agreed(session: &SessionFacts) -> String {
    let SessionFacts { version, suite, group, certificate, connections: _ } = session;
    let parts = [Some(version), Some(suite), group.as_ref(), certificate.as_ref()];
    let agreed: Vec<&str> = parts.into_iter().flatten().map(String::as_str).collect();
    agreed.join(", ")
}

/// Counts of TCP in the network namespaces of player and subject, or in the one that they share.
pub(super) fn tcp_lines(trial: &Trial) -> String {
    let player = &trial.hosts.first.network;
    let subject = trial.subject.as_ref().and_then(|subject| subject.network.as_ref());
    let label = if subject.is_some() { "TCP, player" } else { "TCP" };
    let mut text = String::new();
    for (label, network) in [(label, Some(player)), ("TCP, subject", subject)] {
        if let Some((network, tcp)) = network.and_then(|network| Some((network, network.tcp?))) {
            line(&mut text, label, &tcp_words(&tcp, network.shared));
        }
    }
    text
}

fn tcp_words(tcp: &TcpFacts, is_shared: bool) -> String {
    let TcpFacts { listen_overflows, listen_drops, request_drops, syn_cookies_sent, resets_sent, .. } = tcp;
    let TcpFacts {
        retransmitted, syn_retransmitted, delayed_acks, time_wait_before, time_wait_after, ..
    } = tcp;
    let known = |count: &Option<u64>| count.map_or_else(|| "?".to_owned(), |count| count.to_string());
    let shared = if is_shared { "; other traffic counts, too" } else { "" };
    format!(
        "listen queue overflows {listen_overflows}, drops {listen_drops}; unfinished handshakes: dropped {request_drops}, \
         SYN cookies {syn_cookies_sent}; resets sent {resets_sent}; segments sent again {retransmitted}, of handshakes \
         {syn_retransmitted}; delayed acknowledgements {delayed_acks}; TIME_WAIT {} before, {} after{shared}",
        known(time_wait_before),
        known(time_wait_after)
    )
}
