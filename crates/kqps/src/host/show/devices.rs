//! The network devices: their queues, and the cores that serve them.

use std::collections::BTreeMap;

use kqps_host::setup::{Channels, Coalesce, DeviceSetup, Direction, HostSetup, QueueInterrupt, Rings};
use kqps_observation::cpu_list;

use super::table::{Row, row, rows_of};
use crate::table::titled;

/// A section for each device that has hardware or the default route, and one for all others.
pub(super) fn devices(setup: &HostSetup) -> Vec<String> {
    let (own, others): (Vec<&DeviceSetup>, Vec<&DeviceSetup>) =
        setup.devices.iter().partition(|device| device.bus.is_some() || device.carries_default_route);
    let mut sections: Vec<String> = own
        .iter()
        .map(|device| format!("{}:\n{}", title(device), rows_of(&rows(device)).trim_fmt()))
        .collect();
    if !others.is_empty() {
        let names: Vec<String> = others.iter().map(|device| in_short(device)).collect();
        sections.push(format!("Devices without hardware: {}.", names.join(", ")));
    }
    sections
}

/// For example `Network device eth0: ixgbe at 0000:3b:00.0, node 1, 10000 Mbit/s, MTU 1500, default route`.
fn title(device: &DeviceSetup) -> String {
    let driver = device.driver.clone().unwrap_or_else(|| "driver not known".into());
    let bus = device.bus.as_ref().map(|bus| format!(" at {bus}")).unwrap_or_default();
    let mut facts = vec![driver + &bus];
    facts.extend(device.numa_node.map(|node| format!("node {node}")));
    facts.extend(device.speed_mbps.map(|speed| format!("{speed} Mbit/s")));
    facts.push(format!("MTU {}", device.mtu));
    facts.extend(device.carries_default_route.then(|| "default route".to_owned()));
    facts.extend((!device.is_up).then(|| "down".to_owned()));
    format!("Network device {}: {}", device.name, facts.join(", "))
}

/// A device without hardware, and where software takes its packets.
fn in_short(device: &DeviceSetup) -> String {
    let steered = device.rps.values().any(|cpus| !cpus.is_empty());
    let rps = if steered { format!(" (RPS: {})", steering(&device.rps)) } else { String::new() };
    format!("{}{rps}", device.name)
}

fn rows(device: &DeviceSetup) -> Vec<Row> {
    let rings = device.rings.as_ref().map_or_else(lacking, rings);
    let delays = device.coalesce.as_ref().map_or_else(lacking, delays);
    let mut rows = vec![
        row("queues", queues(&device.queues), "one core receives from each: other cores receive nothing"),
        row("rings", rings, "packets that wait in the card: larger rings help bursts, not the rate"),
        row("interrupt delay", delays, "longer: fewer interrupts and a higher rate, but later answers"),
    ];
    rows.extend(spreading(device));
    let by_queue = by_queue(device);
    if !by_queue.is_empty() {
        let placed = device.interrupts.iter().any(|interrupt| interrupt.managed == Some(true));
        let placed = if placed { ", placed by the kernel, which refuses other cores" } else { "" };
        let cores = steering(&by_queue) + placed;
        rows.push(row("interrupts", cores, "this core does the receive work for the queue's queries"));
    }
    let meaning = "software passes packets on to other cores: for devices with fewer queues than cores";
    rows.push(row("RPS", steering(&device.rps), meaning));
    let flows: u32 = device.rfs_flows.values().sum();
    if flows > 0 {
        let meaning = "packets go to the core that reads the flow: for connections, not for UDP";
        rows.push(row("RFS", format!("{flows} flows"), meaning));
    }
    if !device.xps.is_empty() {
        let meaning = "cores that send by queues of their own do not wait for each other";
        rows.push(row("XPS", steering(&device.xps), meaning));
    }
    let meaning = "merging costs single datagrams time, and saves it for TCP and segments of UDP";
    rows.push(row("offloads", offloads(&device.features), meaning));
    rows.extend(polling(device));
    rows
}

