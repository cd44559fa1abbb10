//! The rows over connections: `kqps load` beside dnsperf, kxdpgun and OpenSSL, and `kqps serve auth` beside NSD and
//! Knot DNS.

use kqps_observation::question::Path as Kind;
use kqps_observation::trial::Transport;

use super::{PLAYERS_CPU, Row, Target, USUAL};
use crate::path::SOURCES;
use crate::peers::figure::{Figure, SUBJECT_CPU};
use crate::peers::player::{Handshake, Player};
use crate::peers::server::{Named, Server};
use crate::peers::side::Side;
use crate::program::Carrier;

/// The flags of eight kept connections with the window of the rows over UDP, and these flags after them.
macro_rules! kept_with {
    ($transport:literal $(, $flag:literal)*) => {
        &["-m", $transport, "-c", "8", "-q", "500" $(, $flag)*]
    };
}

/// Eight kept connections, with the window of the rows over UDP, and with a rate.
const KEPT_WINDOW: &[&str] = kept_with!("tcp");
const KEPT: &[&str] = &["-m", "tcp", "-c", "8"];
const KEPT_AS_LATE: &[&str] = &["-m", "tcp", "-c", "8", "--coalesce", "100us", "--subject-cpus", SUBJECT_CPU];

/// Eight kept connections with that window, by each I/O model of the player.
const KEPT_BY_EPOLL: &[&str] = kept_with!("tcp", "--io", "epoll");
const KEPT_BY_URING: &[&str] = kept_with!("tcp", "--io", "uring");

/// Eight kept connections in TLS. dnsperf checks no certificate, so kqps checks none either.
const KEPT_IN_TLS: &[&str] = kept_with!("tls", "--insecure");
const KEPT_IN_DOT: &[&str] = kept_with!("dot");

/// Eight kept connections in TLS, with queries that share records.
const KEPT_IN_PACKED_TLS: &[&str] = kept_with!("tls", "--insecure", "--tls-packing");

/// Eight kept connections over HTTP/2, with the method that kqps uses.
const KEPT_IN_HTTPS: &[&str] = kept_with!("doh", "--insecure");
const KEPT_IN_DOH: &[&str] =
    kept_with!("doh", "-O", "doh-uri=https://localhost/dns-query", "-O", "doh-method=POST");

/// Eight kept connections over QUIC.
const KEPT_IN_QUIC: &[&str] = kept_with!("doq", "--insecure");

/// The flags of a connection for each query, with as many places as queries are outstanding, and these flags after
/// them. Resets leave no port in `TIME_WAIT`, and the source addresses are many, so that neither side runs out of
/// ports.
macro_rules! each_with {
    ($($flag:literal),*) => {
        &[
            "-m", "tcp", "-c", "500", "-q", "500", "--queries-per-connection", "1", "--close", "rst", "-a",
            "127.1.0.0/16" $(, $flag)*
        ]
    };
}

const EACH: &[&str] = each_with!();

/// A connection for each query, by each I/O model of the player.
const EACH_BY_EPOLL: &[&str] = each_with!("--io", "epoll");
const EACH_BY_URING: &[&str] = each_with!("--io", "uring");

/// A connection for each query, by kernel sockets over veth. kqps closes by FIN there, as kxdpgun does, so that the
/// server has the same work.
const EACH_OVER_VETH: &[&str] =
    &["-m", "tcp", "-c", "500", "-q", "500", "--queries-per-connection", "1", "-a", SOURCES];
const KXDPGUN_TCP: &[&str] = &["-T", "-l", SOURCES];

/// A connection for each query over QUIC, where kxdpgun takes no prefix. Both resume sessions, and neither checks the
/// certificate.
const EACH_IN_QUIC: &[&str] =
    &["-m", "doq", "--insecure", "-c", "500", "-q", "500", "--queries-per-connection", "1"];
const KXDPGUN_QUIC: &[&str] = &["-U"];

