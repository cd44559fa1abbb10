//! The largest window that a plan can have.

use super::{CONNECTIONS_MOST, OUTSTANDING_MOST, Plan, PlanError, SOCKETS_MOST, Wire};

impl Plan {
    /// Refuses a window with more queries than there are IDs. A smaller one may be too large, too, since a connection can
    /// take fewer queries than it has IDs. The record then has a note.
    pub(super) fn check_window(&self) -> Result<(), PlanError> {
        let Some(window) = self.load.window() else { return Ok(()) };
        // The clients of a capture have as many flows as they need.
        let flows = |most: usize| if self.replay.is_some() { most } else { self.flows() };
        let (flows, each) = match &self.wire {
            Wire::Udp(_) | Wire::Captured(_) => (flows(SOCKETS_MOST), OUTSTANDING_MOST),
            Wire::Tcp(tcp) => (flows(CONNECTIONS_MOST), tcp.outstanding),
            Wire::Quic(quic) => (flows(CONNECTIONS_MOST), quic.outstanding),
        };
        let most = |each: u32| flows as u64 * u64::from(each);
        if window > most(OUTSTANDING_MOST) {
            return Err(PlanError::WindowBeyondIds { window, flows, most: most(each) });
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
    fn a_window_has_no_more_queries_than_there_are_ids() {
        let ids = 1 << 16;
        let beyond = |window, flows, most| Err(PlanError::WindowBeyondIds { window, flows, most });
        assert_eq!(checked(ids, udp(Io::Plain, 1), None), Ok(()));
        assert_eq!(checked(ids + 1, udp(Io::Plain, 1), None), beyond(ids + 1, 1, ids));
        assert_eq!(checked(2 * ids, tcp(2), None), Ok(()), "connections take 100 each, which a note says");
        assert_eq!(checked(4 * ids, tcp(2), None), beyond(4 * ids, 2, 200));
        let replay = Some(ReplayPlan::default());
        assert_eq!(
            checked(ids + 1, udp(Io::Auto, 1), replay.clone()),
            Ok(()),
            "its clients have more sockets"
        );
        assert_eq!(checked(1 << 40, udp(Io::Auto, 1), replay), beyond(1 << 40, 16_384, 16_384 * ids));
    }
}
