//! The limits of a plan, and the errors of a plan that exceeds them.

use std::time::Duration;

use kqps_http::{BadTarget, Requests};
use kqps_tls::client::server_name;

use super::{HttpPlan, Io, Plan, TlsPlan, Wire};

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
    #[error("the device {0} is for the I/O model xdp alone")]
    Device(String),
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
        self.check_wire()
    }

    fn check_wire(&self) -> Result<(), PlanError> {
        let targets = self.targets.len();
        match &self.wire {
            Wire::Udp(udp) => {
                let sockets = udp.sockets;
                check_device(udp.io, udp.device.as_deref())?;
                first_of([
                    (!(1..=SOCKETS_MOST).contains(&sockets), PlanError::Sockets(sockets)),
                    (sockets < targets, PlanError::SocketsOfTargets { sockets, targets }),
                ])
            }
            Wire::Tcp(tcp) => {
                check_device(tcp.io, tcp.device.as_deref())?;
                check_connections(tcp.connections, targets)?;
                check_use(tcp.connect_timeout, tcp.outstanding)?;
                tcp.tls.as_ref().map_or(Ok(()), |tls| check_tls(tls, targets))
            }
            Wire::Quic(quic) => {
                check_connections(quic.connections, targets)?;
                check_use(quic.connect_timeout, quic.outstanding)?;
                check_tls(&quic.tls, targets)
            }
        }
    }
}

fn check_device(io: Io, device: Option<&str>) -> Result<(), PlanError> {
    match device {
        Some(device) if io != Io::Xdp => Err(PlanError::Device(device.to_owned())),
        _ => Ok(()),
    }
}

fn check_connections(connections: usize, targets: usize) -> Result<(), PlanError> {
    first_of([
        (!(1..=CONNECTIONS_MOST).contains(&connections), PlanError::Connections(connections)),
        (connections < targets, PlanError::ConnectionsOfTargets { connections, targets }),
    ])
}

/// Checks how connections are used.
fn check_use(connect_timeout: Duration, outstanding: u32) -> Result<(), PlanError> {
    first_of([
        (connect_timeout.is_zero(), PlanError::ConnectTimeout),
        (!(1..=OUTSTANDING_MOST).contains(&outstanding), PlanError::Outstanding(outstanding)),
    ])
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

/// The most sockets that one trial can use.
pub const SOCKETS_MOST: usize = 16_384;

/// The most connections that one trial can have open at once.
pub const CONNECTIONS_MOST: usize = 131_072;

/// The most unsettled queries of one connection: as many as there are IDs.
pub const OUTSTANDING_MOST: u32 = 1 << 16;

/// The largest burst: as many segments as the kernel takes in one send (`UDP_MAX_SEGMENTS` of older kernels).
pub const BURST_MOST: usize = 64;

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::plan::tests::{http_plan, plan, quic_plan, tcp, tcp_plan, tls_plan, udp};
    use crate::plan::TcpPlan;

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
        let by_device = |io| TcpPlan { io, device: Some("eth0".into()), ..tcp_plan(1) };
        assert_eq!(checked(|plan| plan.wire = Wire::Tcp(by_device(Io::Xdp))), Ok(()));
        let refused = checked(|plan| plan.wire = Wire::Tcp(by_device(Io::Epoll)));
        assert_eq!(refused, Err(PlanError::Device("eth0".into())));
    }
}
