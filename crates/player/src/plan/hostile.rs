//! The limits of a plan of attackers.

use kqps_catalogue::Hostile;
use kqps_catalogue::choice::Io;

use super::{Arrivals, LoadPlan, PerQueryPlan, Plan, TcpPlan, Wire};

/// Why a plan of attackers cannot be played.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // the messages say it
pub enum HostileError {
    #[error("{kind} needs {expected}, and the target is {transport}")]
    Transport { kind: &'static str, transport: &'static str, expected: String },
    #[error(
        "attackers come at a rate, with even or random arrivals: give one (-Q, --ramp, --steps, --wave or --course)"
    )]
    Rate,
    #[error("attackers have no window: leave -q out")]
    Window,
    #[error("attackers come until a time is over: say how long (-l), and leave -n out")]
    Time,
    #[error("attackers of the kind {0} send no query of a capture")]
    Capture(&'static str),
    #[error("attackers have sockets of the kernel: leave --io out")]
    Io,
    #[error("attackers choose no local port: leave -x out")]
    LocalPort,
    #[error("connections of attackers have no number of queries: leave --queries-per-connection out")]
    Uses,
    #[error("queries of attackers are sent as they are: they get neither random labels nor a signature")]
    PerQuery,
}

impl Plan {
    /// Checks that attackers can be played as the plan says.
    pub(super) fn check_hostile(&self) -> Result<(), HostileError> {
        let Some(kind) = self.hostile else { return Ok(()) };
        if self.replay.is_some() {
            return Err(HostileError::Capture(kind.word()));
        }
        check_transport(kind, &self.wire)?;
        match self.load {
            LoadPlan::Open { arrivals: Arrivals::Even | Arrivals::Poisson, window: None, .. } => {}
            LoadPlan::Open { arrivals: Arrivals::Even | Arrivals::Poisson, .. } => {
                return Err(HostileError::Window);
            }
            _ => return Err(HostileError::Rate),
        }
        if self.stop.after.is_none() || self.stop.passes.is_some() {
            return Err(HostileError::Time);
        }
        if self.per_query != PerQueryPlan::default() {
            return Err(HostileError::PerQuery);
        }
        check_wire(&self.wire)
    }
}

fn check_transport(kind: Hostile, wire: &Wire) -> Result<(), HostileError> {
    let transport = wire.transport();
    let is_captured = matches!(wire, Wire::Captured(_));
    if kind.over().contains(&transport) && !is_captured {
        return Ok(());
    }
    let words: Vec<&str> = kind.over().iter().map(|transport| transport.word()).collect();
    let expected = kqps_catalogue::choice::expected(&words);
    let expected = expected.trim_start_matches("expected ").to_owned();
    Err(HostileError::Transport { kind: kind.word(), transport: transport.word(), expected })
}

fn check_wire(wire: &Wire) -> Result<(), HostileError> {
    if let Wire::Tcp(TcpPlan { io, local_port, .. }) = wire {
        if !matches!(io, Io::Auto | Io::Epoll) {
            return Err(HostileError::Io);
        }
        if local_port.is_some() {
            return Err(HostileError::LocalPort);
        }
    }
    let uses = wire.connection_use().and_then(|of| of.queries_per_connection);
    if uses.is_some() { Err(HostileError::Uses) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::plan::tests::{plan, tcp, tcp_plan};
    use crate::plan::{PlanError, Stop};

    #[test]
    fn attackers_that_cannot_be_played_say_why() {
        let error = |change: fn(&mut Plan)| {
            let mut plan = plan("127.0.0.1:53".parse().unwrap());
            plan.hostile = Some(Hostile::Idle);
            plan.wire = tcp(2);
            plan.load = LoadPlan::Open { rate_qps: 10.0, arrivals: Arrivals::Even, window: None };
            plan.stop = Stop { after: Some(Duration::from_secs(1)), passes: None };
            change(&mut plan);
            match plan.check() {
                Ok(()) => None,
                Err(PlanError::Hostile(error)) => Some(error),
                Err(other) => panic!("{other}"),
            }
        };
        assert_eq!(error(|_| ()), None);
        let said = error(|plan| plan.hostile = Some(Hostile::Streams)).unwrap().to_string();
        assert_eq!(said, "streams needs https, and the target is tcp");
        let said = error(|plan| plan.hostile = Some(Hostile::Handshake)).unwrap().to_string();
        assert!(said.starts_with("handshake needs tls, https or quic"), "{said}");
        assert_eq!(error(|plan| plan.load = LoadPlan::Closed { outstanding: 1 }), Some(HostileError::Rate));
        assert_eq!(
            error(|plan| {
                plan.load = LoadPlan::Open { rate_qps: 1.0, arrivals: Arrivals::Even, window: Some(1) };
            }),
            Some(HostileError::Window)
        );
        assert_eq!(error(|plan| plan.stop.after = None), Some(HostileError::Time));
        assert_eq!(error(|plan| plan.stop.passes = Some(1)), Some(HostileError::Time));
        let io = |plan: &mut Plan| plan.wire = Wire::Tcp(TcpPlan { io: Io::Uring, ..tcp_plan(1) });
        assert_eq!(error(io), Some(HostileError::Io));
        let uses = |plan: &mut Plan| {
            plan.wire = Wire::Tcp(TcpPlan { queries_per_connection: Some(0), ..tcp_plan(1) });
        };
        assert_eq!(error(uses), Some(HostileError::Uses));
        let port = |plan: &mut Plan| plan.wire = Wire::Tcp(TcpPlan { local_port: Some(1), ..tcp_plan(1) });
        assert_eq!(error(port), Some(HostileError::LocalPort));
        let labels = |plan: &mut Plan| plan.per_query.prefix = "label".parse().ok();
        assert_eq!(error(labels), Some(HostileError::PerQuery));
    }
}