/// Handshakes alone, with the suite and the group that OpenSSL offers first. Connections end by resets and come from
/// many addresses, so that no port is missing.
const HANDSHAKES: &[&str] = &[
    "-m",
    "tls",
    "--insecure",
    "-c",
    "32",
    "-q",
    "32",
    "--close",
    "rst",
    "-a",
    "127.1.0.0/16",
    "--tls-suite",
    SUITE,
    "--tls-group",
    "x25519",
];

/// No place to look for issuers: the certificate of the echo has one that no host knows, and kqps does not look either.
const S_TIME: &[&str] =
    &["-new", "-tls1_3", "-ciphersuites", SUITE, "-no-CAfile", "-no-CApath", "-no-CAstore"];

const SUITE: &str = "TLS_AES_256_GCM_SHA384";

pub(super) fn rows() -> Vec<Row> {
    [kept(), records(), each(), loops(), handshakes(), servers()].into_iter().flatten().collect()
}

/// A row about rates.
fn rate(what: &'static str, target: Target, a: Side, b: Side) -> Row {
    Row { what, figure: Figure::AnsweredRate, target, a, b }
}

/// A player at our echo.
fn at_echo(player: Player, flags: &'static [&'static str], carrier: Carrier, path: Kind) -> Side {
    Side { player, flags, server: Server::StreamEcho(carrier, path) }
}

/// A name server over this transport.
fn named(subject: &'static str, io: &'static str, path: Kind, transport: Transport) -> Server {
    Server::Named(Named { subject, io, data: USUAL, spread: false, settings: &[], transport, path })
}

/// Kept connections.
fn kept() -> Vec<Row> {
    let kqps = |flags, carrier| at_echo(Player::Kqps, flags, carrier, Kind::Loopback);
    let dnsperf = |flags, carrier| at_echo(Player::Dnsperf, flags, carrier, Kind::Loopback);
    vec![
        rate(
            "answered rate at echo tcp, 8 kept connections: kqps / dnsperf",
            Target::AtLeast(3.0),
            kqps(KEPT_WINDOW, Carrier::Tcp),
            dnsperf(KEPT_WINDOW, Carrier::Tcp),
        ),
        Row {
            what: "player's CPU per million answers over them at 150 kqps, as late as dnsperf: kqps / dnsperf",
            figure: PLAYERS_CPU,
            target: Target::AtMost(0.4),
            a: kqps(KEPT_AS_LATE, Carrier::Tcp),
            b: dnsperf(KEPT, Carrier::Tcp),
        },
        rate(
            "answered rate at echo tls, 8 kept connections: kqps / dnsperf",
            Target::AtLeast(2.0),
            kqps(KEPT_IN_TLS, Carrier::Tls),
            dnsperf(KEPT_IN_DOT, Carrier::Tls),
        ),
        rate(
            "answered rate at echo https, 8 kept connections: kqps / dnsperf",
            Target::AtLeast(2.0),
            kqps(KEPT_IN_HTTPS, Carrier::Https),
            dnsperf(KEPT_IN_DOH, Carrier::Https),
        ),
        rate(
            "answered rate, 8 kept connections: kqps at echo quic / kqps at echo tls",
            Target::AtLeast(0.7),
            kqps(KEPT_IN_QUIC, Carrier::Quic),
            kqps(KEPT_IN_TLS, Carrier::Tls),
        ),
    ]
}

/// A TLS record for each query, and queries that share records. At NSD, which is slower than both players, kqps must find
/// the rate that dnsperf finds, but for the noise of the host.
fn records() -> Vec<Row> {
    let at_echo = |flags| at_echo(Player::Kqps, flags, Carrier::Tls, Kind::Loopback);
    let server = named("nsd", "", Kind::Loopback, Transport::Tls);
    let at_nsd = |player, flags| Side { player, flags, server };
    vec![
        rate(
            "answered rate at NSD over tls, 8 kept connections: kqps / dnsperf",
            Target::AtLeast(0.9),
            at_nsd(Player::Kqps, KEPT_IN_TLS),
            at_nsd(Player::Dnsperf, KEPT_IN_DOT),
        ),
        rate(
            "answered rate at NSD over tls, 8 kept connections: kqps, packed / kqps",
            Target::Reported,
            at_nsd(Player::Kqps, KEPT_IN_PACKED_TLS),
            at_nsd(Player::Kqps, KEPT_IN_TLS),
        ),
        rate(
            "answered rate at echo tls, 8 kept connections: kqps, packed / kqps",
            Target::Reported,
            at_echo(KEPT_IN_PACKED_TLS),
            at_echo(KEPT_IN_TLS),
        ),
    ]
}

