//! How this machine is set up for packets: the queues of its network devices and the cores that serve them, memory and
//! cores, and the kernel's settings. Files of `/proc` and `/sys` have one part, the devices' drivers the other.
//!
//! Files and drivers show the devices of one network namespace, as long as `/sys` was mounted in that of this process.

mod device;
mod driver;
mod facts;
mod interrupts;
mod machine;
mod routes;
#[cfg(test)]
mod shapes;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use driver::{Answers, Driver, Ioctls};
pub use facts::{
    Channels, Coalesce, Conntrack, DeviceSetup, Direction, HostSetup, IdleState, NodeFacts, QueueInterrupt,
    Rings, Rss,
};

use crate::files::Root;
use crate::unreadable::noted;
use crate::{interrupts as all_interrupts, sysctls};

impl HostSetup {
    /// Reads this machine. Needs no privilege.
    pub fn read() -> Self {
        Self::read_at(&Root::real(), &Ioctls)
    }

    /// Reads the machine whose files are below `root`, and whose drivers answer by `ask`.
    pub fn read_at(root: &Root, ask: &dyn Driver) -> Self {
        let mut unreadable = BTreeMap::new();
        let interrupts = noted("interrupts", all_interrupts::read(root), &mut unreadable);
        let routed = routes::default_devices(root);
        let names = root.names("sys/class/net").into_iter();
        // Other files are there too: `bonding_masters` is no device.
        let names = names.filter(|name| !root.names(&format!("sys/class/net/{name}")).is_empty());
        let devices = names.map(|name| {
            let answers = ask.answers(&name);
            for (what, why) in &answers.unreadable {
                unreadable.insert(format!("{name}/{what}"), why.clone());
            }
            let mut device = device::read(root, &name, answers);
            device.carries_default_route = routed.contains(&name);
            device.interrupts = interrupts::of_device(root, &name, &interrupts);
            device
        });
        let devices = devices.collect();
        Self {
            devices,
            nodes: machine::nodes(root),
            smt: machine::smt(root),
            governor: machine::governors(root),
            idle_states: machine::idle_states(root),
            sysctls: sysctls::read(root),
            conntrack: machine::conntrack(root),
            irqbalance: machine::process_named(root, "irqbalance"),
            unreadable,
        }
    }

    /// The device of this name.
    pub fn device(&self, name: &str) -> Option<&DeviceSetup> {
        self.devices.iter().find(|device| device.name == name)
    }
}
