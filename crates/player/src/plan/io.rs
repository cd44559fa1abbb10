//! The I/O models by their names in flags and records.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How packets are sent and received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Io {
    /// The best that the host offers.
    #[default]
    Auto,
    /// One call per packet: `sendto`, `recvmsg`.
    Plain,
    /// Batches: `sendmmsg`, `recvmmsg`.
    Mmsg,
    /// Batches and segmentation. Queries of equal length, and a shorter one after them, leave in one send
    /// (`UDP_SEGMENT`). Replies may arrive in one message (`UDP_GRO`).
    Gso,
    /// Completion queues: `io_uring`.
    Uring,
}

impl Io {
    /// All I/O models.
    pub const ALL: [Self; 5] = [Self::Auto, Self::Plain, Self::Mmsg, Self::Gso, Self::Uring];

    /// The name in flags and records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Plain => "plain",
            Self::Mmsg => "mmsg",
            Self::Gso => "gso",
            Self::Uring => "uring",
        }
    }
}

impl FromStr for Io {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|io| io.name() == text);
        found.ok_or_else(|| "expected auto, plain, mmsg, gso or uring".into())
    }
}
