//! The limits of a plan, and the errors of a plan that exceeds them.

use std::time::Duration;

use kqps_catalogue::settings;
use kqps_dataset::{CaptureFacts, Dataset};
use kqps_http::{BadTarget, Requests};
use kqps_tls::client::server_name;

use super::{
    Arrivals, ConnectionUse, HostileError, HttpPlan, Io, Lane, LoadPlan, OUTSTANDING_MOST, PILE_MOST,
    PerQueryPlan, Plan, ReplayPlan, TcpPlan, TlsPlan, UdpPlan, Wire,
};

/// Why a plan cannot be played.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // the messages say it
pub enum PlanError {
    #[error("a plan needs a target at least, and all of one family, and a lane has targets of its plan")]
    Targets,
    #[error("{0} threads: expected 1 to {THREADS_MOST}")]
    Threads(usize),
    #[error("player {number} of {of}: expected one from 0 on, and less than their number")]
    Part { number: u32, of: u32 },
    #[error("{0} sockets: expected 1 to {SOCKETS_MOST}")]
    Sockets(usize),
    #[error("{sockets} sockets: each of the {targets} targets needs one of its own at least")]
    SocketsOfTargets { sockets: usize, targets: usize },
    #[error("{0} connections: expected 1 to {CONNECTIONS_MOST}")]
    Connections(usize),
    #[error("{connections} connections: each of the {targets} targets needs one of its own at least")]
    ConnectionsOfTargets { connections: usize, targets: usize },
    #[error("a time limit of 0 for connecting: expected more")]
    ConnectTimeout,
    #[error("{0} outstanding queries on a connection: expected 1 to {OUTSTANDING_MOST}")]
    Outstanding(u32),
    #[error("{names} names for TLS: expected one for each of the {targets} targets")]
    TlsNames { names: usize, targets: usize },
    #[error("`{0}` is no name of a server: expected a DNS name or an address")]
    TlsName(String),
    #[error("{urls} URLs for HTTP: expected one for each of the {targets} targets")]
    HttpTargets { urls: usize, targets: usize },
    #[error(transparent)]
    HttpTarget(BadTarget),
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
    #[error(
        "a window of {window}: {flows} sockets or connections can have {most} queries outstanding; expected as many at \
         most"
    )]
    WindowBeyondFlows { window: u64, flows: usize, most: u64, is_replay: bool },
    #[error("the device {0} is for the I/O model xdp alone")]
    Device(String),
    #[error("a speed of {0}: expected more than 0")]
    Speed(String),
    #[error("a window that is played {0} times: expected at least once")]
    Repeat(u64),
    #[error("a pile of {0} slices: expected 1 to {PILE_MOST}")]
    Pile(u32),
    #[error("a window from {from:?} to {to:?} of the capture: expected an end after its beginning")]
    EmptyWindow { from: Duration, to: Duration },
    #[error("a window up to {at:?}: the capture ends {capture:?} after its first query")]
    WindowBeyondCapture { at: Duration, capture: Duration },
    #[error("captured arrivals and transports need a capture, and how to play it")]
    NoReplay,
    #[error("the queries are no capture: only a capture can be replayed")]
    NoCapture,
    #[error("the queries are a capture: the plan does not say how to replay it")]
    UnplannedCapture,
    #[error(
        "the I/O `{0}` does not replay captures over udp, where each client has an address: expected auto, mmsg or \
         xdp, or no `player.io`"
    )]
    ReplayIo(&'static str),
    #[error("past the kernel the queries of a capture go by one transport: give a target such as udp://ADDR")]
    LanesPast,
    #[error("lanes with {of_lanes} threads, and {threads} threads in all: expected as many")]
    LaneThreads { of_lanes: usize, threads: usize },
    #[error(
        "two lanes for {0}, or one without a thread: expected one for a transport, with a thread at least"
    )]
    Lane(&'static str),
    #[error("a lane for {0} with a number of queries for each connection: they begin and end as captured")]
    LaneConnections(&'static str),
    #[error("lanes with shares of {0} in all: expected a share above 0 for each, and 1 in all")]
    LaneShares(String),
    #[error(
        "{places} connections are open at once in the capture, with its slices laid over each other: at most \
         {CONNECTIONS_MOST}; play a shorter window or fewer slices"
    )]
    Places { places: u64 },
    #[error("{clients} clients in all slices: at most {CLIENTS_MOST}; lay fewer slices over each other")]
    Clients { clients: u64 },
    #[error("`{0}` is no name of a TSIG key, or its algorithm is none")]
    Tsig(String),
    #[error("queries of a capture are sent as they are: they get neither random labels nor a signature")]
    PerQuery,
    #[error("a limit of {0} queries a second: expected more than 0")]
    Limit(String),
    #[error("a course is for an open loop with even or random arrivals")]
    Course,
    #[error("a course with a share of {0}: expected 1 at most")]
    CoursePeak(String),
    #[error(transparent)]
    Hostile(#[from] HostileError),
}

