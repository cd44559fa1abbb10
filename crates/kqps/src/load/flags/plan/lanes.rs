//! The transports of a capture at one target: each query goes by the transport that it came by.

use std::time::Duration;

use kqps_dataset::Carried;
use kqps_observation::trial::Transport;
use kqps_player::plan::CONNECTIONS_MOST;
use kqps_player::{Io, Lane, Wire};

use super::{PlayerArgs, usual_sockets, within};
use crate::exit::bad_input;
use crate::load::replay::Captured;
use crate::load::target::Targets;
use crate::load::wire::check_io;

/// The transports that lanes are for.
pub(crate) const LANES: &[Carried] = &[Carried::Udp, Carried::Tcp];

/// How the queries of a capture are divided among the transports that need no certificate. Queries by others have no
/// lane, since their servers listen at another port.
pub(super) struct Share {
    udp: u64,
    tcp: u64,
}

impl Share {
    /// The share of each transport. An error if a capture has queries by neither.
    pub(super) fn from_captured(captured: &Captured) -> anyhow::Result<Self> {
        let by = |carried| captured.by_transport.get(&carried).copied().unwrap_or(0);
        let share = Self { udp: by(Carried::Udp), tcp: by(Carried::Tcp) };
        if share.udp + share.tcp == 0 {
            let names: Vec<&str> = captured.by_transport.keys().map(|carried| carried.name()).collect();
            return Err(bad_input(format!(
                "all queries of the capture came by {}: name the transport with the target, as in tls://ADDR",
                names.join(", ")
            )));
        }
        Ok(share)
    }

    /// Threads that the lanes need: one each.
    pub(super) fn threads_least(&self) -> u64 {
        u64::from(self.udp > 0) + u64::from(self.tcp > 0)
    }

    /// The transport by whose socket the subject is found.
    pub(super) fn watched(&self) -> Transport {
        if self.udp > 0 { Transport::Udp } else { Transport::Tcp }
    }

    /// The threads of each lane, by the number of its queries.
    fn threads(&self, threads: u64) -> (u64, u64) {
        match (self.udp, self.tcp) {
            (_, 0) => (threads, 0),
            (0, _) => (0, threads),
            (udp, tcp) => {
                let of_tcp = u128::from(threads) * u128::from(tcp) / u128::from(udp + tcp);
                let of_tcp = (of_tcp as u64).clamp(1, threads - 1);
                (threads - of_tcp, of_tcp)
            }
        }
    }
}

impl PlayerArgs {
    /// A lane for each transport of a capture. The flags of connections are for that by TCP.
    pub(super) fn lanes(
        &self,
        share: &Share,
        captured: &Captured,
        threads: u64,
        targets: &Targets,
        timeout: Duration,
    ) -> anyhow::Result<Wire> {
        if threads < share.threads_least() && share.threads_least() > 1 {
            return Err(bad_input(format!(
                "-T {threads}: the capture has queries over udp and over tcp, and each takes a thread of its own; give \
                 -T 2 or more, or a target such as udp://ADDR for all of them"
            )));
        }
        let (of_udp, of_tcp) = share.threads(threads);
        self.wire.check(if of_tcp > 0 { Transport::Tcp } else { Transport::Udp })?;
        self.wire.check_as_captured()?;
        self.check_clients_decide()?;
        // An I/O model that fits neither lane is refused with the plan.
        let is_for_tcp = of_tcp > 0 && check_io(self.io, Transport::Tcp).is_ok();
        let (udp_io, tcp_io) = if is_for_tcp { (Io::Auto, self.io) } else { (self.io, Io::Auto) };
        let mut lanes = Vec::new();
        if of_udp > 0 {
            let sockets = self.flows(usual_sockets(of_udp, targets), targets);
            let wire = self.wired(Transport::Udp, udp_io, sockets, targets, timeout)?;
            lanes.push(Lane { carried: Carried::Udp, wire, threads: of_udp as usize });
        }
        if of_tcp > 0 {
            let connections = within(captured.places, of_tcp, CONNECTIONS_MOST, targets);
            let wire = self.wired(Transport::Tcp, tcp_io, connections as usize, targets, timeout)?;
            lanes.push(Lane { carried: Carried::Tcp, wire, threads: of_tcp as usize });
        }
        Ok(Wire::Captured(lanes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_transport_has_a_thread_at_least() {
        let threads = |udp, tcp, threads| Share { udp, tcp }.threads(threads);
        assert_eq!(threads(100, 0, 3), (3, 0));
        assert_eq!(threads(0, 100, 3), (0, 3));
        assert_eq!(threads(1_000_000, 1, 2), (1, 1));
        assert_eq!(threads(1, 1_000_000, 4), (1, 3));
        assert_eq!(threads(300, 100, 8), (6, 2));
    }
}
