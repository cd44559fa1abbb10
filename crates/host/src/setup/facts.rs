//! The records of how a machine is set up for packets.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a machine is set up for packets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostSetup {
    /// The network devices, loopback among them, by name.
    pub devices: Vec<DeviceSetup>,
    /// The parts of memory, by number. A kernel without NUMA has one, with all cores.
    pub nodes: Vec<NodeFacts>,
    /// Whether cores run two threads or more each; `None` if the kernel does not say.
    pub smt: Option<bool>,
    /// Core → what chooses its frequency (cpufreq). Empty if the kernel does not control the frequency.
    pub governor: BTreeMap<u32, String>,
    /// The states in which idle cores sleep (cpuidle), the lightest first.
    pub idle_states: Vec<IdleState>,
    /// Name of the setting (`net.core.rmem_max`) → value.
    pub sysctls: BTreeMap<String, String>,
    /// The kernel's tracking of connections, in this network namespace.
    pub conntrack: Conntrack,
    /// The process of the daemon that moves interrupts between cores; `None` if this process sees none.
    pub irqbalance: Option<u32>,
    /// Facts that could not be read (`eth0/rings`) → why.
    pub unreadable: BTreeMap<String, String>,
}

/// A part of memory, and the cores that are near to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs)] // the names say it
pub struct NodeFacts {
    pub node: u32,
    pub cpus: Vec<u32>,
    pub memory_bytes: u64,
}

/// A state in which idle cores sleep. <https://docs.kernel.org/admin-guide/pm/cpuidle.html>
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IdleState {
    /// The state's number on each core; 0 sleeps the least.
    pub state: u32,
    /// The driver's name for it, such as `C6`.
    pub name: String,
    /// Microseconds that a core needs to wake from it.
    pub latency_us: u32,
    /// The cores that may not use it.
    pub disabled_on: Vec<u32>,
}

/// The kernel's tracking of connections (netfilter).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Conntrack {
    /// The module is there. It tracks packets only if a rule or address translation wants it.
    pub loaded: bool,
    /// The flows that it tracks now.
    pub count: Option<u64>,
    /// The most flows that it tracks; packets of more are dropped.
    pub max: Option<u64>,
}

/// A network device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceSetup {
    /// The interface's name, such as `eth0`.
    pub name: String,
    /// The address on the bus, such as `0000:3b:00.0`; `None` for a device without hardware.
    pub bus: Option<String>,
    /// The Ethernet address with which the device was made.
    pub permanent_mac: Option<[u8; 6]>,
    /// The driver's name, such as `ixgbe`.
    pub driver: Option<String>,
    /// The part of memory that is near to the device; `None` if the firmware does not say.
    pub numa_node: Option<u32>,
    /// The speed of the link in Mbit/s; `None` if it is down or has no speed.
    pub speed_mbps: Option<u32>,
    /// The longest packet in bytes.
    pub mtu: u32,
    /// Whether it can pass packets (`operstate`).
    pub is_up: bool,
    /// A default route, of IPv4 or IPv6, leads to it.
    pub carries_default_route: bool,
    /// The queues.
    pub queues: Channels,
    /// The queues' rings; `None` if the driver does not have them.
    pub rings: Option<Rings>,
    /// The delays of interrupts; `None` if the driver does not have them.
    pub coalesce: Option<Coalesce>,
    /// How the hardware spreads packets over queues; `None` if it does not.
    pub rss: Option<Rss>,
    /// The interrupts, by number. Empty for a device without hardware.
    pub interrupts: Vec<QueueInterrupt>,
    /// Receive queue → the cores to which software passes its packets (RPS); none if it is off.
    pub rps: BTreeMap<u32, Vec<u32>>,
    /// Receive queue → the flows that are passed to the core of their socket (RFS); 0 if it is off.
    pub rfs_flows: BTreeMap<u32, u32>,
    /// Send queue → the cores that send by it (XPS); none if it is off. Empty if the device has one queue.
    pub xps: BTreeMap<u32, Vec<u32>>,
    /// Offload (`gro`, `gso`, `tso`, `lro`, and other names as `ethtool -k` shows them) → whether it is on.
    pub features: BTreeMap<String, bool>,
    /// Rounds of polling without packets after which interrupts come back (`napi_defer_hard_irqs`).
    pub defer_hard_irqs: Option<u32>,
    /// Nanoseconds for which interrupts stay off after a round of polling (`gro_flush_timeout`).
    pub flush_timeout_ns: Option<u64>,
    /// Kernel threads receive, in place of softirqs (`threaded`).
    pub threaded: Option<bool>,
}

