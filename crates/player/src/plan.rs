//! The options of a trial, typed. They are parsed once at the program's edge, or arrive as one message.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::sources::Sources;

/// One trial, before it is played. It can be sent to a player in another process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// How queries travel, and to which addresses.
    pub wire: Wire,
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
    /// How long a due query may wait for others to leave with it; at most `lag_allowed`. A longer wait saves CPU time and
    /// adds lag. If it is more than [`AWAKE_COALESCE_MOST`], no thread stays awake.
    pub coalesce: Duration,
    /// Sending threads, 1 to [`THREADS_MOST`].
    pub threads: usize,
    /// The core of each thread in turn; empty leaves the threads to the scheduler.
    pub cpus: Vec<u32>,
    /// Whether nothing else needs those cores; there is one for each thread. Threads then run before all others there, if
    /// the host permits it. They also spin through short waits instead of sleeping, unless `coalesce` or a closed loop
    /// prevents it. Has no effect if `cpus` is empty.
    pub own_cores: bool,
    /// The seed of random arrivals.
    pub seed: u64,
    /// Whether to count the kernel's reasons for dropping packets, which disturbs the trial.
    pub drop_reasons: bool,
}

/// How queries travel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wire {
    /// A datagram for each query (RFC 1035, section 4.2.1).
    Udp(UdpPlan),
}

/// The part of a plan that only UDP needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UdpPlan {
    /// The addresses that the queries go to: at least one, all of one family. Socket *i* sends to target *i* modulo their
    /// number.
    pub targets: Vec<SocketAddr>,
    /// How packets are sent and received.
    pub io: Io,
    /// Sockets of all threads together, 1 to [`SOCKETS_MOST`]. At least one per thread and per target is used.
    pub sockets: usize,
    /// The most queries in one burst, 1 to [`BURST_MOST`].
    pub burst: usize,
    /// Bytes of each socket's receive and send buffer; `None` asks for [`BUFFER_BYTES`].
    pub buffer_bytes: Option<usize>,
    /// The local addresses, which the sockets take in turn; `None` lets the kernel choose.
    pub local: Option<Sources>,
    /// The first socket's local port; the other sockets take the ports after it. `None` lets the kernel choose.
    pub local_port: Option<u16>,
}

/// Why a plan cannot be played.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // the messages say it
pub enum PlanError {
    #[error("a plan needs a target at least, and all of one family")]
    Targets,
    #[error("{0} threads: expected 1 to {THREADS_MOST}")]
    Threads(usize),
    #[error("{0} sockets: expected 1 to {SOCKETS_MOST}")]
    Sockets(usize),
    #[error("{sockets} sockets: each of the {targets} targets needs one of its own at least")]
    SocketsOfTargets { sockets: usize, targets: usize },
    #[error("a burst of {0} queries: expected 1 to {BURST_MOST}")]
    Burst(usize),
    #[error("a timeout of 0: every reply would be late")]
    Timeout,
    #[error(
        "a drain of {drain:?} is shorter than the timeout ({timeout:?}): replies in time would be missed"
    )]
    Drain { drain: Duration, timeout: Duration },
    #[error("a due query may wait {coalesce:?}, and is given up after {lag_allowed:?}, before it leaves")]
    Coalesce { coalesce: Duration, lag_allowed: Duration },
    #[error("a window of {window}: each of the {threads} threads needs one of 1 at least")]
    Window { window: u64, threads: usize },
}

impl Plan {
    /// The part of the plan that only UDP needs.
    pub fn udp(&self) -> &UdpPlan {
        let Wire::Udp(udp) = &self.wire;
        udp
    }

    /// The same, to change it.
    pub fn udp_mut(&mut self) -> &mut UdpPlan {
        let Wire::Udp(udp) = &mut self.wire;
        udp
    }

    /// The addresses that the queries go to.
    pub fn targets(&self) -> &[SocketAddr] {
        &self.udp().targets
    }

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
        let udp = self.udp();
        udp.sockets.max(self.threads).max(udp.targets.len())
    }

    /// Checks the limits that the fields name.
    pub fn check(&self) -> Result<(), PlanError> {
        let udp = self.udp();
        let Some(first) = udp.targets.first() else { return Err(PlanError::Targets) };
        let (threads, sockets, targets) = (self.threads, udp.sockets, udp.targets.len());
        let (coalesce, lag_allowed) = (self.coalesce, self.lag_allowed);
        let window = self.load.window();
        let wrong = [
            (udp.targets.iter().any(|target| target.is_ipv4() != first.is_ipv4()), PlanError::Targets),
            (!(1..=THREADS_MOST).contains(&threads), PlanError::Threads(threads)),
            (!(1..=SOCKETS_MOST).contains(&sockets), PlanError::Sockets(sockets)),
            (sockets < targets, PlanError::SocketsOfTargets { sockets, targets }),
            (!(1..=BURST_MOST).contains(&udp.burst), PlanError::Burst(udp.burst)),
            (self.timeout.is_zero(), PlanError::Timeout),
            (self.drain < self.timeout, PlanError::Drain { drain: self.drain, timeout: self.timeout }),
            (coalesce > lag_allowed, PlanError::Coalesce { coalesce, lag_allowed }),
            (
                window.is_some_and(|window| window < threads as u64),
                PlanError::Window { window: window.unwrap_or_default(), threads },
            ),
        ];
        wrong.into_iter().find_map(|(is_wrong, error)| is_wrong.then_some(error)).map_or(Ok(()), Err)
    }
}

