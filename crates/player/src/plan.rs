//! The options of a trial, typed. They are parsed once at the program's edge, or arrive as one message.

mod check;
mod connection_use;
mod cores;
mod hostile;
mod load;
mod part;
mod per_query;
mod replay;
mod usual;
mod window;

use std::net::SocketAddr;
use std::time::Duration;

pub use kqps_catalogue::Hostile;
pub use kqps_catalogue::choice::{Close, Io};
use kqps_catalogue::choice::{Congestion, Method, Transport};
use kqps_catalogue::course::Course;
pub use kqps_catalogue::settings::OUTSTANDING_MOST;
use kqps_tls::ClientSettings;
use serde::{Deserialize, Serialize};

use crate::sources::Sources;

pub use check::{BURST_MOST, CLIENTS_MOST, CONNECTIONS_MOST, PlanError, SOCKETS_MOST, THREADS_MOST};
pub(crate) use connection_use::ConnectionUse;
pub use cores::have_cores_of_their_own;
pub use hostile::HostileError;
pub use load::{Arrivals, LoadPlan, MomentsPlan, Stop};
pub use part::Part;
pub use per_query::{PerQueryPlan, Prefix, TsigKey};
pub(crate) use replay::whole_ns;
pub use replay::{Lane, PILE_MOST, ReplayPlan};
pub use usual::{BUFFER_BYTES, LAG_ALLOWED, SEED, usual_coalesce};
pub use window::window_most;

/// A trial before it is played. It can be sent to a player in another process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The addresses that the queries go to: at least one, all of one family. Flow *i*, a socket or a connection,
    /// goes to target *i* modulo their number.
    pub targets: Vec<SocketAddr>,
    /// How queries travel.
    pub wire: Wire,
    /// The most queries in one burst, 1 to [`BURST_MOST`].
    pub burst: usize,
    /// The local addresses, which the flows take in turn; `None` lets the kernel choose.
    pub local: Option<Sources>,
    /// When the queries leave.
    pub load: LoadPlan,
    /// The moments of the load to record; `None` for none.
    #[serde(default)]
    pub moments: Option<MomentsPlan>,
    /// The course of an open loop's rate, as shares of it, 1 at most; `None` if the rate stays.
    #[serde(default)]
    pub course: Option<Course>,
    /// When to begin, nanoseconds on the monotonic clock of the player's host (`CLOCK_MONOTONIC`). A player that is not
    /// ready by then begins at once, and the record has the delay. `None` begins as soon as the player is ready.
    #[serde(default)]
    pub start_at_ns: Option<u64>,
    /// When to stop sending.
    pub stop: Stop,
    /// Queries of the dataset that each thread leaves out before its first one, as if it had sent them before.
    #[serde(default)]
    pub first_query: u64,
    /// The part of the load, if several players share it.
    #[serde(default)]
    pub part: Part,
    /// How a capture is played; `None` unless the dataset is one.
    #[serde(default)]
    pub replay: Option<ReplayPlan>,
    /// A reply that comes more than this after its query's intended time is late.
    pub timeout: Duration,
    /// How long to read replies after the last send; at least `timeout`.
    pub drain: Duration,
    /// Whether to read them for so long even if every query is settled, so that later duplicates are counted.
    #[serde(default)]
    pub listens_on: bool,
    /// The player gives up a query that is later than this, as unsent.
    pub lag_allowed: Duration,
    /// How long a due query may wait for others to leave with it; at most `lag_allowed`. A longer wait saves CPU time
    /// and adds lag. If it is more than [`AWAKE_COALESCE_MOST`], no thread stays awake.
    pub coalesce: Duration,
    /// Sending threads, 1 to [`THREADS_MOST`].
    pub threads: usize,
    /// The core of each thread in turn; empty leaves the threads to the scheduler.
    pub cpus: Vec<u32>,
    /// Whether nothing else needs those cores, of which each thread then has its own. Threads run before all others
    /// there, if the host permits it. They also spin through short waits instead of sleeping, unless `coalesce` or a
    /// closed loop prevents it. Has no effect if `cpus` is empty.
    pub own_cores: bool,
    /// The seed of random arrivals.
    pub seed: u64,
    /// Whether to count the kernel's reasons for dropping packets, which disturbs the trial.
    pub drop_reasons: bool,
    /// Changes to each query as it is sent.
    #[serde(default)]
    pub per_query: PerQueryPlan,
    /// The kind of attackers that are played instead of clients: the schedule calls for their attempts.
    #[serde(default)]
    pub hostile: Option<Hostile>,
}

