//! The rows: which sides are compared, by which figure, and the required ratio.

pub(super) mod cache;
mod transports;
mod xdp;

use kqps_observation::question::Path as Kind;
use kqps_observation::trial::Transport;
use serde::Serialize;

use super::Name;
use super::data::Data;
use super::figure::{Figure, SUBJECT_CPU};
use super::player::Player;
use super::server::{Named, Server};
use super::side::Side;

#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) what: &'static str,
    pub(super) figure: Figure,
    pub(super) target: Target,
    pub(super) a: Side,
    pub(super) b: Side,
}

/// A row that this host cannot measure.
#[derive(Serialize)]
pub(super) struct Skipped {
    pub(super) what: &'static str,
    pub(super) reason: String,
}

/// The required ratio of side A to side B, or the required difference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Target {
    AtLeast(f64),
    AtMost(f64),
    /// None: the ratio is reported.
    Reported,
}

/// The window and sockets with which dnsperf does best here. kqps gets the same.
const WINDOW: &[&str] = &["-c", "8", "-q", "500"];

/// Few flows with many outstanding queries each, which segmentation can gather.
const FEW_FLOWS: &[&str] = &["-c", "4", "-q", "8k", "--io", "gso", "--burst", "64"];

/// The load at which the players' costs are compared.
const PLAYERS_CPU: Figure = Figure::PlayerCpu { at_qps: 150_000 };

/// The sockets of a dnsperf load with a rate.
const SOCKETS: &[&str] = &["-c", "8"];

/// The sockets of such a load on a core of its own, with queries that wait for each other until they are as late as
/// those of dnsperf. With both players, one in a hundred leaves about 120 µs late at that rate, while a timed sleep is
/// 17 µs late.
const AS_LATE: &[&str] = &["-c", "8", "--coalesce", "100us", "--subject-cpus", SUBJECT_CPU];

/// Twice as late.
const LATER: &[&str] = &["-c", "8", "--coalesce", "200us", "--subject-cpus", SUBJECT_CPU];

/// The rows of one table.
pub(super) fn table_rows(name: Name) -> Vec<Row> {
    match name {
        Name::Player => player(),
        Name::Echo => echo(),
        Name::Auth => auth(),
        Name::Front => front(),
        Name::Cache => cache::rows(),
        Name::Transports => transports::rows(),
        Name::Xdp => xdp::rows(),
        // All of its figures are held to limits.
        Name::Replay => Vec::new(),
    }
}

/// A thousand clients.
const THOUSAND_FLOWS: &[&str] = &["-c", "1000", "-q", "1000"];

/// The load at which the servers' costs are compared.
const SERVERS_CPU: Figure = Figure::ServerCpu { at_qps: 100_000 };
const MANY_SOCKETS: &[&str] = &["-c", "64"];

/// Many sockets with each answer compared with a digest, and with no check at all.
const ANSWERS_CHECKED: &[&str] = &["-c", "64", "--check", "answers"];
const NOTHING_CHECKED: &[&str] = &["-c", "64", "--check", "off"];

/// A load that only lets the player see the server at work.
const LIGHT: &[&str] = &["-c", "8", "-Q", "1k"];

fn player() -> Vec<Row> {
    let kqps = |echo, flags| Side { player: Player::Kqps, flags, server: Server::Echo(echo, Kind::Loopback) };
    let dnsperf =
        |echo, flags| Side { player: Player::Dnsperf, flags, server: Server::Echo(echo, Kind::Loopback) };
    vec![
        Row {
            what: "answered rate at echo mmsg: kqps / dnsperf",
            figure: Figure::AnsweredRate,
            target: Target::AtLeast(1.6),
            a: kqps("mmsg", WINDOW),
            b: dnsperf("mmsg", WINDOW),
        },
        Row {
            what: "answered rate at echo segment, few flows: kqps / dnsperf",
            figure: Figure::AnsweredRate,
            target: Target::AtLeast(10.0),
            a: kqps("segment", FEW_FLOWS),
            b: dnsperf("segment", WINDOW),
        },
        Row {
            what: "player's CPU per million answers at 150 kqps: kqps / dnsperf",
            figure: PLAYERS_CPU,
            target: Target::AtMost(0.4),
            a: kqps("mmsg", SOCKETS),
            b: dnsperf("mmsg", WINDOW),
        },
        Row {
            what: "the same, as late as dnsperf (a core of its own, --coalesce 100us)",
            figure: PLAYERS_CPU,
            target: Target::AtMost(0.4),
            a: kqps("mmsg", AS_LATE),
            b: dnsperf("mmsg", WINDOW),
        },
        Row {
            what: "the same, twice as late (a core of its own, --coalesce 200us)",
            figure: PLAYERS_CPU,
            target: Target::AtMost(0.4),
            a: kqps("mmsg", LATER),
            b: dnsperf("mmsg", WINDOW),
        },
    ]
}

