//! Faults that go together, and how a player must use its connections so that their counts are certain.

use kqps_faults::streams::{Disorder, Fault, Stage};
use kqps_observation::question::Path;

use super::wire::{Kind, one_each};
use crate::path;

/// Faults that go together, and how a player must use its connections so that their counts are certain.
pub(super) struct Mix {
    pub(super) what: &'static str,
    stages: &'static [Stage],
    /// The faults of those stages that it does not have.
    without: &'static [Fault],
    /// The wires over which it is played.
    pub(super) kinds: &'static [Kind],
    /// Whether each query has a connection of its own.
    has_one_each: bool,
    /// The most open queries of a connection.
    pub(super) outstanding: u64,
    /// The streams that the server takes at once, over HTTPS; `None` for all.
    pub(super) streams_most: Option<u32>,
    /// Drops and swaps of datagrams by the server, over QUIC.
    pub(super) disorder: Disorder,
    pub(super) connections: u64,
    flags: &'static [&'static str],
    /// The I/O model; `None` for the usual one.
    io: Option<&'static str>,
    /// The share of each fault, in the small form and in the whole one.
    pub(super) shares: (f64, f64),
    /// The queries of a trial likewise.
    pub(super) queries: (u32, u32),
}

/// Many queries on each connection, whose replies have faults.
const REPLIES: Mix = Mix {
    what: "replies",
    stages: &[Stage::Reply],
    without: &[],
    connections: 16,
    kinds: &Kind::ALL,
    has_one_each: false,
    outstanding: 2_000,
    streams_most: None,
    disorder: Disorder { drop_every: 0, swap_every: 0 },
    flags: &["-c", "16", "-q", "2000"],
    io: None,
    shares: (0.05, 0.01),
    queries: (20_000, 300_000),
};

/// Many queries on each connection at a rate, whose replies have faults.
const REPLIES_AT_A_RATE: Mix =
    Mix { what: "replies at a rate", flags: &["-c", "16", "-Q", "20k"], ..REPLIES };

/// Connections that end with one open query each.
const ENDS: Mix = Mix {
    what: "ends",
    stages: &[Stage::End],
    without: &[],
    connections: 64,
    flags: &["-c", "64", "-q", "20k", "--outstanding-per-connection", "1"],
    shares: (0.02, 0.01),
    queries: (10_000, 300_000),
    outstanding: 1,
    ..REPLIES
};

/// Connections that the server closes with many open queries.
const CLOSED: Mix = Mix {
    what: "closed with many open queries",
    stages: &[Stage::End],
    without: &[
        Fault::Reset,
        Fault::ResetInReply,
        Fault::TooLong,
        Fault::Garbage,
        Fault::Alert,
        Fault::NoNotify,
    ],
    connections: 16,
    flags: &["-c", "16", "-q", "5000", "--outstanding-per-connection", "16"],
    shares: (0.01, 0.002),
    queries: (10_000, 300_000),
    outstanding: 16,
    ..REPLIES
};

/// Handshakes, one for each query. Resets leave no port in `TIME_WAIT`.
const HANDSHAKES: Mix = Mix {
    what: "handshakes",
    stages: &[Stage::Handshake],
    without: &[],
    connections: 64,
    flags: &["-c", "64", "-q", "20k", "-a", "127.1.0.0/16"],
    shares: (0.02, 0.01),
    queries: (2_000, 20_000),
    has_one_each: true,
    outstanding: 1,
    ..REPLIES
};

/// Queries that wait for a stream. None is open for long, since it would stand in the way of all others.
const FEW_STREAMS: Mix = Mix {
    what: "few streams",
    without: &[Fault::Late, Fault::Never],
    kinds: &[Kind::Https],
    streams_most: Some(20),
    ..REPLIES
};

