//! The clients of a replay past the kernel. A client has one address and one port for the whole trial. The ports of the
//! threads follow each other, and the port and the address of a reply say which table of IDs has its query.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use kqps_message::header;
use kqps_stack::udp::{Flow, destination, header_bytes};
use kqps_stack::{Ends, Parsed, Protocol, parse};

use super::flows::write_query;
use super::numbers::Numbers;
use super::{Endpoints, longest_query};
use crate::books::Origin;
use crate::plan::Plan;
use crate::replay::Replayed;
use crate::replay::crowd::Crowd;
use crate::share::{Owners, capacity};
use crate::sources::Sources;
use crate::state::ThreadState;
use crate::wire::udp::askers::Askers;
use crate::wire::xdp::{PastPart, Post, Way};

/// The clients of one thread.
pub(super) struct Clients<'a> {
    crowd: &'a Crowd,
    /// The addresses that clients are mapped to; `None` for that of the route.
    sources: Option<Sources>,
    targets: Box<[SocketAddr]>,
    /// The ways to the targets.
    ways: Arc<[Way]>,
    /// The longest query to each target, bytes.
    longest: Box<[usize]>,
    /// The ports of all threads by number.
    numbers: Numbers,
    /// The number of the thread's first port, and how many it has.
    first: usize,
    ports: usize,
    /// The thread that has each port.
    owners: Owners,
    /// Flows of each port, a power of two. The number of a client's address selects one.
    together: usize,
    askers: Askers,
    verifies: bool,
    bad_checksums: u64,
}

impl<'a> Clients<'a> {
    /// The clients whose `count` flows begin with number `first` among all.
    pub(super) fn new(
        plan: &Plan,
        replay: &'a Replayed,
        past: &PastPart,
        numbers: Numbers,
        (first, count): (usize, usize),
    ) -> Self {
        let together = replay.flows.together();
        let ports_of = |thread: usize| replay.flows.of_thread(thread) / together;
        let settle = plan.timeout.saturating_add(plan.drain);
        let slots = capacity(plan.load, plan.timeout, settle, replay.flows.all());
        let longest = |(way, to): (&Way, &SocketAddr)| {
            let ends = Ends { path: way.path, from: SocketAddr::new(way.source, 0), to: *to };
            longest_query(way, header_bytes(&ends))
        };
        Self {
            crowd: &replay.crowd,
            sources: plan.local,
            targets: plan.targets.as_slice().into(),
            longest: past.ways.iter().zip(&plan.targets).map(longest).collect(),
            ways: Arc::clone(&past.ways),
            numbers,
            first: first / together,
            ports: count / together,
            owners: Owners::of_counts((0..past.threads).map(ports_of)),
            together,
            askers: Askers::new(count, slots),
            verifies: past.verifies,
            bad_checksums: 0,
        }
    }

    /// The number of a client's target. It asks the same one for the whole trial.
    #[inline]
    fn target(&self, client: u32) -> usize {
        client as usize % self.targets.len()
    }

    /// The address of a client.
    #[inline]
    fn address(&self, client: u32) -> IpAddr {
        match self.sources.zip(self.crowd.address(client)) {
            Some((sources, number)) => sources.of_number(number),
            None => self.ways[self.target(client)].source,
        }
    }

    /// The flow of a reply that came to the thread's port with this number, counted from its first one; `None` if it is
    /// not from the target of the client that asked, or came to another address than the client's.
    #[inline]
    fn flow_of(&self, port: usize, reply: &Parsed<'_>) -> Option<usize> {
        let to = reply.ends.to.ip();
        let number = match &self.sources {
            Some(sources) => sources.number_of(to)?,
            None => 0,
        };
        let flow = port * self.together + (number as usize & (self.together - 1));
        let client = self.askers.client_of(flow, header::id(reply.payload())?);
        let is_theirs = self.address(client) == to && reply.ends.from == self.targets[self.target(client)];
        is_theirs.then_some(flow)
    }
}

impl Endpoints for Clients<'_> {
    type End = Origin;

    #[inline]
    fn of_query(&self, origins: &[Origin], _: usize, number: usize) -> Origin {
        origins[number]
    }

    #[inline]
    fn flow(origin: &Origin) -> usize {
        origin.flow
    }

    #[inline]
    fn has_room(&self, origin: &Origin, query_bytes: usize) -> bool {
        query_bytes <= self.longest[self.target(origin.client)]
    }

    #[inline]
    fn write(&self, origin: &Origin, frame: &mut [u8], query: &[u8], id: u16) -> usize {
        let target = self.target(origin.client);
        let port = self.numbers.port_of(self.first + origin.flow / self.together);
        let from = SocketAddr::new(self.address(origin.client), port);
        let headers = Flow::new(&Ends { path: self.ways[target].path, from, to: self.targets[target] });
        write_query(&headers, frame, query, id)
    }

    #[inline]
    fn put(&mut self, origin: &Origin, id: u16, slots: usize) {
        self.askers.note(origin, id, slots);
    }

    #[inline]
    fn arrived(
        &mut self,
        state: &mut ThreadState<'_>,
        post: Option<&mut Post>,
        frame: &[u8],
        arrived_ns: u64,
    ) {
        let number = destination(frame).and_then(|(address, port)| self.numbers.flow_at(address, port));
        let port = number.and_then(|number| number.checked_sub(self.first));
        let Some(port) = port.filter(|port| *port < self.ports) else {
            match (number, post) {
                (Some(number), Some(post)) => post.add(self.owners.thread(number as u64), frame, arrived_ns),
                _ => state.books.answers_nothing(1),
            }
            return;
        };
        let reply =
            parse(frame).filter(|reply| reply.protocol() == Protocol::Udp && !reply.payload().is_empty());
        match reply.and_then(|reply| Some((self.flow_of(port, &reply)?, reply))) {
            Some((_, reply)) if self.verifies && !reply.verify() => self.bad_checksums += 1,
            Some((flow, reply)) => {
                state.books.arrived(flow, reply.payload(), state.clock.since_start_ns(arrived_ns));
            }
            None => state.books.answers_nothing(1),
        }
    }

    fn bad_checksums(&self) -> u64 {
        self.bad_checksums
    }
}