impl Plan {
    /// Checks the limits that the fields name.
    pub fn check(&self) -> Result<(), PlanError> {
        let Some(first) = self.targets.first() else { return Err(PlanError::Targets) };
        let (coalesce, lag_allowed) = (self.coalesce, self.lag_allowed);
        let (window, threads) = (self.load.window(), self.threads);
        let wrong = [
            (self.targets.iter().any(|target| target.is_ipv4() != first.is_ipv4()), PlanError::Targets),
            (!(1..=THREADS_MOST).contains(&threads), PlanError::Threads(threads)),
            (
                self.part.number >= self.part.of,
                PlanError::Part { number: self.part.number, of: self.part.of },
            ),
            (!(1..=BURST_MOST).contains(&self.burst), PlanError::Burst(self.burst)),
            (self.timeout.is_zero(), PlanError::Timeout),
            (self.drain < self.timeout, PlanError::Drain { drain: self.drain, timeout: self.timeout }),
            (coalesce > lag_allowed, PlanError::Coalesce { coalesce, lag_allowed }),
            (
                window.is_some_and(|window| window < threads as u64),
                PlanError::Window { window: window.unwrap_or_default(), threads },
            ),
        ];
        first_of(wrong)?;
        if let LoadPlan::Limited { rate_qps, .. } = self.load
            && !(rate_qps > 0.0 && rate_qps.is_finite())
        {
            return Err(PlanError::Limit(rate_qps.to_string()));
        }
        self.check_course()?;
        self.check_hostile()?;
        if let Some(key) = self.per_query.tsig.as_ref().filter(|key| key.key_name().is_none()) {
            return Err(PlanError::Tsig(key.name.clone()));
        }
        if self.replay.is_some() && self.per_query != PerQueryPlan::default() {
            return Err(PlanError::PerQuery);
        }
        self.check_replay()?;
        self.check_wire(&self.wire, self.targets.len())?;
        self.check_window()
    }

    /// Checks the plan against the queries: that a capture is replayed and nothing else is, and that the capture has
    /// the window.
    pub fn check_against(&self, dataset: &Dataset) -> Result<(), PlanError> {
        match (&self.replay, dataset.capture()) {
            (None, None) => Ok(()),
            (Some(_), None) => Err(PlanError::NoCapture),
            (None, Some(_)) => Err(PlanError::UnplannedCapture),
            (Some(replay), Some(capture)) => self.check_capture(replay, capture),
        }
    }

    fn check_capture(&self, replay: &ReplayPlan, capture: &CaptureFacts) -> Result<(), PlanError> {
        let duration = Duration::from_nanos(capture.duration_ns);
        let at = replay.to.unwrap_or(replay.from).max(replay.from);
        let clients = u64::from(capture.clients) * u64::from(replay.pile);
        let places = u64::from(capture.places) * u64::from(replay.pile);
        let has_places = matches!(&self.wire, Wire::Captured(lanes) if lanes.iter().any(Lane::has_places));
        first_of([
            (at > duration, PlanError::WindowBeyondCapture { at, capture: duration }),
            (clients > u64::from(CLIENTS_MOST), PlanError::Clients { clients }),
            (has_places && places > CONNECTIONS_MOST as u64, PlanError::Places { places }),
        ])
    }

    fn check_course(&self) -> Result<(), PlanError> {
        let Some(course) = &self.course else { return Ok(()) };
        let follows =
            matches!(self.load, LoadPlan::Open { arrivals: Arrivals::Even | Arrivals::Poisson, .. });
        let is_share = course.peak() <= 1.0;
        first_of([
            (!follows, PlanError::Course),
            (!is_share, PlanError::CoursePeak(course.peak().to_string())),
        ])
    }

