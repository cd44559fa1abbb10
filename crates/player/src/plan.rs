//! The options of a trial, typed, and parsed once at the program's edge.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use crate::sources::Sources;

/// One trial, before it is played.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The addresses that the queries go to: at least one, all of one family. Socket *i* sends to target *i* modulo their
    /// number.
    pub targets: Vec<SocketAddr>,
    /// When the queries leave.
    pub load: LoadPlan,
    /// When to stop sending.
    pub stop: Stop,
    /// A reply that comes more than this after its query's intended time is late.
    pub timeout: Duration,
    /// How long to read replies after the last send; at least `timeout`.
    pub drain: Duration,
    /// The player gives up a query that is later than this, as unsent.
    pub lag_allowed: Duration,
    /// How long a due query may wait for others to leave with it. A longer wait saves CPU time and adds lag. If it is more
    /// than [`AWAKE_COALESCE_MOST`], no thread stays awake.
    pub coalesce: Duration,
    /// The most queries in one burst, 1 to [`BURST_MOST`].
    pub burst: usize,
    /// Sockets of all threads together. At least one per thread and per target is used.
    pub sockets: usize,
    /// Sending threads, at least 1.
    pub threads: usize,
    /// The core of each thread in turn; empty leaves the threads to the scheduler.
    pub cpus: Vec<u32>,
    /// Whether nothing else needs those cores; there is one for each thread. Threads then run before all others there, if
    /// the host permits it. They also spin through short waits instead of sleeping, unless `coalesce` or a closed loop
    /// prevents it. Has no effect if `cpus` is empty.
    pub own_cores: bool,
    /// How packets are sent and received.
    pub io: Io,
    /// Bytes of each socket's receive and send buffer; `None` asks for [`BUFFER_BYTES`].
    pub buffer_bytes: Option<usize>,
    /// The local addresses, which the sockets take in turn; `None` lets the kernel choose.
    pub local: Option<Sources>,
    /// The first socket's local port; the other sockets take the ports after it. `None` lets the kernel choose.
    pub local_port: Option<u16>,
    /// The seed of random arrivals.
    pub seed: u64,
    /// Whether to count the kernel's reasons for dropping packets, which disturbs the trial.
    pub drop_reasons: bool,
}

impl Plan {
    /// Whether each thread has a core that nothing else needs.
    pub fn has_own_cores(&self) -> bool {
        self.own_cores && !self.cpus.is_empty()
    }

    /// Whether queries leave on a schedule.
    pub fn is_open(&self) -> bool {
        matches!(self.load, LoadPlan::Open { .. })
    }

    /// Whether threads spin through short waits instead of sleeping. A closed loop waits for replies, not for a time. A
    /// long `coalesce` is meant to save CPU time.
    pub fn stays_awake(&self) -> bool {
        self.has_own_cores() && self.is_open() && self.coalesce <= AWAKE_COALESCE_MOST
    }

    /// The number of sockets in use: at least one per thread and per target.
    pub fn sockets_in_fact(&self) -> usize {
        self.sockets.max(self.threads).max(self.targets.len())
    }
}

/// The largest burst: as many segments as the kernel takes in one send (`UDP_MAX_SEGMENTS` of older kernels).
pub const BURST_MOST: usize = 64;

/// The longest `coalesce` with which threads stay awake.
pub const AWAKE_COALESCE_MOST: Duration = Duration::from_micros(20);

/// The buffer that a socket asks for, in bytes. It has room for the replies that arrive while the player sleeps.
pub const BUFFER_BYTES: usize = 4 << 20;

/// What decides when the next query leaves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LoadPlan {
    /// The schedule: a fixed rate, whatever the subject answers.
    Open {
        /// Queries per second, all threads together; above 0.
        rate_qps: f64,
        /// How the queries are spaced.
        arrivals: Arrivals,
        /// The most outstanding queries, all threads together, at least 1 per thread; `None` for no limit. A query that
        /// falls due while the window is full is not sent.
        window: Option<u64>,
    },
    /// The subject's replies: a limited number of outstanding queries, all threads together.
    Closed {
        /// The most outstanding queries, at least 1 per thread.
        outstanding: u64,
    },
}

/// How the queries of an open loop are spaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arrivals {
    /// Query *i* is due at `t0 + i / rate`.
    #[default]
    Even,
    /// Gaps have an exponential distribution with that mean, as from independent clients.
    Poisson,
}

impl fmt::Display for Arrivals {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Even => "even",
            Self::Poisson => "poisson",
        })
    }
}

/// What ends the sending, whichever comes first.
#[derive(Clone, Copy, Debug)]
pub struct Stop {
    /// The longest time to send; `None` for no limit.
    pub after: Option<Duration>,
    /// The number of passes over the dataset; `None` for no limit.
    pub passes: Option<u64>,
}

/// How packets are sent and received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Io {
    /// The best that the host offers.
    #[default]
    Auto,
    /// One call per packet: `sendto`, `recvmsg`.
    Plain,
    /// Batches: `sendmmsg`, `recvmmsg`.
    Mmsg,
    /// Batches and segmentation. Queries of equal length, and a shorter one after them, leave in one send (`UDP_SEGMENT`).
    /// Replies may arrive in one message (`UDP_GRO`).
    Gso,
    /// Completion queues: `io_uring`.
    Uring,
}

impl Io {
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
        [Self::Auto, Self::Plain, Self::Mmsg, Self::Gso, Self::Uring]
            .into_iter()
            .find(|io| io.name() == text)
            .ok_or_else(|| "expected auto, plain, mmsg, gso or uring".into())
    }
}

impl FromStr for Arrivals {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "even" => Ok(Self::Even),
            "poisson" => Ok(Self::Poisson),
            "captured" => Err("captured arrivals need a capture, which this version does not read".into()),
            _ => Err("expected even or poisson".into()),
        }
    }
}