/// How queries travel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wire {
    /// A datagram for each query (RFC 1035, section 4.2.1).
    Udp(UdpPlan),
    /// Connections, on which each message follows its length (RFC 7766; RFC 1035, section 4.2.2).
    Tcp(TcpPlan),
    /// Connections of QUIC, with a stream for each query (RFC 9250).
    Quic(QuicPlan),
    /// Each query of a capture by the transport that it came by, as far as that has a lane; or each client of it by the
    /// transport that the shares of the lanes give it. The threads of all lanes are those of the plan, in the order of
    /// the lanes.
    Captured(Vec<Lane>),
}

impl Wire {
    /// The transport, as records name it. Of lanes it is UDP if one of them is for it, and else that of the first.
    pub fn transport(&self) -> Transport {
        match self {
            Self::Udp(_) => Transport::Udp,
            Self::Tcp(TcpPlan { tls: None, .. }) => Transport::Tcp,
            Self::Tcp(TcpPlan { tls: Some(TlsPlan { http: None, .. }), .. }) => Transport::Tls,
            Self::Tcp(TcpPlan { tls: Some(TlsPlan { http: Some(_), .. }), .. }) => Transport::Https,
            Self::Quic(_) => Transport::Quic,
            Self::Captured(lanes) => {
                // The order of transports begins with UDP.
                lanes.iter().map(|lane| lane.wire.transport()).min().unwrap_or_default()
            }
        }
    }

    /// The wires of the threads: this one, or those of the lanes.
    pub(crate) fn each(&self) -> Vec<&Self> {
        match self {
            Self::Captured(lanes) => lanes.iter().map(|lane| &lane.wire).collect(),
            one => vec![one],
        }
    }

    /// Whether all queries travel as datagrams.
    pub(crate) fn is_udp(&self) -> bool {
        self.each().iter().all(|wire| matches!(wire, Self::Udp(_)))
    }

    /// The part that only TLS needs; `None` without TLS. Of lanes it is that of the first with TLS.
    pub(crate) fn tls(&self) -> Option<&TlsPlan> {
        self.each().into_iter().find_map(|wire| wire.connection_use()?.tls)
    }

    /// The part that only HTTP needs; `None` without HTTP. Of lanes it is that of the first with HTTP.
    pub(crate) fn http(&self) -> Option<&HttpPlan> {
        self.each().into_iter().find_map(|wire| wire.connection_use()?.tls?.http.as_ref())
    }

    /// TLS of its connections, to be changed; `None` without it, and for lanes.
    pub fn tls_mut(&mut self) -> Option<&mut TlsPlan> {
        match self {
            Self::Udp(_) | Self::Captured(_) => None,
            Self::Tcp(tcp) => tcp.tls.as_mut(),
            Self::Quic(quic) => Some(&mut quic.tls),
        }
    }