/// The numbers of a device's queues, and the most that its driver offers. If the driver does not report them, they are
/// the kernel's queues, and cannot be changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Channels {
    /// Queues that only receive.
    pub rx: u32,
    /// Queues that only send.
    pub tx: u32,
    /// Queues that receive and send.
    pub combined: u32,
    /// The most queues that only receive.
    pub rx_max: u32,
    /// The most queues that only send.
    pub tx_max: u32,
    /// The most queues that receive and send.
    pub combined_max: u32,
}

impl Channels {
    /// The number of queues that receive.
    pub fn receiving(&self) -> u32 {
        self.rx + self.combined
    }

    /// The number of queues that send.
    pub fn sending(&self) -> u32 {
        self.tx + self.combined
    }

    /// The most queues that can receive.
    pub fn receiving_max(&self) -> u32 {
        self.rx_max.max(self.combined_max)
    }
}

/// The packets that fit in the ring of each queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rings {
    /// Received packets.
    pub rx: u32,
    /// Packets to send.
    pub tx: u32,
    /// The most received packets that the driver offers.
    pub rx_max: u32,
    /// The most packets to send that the driver offers.
    pub tx_max: u32,
}

/// The delays of a device's interrupts: each comes after the time or after the number of packets; 0 is no limit of that
/// kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Coalesce {
    /// Microseconds from a received packet to its interrupt.
    pub rx_usecs: u32,
    /// Received packets until an interrupt.
    pub rx_frames: u32,
    /// Microseconds from a sent packet to its interrupt.
    pub tx_usecs: u32,
    /// Sent packets until an interrupt.
    pub tx_frames: u32,
    /// The driver chooses the limits for received packets by itself.
    pub adaptive_rx: bool,
    /// The driver chooses the limits for sent packets by itself.
    pub adaptive_tx: bool,
}

/// How a device spreads received packets over its queues (RSS).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rss {
    /// The queue of each entry of the table. A packet's hash selects the entry.
    pub queues: Vec<u32>,
    /// Fields that the hash of UDP over IPv4 is made from, as letters of ethtool(8): `sd` addresses, `sdfn` also ports.
    pub fields_udp4: Option<String>,
    /// Fields that the hash of UDP over IPv6 is made from, in the same letters.
    pub fields_udp6: Option<String>,
}

/// An interrupt of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QueueInterrupt {
    /// The kernel's number.
    pub irq: u32,
    /// The driver's name for it: `eth0-TxRx-3`, `virtio2-input.0`.
    pub name: String,
    /// The queue that it serves; `None` if its name does not say, or if it serves none.
    pub queue: Option<u32>,
    /// The direction of the queue.
    pub direction: Direction,
    /// The cores to which it may go.
    pub cpus: Vec<u32>,
    /// The cores to which it goes; empty if the kernel does not say.
    pub effective: Vec<u32>,
    /// The kernel placed it and refuses other cores; `None` if it is not known before it is tried.
    pub managed: Option<bool>,
    /// How often it came since boot, on all cores.
    pub count: u64,
}

impl QueueInterrupt {
    /// The cores that take it: those to which it goes or, if they are not known, to which it may go.
    pub fn takers(&self) -> &[u32] {
        if self.effective.is_empty() { &self.cpus } else { &self.effective }
    }
}

/// The direction of an interrupt's queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// It receives.
    Receive,
    /// It sends.
    Send,
    /// It receives and sends.
    Both,
    /// No queue is known: changes of the link, commands.
    #[default]
    Other,
}
