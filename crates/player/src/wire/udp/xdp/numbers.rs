//! The addresses and ports of flows past the kernel, by arithmetic.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use kqps_kernel::ephemeral;

use crate::error::PlayError;
use crate::plan::{Plan, UdpPlan};
use crate::wire::xdp::{quiet, random_port};

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
    /// earlier trial find no query. In a replay these are the numbers of ports, at which a client may have any address.
    pub(in crate::wire) fn new(plan: &Plan, udp: &UdpPlan) -> Result<Self, PlayError> {
        let is_replay = plan.replay.is_some();
        let flows = if is_replay { udp.sockets } else { plan.flows() };
        let (mut addresses, mut first_address) = (1, 0);
        if let Some(local) = plan.local.filter(|_| udp.local_port.is_none() && !is_replay) {
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

    pub(super) fn port_of(&self, number: usize) -> u16 {
        self.first_port + (number / self.addresses) as u16
    }

    /// The number of the flow that has this address and port, if it is one.
    #[inline]
    pub(super) fn flow_at(&self, address: IpAddr, port: u16) -> Option<usize> {
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
                assert_eq!(numbers.flow_at(address, port), Some(number), "{local:?} {address} {port}");
            }
            assert_eq!(numbers.flow_at(unnamed, range.end() + 1), None);
            assert_eq!(numbers.flow_at(unnamed, range.start() - 1), None);
        }
        let (_, numbers) = numbers(12, Some("10.0.0.0/29"), None);
        for foreign in ["10.0.0.0", "10.0.0.7", "9.0.0.1"] {
            assert_eq!(numbers.flow_at(foreign.parse().unwrap(), numbers.port_of(0)), None, "{foreign}");
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
