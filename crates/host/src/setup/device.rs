//! A network device: what its files say, with what its driver answered.

use std::collections::BTreeMap;

use super::driver::Answers;
use super::facts::{Channels, DeviceSetup};
use crate::files::Root;

/// Reads a device, all but its interrupts and routes.
pub(super) fn read(root: &Root, name: &str, answers: Answers) -> DeviceSetup {
    let folder = format!("sys/class/net/{name}");
    let file = |name: &str| format!("{folder}/{name}");
    let number = |name: &str| root.number(&file(name)).ok();
    let hardware = root.link(&file("device"));
    let queues = Queues::read(root, &file("queues"));
    DeviceSetup {
        name: name.to_owned(),
        // Some drivers without hardware answer with a word of their own.
        bus: hardware.map(|link| answers.bus.unwrap_or(link)),
        permanent_mac: answers.permanent_mac,
        driver: answers.driver.or_else(|| root.link(&file("device/driver"))),
        // A virtio device is a child of the PCI device that has a place. -1 is no place.
        numa_node: number("device/numa_node").or_else(|| number("device/../numa_node")),
        speed_mbps: number("speed"),
        mtu: number("mtu").unwrap_or(0),
        is_up: root.text(&file("operstate")).is_ok_and(|state| ["up", "unknown"].contains(&state.as_str())),
        carries_default_route: false,
        queues: answers.queues.unwrap_or_else(|| queues.fixed()),
        rings: answers.rings,
        coalesce: answers.coalesce,
        rss: answers.rss,
        interrupts: Vec::new(),
        rps: queues.rps,
        rfs_flows: queues.rfs_flows,
        xps: queues.xps,
        features: answers.features,
        defer_hard_irqs: number("napi_defer_hard_irqs"),
        flush_timeout_ns: root.text(&file("gro_flush_timeout")).ok().and_then(|text| text.parse().ok()),
        threaded: number("threaded").map(|threaded| threaded != 0),
    }
}

/// The kernel's queues of a device. <https://docs.kernel.org/networking/scaling.html>
#[derive(Default)]
struct Queues {
    receiving: u32,
    sending: u32,
    rps: BTreeMap<u32, Vec<u32>>,
    rfs_flows: BTreeMap<u32, u32>,
    xps: BTreeMap<u32, Vec<u32>>,
}

impl Queues {
    fn read(root: &Root, folder: &str) -> Self {
        let mut queues = Self::default();
        for name in root.names(folder) {
            let number = |prefix: &str| name.strip_prefix(prefix)?.parse::<u32>().ok();
            let file = |file: &str| format!("{folder}/{name}/{file}");
            if let Some(queue) = number("rx-") {
                queues.receiving += 1;
                queues.rps.extend(root.mask(&file("rps_cpus")).ok().map(|cpus| (queue, cpus)));
                queues.rfs_flows.extend(root.number(&file("rps_flow_cnt")).ok().map(|flows| (queue, flows)));
            } else if let Some(queue) = number("tx-") {
                queues.sending += 1;
                // The kernel refuses to read it if there is one queue.
                queues.xps.extend(root.mask(&file("xps_cpus")).ok().map(|cpus| (queue, cpus)));
            }
        }
        queues
    }

    /// The queues of a driver that does not report them.
    fn fixed(&self) -> Channels {
        let (rx, tx) = (self.receiving, self.sending);
        Channels { rx, tx, rx_max: rx, tx_max: tx, ..Channels::default() }
    }
}