    /// How it uses connections; `None` over UDP, and for lanes, of which each has a wire of its own.
    pub(crate) fn connection_use(&self) -> Option<ConnectionUse<'_>> {
        match self {
            Self::Udp(_) | Self::Captured(_) => None,
            Self::Tcp(tcp) => Some(tcp.connection_use()),
            Self::Quic(quic) => Some(quic.connection_use()),
        }
    }

    /// Sockets or connections that it asks for.
    fn flows(&self) -> usize {
        match self {
            Self::Udp(udp) => udp.sockets,
            Self::Captured(lanes) => lanes.iter().map(|lane| lane.wire.flows()).sum(),
            one => one.connection_use().map_or(0, |of| of.connections),
        }
    }

    /// Asks for this many sockets or connections instead. Lanes stay as they are.
    pub(crate) fn set_flows(&mut self, flows: usize) {
        match self {
            Self::Udp(udp) => udp.sockets = flows,
            Self::Tcp(tcp) => tcp.connections = flows,
            Self::Quic(quic) => quic.connections = flows,
            Self::Captured(_) => {}
        }
    }
}

/// The part of a plan that only UDP needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UdpPlan {
    /// How packets are sent and received.
    pub io: Io,
    /// Sockets of all threads together, 1 to [`SOCKETS_MOST`]. At least one per thread and per target is used. A
    /// replay uses as many as its clients need instead.
    pub sockets: usize,
    /// Bytes of each socket's receive and send buffer; `None` asks for [`BUFFER_BYTES`].
    pub buffer_bytes: Option<usize>,
    /// The first socket's local port; the other sockets take the ports after it. `None` lets the kernel choose.
    pub local_port: Option<u16>,
    /// The device that frames pass, with [`Io::Xdp`]; `None` for the one to which the routes lead.
    #[serde(default)]
    pub device: Option<String>,
}

/// The part of a plan that only TCP needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TcpPlan {
    /// How bytes are sent and received.
    #[serde(default)]
    pub io: Io,
    /// Connections of all threads together that may be open at once, 1 to [`CONNECTIONS_MOST`]. At least one per thread
    /// and per target is used. A replay uses as many as its clients need instead, unless each query has a connection.
    pub connections: usize,
    /// Queries on each connection before it is closed; `None` keeps it for the whole trial. Kept connections are opened
    /// before the trial begins, all others when a query needs them. With 0, connections alone are the load: each query
    /// stands for a connection that is opened when the query is due, and closed once it is made.
    pub queries_per_connection: Option<u32>,
    /// The most unsettled queries of one connection, 1 to 65,536.
    pub outstanding: u32,
    /// How the player closes connections.
    pub close: Close,
    /// A connection that is not made after this time has failed. With TLS its handshake is part of its making.
    pub connect_timeout: Duration,
    /// Bytes of each connection's receive and send buffers; `None` lets the kernel size them.
    #[serde(default)]
    pub buffer_bytes: Option<usize>,
    /// TLS on every connection (RFC 7858); `None` for none.
    #[serde(default)]
    pub tls: Option<TlsPlan>,
    /// The device that frames pass, with [`Io::Xdp`]; `None` for the one to which the routes lead.
    #[serde(default)]
    pub device: Option<String>,
    /// The source port of the first connection. Those after it have the ports after it, also when they are made again.
    /// `None` lets the kernel or the player choose, as does [`Io::Xdp`].
    #[serde(default)]
    pub local_port: Option<u16>,
}

impl TcpPlan {
    /// How it uses connections.
    pub(crate) fn connection_use(&self) -> ConnectionUse<'_> {
        ConnectionUse {
            connections: self.connections,
            queries_per_connection: self.queries_per_connection,
            outstanding: self.outstanding,
            connect_timeout: self.connect_timeout,
            tls: self.tls.as_ref(),
        }
    }
}

/// The part of a plan that only QUIC needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuicPlan {
    /// Connections of all threads together that may be open at once, 1 to [`CONNECTIONS_MOST`]. Each has a socket with
    /// a port of its own. At least one per thread and per target is used. A replay uses as many as its clients need
    /// instead.
    pub connections: usize,
    /// Queries on each connection before it is closed; `None` keeps it for the whole trial. Kept connections are opened
    /// before the trial begins, all others when a query needs them. With 0, connections alone are the load, as over
    /// TCP.
    pub queries_per_connection: Option<u32>,
    /// The most unsettled queries of one connection, 1 to 65,536.
    pub outstanding: u32,
    /// A connection whose handshake is not complete after this time has failed.
    pub connect_timeout: Duration,
    /// Bytes of each socket's receive and send buffer; `None` asks for [`BUFFER_BYTES`].
    pub buffer_bytes: Option<usize>,
    /// TLS, which every connection has (RFC 9001).
    pub tls: TlsPlan,
    /// How many bytes may be on their way at once.
    pub congestion: Congestion,
}