/// A connection for each query, beside a player that makes packets itself.
fn each() -> Vec<Row> {
    let (kqps, kxdpgun) = (Player::Kqps, Player::Kxdpgun);
    let nsd = named("nsd", "", Kind::Veth, Transport::Tcp);
    let veth = |player, flags, carrier| at_echo(player, flags, carrier, Kind::Veth);
    vec![
        rate(
            "a connection for each query over veth at NSD: kqps, correct answers / kxdpgun -T, replies",
            Target::AtLeast(1.0),
            Side { player: kqps, flags: EACH_OVER_VETH, server: nsd },
            Side { player: kxdpgun, flags: KXDPGUN_TCP, server: nsd },
        ),
        rate(
            "a connection for each query over veth at echo tcp: kqps, correct answers / kxdpgun -T, replies",
            Target::AtLeast(1.0),
            veth(kqps, EACH_OVER_VETH, Carrier::Tcp),
            veth(kxdpgun, KXDPGUN_TCP, Carrier::Tcp),
        ),
        rate(
            "a resumed connection for each query over veth at echo quic: kqps, correct answers / kxdpgun -U, replies",
            Target::AtLeast(1.0),
            veth(kqps, EACH_IN_QUIC, Carrier::Quic),
            veth(kxdpgun, KXDPGUN_QUIC, Carrier::Quic),
        ),
    ]
}

/// The I/O models of the player beside each other. What they show decides what `--io auto` stands for.
fn loops() -> Vec<Row> {
    let kqps = |flags| at_echo(Player::Kqps, flags, Carrier::Tcp, Kind::Loopback);
    let beside = |what, uring, epoll| rate(what, Target::Reported, kqps(uring), kqps(epoll));
    vec![
        beside("answered rate at echo tcp, 8 kept connections: uring / epoll", KEPT_BY_URING, KEPT_BY_EPOLL),
        beside(
            "answered rate at echo tcp, a connection for each query: uring / epoll",
            EACH_BY_URING,
            EACH_BY_EPOLL,
        ),
    ]
}

fn handshakes() -> Vec<Row> {
    let at_tls = |player, flags| at_echo(player, flags, Carrier::Tls, Kind::Loopback);
    let kqps = |kind| at_tls(Player::KqpsHandshakes(kind), HANDSHAKES);
    vec![
        rate(
            "full TLS 1.3 handshakes a second at echo tls: kqps / openssl s_time -new",
            Target::AtLeast(1.2),
            kqps(Handshake::Full),
            at_tls(Player::OpensslTime, S_TIME),
        ),
        rate(
            "TLS 1.3 handshakes a second at echo tls: kqps, resumed / kqps, full",
            Target::Reported,
            kqps(Handshake::Resumed),
            kqps(Handshake::Full),
        ),
    ]
}

/// Servers beside each other, with the same player, cores and zone.
fn servers() -> Vec<Row> {
    let side = |subject, io, flags| {
        let server = named(subject, io, Kind::Loopback, Transport::Tcp);
        Side { player: Player::Kqps, flags, server }
    };
    let beside = |what, least, flags, peer| {
        rate(what, Target::AtLeast(least), side("kqps-auth", "mmsg", flags), side(peer, "", flags))
    };
    vec![
        beside("answered rate over tcp, 8 kept connections: kqps auth / NSD", 1.5, KEPT_WINDOW, "nsd"),
        beside("answered rate over tcp, 8 kept connections: kqps auth / Knot DNS", 1.5, KEPT_WINDOW, "knot"),
        beside("answered rate, a connection for each query: kqps auth / NSD", 1.2, EACH, "nsd"),
        beside("answered rate, a connection for each query: kqps auth / Knot DNS", 1.2, EACH, "knot"),
    ]
}