    /// Checks how a capture is played, whatever the capture is.
    fn check_replay(&self) -> Result<(), PlanError> {
        let is_captured = matches!(self.load, LoadPlan::Open { arrivals: Arrivals::Captured, .. });
        let Some(replay) = &self.replay else {
            let needs_capture = is_captured || matches!(self.wire, Wire::Captured(_));
            return if needs_capture { Err(PlanError::NoReplay) } else { Ok(()) };
        };
        let ReplayPlan { from, to, speed, repeat, pile, .. } = *replay;
        let has_lanes = matches!(self.wire, Wire::Captured(_));
        let refused = self.wire.each().into_iter().find_map(|wire| match wire {
            _ if wire.is_past_kernel() && has_lanes => Some(PlanError::LanesPast),
            Wire::Udp(udp) if !matches!(udp.io, Io::Auto | Io::Mmsg | Io::Xdp) => {
                Some(PlanError::ReplayIo(udp.io.word()))
            }
            _ => None,
        });
        let end = to.unwrap_or(Duration::MAX);
        first_of([
            (!(speed > 0.0 && speed.is_finite()), PlanError::Speed(speed.to_string())),
            (repeat == 0, PlanError::Repeat(repeat)),
            (!(1..=PILE_MOST).contains(&pile), PlanError::Pile(pile)),
            (end <= from, PlanError::EmptyWindow { from, to: end }),
        ])?;
        refused.map_or(Ok(()), Err)
    }

    fn check_lanes(&self, lanes: &[Lane]) -> Result<(), PlanError> {
        let of_lanes = lanes.iter().map(|lane| lane.threads).sum();
        if of_lanes != self.threads {
            return Err(PlanError::LaneThreads { of_lanes, threads: self.threads });
        }
        check_shares(lanes)?;
        for (number, lane) in lanes.iter().enumerate() {
            let is_double = lanes[..number].iter().any(|other| other.carried == lane.carried);
            let is_nested = matches!(lane.wire, Wire::Captured(_));
            let name = lane.carried.name();
            let has_other_target = lane.targets.iter().any(|target| !self.targets.contains(target));
            first_of([
                (has_other_target, PlanError::Targets),
                (is_double || is_nested || lane.threads == 0, PlanError::Lane(name)),
                (lane.has_limited_connections(), PlanError::LaneConnections(name)),
            ])?;
            self.check_wire(&lane.wire, lane.targets_in(self).len())?;
        }
        Ok(())
    }

    fn check_wire(&self, wire: &Wire, targets: usize) -> Result<(), PlanError> {
        if let Wire::Udp(UdpPlan { io, device, .. }) | Wire::Tcp(TcpPlan { io, device, .. }) = wire {
            check_device(*io, device.as_deref())?;
        }
        match (wire, wire.connection_use()) {
            (Wire::Captured(lanes), _) => self.check_lanes(lanes),
            (Wire::Udp(udp), _) => {
                let sockets = udp.sockets;
                first_of([
                    (!(1..=SOCKETS_MOST).contains(&sockets), PlanError::Sockets(sockets)),
                    (sockets < targets, PlanError::SocketsOfTargets { sockets, targets }),
                ])
            }
            (_, used) => used.map_or(Ok(()), |of| check_use(&of, targets)),
        }
    }
}

impl Wire {
    /// Whether frames pass the kernel's network stack.
    fn is_past_kernel(&self) -> bool {
        matches!(self, Self::Udp(UdpPlan { io: Io::Xdp, .. }) | Self::Tcp(TcpPlan { io: Io::Xdp, .. }))
    }
}

/// Checks that all lanes have a share, which add up to 1, or none.
fn check_shares(lanes: &[Lane]) -> Result<(), PlanError> {
    let all: f64 = lanes.iter().filter_map(|lane| lane.share).sum();
    let has_share = lanes.iter().filter(|lane| lane.share.is_some()).count();
    let are_some = lanes.iter().all(|lane| lane.share.is_none_or(|share| share > 0.0));
    let is_good = has_share == 0 || has_share == lanes.len() && are_some && (all - 1.0).abs() < 1e-9;
    if is_good { Ok(()) } else { Err(PlanError::LaneShares(all.to_string())) }
}

