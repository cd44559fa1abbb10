//! What a trial is asked to do, as typed options, parsed once at the program's edge.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use crate::sources::Sources;

/// One trial, before it is played.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where the queries go: at least one address, all of one family. Socket *i* asks target *i* modulo their
    /// number.
    pub targets: Vec<SocketAddr>,
    /// When they leave.
    pub load: LoadPlan,
    /// When to stop sending.
    pub stop: Stop,
    /// A reply later than this after its query's intended time is late.
    pub timeout: Duration,
    /// How long to listen after the last send; at least `timeout`.
    pub drain: Duration,
    /// A query later than this is given up as unsent.
    pub lag_allowed: Duration,
    /// How long a query that is due may wait for others to leave with it: CPU time against lag. Where it is
    /// more than [`AWAKE_COALESCE_MOST`], no thread stays awake.
    pub coalesce: Duration,
    /// Queries in one burst at most, 1 to [`BURST_MOST`].
    pub burst: usize,
    /// Sockets of all threads together; at least one per thread and per target is used.
    pub sockets: usize,
    /// Sending threads, at least 1.
    pub threads: usize,
    /// The core of each thread in turn; empty leaves them to the scheduler.
    pub cpus: Vec<u32>,
    /// Whether nothing else needs those cores, of which there is one for each thread. Threads then run before all
    /// others there, where the host permits it, and stay awake rather than sleep for a moment, unless CPU time is to be
    /// saved. Without cores it means nothing.
    pub own_cores: bool,
    /// How packets are sent and received.
    pub io: Io,
    /// Bytes of each socket's receive and send buffer; none asks for [`BUFFER_BYTES`].
    pub buffer_bytes: Option<usize>,
    /// The local addresses, over which sockets take turns; none lets the kernel choose.
    pub local: Option<Sources>,
    /// The first socket's local port, the others following; none lets the kernel choose.
    pub local_port: Option<u16>,
    /// The seed of random arrivals.
    pub seed: u64,
    /// The subject's processes, without those that descend from them; empty where it is elsewhere or not known.
    pub subject_pids: Vec<u32>,
    /// Why they are not known, where they were looked for.
    pub subject_unknown: Option<String>,
    /// The subject's cores, if they are known.
    pub subject_cpus: Vec<u32>,
    /// Whether the kernel's reasons for dropping packets are counted, which disturbs the trial.
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

    /// Whether threads stay awake rather than sleep for a moment. A closed loop does not wait for a moment but for replies,
    /// and who lets queries wait for long wants to save CPU time.
    pub fn stays_awake(&self) -> bool {
        self.has_own_cores() && self.is_open() && self.coalesce <= AWAKE_COALESCE_MOST
    }

    /// How many sockets are used.
    pub fn sockets_in_fact(&self) -> usize {
        self.sockets.max(self.threads).max(self.targets.len())
    }
}

/// The largest burst: as many segments as the kernel takes in one send (`UDP_MAX_SEGMENTS` of older kernels).
pub const BURST_MOST: usize = 64;

/// The longest that queries may wait for each other where threads stay awake.
pub const AWAKE_COALESCE_MOST: Duration = Duration::from_micros(20);

/// The buffer that a socket asks for: room for the replies that arrive while the player sleeps.
pub const BUFFER_BYTES: usize = 4 << 20;

/// Who decides when the next query leaves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LoadPlan {
    /// The schedule: so many queries a second, whatever the subject answers.
    Open {
        /// Queries a second, all threads together; above 0.
        rate_qps: f64,
        /// How they are spaced.
        arrivals: Arrivals,
        /// Queries outstanding at most, all threads together, at least 1 per thread; none for any number. A query
        /// that falls due while so many are outstanding is not sent.
        window: Option<u64>,
    },
    /// The subject's replies: so many outstanding at most, all threads together.
    Closed {
        /// The window, at least 1 per thread.
        outstanding: u64,
    },
}

/// How the queries of an open loop are spaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arrivals {
    /// Query *i* is due at `t0 + i / rate`.
    #[default]
    Even,
    /// Gaps are drawn from an exponential distribution with that mean: independent clients.
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
    /// After this time.
    pub after: Option<Duration>,
    /// After so many passes over the dataset.
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
    /// Batches, and segmentation: queries of equal length, and a shorter one after them, leave in one send
    /// (`UDP_SEGMENT`), replies may arrive in one (`UDP_GRO`).
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