impl QuicPlan {
    /// How it uses connections.
    pub(crate) fn connection_use(&self) -> ConnectionUse<'_> {
        ConnectionUse {
            connections: self.connections,
            queries_per_connection: self.queries_per_connection,
            outstanding: self.outstanding,
            connect_timeout: self.connect_timeout,
            tls: Some(&self.tls),
        }
    }
}

/// The part of a plan that only TLS needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsPlan {
    /// The name of each target in its certificate, a DNS name or an address, in the order of the targets.
    pub names: Vec<String>,
    /// The client's settings: what the player accepts, offers and resumes.
    pub client: ClientSettings,
    /// Whether queries that leave together share records. Otherwise each query, or over HTTPS the frames of each
    /// request, has records of its own, as with most clients. Has no effect over QUIC, which has no records (RFC 9001,
    /// section 3).
    #[serde(default)]
    pub packing: bool,
    /// HTTP/2 in TLS (RFC 8484); `None` for messages after their length (RFC 7858).
    #[serde(default)]
    pub http: Option<HttpPlan>,
}

/// The part of a plan that only HTTP needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpPlan {
    /// How queries are asked.
    pub method: Method,
    /// The authority of each target's URL, such as `dns.example` or `[::1]:8443`, in the order of the targets.
    pub authorities: Vec<String>,
    /// The path of each target's URL, in the same order.
    pub paths: Vec<String>,
}

impl Plan {
    /// Whether each thread has a core that nothing else needs.
    pub fn has_own_cores(&self) -> bool {
        self.own_cores && !self.cpus.is_empty()
    }

    /// Whether connections alone are the load: each query stands for a connection, and none is sent.
    pub fn has_connections_alone(&self) -> bool {
        self.wire.connection_use().is_some_and(|of| of.has_connections_alone())
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

    /// The part that only TLS needs; `None` without TLS.
    pub(crate) fn tls(&self) -> Option<&TlsPlan> {
        self.wire.tls()
    }

    /// The number of flows in use, sockets or connections: at least one per thread and per target.
    pub fn flows(&self) -> usize {
        self.wire.flows().max(self.threads).max(self.targets.len())
    }
}

/// The longest `coalesce` with which threads stay awake.
pub const AWAKE_COALESCE_MOST: Duration = Duration::from_micros(20);

#[cfg(test)]
pub(crate) mod tests {
    use kqps_dataset::Carried;
    use kqps_tls::Trust;

    use super::*;

    /// A plan for one thread with one socket, which plays all queries once with a window of 1.
    pub(crate) fn plan(target: SocketAddr) -> Plan {
        let second = Duration::from_secs(1);
        Plan {
            targets: vec![target],
            wire: udp(Io::Plain, 1),
            burst: 32,
            local: None,
            load: LoadPlan::Closed { outstanding: 1 },
            start_at_ns: None,
            stop: Stop { after: None, passes: Some(1) },
            part: Part::WHOLE,
            replay: None,
            timeout: second,
            drain: second,
            listens_on: false,
            lag_allowed: second,
            coalesce: Duration::ZERO,
            threads: 1,
            cpus: Vec::new(),
            own_cores: false,
            seed: SEED,
            drop_reasons: false,
            moments: None,
            course: None,
            per_query: PerQueryPlan::default(),
            first_query: 0,
            hostile: None,
        }
    }

    /// UDP through this many sockets.
    pub(crate) fn udp(io: Io, sockets: usize) -> Wire {
        Wire::Udp(UdpPlan { io, sockets, buffer_bytes: None, local_port: None, device: None })
    }

