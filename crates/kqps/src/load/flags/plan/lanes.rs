//! The lanes of a capture: each query goes by the transport that it came by, or each client by the transport that a mix
//! gives it.

use std::time::Duration;

use kqps_dataset::Carried;
use kqps_observation::trial::Transport;
use kqps_player::plan::CONNECTIONS_MOST;
use kqps_player::{Io, Lane, Wire};

use super::{PlayerArgs, usual_sockets, within};
use crate::exit::bad_input;
use crate::load::replay::{Captured, Mix};
use crate::load::target::Targets;
use crate::load::wire::check_io;

/// The transports that lanes are for, unless a mix names others.
pub(crate) const LANES: &[Carried] = &[Carried::Udp, Carried::Tcp];

/// The transports of a capture's queries, one at least, with the weights by which they share the threads.
pub(super) struct Lanes {
    weights: Vec<(Transport, f64)>,
    is_mix: bool,
}

impl Lanes {
    /// The transports that need no certificate. Queries by others have no lane, since their servers listen at another
    /// port. An error if a capture has queries by neither.
    pub(super) fn from_captured(captured: &Captured) -> anyhow::Result<Self> {
        let weight = |carried| captured.by_transport.get(&carried).copied().unwrap_or(0) as f64;
        let weights = [(Transport::Udp, weight(Carried::Udp)), (Transport::Tcp, weight(Carried::Tcp))];
        let weights: Vec<(Transport, f64)> =
            weights.into_iter().filter(|(_, weight)| *weight > 0.0).collect();
        if weights.is_empty() {
            let names: Vec<&str> = captured.by_transport.keys().map(|carried| carried.name()).collect();
            return Err(bad_input(format!(
                "all queries of the capture came by {}: name the transport with the target, as in tls://ADDR",
                names.join(", ")
            )));
        }
        Ok(Self { weights, is_mix: false })
    }

    /// Threads that the lanes need: one each.
    pub(super) fn threads_least(&self) -> u64 {
        self.weights.len() as u64
    }

    /// The transport by whose socket the subject is found.
    pub(super) fn watched(&self) -> Transport {
        self.weights[0].0
    }

    /// The threads of each lane, of which there are enough. Each further one goes to the lane with the greatest weight a
    /// thread.
    fn threads(&self, threads: u64) -> Vec<u64> {
        let mut counts = vec![1; self.weights.len()];
        for _ in counts.len() as u64..threads {
            let of_each = |at: &usize| self.weights[*at].1 / counts[*at] as f64;
            let heaviest =
                (0..counts.len()).rev().max_by(|one, other| of_each(one).total_cmp(&of_each(other)));
            counts[heaviest.unwrap_or_default()] += 1;
        }
        counts
    }

    fn names(&self) -> String {
        let names: Vec<&str> = self.weights.iter().map(|(transport, _)| transport.word()).collect();
        names.join(" and over ")
    }
}

impl PlayerArgs {
    /// The lanes of a mix, each of which has a target. An error if a target or a transport is left over.
    pub(super) fn mixed(&self, Mix(shares): &Mix, targets: &Targets) -> anyhow::Result<Lanes> {
        if let Some(mode) = self.mode {
            return Err(bad_input(format!(
                "-m {} and --mix both say by which transport queries go: leave one out",
                mode.word()
            )));
        }
        let transports: Vec<Transport> = shares.iter().map(|(transport, _)| *transport).collect();
        if let Some(without) = transports.iter().find(|one| targets.over(**one).addresses.is_empty()) {
            let transport = without.word();
            return Err(bad_input(format!(
                "--mix: no target is over {transport}; add one, such as {transport}://{}",
                targets.names[0]
            )));
        }
        if let Some(other) = targets.beside(&transports) {
            return Err(bad_input(format!(
                "--mix: target {other} has no share: give each target one of its transports, as in {}://{other}",
                transports[0].word()
            )));
        }
        Ok(Lanes { weights: shares.clone(), is_mix: true })
    }

    /// The wire of these lanes. A flag of connections or of the I/O model is for the lanes on which it has an effect.
    pub(super) fn lanes(
        &self,
        lanes: &Lanes,
        captured: &Captured,
        threads: u64,
        targets: &Targets,
        timeout: Duration,
    ) -> anyhow::Result<Wire> {
        if threads < lanes.threads_least() {
            let (names, least) = (lanes.names(), lanes.threads_least());
            return Err(bad_input(format!(
                "-T {threads}: queries go over {names}, and each of these takes a thread of its own; give -T {least} or \
                 more{}",
                if lanes.is_mix { "" } else { ", or a target such as udp://ADDR for all of them" }
            )));
        }
        let transports: Vec<Transport> = lanes.weights.iter().map(|(transport, _)| *transport).collect();
        self.wire.check(&transports)?;
        if !lanes.is_mix {
            self.wire.check_as_captured()?;
        }
        self.check_clients_decide()?;
        let takes_io = |transport: Transport| check_io(self.io, transport).is_ok();
        if !transports.iter().any(|transport| takes_io(*transport)) {
            check_io(self.io, transports[0])?;
        }
        let lane = |((transport, weight), threads): (&(Transport, f64), u64)| {
            let own = if lanes.is_mix { targets.over(*transport) } else { targets.clone() };
            // A model for several of them is for connections.
            let is_for = takes_io(*transport)
                && (*transport != Transport::Udp
                    || !transports.iter().any(|other| *other != Transport::Udp && takes_io(*other)));
            let io = if is_for { self.io } else { Io::Auto };
            let flows = match transport {
                Transport::Udp => self.flows(usual_sockets(threads, &own), &own),
                Transport::Tcp if !lanes.is_mix => {
                    within(captured.places, threads, CONNECTIONS_MOST, &own) as usize
                }
                _ => {
                    let any_place = *transport != Transport::Quic && self.wire.have_one_query();
                    Self::connections_of(captured.clients, threads, any_place, &own) as usize
                }
            };
            let wire = self.wired(*transport, io, flows, &own, timeout)?;
            let lane = Lane::as_captured(carried_by(*transport), wire, threads as usize);
            Ok(if lanes.is_mix {
                Lane { share: Some(*weight), targets: own.addresses, ..lane }
            } else {
                lane
            })
        };
        let counts = lanes.threads(threads);
        lanes.weights.iter().zip(counts).map(lane).collect::<anyhow::Result<_>>().map(Wire::Captured)
    }
}

/// The transport as captures name it.
fn carried_by(transport: Transport) -> Carried {
    match transport {
        Transport::Udp => Carried::Udp,
        Transport::Tcp => Carried::Tcp,
        Transport::Tls => Carried::Tls,
        Transport::Https => Carried::Https,
        Transport::Quic => Carried::Quic,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_transport_has_a_thread_at_least() {
        let threads = |weights: &[f64], threads| {
            let weights = Transport::ALL.into_iter().zip(weights.iter().copied()).collect();
            Lanes { weights, is_mix: false }.threads(threads)
        };
        assert_eq!(threads(&[100.0], 3), [3]);
        assert_eq!(threads(&[1e6, 1.0], 2), [1, 1]);
        assert_eq!(threads(&[1.0, 1e6], 4), [1, 3]);
        assert_eq!(threads(&[300.0, 100.0], 8), [6, 2]);
        assert_eq!(threads(&[0.6, 0.3, 0.1], 10), [6, 3, 1]);
    }
}
