//! The flows of a thread past the kernel: which address and port each has, the headers of its queries, and which flow a
//! reply belongs to.

use kqps_stack::checksum::Sum;
use kqps_stack::udp::{Flow, destination};
use kqps_stack::{Ends, parse};

use super::numbers::Numbers;
use super::{Endpoints, longest_query};
use crate::books::Origin;
use crate::plan::Plan;
use crate::share::Owners;
use crate::state::ThreadState;
use crate::wire::xdp::{PastPart, Post};

/// The flows of one thread.
pub(super) struct Flows {
    numbers: Numbers,
    /// The number of the first, among those of all threads.
    first: usize,
    owners: Owners,
    flows: Box<[OneFlow]>,
    verifies: bool,
    bad_checksums: u64,
}

struct OneFlow {
    headers: Flow,
    /// The longest query, bytes.
    longest: usize,
}

impl Flows {
    /// The `count` flows from `first` on.
    pub(super) fn new(plan: &Plan, past: &PastPart, numbers: Numbers, first: usize, count: usize) -> Self {
        let flow = |number: usize| {
            let target = number % plan.targets.len();
            let way = &past.ways[target];
            let address = plan.local.map_or(way.source, |local| local.of_socket(number));
            let from = (address, numbers.port_of(number)).into();
            let headers = Flow::new(&Ends { path: way.path, from, to: plan.targets[target] });
            let longest = longest_query(way, headers.header_bytes());
            OneFlow { headers, longest }
        };
        Self {
            numbers,
            first,
            owners: Owners::new(plan.flows() as u64, plan.threads),
            flows: (first..first + count).map(flow).collect(),
            verifies: past.verifies,
            bad_checksums: 0,
        }
    }
}

impl Endpoints for Flows {
    type End = usize;

    #[inline]
    fn of_query(&self, _: &[Origin], flow: usize, _: usize) -> usize {
        flow
    }

    #[inline]
    fn flow(flow: &usize) -> usize {
        *flow
    }

    #[inline]
    fn has_room(&self, flow: &usize, query_bytes: usize) -> bool {
        query_bytes <= self.flows[*flow].longest
    }

    #[inline]
    fn write(&self, flow: &usize, frame: &mut [u8], query: &[u8], id: u16) -> usize {
        let headers = &self.flows[*flow].headers;
        write_query(headers, frame, query, id)
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
        let flow = number.and_then(|number| number.checked_sub(self.first));
        let Some(flow) = flow.filter(|flow| *flow < self.flows.len()) else {
            match (number, post) {
                (Some(number), Some(post)) => post.add(self.owners.thread(number as u64), frame, arrived_ns),
                _ => state.books.answers_nothing(1),
            }
            return;
        };
        match self.flows[flow].headers.payload_of_reply(frame) {
            Some(_) if self.verifies && !parse(frame).is_some_and(|parsed| parsed.verify()) => {
                self.bad_checksums += 1;
            }
            Some(reply) if !reply.is_empty() => {
                state.books.arrived(flow, reply, state.clock.since_start_ns(arrived_ns));
            }
            // An empty datagram, or one that is not from the flow's target.
            _ => state.books.answers_nothing(1),
        }
    }

    fn bad_checksums(&self) -> u64 {
        self.bad_checksums
    }
}

/// Writes the frame of a query with this ID and these headers. Returns its length.
#[inline]
pub(super) fn write_query(headers: &Flow, frame: &mut [u8], query: &[u8], id: u16) -> usize {
    let at = headers.header_bytes();
    let payload = &mut frame[at..at + query.len()];
    payload.copy_from_slice(query);
    payload[..2].copy_from_slice(&id.to_be_bytes());
    // The ID of a query in a dataset is 0.
    headers.write(frame, query.len(), Sum::from_bytes(query).and_word(id))
}