fn lacking() -> String {
    "not a setting of its driver".into()
}

fn queues(queues: &Channels) -> String {
    let kinds = [
        (queues.combined, queues.combined_max, "receive and send"),
        (queues.rx, queues.rx_max, "receive"),
        (queues.tx, queues.tx_max, "send"),
    ];
    let present = kinds.iter().filter(|(count, ..)| *count > 0);
    let words = present.map(|(count, most, what)| format!("{count} of at most {most} {what}"));
    let words = words.collect::<Vec<_>>().join(", ");
    if words.is_empty() { "not known".into() } else { words }
}

fn rings(rings: &Rings) -> String {
    let Rings { rx, tx, rx_max, tx_max } = rings;
    format!("receive {rx} of at most {rx_max}, send {tx} of at most {tx_max}")
}

fn delays(coalesce: &Coalesce) -> String {
    let side = |name: &str, usecs: u32, frames: u32, adaptive: bool| {
        let frames = if frames > 1 { format!(" or {frames} packets") } else { String::new() };
        let adaptive = if adaptive { ", adaptive" } else { "" };
        format!("{name} {usecs} µs{frames}{adaptive}")
    };
    let receive = side("receive", coalesce.rx_usecs, coalesce.rx_frames, coalesce.adaptive_rx);
    let send = side("send", coalesce.tx_usecs, coalesce.tx_frames, coalesce.adaptive_tx);
    format!("{receive}; {send}")
}

/// How the hardware spreads packets over the queues.
fn spreading(device: &DeviceSetup) -> Vec<Row> {
    let Some(rss) = &device.rss else {
        let meaning = "the device itself decides how packets spread over its queues";
        return vec![row("RSS", lacking(), meaning)];
    };
    let mut entries: BTreeMap<u32, u32> = BTreeMap::new();
    for queue in &rss.queues {
        *entries.entry(*queue).or_default() += 1;
    }
    let named: Vec<u32> = entries.keys().copied().collect();
    let (least, most) = (entries.values().min().unwrap_or(&0), entries.values().max().unwrap_or(&0));
    let share = if least == most { least.to_string() } else { format!("{least} to {most}") };
    let (count, named) = (rss.queues.len(), cpu_list::write(&named));
    let table = format!("{count} entries, {share} to each of queues {named}");
    let hash = |name: &str, fields: Option<&String>| {
        let meaning = match fields {
            Some(fields) if fields.contains(['f', 'n']) => {
                "also by ports: the queries of one client spread over queues"
            }
            Some(_) => "by addresses alone: all queries of one client address go to one queue",
            None => "not known whether the queries of one client address spread over queues",
        };
        row(name, fields.cloned().unwrap_or_else(lacking), meaning)
    };
    vec![
        row("RSS table", table, "a queue that no entry names receives nothing"),
        hash("hash of UDP/IPv4", rss.fields_udp4.as_ref()),
        hash("hash of UDP/IPv6", rss.fields_udp6.as_ref()),
    ]
}

/// Receive queue → the cores that take its interrupt.
fn by_queue(device: &DeviceSetup) -> BTreeMap<u32, Vec<u32>> {
    let receiving = device.interrupts.iter().filter(|interrupt| interrupt.direction != Direction::Send);
    receiving.filter_map(|interrupt| Some((interrupt.queue?, interrupt.takers().to_vec()))).collect()
}