fn check_device(io: Io, device: Option<&str>) -> Result<(), PlanError> {
    match device {
        Some(device) if io != Io::Xdp => Err(PlanError::Device(device.to_owned())),
        _ => Ok(()),
    }
}

/// Checks how connections are used.
fn check_use(of: &ConnectionUse<'_>, targets: usize) -> Result<(), PlanError> {
    let ConnectionUse { connections, outstanding, connect_timeout, tls, .. } = *of;
    first_of([
        (!(1..=CONNECTIONS_MOST).contains(&connections), PlanError::Connections(connections)),
        (connections < targets, PlanError::ConnectionsOfTargets { connections, targets }),
        (connect_timeout.is_zero(), PlanError::ConnectTimeout),
        (!(1..=OUTSTANDING_MOST).contains(&outstanding), PlanError::Outstanding(outstanding)),
    ])?;
    tls.map_or(Ok(()), |tls| check_tls(tls, targets))
}

fn check_tls(tls: &TlsPlan, targets: usize) -> Result<(), PlanError> {
    let names = tls.names.len();
    let no_name = tls.names.iter().find(|name| server_name(name).is_err());
    first_of([
        (names != targets, PlanError::TlsNames { names, targets }),
        (no_name.is_some(), PlanError::TlsName(no_name.cloned().unwrap_or_default())),
    ])?;
    tls.http.as_ref().map_or(Ok(()), |http| check_http(http, targets))
}

/// Checks the URLs of a plan.
fn check_http(http: &HttpPlan, targets: usize) -> Result<(), PlanError> {
    let HttpPlan { method, authorities, paths } = http;
    for urls in [authorities.len(), paths.len()] {
        if urls != targets {
            return Err(PlanError::HttpTargets { urls, targets });
        }
    }
    let mut urls = authorities.iter().zip(paths);
    urls.try_for_each(|(authority, path)| Requests::new(*method, authority, path).map(drop))
        .map_err(PlanError::HttpTarget)
}

/// The first error of those that apply.
fn first_of<const N: usize>(errors: [(bool, PlanError); N]) -> Result<(), PlanError> {
    errors.into_iter().find_map(|(is_wrong, error)| is_wrong.then_some(error)).map_or(Ok(()), Err)
}

/// The most sending threads.
pub const THREADS_MOST: usize = 1024;

/// The most clients of a replay, those of all slices.
pub const CLIENTS_MOST: u32 = 1 << 26;

/// The most sockets that one trial can use.
pub const SOCKETS_MOST: usize = 16_384;

/// The most connections that one trial can have open at once.
pub const CONNECTIONS_MOST: usize = settings::CONNECTIONS_MOST as usize;