fn echo() -> Vec<Row> {
    let kqps = |echo, flags| Side { player: Player::Kqps, flags, server: Server::Echo(echo, Kind::Loopback) };
    let calls = |io| Side { player: Player::Kqps, flags: WINDOW, server: Server::Calls(io) };
    vec![
        Row {
            what: "answered rate: echo mmsg / echo blocking",
            figure: Figure::AnsweredRate,
            target: Target::AtLeast(1.15),
            a: kqps("mmsg", WINDOW),
            b: kqps("blocking", WINDOW),
        },
        // The gain of batches on this host without a server around them. Its target is that of the echo.
        Row {
            what: "the same of their system calls alone: recvmmsg, sendmmsg / recvfrom, sendto",
            figure: Figure::AnsweredRate,
            target: Target::AtLeast(1.15),
            a: calls("mmsg"),
            b: calls("blocking"),
        },
        Row {
            what: "answered rate: echo mmsg / its system calls alone",
            figure: Figure::AnsweredRate,
            target: Target::AtLeast(0.97),
            a: kqps("mmsg", WINDOW),
            b: calls("mmsg"),
        },
        Row {
            what: "answered rate: echo blocking / its system calls alone",
            figure: Figure::AnsweredRate,
            target: Target::AtLeast(0.9),
            a: kqps("blocking", WINDOW),
            b: calls("blocking"),
        },
        Row {
            what: "answered rate, few flows: echo segment / echo mmsg",
            figure: Figure::AnsweredRate,
            target: Target::AtLeast(8.0),
            a: kqps("segment", FEW_FLOWS),
            b: kqps("mmsg", FEW_FLOWS),
        },
    ]
}

/// The size of a zone whose records stay in the caches, thousands.
const SMALL: Data = Data::OneZone(10);
const USUAL: Data = Data::OneZone(100);
const LARGE: Data = Data::OneZone(2_000);
const HUGE: Data = Data::OneZone(10_000);
const MANY: Data = Data::ManyZones(100);

fn auth() -> Vec<Row> {
    let named = |subject, io, data, flags, spread| {
        let (transport, path) = (Transport::Udp, Kind::Loopback);
        let server = Server::Named(Named { subject, io, data, spread, settings: &[], transport, path });
        Side { player: Player::Kqps, flags, server }
    };
    let ours = |io, data, flags| named("kqps-auth", io, data, flags, false);
    let peer = |subject, data, flags| named(subject, "", data, flags, false);
    let loading =
        |subject, data| named(subject, if subject == "kqps-auth" { "mmsg" } else { "" }, data, LIGHT, true);
    let rate =
        |what, least, a, b| Row { what, figure: Figure::AnsweredRate, target: Target::AtLeast(least), a, b };
    let most = |what, figure, most, a, b| Row { what, figure, target: Target::AtMost(most), a, b };
    let nsd = |data, flags| peer("nsd", data, flags);
    vec![
        rate(
            "answered rate, 1000 flows: kqps auth mmsg / NSD",
            1.5,
            ours("mmsg", USUAL, THOUSAND_FLOWS),
            nsd(USUAL, THOUSAND_FLOWS),
        ),
        rate(
            "answered rate, 1000 flows: kqps auth mmsg / Knot DNS",
            1.5,
            ours("mmsg", USUAL, THOUSAND_FLOWS),
            peer("knot", USUAL, THOUSAND_FLOWS),
        ),
        most(
            "server's CPU per million answers at 100 kqps: kqps auth mmsg / NSD",
            SERVERS_CPU,
            0.65,
            ours("mmsg", USUAL, MANY_SOCKETS),
            nsd(USUAL, MANY_SOCKETS),
        ),
        most(
            "the same, kqps auth segment / NSD",
            SERVERS_CPU,
            0.65,
            ours("segment", USUAL, MANY_SOCKETS),
            nsd(USUAL, MANY_SOCKETS),
        ),
        rate(
            "answered rate, few flows: kqps auth segment / NSD",
            5.0,
            ours("segment", USUAL, FEW_FLOWS),
            nsd(USUAL, WINDOW),
        ),
        rate(
            "answered rate: kqps auth mmsg / kqps echo mmsg",
            0.85,
            ours("mmsg", USUAL, WINDOW),
            Side { player: Player::Kqps, flags: WINDOW, server: Server::Echo("mmsg", Kind::Loopback) },
        ),
        most(
            "player's CPU per million answers at 100 kqps: --check answers / off",
            Figure::PlayerCpu { at_qps: 100_000 },
            1.1,
            ours("mmsg", USUAL, ANSWERS_CHECKED),
            ours("mmsg", USUAL, NOTHING_CHECKED),
        ),
        most(
            "memory, 2 M records: kqps auth / NSD",
            Figure::Memory,
            0.35,
            loading("kqps-auth", LARGE),
            loading("nsd", LARGE),
        ),
        most(
            "start to first answer, 2 M records: kqps auth / Knot DNS",
            Figure::LoadTime,
            0.35,
            loading("kqps-auth", LARGE),
            loading("knot", LARGE),
        ),
        most(
            "memory, 100,000 zones of 10 records: kqps auth / NSD",
            Figure::Memory,
            0.5,
            loading("kqps-auth", MANY),
            loading("nsd", MANY),
        ),
        most(
            "start to first answer, 100,000 zones: kqps auth / Knot DNS",
            Figure::LoadTime,
            0.5,
            loading("kqps-auth", MANY),
            loading("knot", MANY),
        ),
        rate(
            "answered rate: kqps auth with 10 M records / with 10 k",
            0.8,
            ours("mmsg", HUGE, WINDOW),
            ours("mmsg", SMALL, WINDOW),
        ),
    ]
}