/// The cores of each queue. Queues with the same cores stand together.
fn steering(cores: &BTreeMap<u32, Vec<u32>>) -> String {
    if cores.values().all(Vec::is_empty) {
        return "off".into();
    }
    let only = |cpus: &Vec<u32>| if let [cpu] = cpus[..] { Some(cpu) } else { None };
    let one_each: Option<Vec<u32>> = cores.values().map(only).collect();
    if let Some(cpus) = one_each.filter(|cpus| cpus.len() > 1 && cpus.is_sorted_by(|one, next| one < next)) {
        let queues: Vec<u32> = cores.keys().copied().collect();
        return format!("queues {} on cpu {}, one each", cpu_list::write(&queues), cpu_list::write(&cpus));
    }
    let mut queues: BTreeMap<&[u32], Vec<u32>> = BTreeMap::new();
    for (queue, cpus) in cores {
        queues.entry(cpus.as_slice()).or_default().push(*queue);
    }
    let parts = queues.iter().map(|(cpus, queues)| {
        let cores = if cpus.is_empty() { "off".into() } else { format!("on cpu {}", cpu_list::write(cpus)) };
        format!("{} {cores}", cpu_list::write(queues))
    });
    let word = if cores.len() == 1 { "queue" } else { "queues" };
    format!("{word} {}", parts.collect::<Vec<_>>().join("; "))
}

fn offloads(features: &BTreeMap<String, bool>) -> String {
    let names = |wanted: bool| {
        let named = features.iter().filter(|(_, on)| **on == wanted).map(|(name, _)| name.as_str());
        named.collect::<Vec<_>>().join(", ")
    };
    match (names(true), names(false)) {
        (on, off) if on.is_empty() && off.is_empty() => "not known".into(),
        (on, off) if off.is_empty() => format!("on: {on}"),
        (on, off) if on.is_empty() => format!("off: {off}"),
        (on, off) => format!("on: {on}; off: {off}"),
    }
}

fn polling(device: &DeviceSetup) -> Option<Row> {
    let (rounds, timeout_ns) = device.defer_hard_irqs.zip(device.flush_timeout_ns)?;
    let threaded = if device.threaded == Some(true) { ", by threads of the kernel" } else { "" };
    let value = format!("interrupts off for {rounds} empty rounds and {timeout_ns} ns{threaded}");
    Some(row("polling", value, "above 0 with busy_poll: sockets poll the card, and interrupts stay away"))
}

/// Devices from which a core receives, with the queues whose interrupts go there. Interrupts that never came do not
/// count.
pub(super) fn received_by(setup: &HostSetup, cpu: u32) -> String {
    let of_device = |device: &DeviceSetup| {
        let is_taken = |interrupt: &&QueueInterrupt| interrupt.count > 0 && interrupt.takers().contains(&cpu);
        let taken: Vec<&QueueInterrupt> = device.interrupts.iter().filter(is_taken).collect();
        let mut queues: Vec<u32> = taken.iter().filter_map(|interrupt| interrupt.queue).collect();
        queues.sort_unstable();
        queues.dedup();
        match queues.as_slice() {
            _ if taken.is_empty() => None,
            [] => Some(device.name.clone()),
            [queue] => Some(format!("{} queue {queue}", device.name)),
            queues => Some(format!("{} queues {}", device.name, cpu_list::write(queues))),
        }
    };
    let received: Vec<String> = setup.devices.iter().filter_map(of_device).collect();
    if received.is_empty() { "-".into() } else { received.join(", ") }
}

/// A table of all interrupts.
pub(super) fn interrupts(setup: &HostSetup) -> String {
    if setup.devices.iter().all(|device| device.interrupts.is_empty()) {
        return "Interrupts of network devices: none are known.".into();
    }
    let mut table = titled(["irq", "device", "queue", "name", "goes to", "may go to", "since boot"]);
    for device in &setup.devices {
        for interrupt in &device.interrupts {
            table.add_row([
                interrupt.irq.to_string(),
                device.name.clone(),
                interrupt.queue.map_or_else(|| "-".into(), |queue| queue.to_string()),
                interrupt.name.clone(),
                cpu_list::write(interrupt.takers()),
                cpu_list::write(&interrupt.cpus),
                interrupt.count.to_string(),
            ]);
        }
    }
    format!("Interrupts of network devices:\n{}", table.trim_fmt())
}

#[cfg(test)]
mod tests;