    /// TCP on this many kept connections.
    pub(crate) fn tcp(connections: usize) -> Wire {
        Wire::Tcp(tcp_plan(connections))
    }

    pub(crate) fn tcp_plan(connections: usize) -> TcpPlan {
        TcpPlan {
            io: Io::Auto,
            connections,
            queries_per_connection: None,
            outstanding: 100,
            close: Close::Fin,
            connect_timeout: Duration::from_secs(1),
            buffer_bytes: None,
            tls: None,
            device: None,
            local_port: None,
        }
    }

    /// TLS for one target, with the certificates that this host trusts.
    pub(crate) fn tls_plan(name: &str) -> TlsPlan {
        let client = ClientSettings::new(Trust::System, true);
        TlsPlan { names: vec![name.into()], client, packing: false, http: None }
    }

    /// HTTP at one target.
    pub(crate) fn http_plan(authority: &str, path: &str) -> HttpPlan {
        HttpPlan { method: Method::Get, authorities: vec![authority.into()], paths: vec![path.into()] }
    }

    /// QUIC on this many kept connections to one target.
    pub(crate) fn quic_plan(connections: usize, name: &str) -> QuicPlan {
        QuicPlan {
            connections,
            queries_per_connection: None,
            outstanding: 100,
            connect_timeout: Duration::from_secs(1),
            buffer_bytes: None,
            tls: tls_plan(name),
            congestion: Congestion::Fixed,
        }
    }

    fn usual() -> Plan {
        plan(SocketAddr::from(([127, 0, 0, 1], 53)))
    }

    #[test]
    fn a_plan_survives_being_sent() {
        let mut open = usual();
        open.load = LoadPlan::Open { rate_qps: 0.1, arrivals: Arrivals::Poisson, window: Some(3) };
        open.local = Some("127.1.0.0/16".parse().unwrap());
        open.wire = udp(Io::Uring, 1);
        let replay =
            ReplayPlan { speed: 2.5, to: Some(Duration::from_millis(1500)), ..ReplayPlan::default() };
        let lane = |carried, wire| Lane::as_captured(carried, wire, 1);
        let mixed = Plan {
            wire: Wire::Captured(vec![lane(Carried::Udp, udp(Io::Auto, 1)), lane(Carried::Tcp, tcp(3))]),
            replay: Some(replay),
            threads: 2,
            ..usual()
        };
        let secure =
            |http| Wire::Tcp(TcpPlan { tls: Some(TlsPlan { http, ..tls_plan("dns.test") }), ..tcp_plan(3) });
        let https = secure(Some(http_plan("dns.test", "/dns-query")));
        let wires = [tcp(3), secure(None), https, Wire::Quic(quic_plan(3, "dns.test"))];
        let with_wires = wires.into_iter().map(|wire| Plan { wire, ..usual() });
        for plan in [usual(), open, mixed].into_iter().chain(with_wires) {
            let text = serde_json::to_string(&plan).unwrap();
            assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan, "{text}");
        }
        let text = serde_json::to_string(&usual()).unwrap().replacen("\"seed\"", "\"sed\"", 1);
        assert!(serde_json::from_str::<Plan>(&text).unwrap_err().to_string().contains("sed"), "{text}");
    }

    #[test]
    fn lanes_have_the_flows_of_all_and_are_named_by_udp() {
        let lane = |carried, wire| Lane::as_captured(carried, wire, 1);
        let lanes = vec![lane(Carried::Tcp, tcp(30)), lane(Carried::Udp, udp(Io::Auto, 2))];
        let plan = Plan { wire: Wire::Captured(lanes), threads: 2, ..usual() };
        assert_eq!((plan.flows(), plan.wire.transport()), (32, Transport::Udp));
        assert!(!plan.wire.is_udp() && !plan.has_connections_alone() && plan.tls().is_none());
    }
}
