//! The rows over connections: `kqps load` beside dnsperf, and `kqps serve auth` beside NSD and Knot DNS.

use kqps_observation::trial::Transport;

use super::{PLAYERS_CPU, Row, Target, USUAL};
use crate::peers::figure::{Figure, SUBJECT_CPU};
use crate::peers::server::{Named, Server};
use crate::peers::side::{Player, Side};

/// Eight kept connections, with the window of the rows over UDP, and with a rate.
const KEPT_WINDOW: &[&str] = &["-m", "tcp", "-c", "8", "-q", "500"];
const KEPT: &[&str] = &["-m", "tcp", "-c", "8"];
const KEPT_AS_LATE: &[&str] = &["-m", "tcp", "-c", "8", "--coalesce", "100us", "--subject-cpus", SUBJECT_CPU];

/// The same in TLS. dnsperf checks no certificate, so kqps checks none either.
const KEPT_IN_TLS: &[&str] = &["-m", "tls", "--insecure", "-c", "8", "-q", "500"];
const KEPT_IN_DOT: &[&str] = &["-m", "dot", "-c", "8", "-q", "500"];

/// A connection for each query, with as many places as queries are outstanding. Resets leave no port in `TIME_WAIT`, and
/// the source addresses are many, so that neither side runs out of ports.
const EACH: &[&str] = &[
    "-m",
    "tcp",
    "-c",
    "500",
    "-q",
    "500",
    "--queries-per-connection",
    "1",
    "--close",
    "rst",
    "-a",
    "127.1.0.0/16",
];

pub(super) fn rows() -> Vec<Row> {
    let kqps = |flags| Side { player: Player::Kqps, flags, server: Server::TcpEcho };
    let dnsperf = |flags| Side { player: Player::Dnsperf, flags, server: Server::TcpEcho };
    let named = |subject, io, flags| {
        let transport = Transport::Tcp;
        let named = Named { subject, io, data: USUAL, spread: false, settings: &[], transport };
        Side { player: Player::Kqps, flags, server: Server::Named(named) }
    };
    let servers = |what, least, flags, peer| Row {
        what,
        figure: Figure::AnsweredRate,
        target: Target::AtLeast(least),
        a: named("kqps-auth", "mmsg", flags),
        b: named(peer, "", flags),
    };
    vec![
        Row {
            what: "answered rate at echo tcp, 8 kept connections: kqps / dnsperf",
            figure: Figure::AnsweredRate,
            target: Target::AtLeast(3.0),
            a: kqps(KEPT_WINDOW),
            b: dnsperf(KEPT_WINDOW),
        },
        Row {
            what: "player's CPU per million answers over them at 150 kqps, as late as dnsperf: kqps / dnsperf",
            figure: PLAYERS_CPU,
            target: Target::AtMost(0.4),
            a: kqps(KEPT_AS_LATE),
            b: dnsperf(KEPT),
        },
        Row {
            what: "answered rate at echo tls, 8 kept connections: kqps / dnsperf",
            figure: Figure::AnsweredRate,
            target: Target::AtLeast(2.0),
            a: Side { player: Player::Kqps, flags: KEPT_IN_TLS, server: Server::TlsEcho },
            b: Side { player: Player::Dnsperf, flags: KEPT_IN_DOT, server: Server::TlsEcho },
        },
        servers("answered rate over tcp, 8 kept connections: kqps auth / NSD", 1.5, KEPT_WINDOW, "nsd"),
        servers("answered rate over tcp, 8 kept connections: kqps auth / Knot DNS", 1.5, KEPT_WINDOW, "knot"),
        servers("answered rate, a connection for each query: kqps auth / NSD", 1.2, EACH, "nsd"),
        servers("answered rate, a connection for each query: kqps auth / Knot DNS", 1.2, EACH, "knot"),
    ]
}
