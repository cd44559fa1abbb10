//! kqps's own cache beside others and beside the echo, with one worker each.

use kqps_observation::question::Path as Kind;
use kqps_observation::trial::Transport;

use super::{LARGE, Row, SERVERS_CPU, Target};
use crate::peers::data::Data;
use crate::peers::figure::Figure;
use crate::peers::player::Player;
use crate::peers::server::{Named, Server};
use crate::peers::side::Side;

/// Few names, so that nearly every query of a measurement is a hit.
const FEW_NAMES: Data = Data::OneZone(1);

/// The rcode is checked and not the digest: that expects an authoritative answer, which no cache gives.
const WINDOW: &[&str] = &["-c", "8", "-q", "500", "--check", "rcode"];
const MANY_SOCKETS: &[&str] = &["-c", "64", "--check", "rcode"];

const WITH_PACKET_CACHE: &[(&str, &str)] = &[("packet_cache", "yes")];

/// Before the same server. Each has room for all names, and no name is fetched before it runs out.
const ROOMY: &[(&str, &str)] = &[("memory", "1GiB"), ("prefetch", "0")];
const FORWARDING: &[(&str, &str)] = &[("forward", "yes")];

pub(super) fn rows() -> Vec<Row> {
    let side = |subject, io, data, settings, flags| {
        let (transport, path, spread) = (Transport::Udp, Kind::Loopback, false);
        let server = Server::Named(Named { subject, io, data, spread, settings, transport, path });
        Side { player: Player::Kqps, flags, server }
    };
    let ours = |flags| side("kqps-cache", "mmsg", FEW_NAMES, &[], flags);
    let peer = |subject, settings, flags| side(subject, "", FEW_NAMES, settings, flags);
    let rate =
        |what, least, a, b| Row { what, figure: Figure::AnsweredRate, target: Target::AtLeast(least), a, b };
    vec![
        rate(
            "answered rate, hits: kqps cache mmsg / Unbound",
            1.4,
            ours(WINDOW),
            peer("unbound", &[], WINDOW),
        ),
        rate(
            "answered rate, hits: kqps cache mmsg / PowerDNS Recursor",
            2.0,
            ours(WINDOW),
            peer("pdns-recursor", &[], WINDOW),
        ),
        rate(
            "answered rate, hits: kqps cache mmsg / dnsdist with a packet cache",
            2.0,
            ours(WINDOW),
            peer("dnsdist", WITH_PACKET_CACHE, WINDOW),
        ),
        rate(
            "answered rate, hits: kqps cache mmsg / kqps echo mmsg",
            0.85,
            ours(WINDOW),
            Side { player: Player::Kqps, flags: WINDOW, server: Server::Echo("mmsg", Kind::Loopback) },
        ),
        Row {
            what: "server's CPU per million hits at 100 kqps: kqps cache mmsg / Unbound",
            figure: SERVERS_CPU,
            target: Target::AtMost(0.65),
            a: ours(MANY_SOCKETS),
            b: peer("unbound", &[], MANY_SOCKETS),
        },
        rate(
            "answered rate, misses of 2 M names: kqps cache mmsg / Unbound that forwards",
            1.5,
            side("kqps-cache", "mmsg", LARGE, ROOMY, WINDOW),
            side("unbound", "", LARGE, FORWARDING, WINDOW),
        ),
    ]
}
