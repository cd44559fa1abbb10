//! The largest window that a plan can have.

use super::{CONNECTIONS_MOST, OUTSTANDING_MOST, Plan, PlanError, SOCKETS_MOST};

/// The largest window of as many sockets or connections: each has 65,536 queries outstanding at most.
pub fn window_most(flows: usize) -> u64 {
    flows as u64 * u64::from(OUTSTANDING_MOST)
}

impl Plan {
    /// Refuses a window that no number of queries on a connection makes possible. A smaller one may be too large, too,
    /// since a connection can take fewer queries. The record then has a note.
    pub(super) fn check_window(&self) -> Result<(), PlanError> {
        let Some(window) = self.load.window() else { return Ok(()) };
        let is_replay = self.replay.is_some();
        // The clients of a capture have as many flows as they need.
        let flows = if !is_replay {
            self.flows()
        } else if self.wire.connection_use().is_some() {
            CONNECTIONS_MOST
        } else {
            SOCKETS_MOST
        };
        let most = window_most(flows);
        if window > most {
            return Err(PlanError::WindowBeyondFlows { window, flows, most, is_replay });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use crate::plan::tests::{plan, tcp, udp};
    use crate::plan::{Io, LoadPlan, Plan, PlanError, ReplayPlan, Wire};

    fn checked(outstanding: u64, wire: Wire, replay: Option<ReplayPlan>) -> Result<(), PlanError> {
        let usual = plan(SocketAddr::from(([127, 0, 0, 1], 53)));
        Plan { load: LoadPlan::Closed { outstanding }, wire, replay, ..usual }.check()
    }

    #[test]
    fn a_window_has_no_more_queries_than_sockets_or_connections_take() {
        let ids = 1 << 16;
        let beyond =
            |window, flows, most| Err(PlanError::WindowBeyondFlows { window, flows, most, is_replay: false });
        assert_eq!(checked(ids, udp(Io::Plain, 1), None), Ok(()));
        assert_eq!(checked(ids + 1, udp(Io::Plain, 1), None), beyond(ids + 1, 1, ids));
        assert_eq!(checked(2 * ids, tcp(2), None), Ok(()), "connections take 100 each, which a note says");
        assert_eq!(checked(4 * ids, tcp(2), None), beyond(4 * ids, 2, 2 * ids));
        let replay = Some(ReplayPlan::default());
        assert_eq!(
            checked(ids + 1, udp(Io::Auto, 1), replay.clone()),
            Ok(()),
            "its clients have more sockets"
        );
        let (window, flows, most) = (1 << 40, 16_384, 16_384 * ids);
        assert_eq!(
            checked(window, udp(Io::Auto, 1), replay),
            Err(PlanError::WindowBeyondFlows { window, flows, most, is_replay: true })
        );
    }
}