/// Whether each thread has a core that no other thread uses, and none of the subject's as far as these are known. If two
/// real-time threads share a core, the first keeps the second from running.
pub fn have_cores_of_their_own(cpus: &[u32], threads: usize, subject_cpus: &[u32]) -> bool {
    let is_alone = |at: usize| !cpus[..at].contains(&cpus[at]) && !subject_cpus.contains(&cpus[at]);
    threads <= cpus.len() && (0..cpus.len()).all(is_alone)
}

/// The usual time that a due query waits for others. A thread with a core of its own waits less, since it can spend more
/// CPU time on being on time.
pub fn usual_coalesce(own_cores: bool) -> Duration {
    if own_cores { COALESCE_ON_OWN_CORES } else { COALESCE }
}

const COALESCE: Duration = Duration::from_micros(20);
const COALESCE_ON_OWN_CORES: Duration = Duration::from_micros(10);

/// The usual time after which a due query is given up.
pub const LAG_ALLOWED: Duration = Duration::from_millis(10);

/// The usual seed of random arrivals.
pub const SEED: u64 = 1;

/// The most sending threads.
pub const THREADS_MOST: usize = 1024;

/// The most sockets that one trial can use.
pub const SOCKETS_MOST: usize = 16_384;

/// The largest burst: as many segments as the kernel takes in one send (`UDP_MAX_SEGMENTS` of older kernels).
pub const BURST_MOST: usize = 64;

/// The longest `coalesce` with which threads stay awake.
pub const AWAKE_COALESCE_MOST: Duration = Duration::from_micros(20);

/// The buffer that a socket asks for, in bytes. It has room for the replies that arrive while the player sleeps.
pub const BUFFER_BYTES: usize = 4 << 20;

/// What decides when the next query leaves.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
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

impl LoadPlan {
    /// The most outstanding queries, if they are limited.
    pub fn window(&self) -> Option<u64> {
        match *self {
            Self::Open { window, .. } => window,
            Self::Closed { outstanding } => Some(outstanding),
        }
    }
}

/// How the queries of an open loop are spaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
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
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stop {
    /// The longest time to send; `None` for no limit.
    pub after: Option<Duration>,
    /// The number of passes over the dataset; `None` for no limit.
    pub passes: Option<u64>,
}

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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A plan for one thread with one socket, which plays all queries once with a window of 1.
    pub(crate) fn plan(target: SocketAddr) -> Plan {
        let second = Duration::from_secs(1);
        Plan {
            wire: Wire::Udp(UdpPlan {
                targets: vec![target],
                io: Io::Plain,
                sockets: 1,
                burst: 32,
                buffer_bytes: None,
                local: None,
                local_port: None,
            }),
            load: LoadPlan::Closed { outstanding: 1 },
            stop: Stop { after: None, passes: Some(1) },
            timeout: second,
            drain: second,
            lag_allowed: second,
            coalesce: Duration::ZERO,
            threads: 1,
            cpus: Vec::new(),
            own_cores: false,
            seed: SEED,
            drop_reasons: false,
        }
    }

    fn usual() -> Plan {
        plan(SocketAddr::from(([127, 0, 0, 1], 53)))
    }

    #[test]
    fn a_plan_survives_being_sent() {
        let mut open = usual();
        open.load = LoadPlan::Open { rate_qps: 0.1, arrivals: Arrivals::Poisson, window: Some(3) };
        open.udp_mut().local = Some("127.1.0.0/16".parse().unwrap());
        open.udp_mut().io = Io::Uring;
        for plan in [usual(), open] {
            let text = serde_json::to_string(&plan).unwrap();
            assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan, "{text}");
        }
        let text = serde_json::to_string(&usual()).unwrap().replacen("\"seed\"", "\"sed\"", 1);
        assert!(serde_json::from_str::<Plan>(&text).unwrap_err().to_string().contains("sed"), "{text}");
    }

    #[test]
    fn a_plan_that_cannot_be_played_says_why() {
        let error = |change: fn(&mut Plan)| {
            let mut plan = usual();
            change(&mut plan);
            plan.check()
        };
        assert_eq!(error(|_| ()), Ok(()));
        assert_eq!(error(|plan| plan.udp_mut().targets.clear()), Err(PlanError::Targets));
        assert_eq!(
            error(|plan| plan.udp_mut().targets.push("[::1]:53".parse().unwrap())),
            Err(PlanError::Targets)
        );
        assert_eq!(error(|plan| plan.threads = 0), Err(PlanError::Threads(0)));
        assert_eq!(error(|plan| plan.udp_mut().sockets = 1 << 20), Err(PlanError::Sockets(1 << 20)));
        assert_eq!(
            error(|plan| plan.udp_mut().targets.push("127.0.0.2:53".parse().unwrap())),
            Err(PlanError::SocketsOfTargets { sockets: 1, targets: 2 })
        );
        assert_eq!(error(|plan| plan.udp_mut().burst = 65), Err(PlanError::Burst(65)));
        assert_eq!(error(|plan| plan.timeout = Duration::ZERO), Err(PlanError::Timeout));
        assert!(matches!(error(|plan| plan.drain /= 2), Err(PlanError::Drain { .. })));
        assert!(matches!(
            error(|plan| plan.coalesce = plan.lag_allowed * 2),
            Err(PlanError::Coalesce { .. })
        ));
        assert_eq!(error(|plan| plan.threads = 2), Err(PlanError::Window { window: 1, threads: 2 }));
    }

    #[test]
    fn threads_have_cores_of_their_own_or_share_them() {
        assert!(have_cores_of_their_own(&[1, 2], 2, &[3]));
        assert!(!have_cores_of_their_own(&[1, 2], 3, &[3]));
        assert!(!have_cores_of_their_own(&[1, 1], 2, &[3]));
        assert!(!have_cores_of_their_own(&[1, 2], 2, &[2]));
    }
}
