//! The names and the values of settings, as `kqps host apply` takes them.

use kqps_observation::cpu_list;

/// A setting and its value: `channels.eth0`, `combined=8`.
pub(super) type Change = (String, String);

/// The word for no core.
pub(super) const NONE: &str = "none";

/// The number of queues of a device.
pub(super) fn channels(device: &str, is_combined: bool, queues: u32) -> Change {
    let kind = if is_combined { "combined" } else { "rx" };
    (format!("channels.{device}"), format!("{kind}={queues}"))
}

/// The core of each queue's interrupt. The queues take turns over the ascending list.
pub(super) fn interrupts(device: &str, cpus: &[u32]) -> Change {
    (format!("irqs.{device}"), cpu_list::write(cpus))
}

/// The cores over which receive packet steering (RPS) spreads the packets of every queue. Without cores it is off.
pub(super) fn steering(device: &str, cpus: &[u32]) -> Change {
    let value = if cpus.is_empty() { NONE.into() } else { cpu_list::write(cpus) };
    (format!("rps.{device}"), value)
}

/// The cores that send by a queue (XPS).
pub(super) fn sending(device: &str, queue: u32, cpus: &[u32]) -> Change {
    (format!("xps.{device}.{queue}"), cpu_list::write(cpus))
}

/// The RSS table with equal shares of the first queues.
pub(super) fn rss_table(device: &str, queues: u32) -> Change {
    (format!("rss.{device}"), format!("equal={queues}"))
}

/// The fields that the hash of UDP takes in: `s` and `d` addresses, `f` and `n` ports.
pub(super) fn rss_fields(device: &str, family: &str) -> Change {
    (format!("rss-fields.{device}.{family}"), "sdfn".into())
}

/// The sizes of both rings.
pub(super) fn rings(device: &str, rx: u32, tx: u32) -> Change {
    (format!("rings.{device}"), format!("rx={rx},tx={tx}"))
}

/// A setting of the kernel.
pub(super) fn sysctl(name: &str, value: u64) -> Change {
    (format!("sysctl.{name}"), value.to_string())
}

/// The governor of all cores.
pub(super) fn governor() -> Change {
    ("governor".into(), "performance".into())
}

/// The longest time that a core may take to wake from an idle state.
pub(super) fn idle_states(most_us: u32) -> Change {
    ("idle-states".into(), format!("{most_us}us"))
}
