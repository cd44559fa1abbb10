//! The flows of a thread past the kernel: which address and port each has, the headers of its queries, and which flow a
//! reply belongs to.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use kqps_kernel::ephemeral;
use kqps_stack::checksum::Sum;
use kqps_stack::udp::{Flow, destination};
use kqps_stack::{Ends, parse};

use crate::error::PlayError;
use crate::plan::{Plan, UdpPlan};
use crate::share::Owners;
use crate::state::ThreadState;
use crate::wire::xdp::{PastPart, Post, quiet, random_port};

/// From the number of a flow, among all, to its address and port, and back by arithmetic.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbers {
    first_port: u16,
    /// The first address, and how many flows in a row have the same port. With 1, each flow has a port of its own.
    first_address: u128,
    addresses: usize,
    flows: usize,
}

impl Numbers {
    /// The numbers of a plan's flows. Without a port in the plan they begin at a random one, so that replies to an
    /// earlier trial find no query.
    pub(in crate::wire) fn new(plan: &Plan, udp: &UdpPlan) -> Result<Self, PlayError> {
        let flows = plan.flows();
        let (mut addresses, mut first_address) = (1, 0);
        if let Some(local) = plan.local.filter(|_| udp.local_port.is_none()) {
            addresses = local.count().min(flows as u128) as usize;
            first_address = bits(local.of_socket(0));
        }
        let ports = flows.div_ceil(addresses);
        let first_port = match udp.local_port {
            Some(port) => port,
            None => random_port(quiet(&ephemeral::ports(), ports), ports),
        };
        let numbers = Self { first_port, first_address, addresses, flows };
        if usize::from(first_port) + ports > 1 << 16 {
            let what =
                format!("{flows} sockets need {ports} ports in a row, and there are fewer; use fewer (-c)");
            return Err(PlayError::Past(what));
        }
        Ok(numbers)
    }

    /// The ports of all flows.
    pub(in crate::wire) fn ports(&self) -> RangeInclusive<u16> {
        self.first_port..=self.port_of(self.flows - 1)
    }

    fn port_of(&self, number: usize) -> u16 {
        self.first_port + (number / self.addresses) as u16
    }

    /// The number of the flow that has this address and port, if it is one.
    #[inline]
    fn of(&self, address: IpAddr, port: u16) -> Option<usize> {
        let port = usize::from(port.checked_sub(self.first_port)?);
        let number = if self.addresses == 1 {
            port
        } else {
            let step = usize::try_from(bits(address).checked_sub(self.first_address)?).ok()?;
            (step < self.addresses).then_some(port * self.addresses + step)?
        };
        (number < self.flows).then_some(number)
    }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// The flows of one thread.
pub(super) struct Flows {
    numbers: Numbers,
    /// The number of the first, among those of all threads.
    first: usize,
    owners: Owners,
    flows: Box<[OneFlow]>,
    verifies: bool,
    /// Replies that were thrown away for a wrong checksum.
    pub(super) bad_checksums: u64,
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
            // The MTU does not count Ethernet's header.
            let link_bytes = if way.path.vlan.is_some() { 18 } else { 14 };
            let longest = (way.mtu + link_bytes).saturating_sub(headers.header_bytes());
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

    /// Whether a query of so many bytes fits a frame of a flow.
    #[inline]
    pub(super) fn has_room(&self, flow: usize, query_bytes: usize) -> bool {
        query_bytes <= self.flows[flow].longest
    }

    /// Writes the frame of a query with this ID. Returns its length.
    #[inline]
    pub(super) fn write(&self, flow: usize, frame: &mut [u8], query: &[u8], id: u16) -> usize {
        let headers = &self.flows[flow].headers;
        let at = headers.header_bytes();
        let payload = &mut frame[at..at + query.len()];
        payload.copy_from_slice(query);
        payload[..2].copy_from_slice(&id.to_be_bytes());
        // The ID of a query in a dataset is 0.
        headers.write(frame, query.len(), Sum::of(query).and_word(id))
    }

    /// Books a frame that arrived at this time of the monotonic clock, or hands it to the thread that has its flow.
    #[inline]
    pub(super) fn arrived(
        &mut self,
        state: &mut ThreadState<'_>,
        post: Option<&mut Post>,
        frame: &[u8],
        arrived_ns: u64,
    ) {
        let number = destination(frame).and_then(|(address, port)| self.numbers.of(address, port));
        let flow = number.and_then(|number| number.checked_sub(self.first));
        let Some(flow) = flow.filter(|flow| *flow < self.flows.len()) else {
            match (number, post) {
                (Some(number), Some(post)) => post.add(self.owners.of(number as u64), frame, arrived_ns),
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::{plan, udp};
    use crate::plan::{Io, Wire};

    fn numbers(sockets: usize, local: Option<&str>, local_port: Option<u16>) -> (Plan, Numbers) {
        let mut plan = plan("198.18.0.2:53".parse().unwrap());
        plan.wire = udp(Io::Xdp, sockets);
        plan.local = local.map(|local| local.parse().unwrap());
        let Wire::Udp(mut wire) = plan.wire.clone() else { unreachable!("it is UDP") };
        wire.local_port = local_port;
        let numbers = Numbers::new(&plan, &wire).unwrap();
        (plan, numbers)
    }

    #[test]
    fn every_flow_is_found_by_its_address_and_port() {
        let unnamed: IpAddr = "198.18.0.1".parse().unwrap();
        for (sockets, local, local_port, ports) in [
            (32, None, None, 32),
            (32, Some("10.0.0.0/29"), None, 6),
            (5, Some("10.0.0.0/16"), None, 1),
            (7, Some("10.0.0.0/29"), Some(5000), 7),
            (16_384, None, None, 16_384),
        ] {
            let (plan, numbers) = numbers(sockets, local, local_port);
            let range = numbers.ports();
            assert_eq!(range.clone().count(), ports, "{local:?}");
            for number in 0..sockets {
                let address = plan.local.map_or(unnamed, |local| local.of_socket(number));
                let port = numbers.port_of(number);
                assert!(range.contains(&port));
                assert_eq!(numbers.of(address, port), Some(number), "{local:?} {address} {port}");
            }
            assert_eq!(numbers.of(unnamed, range.end() + 1), None);
            assert_eq!(numbers.of(unnamed, range.start() - 1), None);
        }
        let (_, numbers) = numbers(12, Some("10.0.0.0/29"), None);
        for foreign in ["10.0.0.0", "10.0.0.7", "9.0.0.1"] {
            assert_eq!(numbers.of(foreign.parse().unwrap(), numbers.port_of(0)), None, "{foreign}");
        }
    }

    #[test]
    fn ports_that_do_not_exist_are_an_error() {
        let plan = plan("198.18.0.2:53".parse().unwrap());
        let wire =
            UdpPlan { io: Io::Xdp, sockets: 10, buffer_bytes: None, local_port: Some(65_530), device: None };
        let plan = Plan { wire: Wire::Udp(wire.clone()), ..plan };
        assert!(matches!(Numbers::new(&plan, &wire), Err(PlayError::Past(_))));
    }
}
