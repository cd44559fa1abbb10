//! The rows past the kernel's network stack, over veth: `kqps load --io xdp` beside kxdpgun and beside itself with
//! sockets, and the servers with `--io xdp` beside those with sockets.

use kqps_observation::question::Path as Kind;
use kqps_observation::trial::Transport;

use super::{PLAYERS_CPU, Row, Target, USUAL};
use crate::path::SOURCES;
use crate::peers::figure::Figure;
use crate::peers::player::Player;
use crate::peers::server::{FRAMES, Named, Server};
use crate::peers::side::Side;
use crate::program::Carrier;

/// The flags of a player over UDP with the window of the other rows, and these flags after them. A reply that a full
/// queue drops holds up the window for the timeout only.
macro_rules! window_with {
    ($($flag:expr),*) => {
        &["-c", "8", "-q", "500", "-t", "100ms", "-a", SOURCES $(, $flag)*]
    };
}

const BY_FRAMES: &[&str] = window_with!("--io", FRAMES);
const BY_SOCKETS: &[&str] = window_with!("--io", "mmsg");
const KXDPGUN: &[&str] = &["-l", SOURCES];

/// The flags at a rate that both players carry. kqps may sleep, and queries wait for each other for up to 100 µs, as
/// they do between two batches of kxdpgun.
const AT_A_RATE: &[&str] =
    &["-c", "8", "-a", SOURCES, "--io", FRAMES, "--priority", "usual", "--coalesce", "100us"];

/// The flags of a connection for each query, closed by FIN as kxdpgun does, and these flags after them.
macro_rules! each_with {
    ($($flag:expr),*) => {
        &[
            "-m", "tcp", "-c", "500", "-q", "500", "--queries-per-connection", "1", "-a", SOURCES $(, $flag)*
        ]
    };
}

const EACH_BY_FRAMES: &[&str] = each_with!("--io", FRAMES);
const EACH_BY_SOCKETS: &[&str] = each_with!();
const KXDPGUN_TCP: &[&str] = &["-T", "-l", SOURCES];

pub(super) fn rows() -> Vec<Row> {
    [datagrams(), connections(), servers()].into_iter().flatten().collect()
}

fn rate(what: &'static str, target: Target, a: Side, b: Side) -> Row {
    Row { what, figure: Figure::AnsweredRate, target, a, b }
}

fn side(player: Player, flags: &'static [&'static str], server: Server) -> Side {
    Side { player, flags, server }
}

fn echo(io: &'static str) -> Server {
    Server::Echo(io, Kind::Veth)
}

fn named(subject: &'static str, io: &'static str, transport: Transport) -> Server {
    let path = Kind::Veth;
    Server::Named(Named { subject, io, data: USUAL, spread: false, settings: &[], transport, path })
}

/// UDP, beside a player that makes frames as well.
fn datagrams() -> Vec<Row> {
    let (kqps, kxdpgun) = (Player::Kqps, Player::Kxdpgun);
    let nsd = named("nsd", "", Transport::Udp);
    vec![
        rate(
            "UDP over veth at NSD: kqps --io xdp, correct answers / kxdpgun, replies",
            Target::AtLeast(1.1),
            side(kqps, BY_FRAMES, nsd),
            side(kxdpgun, KXDPGUN, nsd),
        ),
        rate(
            "UDP over veth at echo mmsg: kqps --io xdp, correct answers / kxdpgun, replies",
            Target::AtLeast(1.1),
            side(kqps, BY_FRAMES, echo("mmsg")),
            side(kxdpgun, KXDPGUN, echo("mmsg")),
        ),
        rate(
            "UDP over veth at echo xdp: kqps --io xdp, correct answers / kxdpgun, replies",
            Target::AtLeast(1.1),
            side(kqps, BY_FRAMES, echo(FRAMES)),
            side(kxdpgun, KXDPGUN, echo(FRAMES)),
        ),
        Row {
            what: "player's CPU per million answers at 150 kqps over veth: kqps --io xdp / kxdpgun",
            figure: PLAYERS_CPU,
            target: Target::AtMost(0.9),
            a: side(kqps, AT_A_RATE, echo("mmsg")),
            b: side(kxdpgun, KXDPGUN, echo("mmsg")),
        },
        rate(
            "UDP over veth at echo mmsg: kqps --io xdp / kqps --io mmsg",
            Target::Reported,
            side(kqps, BY_FRAMES, echo("mmsg")),
            side(kqps, BY_SOCKETS, echo("mmsg")),
        ),
    ]
}

/// A connection for each query.
fn connections() -> Vec<Row> {
    let (kqps, kxdpgun) = (Player::Kqps, Player::Kxdpgun);
    let nsd = named("nsd", "", Transport::Tcp);
    let echo = Server::StreamEcho(Carrier::Tcp, Kind::Veth);
    vec![
        rate(
            "a connection for each query over veth at NSD: kqps --io xdp, correct answers / kxdpgun -T, replies",
            Target::AtLeast(1.2),
            side(kqps, EACH_BY_FRAMES, nsd),
            side(kxdpgun, KXDPGUN_TCP, nsd),
        ),
        rate(
            "a connection for each query over veth at echo tcp: kqps --io xdp, correct answers / kxdpgun -T, replies",
            Target::AtLeast(1.2),
            side(kqps, EACH_BY_FRAMES, echo),
            side(kxdpgun, KXDPGUN_TCP, echo),
        ),
        rate(
            "a connection for each query over veth at NSD: kqps --io xdp / kqps by sockets",
            Target::Reported,
            side(kqps, EACH_BY_FRAMES, nsd),
            side(kqps, EACH_BY_SOCKETS, nsd),
        ),
        rate(
            "a connection for each query over veth at echo tcp: kqps --io xdp / kqps by sockets",
            Target::Reported,
            side(kqps, EACH_BY_FRAMES, echo),
            side(kqps, EACH_BY_SOCKETS, echo),
        ),
    ]
}

/// Servers beside each other, with the same player.
fn servers() -> Vec<Row> {
    let at = |server| side(Player::Kqps, BY_FRAMES, server);
    // A player with sockets is the limit here, since a connection costs it more than it costs the server.
    let each = |subject, io| side(Player::Kqps, EACH_BY_FRAMES, named(subject, io, Transport::Tcp));
    vec![
        rate(
            "a connection for each query over veth, kqps --io xdp: kqps auth / NSD",
            Target::AtLeast(1.2),
            each("kqps-auth", "mmsg"),
            each("nsd", ""),
        ),
        rate(
            "a connection for each query over veth, kqps --io xdp: kqps auth / Knot DNS",
            Target::AtLeast(1.2),
            each("kqps-auth", "mmsg"),
            each("knot", ""),
        ),
        rate(
            "answered rate over veth, kqps --io xdp: echo xdp / echo mmsg",
            Target::AtLeast(1.5),
            at(echo(FRAMES)),
            at(echo("mmsg")),
        ),
        rate(
            "answered rate over veth, kqps --io xdp: kqps auth xdp / NSD",
            Target::AtLeast(2.0),
            at(named("kqps-auth", FRAMES, Transport::Udp)),
            at(named("nsd", "", Transport::Udp)),
        ),
    ]
}