/// The largest burst.
pub const BURST_MOST: usize = settings::BURST_MOST as usize;

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use kqps_dataset::Carried;

    use super::*;
    use crate::plan::TsigKey;
    use crate::plan::tests::{http_plan, plan, quic_plan, tcp, tcp_plan, tls_plan, udp};

    /// The check of a usual plan after this change.
    fn checked(change: impl FnOnce(&mut Plan)) -> Result<(), PlanError> {
        let mut plan = plan(SocketAddr::from(([127, 0, 0, 1], 53)));
        change(&mut plan);
        plan.check()
    }

    #[test]
    fn a_plan_that_cannot_be_played_says_why() {
        let error = |change: fn(&mut Plan)| checked(change);
        assert_eq!(error(|_| ()), Ok(()));
        assert_eq!(error(|plan| plan.targets.clear()), Err(PlanError::Targets));
        assert_eq!(error(|plan| plan.targets.push("[::1]:53".parse().unwrap())), Err(PlanError::Targets));
        assert_eq!(error(|plan| plan.threads = 0), Err(PlanError::Threads(0)));
        assert_eq!(error(|plan| plan.wire = udp(Io::Plain, 1 << 20)), Err(PlanError::Sockets(1 << 20)));
        assert_eq!(
            error(|plan| plan.targets.push("127.0.0.2:53".parse().unwrap())),
            Err(PlanError::SocketsOfTargets { sockets: 1, targets: 2 })
        );
        assert_eq!(error(|plan| plan.burst = 65), Err(PlanError::Burst(65)));
        assert_eq!(error(|plan| plan.timeout = Duration::ZERO), Err(PlanError::Timeout));
        assert!(matches!(error(|plan| plan.drain /= 2), Err(PlanError::Drain { .. })));
        assert!(matches!(
            error(|plan| plan.coalesce = plan.lag_allowed * 2),
            Err(PlanError::Coalesce { .. })
        ));
        assert_eq!(error(|plan| plan.wire = tcp(0)), Err(PlanError::Connections(0)));
        assert_eq!(error(|plan| plan.wire = tcp(1)), Ok(()));
        let hasty = TcpPlan { connect_timeout: Duration::ZERO, ..tcp_plan(1) };
        assert_eq!(checked(|plan| plan.wire = Wire::Tcp(hasty)), Err(PlanError::ConnectTimeout));
        let tls = |name: &str| Wire::Tcp(TcpPlan { tls: Some(tls_plan(name)), ..tcp_plan(2) });
        let of_two = |plan: &mut Plan| plan.targets.push("127.0.0.2:53".parse().unwrap());
        assert_eq!(checked(|plan| plan.wire = tls("dns.test")), Ok(()));
        assert_eq!(checked(|plan| plan.wire = tls("a b")), Err(PlanError::TlsName("a b".into())));
        assert_eq!(
            checked(|plan| {
                plan.wire = tls("dns.test");
                of_two(plan);
            }),
            Err(PlanError::TlsNames { names: 1, targets: 2 })
        );
        let https = |authority: &str, path: &str| {
            let http = Some(http_plan(authority, path));
            Wire::Tcp(TcpPlan { tls: Some(TlsPlan { http, ..tls_plan("dns.test") }), ..tcp_plan(2) })
        };
        assert_eq!(checked(|plan| plan.wire = https("dns.test:8443", "/dns-query")), Ok(()));
        for (authority, path) in [("dns.test", "dns-query"), ("dns.test", "/a b"), ("", "/dns-query")] {
            let refused = checked(|plan| plan.wire = https(authority, path));
            assert!(matches!(refused, Err(PlanError::HttpTarget(_))), "{authority} {path}: {refused:?}");
        }
        let quic = |connections| Wire::Quic(quic_plan(connections, "a b"));
        assert_eq!(checked(|plan| plan.wire = quic(0)), Err(PlanError::Connections(0)));
        assert_eq!(checked(|plan| plan.wire = quic(1)), Err(PlanError::TlsName("a b".into())));
        assert_eq!(error(|plan| plan.threads = 2), Err(PlanError::Window { window: 1, threads: 2 }));
        let key = TsigKey { algorithm: "hmac-foo".into(), name: "k".into(), secret: Vec::new() };
        let signed = |plan: &mut Plan| plan.per_query.tsig = Some(key);
        assert_eq!(checked(signed), Err(PlanError::Tsig("k".into())));
        let limited = |plan: &mut Plan, rate_qps| plan.load = LoadPlan::Limited { outstanding: 1, rate_qps };
        assert_eq!(checked(|plan| limited(plan, 0.5)), Ok(()));
        assert_eq!(checked(|plan| limited(plan, 0.0)), Err(PlanError::Limit("0".into())));
        let by_device = |io| TcpPlan { io, device: Some("eth0".into()), ..tcp_plan(1) };
        assert_eq!(checked(|plan| plan.wire = Wire::Tcp(by_device(Io::Xdp))), Ok(()));
        let refused = checked(|plan| plan.wire = Wire::Tcp(by_device(Io::Epoll)));
        assert_eq!(refused, Err(PlanError::Device("eth0".into())));
    }

    /// The check of a usual plan over UDP that replays a capture, after this change.
    fn replayed(change: impl FnOnce(&mut Plan, &mut ReplayPlan)) -> Result<(), PlanError> {
        checked(|plan| {
            let mut replay = ReplayPlan::default();
            plan.wire = udp(Io::Auto, 1);
            change(plan, &mut replay);
            plan.replay = Some(replay);
        })
    }

    #[test]
    fn a_replay_that_cannot_be_played_says_why() {
        let error = |change: fn(&mut ReplayPlan)| replayed(|_, replay| change(replay));
        assert_eq!(error(|_| ()), Ok(()));
        for speed in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let refused = replayed(|_, replay| replay.speed = speed);
            assert_eq!(refused, Err(PlanError::Speed(speed.to_string())));
        }
        assert_eq!(error(|replay| replay.repeat = 0), Err(PlanError::Repeat(0)));
        assert_eq!(error(|replay| replay.pile = 0), Err(PlanError::Pile(0)));
        assert_eq!(error(|replay| replay.pile = 1025), Err(PlanError::Pile(1025)));
        let second = Duration::from_secs(1);
        assert_eq!(
            replayed(|_, replay| (replay.from, replay.to) = (second, Some(second))),
            Err(PlanError::EmptyWindow { from: second, to: second })
        );
        assert_eq!(replayed(|plan, _| plan.wire = udp(Io::Gso, 1)), Err(PlanError::ReplayIo("gso")));
        for io in [Io::Mmsg, Io::Xdp] {
            assert_eq!(replayed(|plan, _| plan.wire = udp(io, 1)), Ok(()));
        }
        let past = || Wire::Tcp(TcpPlan { io: Io::Xdp, ..tcp_plan(1) });
        let refused = Err(PlanError::LanesPast);
        assert_eq!(replayed(|plan, _| plan.wire = past()), Ok(()));
        let lane = || vec![Lane::as_captured(Carried::Tcp, past(), 1)];
        assert_eq!(replayed(|plan, _| plan.wire = Wire::Captured(lane())), refused);
        let labels = |plan: &mut Plan| plan.per_query.prefix = "label".parse().ok();
        assert_eq!(replayed(|plan, _| labels(plan)), Err(PlanError::PerQuery));
        assert_eq!(checked(labels), Ok(()));
        let load = LoadPlan::Open { rate_qps: 1.0, arrivals: Arrivals::Captured, window: None };
        assert_eq!(replayed(|plan, _| plan.load = load), Ok(()));
        assert_eq!(checked(|plan| plan.load = load), Err(PlanError::NoReplay));
    }

    #[test]
    fn lanes_share_the_threads_and_have_a_transport_each() {
        let lane = Lane::as_captured;
        let lanes = |lanes: Vec<Lane>| {
            replayed(|plan, _| {
                plan.load = LoadPlan::Closed { outstanding: 4 };
                plan.threads = 2;
                plan.wire = Wire::Captured(lanes);
            })
        };
        let udp = || udp(Io::Auto, 1);
        assert_eq!(lanes(vec![lane(Carried::Udp, udp(), 1), lane(Carried::Tcp, tcp(1), 1)]), Ok(()));
        assert_eq!(
            lanes(vec![lane(Carried::Udp, udp(), 1)]),
            Err(PlanError::LaneThreads { of_lanes: 1, threads: 2 })
        );
        let twice = vec![lane(Carried::Udp, udp(), 1), lane(Carried::Udp, udp(), 1)];
        assert_eq!(lanes(twice), Err(PlanError::Lane("udp")));
        assert_eq!(
            lanes(vec![lane(Carried::Udp, udp(), 2), lane(Carried::Tcp, tcp(1), 0)]),
            Err(PlanError::Lane("tcp"))
        );
        let limited = Wire::Tcp(TcpPlan { queries_per_connection: Some(1), ..tcp_plan(1) });
        let limited = || limited.clone();
        assert_eq!(lanes(vec![lane(Carried::Tcp, limited(), 2)]), Err(PlanError::LaneConnections("tcp")));
        let shared = |share, wire| Lane { share: Some(share), ..lane(Carried::Tcp, wire, 1) };
        let beside = |share| Lane { share, ..lane(Carried::Udp, udp(), 1) };
        assert_eq!(lanes(vec![shared(0.25, limited()), beside(Some(0.75))]), Ok(()));
        for share in [None, Some(0.0), Some(0.7), Some(f64::NAN)] {
            let refused = lanes(vec![shared(0.25, limited()), beside(share)]);
            assert!(matches!(refused, Err(PlanError::LaneShares(_))), "{share:?}: {refused:?}");
        }
        let other = |targets: Vec<SocketAddr>| vec![Lane { targets, ..lane(Carried::Udp, udp(), 2) }];
        assert_eq!(lanes(other(vec!["127.0.0.1:53".parse().unwrap()])), Ok(()));
        assert_eq!(lanes(other(vec!["127.0.0.1:54".parse().unwrap()])), Err(PlanError::Targets));
        assert_eq!(lanes(vec![lane(Carried::Tcp, tcp(0), 2)]), Err(PlanError::Connections(0)));
    }
}