/// Datagrams that are lost or arrive in another order: what they held is sent again, and no query is lost by that.
const DISORDER: Mix = Mix {
    what: "datagrams in disorder",
    without: &[Fault::Late, Fault::Never],
    kinds: &[Kind::Quic],
    flags: &["-c", "16", "-q", "500"],
    outstanding: 500,
    disorder: Disorder { drop_every: 47, swap_every: 29 },
    ..REPLIES
};

/// The I/O model of the mixes in [`BY_URING`].
pub(super) const URING: &str = "uring";

/// The wires over which `io_uring` is offered.
const URING_KINDS: &[Kind] = &[Kind::Tcp, Kind::Tls, Kind::Https];

/// Mixes whose replies have faults.
pub(super) const OF_REPLIES: [&Mix; 2] = [&REPLIES, &REPLIES_AT_A_RATE];

/// Mixes whose connections end, or are never made.
pub(super) const OF_ENDS: [&Mix; 3] = [&ENDS, &CLOSED, &HANDSHAKES];

/// Mixes in which queries wait for a stream, or datagrams of a connection are lost.
pub(super) const OF_STREAMS: [&Mix; 2] = [&FEW_STREAMS, &DISORDER];

/// Mixes of a player by `io_uring`.
pub(super) const BY_URING: [&Mix; 3] = [
    &Mix { what: "replies by uring", kinds: URING_KINDS, io: Some(URING), ..REPLIES },
    &Mix { what: "ends by uring", kinds: URING_KINDS, io: Some(URING), ..ENDS },
    &Mix { what: "handshakes by uring", kinds: URING_KINDS, io: Some(URING), ..HANDSHAKES },
];

/// The I/O model of the mixes past the kernel.
const XDP: &str = "xdp";

/// The wires over which there is that model.
const XDP_KINDS: &[Kind] = URING_KINDS;

/// The mixes over veth paths by a player whose connections are not the kernel's.
pub(super) const PAST_KERNEL: [&Mix; 5] = [
    &Mix { what: "replies past the kernel", kinds: XDP_KINDS, io: Some(XDP), ..REPLIES },
    &Mix {
        what: "replies past the kernel at a rate",
        kinds: &[Kind::Tcp],
        io: Some(XDP),
        ..REPLIES_AT_A_RATE
    },
    &Mix { what: "ends past the kernel", kinds: XDP_KINDS, io: Some(XDP), ..ENDS },
    &Mix {
        what: "closed past the kernel with many open queries",
        kinds: &[Kind::Tcp],
        io: Some(XDP),
        ..CLOSED
    },
    &Mix {
        what: "handshakes past the kernel",
        kinds: XDP_KINDS,
        flags: &["-c", "64", "-q", "20k", "-a", path::SOURCES],
        io: Some(XDP),
        ..HANDSHAKES
    },
];

impl Mix {
    /// The path between player and server.
    pub(super) fn path(&self) -> Path {
        if self.io == Some(XDP) { Path::Veth } else { Path::Loopback }
    }

    /// Its faults on a wire.
    pub(super) fn faults(&self, kind: Kind) -> Vec<Fault> {
        let is_of_it = |fault: &Fault| {
            self.stages.contains(&fault.stage()) && !self.without.contains(fault) && fault.is_over(kind)
        };
        Fault::ALL.into_iter().filter(is_of_it).collect()
    }

    /// Whether the server of this wire cannot know all ends of connections that the faults bring: over QUIC a packet
    /// may be on its way to a connection that has ended.
    pub(super) fn is_uncertain_over(&self, kind: Kind) -> bool {
        kind == Kind::Quic && !self.stages.contains(&Stage::Reply)
    }

    /// The flags of a player on a wire.
    pub(super) fn flags_over(&self, kind: Kind) -> Vec<&'static str> {
        let mut flags = self.flags.to_vec();
        flags.extend(self.io.into_iter().flat_map(|io| ["--io", io]));
        flags.extend(if self.has_one_each { one_each(kind) } else { &[] });
        flags
    }
}
