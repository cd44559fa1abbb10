//! The host and its device as the rules of placement need them.

use kqps_host::setup::{DeviceSetup, Direction, HostSetup, QueueInterrupt};
use kqps_host::topology::Topology;

use super::cores::{Cores, Physical};

/// Facts that the rules build on.
pub(super) struct Ground<'a> {
    pub(super) setup: &'a HostSetup,
    /// The device that carries the queries; `None` if the host has none, or none of the name that was asked for.
    pub(super) device: Option<&'a DeviceSetup>,
    pub(super) cores: Cores,
    /// The device's NUMA node; if it has none, or no core of it may be used, the node with the most cores.
    pub(super) node: u32,
}

impl<'a> Ground<'a> {
    /// With the named device, or else the one that most probably carries the queries.
    pub(super) fn new(setup: &'a HostSetup, topology: &Topology, name: Option<&str>) -> Self {
        let device = match name {
            Some(name) => setup.device(name),
            None => usual_device(setup),
        };
        let cores = Cores::from_topology(topology);
        let of_device = device.and_then(|device| device.numa_node);
        let of_device = of_device.filter(|&node| !cores.of_node(node).is_empty());
        let node = of_device.unwrap_or_else(|| cores.largest_node());
        Self { setup, device, cores, node }
    }

    /// The physical cores of the device's node.
    pub(super) fn here(&self) -> Vec<&Physical> {
        self.cores.of_node(self.node)
    }

    /// The physical cores of the other nodes.
    pub(super) fn beyond(&self) -> Vec<&Physical> {
        self.cores.beyond(self.node)
    }

    /// The device's receive queues, at least 1.
    pub(super) fn queues(&self) -> usize {
        self.device.map_or(1, |device| device.queues.receiving().max(1) as usize)
    }

    /// The most receive queues that the device can have; any number without a device.
    pub(super) fn queues_most(&self) -> usize {
        let most = self.device.map_or(usize::MAX, |device| device.queues.receiving_max() as usize);
        most.max(self.queues())
    }

    /// Whether the number of queues can be set.
    pub(super) fn can_set_queues(&self) -> bool {
        self.device.is_some_and(|device| device.queues.receiving_max() > 1)
    }

    /// Whether a queue both receives and sends.
    pub(super) fn is_combined(&self) -> bool {
        self.device.is_some_and(|device| device.queues.combined_max > 0)
    }

    /// Whether interrupts announce packets. A device without a bus, such as veth, has none. Without a device it is
    /// assumed.
    pub(super) fn has_interrupts(&self) -> bool {
        self.device.is_none_or(|device| device.bus.is_some() || !self.interrupts().is_empty())
    }

    /// The interrupts of the device's receive queues, by queue; empty if they are not known.
    pub(super) fn interrupts(&self) -> Vec<&'a QueueInterrupt> {
        let all = self.device.into_iter().flat_map(|device| &device.interrupts);
        let receives = |one: &&QueueInterrupt| matches!(one.direction, Direction::Receive | Direction::Both);
        let mut of_queues: Vec<&QueueInterrupt> =
            all.filter(|one| one.queue.is_some()).filter(receives).collect();
        of_queues.sort_by_key(|one| one.queue);
        of_queues
    }

    /// Whether the kernel chooses the cores of the interrupts and lets nobody change them.
    pub(super) fn are_interrupts_managed(&self) -> bool {
        self.interrupts().iter().any(|one| one.managed == Some(true))
    }

    /// The core that takes all interrupts of the device's queues, if they all go to one.
    pub(super) fn only_receiver(&self) -> Option<u32> {
        let interrupts = self.interrupts();
        let takers = interrupts.first()?.takers();
        let [only] = takers else { return None };
        interrupts.iter().all(|one| one.takers() == takers).then_some(*only)
    }
}

/// The fastest device on a bus that is up, of equals the one that carries the default route, then the first. Without
/// a device on a bus, the only one beside loopback.
fn usual_device(setup: &HostSetup) -> Option<&DeviceSetup> {
    let on_bus = setup.devices.iter().filter(|device| device.bus.is_some());
    let promise = |device: &&DeviceSetup| (device.is_up, device.speed_mbps, device.carries_default_route);
    // `max_by_key` returns the last of equals.
    let best = on_bus.rev().max_by_key(promise);
    best.or_else(|| {
        let mut others = setup.devices.iter().filter(|device| device.name != "lo");
        others.next().filter(|_| others.next().is_none())
    })
}
