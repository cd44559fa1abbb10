//! The players: kqps, and the programs beside which it is measured.

use kqps_kernel::probe;
use kqps_programs::shell;

use super::{dnsperf, kxdpgun, s_time};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Player {
    /// `kqps load` with queries.
    Kqps,
    /// `kqps load` with connections that carry no query, and handshakes of this kind.
    KqpsHandshakes(Handshake),
    Dnsperf,
    Kxdpgun,
    /// `openssl s_time`, which makes one connection after the other.
    OpensslTime,
}

/// A kind of handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handshake {
    Full,
    Resumed,
}

impl Handshake {
    /// Its word in the record of a trial.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Resumed => "resumed",
        }
    }
}

impl Player {
    /// Its name in the record of a comparison.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Kqps | Self::KqpsHandshakes(_) => "kqps",
            Self::Dnsperf => "dnsperf",
            Self::Kxdpgun => "kxdpgun",
            Self::OpensslTime => "openssl s_time",
        }
    }

    /// The flags without which it is not this player.
    pub(super) fn flags(self) -> &'static [&'static str] {
        match self {
            Self::KqpsHandshakes(Handshake::Full) => &["--queries-per-connection", "0", "--resume", "no"],
            Self::KqpsHandshakes(Handshake::Resumed) => &["--queries-per-connection", "0", "--resume", "yes"],
            Self::Kqps | Self::Dnsperf | Self::Kxdpgun | Self::OpensslTime => &[],
        }
    }

    /// Events that it counts as answered, in words.
    pub(super) fn counts(self) -> &'static str {
        match self {
            Self::Kqps => "correct answers, each matched to its query",
            Self::KqpsHandshakes(Handshake::Full) => "completed full handshakes",
            Self::KqpsHandshakes(Handshake::Resumed) => "completed handshakes that resumed a session",
            Self::Dnsperf => {
                "replies, each matched to a query by its ID alone; over HTTPS it keeps one of those that it reads \
                 together"
            }
            Self::Kxdpgun => {
                "replies, matched to no query, those of the seconds after the load included, so that its rate is taken \
                 over the server's CPU time where that is longer than the load; what it calls sent are SYNs or Initial \
                 packets, and over UDP queries"
            }
            Self::OpensslTime => "completed full handshakes, one after the other",
        }
    }

    /// Why it cannot play on this host; `None` if it can.
    pub(super) fn lacks(self) -> Option<String> {
        let program = match self {
            Self::Kqps | Self::KqpsHandshakes(_) => return None,
            Self::Dnsperf => dnsperf::PROGRAM,
            Self::Kxdpgun => kxdpgun::PROGRAM,
            Self::OpensslTime => s_time::PROGRAM,
        };
        if shell::find(program).is_none() {
            return Some(format!("{program} is missing; `cargo xtask test --only packages` installs it"));
        }
        let without_sockets = (self == Self::Kxdpgun).then(|| probe::probe_one("af-xdp").err()).flatten();
        without_sockets.map(|reason| format!("{program} needs AF_XDP: {reason}"))
    }
}