/// A load that suits both fronts: the sockets of dnsdist and NSD hold some 270 datagrams, and each lost one
/// leaves the window short for a second.
const FRONT_WINDOW: &[&str] = &["-c", "8", "-q", "250"];
const FRONT_THOUSAND_FLOWS: &[&str] = &["-c", "1000", "-q", "250"];

/// Buffers that hold all outstanding queries of a few flows, so that none is lost on the way in.
const ROOMY: (&str, &str) = ("buffer", "64MiB");

/// Before NSD, by the transport that suits each front best.
const OURS: &[(&str, &str)] = &[("front", "kqps"), ("back_end", "nsd"), ("transport", "udp")];
const DNSDIST: &[(&str, &str)] = &[("front", "dnsdist"), ("back_end", "nsd"), ("transport", "udp")];

/// Before our own server, by a stream.
const BATCHED: &[(&str, &str)] = &[("back_end", "kqps-auth"), ("transport", "unix"), ROOMY];
const UNBATCHED: &[(&str, &str)] = &[("back_end", "kqps-auth"), ("transport", "unix"), ("batch", "1"), ROOMY];

/// Beside dnsdist, front and server have both cores, and the kernel places them as usual: on either side, one
/// of the two shares the player's core. If a front is compared with the server behind it, everything but the
/// player is on one core, so that both sides have the same resources.
fn front() -> Vec<Row> {
    let placed = |subject, io, flags, settings, spread| {
        let (transport, path) = (Transport::Udp, Kind::Loopback);
        let server = Server::Named(Named { subject, io, data: USUAL, spread, settings, transport, path });
        Side { player: Player::Kqps, flags, server }
    };
    let side = |subject, io, flags, settings| placed(subject, io, flags, settings, false);
    let before = |settings, flags| side("front", "", flags, settings);
    let beside = |settings, flags| placed("front", "", flags, settings, true);
    let row = |what, figure, target, a, b| Row { what, figure, target, a, b };
    let rate = |what, least, a, b| row(what, Figure::AnsweredRate, Target::AtLeast(least), a, b);
    let most = |what, figure, most, a, b| row(what, figure, Target::AtMost(most), a, b);
    vec![
        rate(
            "answered rate before NSD: kqps front / dnsdist",
            2.0,
            beside(OURS, FRONT_WINDOW),
            beside(DNSDIST, FRONT_WINDOW),
        ),
        rate(
            "answered rate before NSD, 1000 flows: kqps front / dnsdist",
            2.0,
            beside(OURS, FRONT_THOUSAND_FLOWS),
            beside(DNSDIST, FRONT_THOUSAND_FLOWS),
        ),
        most(
            "front's CPU per million answers at 50 kqps before NSD: kqps front / dnsdist",
            Figure::ServerCpu { at_qps: 50_000 },
            0.4,
            beside(OURS, MANY_SOCKETS),
            beside(DNSDIST, MANY_SOCKETS),
        ),
        rate(
            "answered rate, few flows: kqps auth through kqps front by a stream / kqps auth mmsg",
            0.95,
            before(BATCHED, FEW_FLOWS),
            side("kqps-auth", "mmsg", FEW_FLOWS, &[ROOMY]),
        ),
        most(
            "latency p50 at 1 kqps, µs more: NSD through kqps front - NSD",
            Figure::Latency,
            60.0,
            before(OURS, LIGHT),
            side("nsd", "", LIGHT, &[]),
        ),
        rate(
            "answered rate, few flows, kqps auth by a stream: kqps front / with --batch 1",
            2.0,
            before(BATCHED, FEW_FLOWS),
            before(UNBATCHED, FEW_FLOWS),
        ),
    ]
}

impl Row {
    /// The row as skipped, if this host cannot measure it.
    pub(super) fn skipped(&self) -> Option<Skipped> {
        let reason = [self.a, self.b].iter().find_map(Side::lacks)?;
        Some(Skipped { what: self.what, reason })
    }
}

impl Target {
    /// Whether a ratio or difference meets it; `None` if there is none.
    pub(super) fn is_met(self, found: f64) -> Option<bool> {
        match self {
            Self::AtLeast(least) => Some(found >= least),
            Self::AtMost(most) => Some(found <= most),
            Self::Reported => None,
        }
    }

    pub(super) fn words(self) -> String {
        match self {
            Self::AtLeast(least) => format!("≥ {least}"),
            Self::AtMost(most) => format!("≤ {most}"),
            Self::Reported => "reported".to_owned(),
        }
    }
}
