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

/// So many that what a cache needs for itself does not count.
const MANY_NAMES: Data = Data::OneZone(500);

/// The rcode is checked and not the digest: that expects an authoritative answer, which no cache gives.
const WINDOW: &[&str] = &["-c", "8", "-q", "500", "--check", "rcode"];
const MANY_SOCKETS: &[&str] = &["-c", "64", "--check", "rcode"];

const WITH_PACKET_CACHE: &[(&str, &str)] = &[("packet_cache", "yes")];

/// Before the same server. Each has room for all names, and no name is fetched before it runs out.
const ROOMY: &[(&str, &str)] = &[("memory", "1GiB"), ("prefetch", "0")];
const FORWARDING: &[(&str, &str)] = &[("forward", "yes")];

/// Caches that have room for all names, each before a server that has them: ours, and Unbound. A run that is short has
/// few names.
pub(in crate::peers) fn filled(is_short: bool) -> [Server; 2] {
    let data = if is_short { FEW_NAMES } else { MANY_NAMES };
    let server = |subject, io, settings| {
        let (transport, path, spread) = (Transport::Udp, Kind::Loopback, false);
        Server::Named(Named { subject, io, data, spread, settings, transport, path })
    };
    [server("kqps-cache", "mmsg", ROOMY), server("unbound", "", FORWARDING)]
}

pub(super) fn rows() -> Vec<Row> {
    let side = |subject, io, data, settings, flags| {
        let (transport, path, spread) = (Transport::Udp, Kind::Loopback, false);
        let server = Server::Named(Named { subject, io, data, spread, settings, transport, path });
        Side { player: Player::Kqps, flags, server }
    };
    let ours = |io, flags| side("kqps-cache", io, FEW_NAMES, &[], flags);
    let peer = |subject, settings, flags| side(subject, "", FEW_NAMES, settings, flags);
    let row = |what, figure, target, a, b| Row { what, figure, target, a, b };
    let hits =
        |what, least, io, b| row(what, Figure::AnsweredRate, Target::AtLeast(least), ours(io, WINDOW), b);
    let unbound = peer("unbound", &[], WINDOW);
    let recursor = peer("pdns-recursor", &[], WINDOW);
    let dnsdist = peer("dnsdist", WITH_PACKET_CACHE, WINDOW);
    let echo = Side { player: Player::Kqps, flags: WINDOW, server: Server::Echo("mmsg", Kind::Loopback) };
    let cpu = |what, io| {
        let (a, b) = (ours(io, MANY_SOCKETS), peer("unbound", &[], MANY_SOCKETS));
        row(what, SERVERS_CPU, Target::AtMost(0.65), a, b)
    };
    vec![
        hits("answered rate, hits: kqps cache mmsg / Unbound", 1.4, "mmsg", unbound),
        hits("answered rate, hits: kqps cache segment / Unbound", 1.4, "segment", unbound),
        hits("answered rate, hits: kqps cache mmsg / PowerDNS Recursor", 2.0, "mmsg", recursor),
        hits("answered rate, hits: kqps cache segment / PowerDNS Recursor", 2.0, "segment", recursor),
        hits("answered rate, hits: kqps cache mmsg / dnsdist with a packet cache", 2.0, "mmsg", dnsdist),
        hits(
            "answered rate, hits: kqps cache segment / dnsdist with a packet cache",
            2.0,
            "segment",
            dnsdist,
        ),
        hits("answered rate, hits: kqps cache mmsg / kqps echo mmsg", 0.85, "mmsg", echo),
        cpu("server's CPU per million hits at 100 kqps: kqps cache mmsg / Unbound", "mmsg"),
        cpu("server's CPU per million hits at 100 kqps: kqps cache segment / Unbound", "segment"),
        row(
            "answered rate, misses of 2 M names: kqps cache mmsg / Unbound that forwards",
            Figure::AnsweredRate,
            Target::AtLeast(1.5),
            side("kqps-cache", "mmsg", LARGE, ROOMY, WINDOW),
            side("unbound", "", LARGE, FORWARDING, WINDOW),
        ),
    ]
}
