//! The I/O models by their names in flags and records, and what each is for.

use std::str::FromStr;

use kqps_observation::trial::Transport;
use serde::{Deserialize, Serialize};

/// How packets or the bytes of connections are sent and received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Io {
    /// The best that the host offers.
    #[default]
    Auto,
    /// A call per packet: `sendto`, `recvmsg`.
    Plain,
    /// Batches: `sendmmsg`, `recvmmsg`.
    Mmsg,
    /// Batches and segmentation. Queries of equal length, and a shorter one after them, leave in one send
    /// (`UDP_SEGMENT`). Replies may arrive in one message (`UDP_GRO`).
    Gso,
    /// Readiness: `epoll`, and a call for each write and read.
    Epoll,
    /// Completion queues: `io_uring`.
    Uring,
    /// Frames past the kernel's network stack: `AF_XDP`.
    Xdp,
}

impl Io {
    /// All I/O models.
    pub const ALL: [Self; 7] =
        [Self::Auto, Self::Plain, Self::Mmsg, Self::Gso, Self::Epoll, Self::Uring, Self::Xdp];

    /// The I/O models over a transport; none over QUIC, which has one of its own.
    pub fn over(transport: Transport) -> &'static [Self] {
        match transport {
            Transport::Udp => &[Self::Auto, Self::Plain, Self::Mmsg, Self::Gso, Self::Uring, Self::Xdp],
            Transport::Tcp | Transport::Tls | Transport::Https => {
                &[Self::Auto, Self::Epoll, Self::Uring, Self::Xdp]
            }
            Transport::Quic => &[],
        }
    }

    /// The name in flags and records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Plain => "plain",
            Self::Mmsg => "mmsg",
            Self::Gso => "gso",
            Self::Epoll => "epoll",
            Self::Uring => "uring",
            Self::Xdp => "xdp",
        }
    }
}

impl FromStr for Io {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|io| io.name() == text);
        found.ok_or_else(|| "expected auto, plain, mmsg, gso, epoll, uring or xdp".into())
    }
}
