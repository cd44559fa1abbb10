//! `kqps host show` and `kqps host advise` see two memory nodes, and lay cores on the node of the device.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::super::super::Bench;
use super::console::Guest;
use super::values::Values;

/// The cores of each node, as the machine was made.
const CORES: [[u64; 2]; 2] = [[0, 1], [2, 3]];

/// Each device, and the node of its bridge.
const DEVICES: [(&str, usize); 3] = [("eth0", 1), ("eth1", 0), ("eth2", 0)];

pub(super) fn prove(_: &Bench, guest: &mut Guest) -> Result<()> {
    as_the_kernel_has_them(guest)?;
    shown(guest)?;
    for (device, node) in DEVICES {
        advised(guest, device, node).with_context(|| format!("the advice for {device}"))?;
    }
    applied(guest)
}

/// The machine is the one that the rest assumes.
fn as_the_kernel_has_them(guest: &mut Guest) -> Result<()> {
    guest.shows("cat /sys/devices/system/node/node*/cpulist", "0-1 2-3")?;
    guest.shows("cat /sys/class/net/eth0/device/../numa_node", "1")?;
    guest.shows("cat /sys/class/net/eth[12]/device/numa_node", "0 0")
}

fn shown(guest: &mut Guest) -> Result<()> {
    let shown = json(guest, "kqps host show --json")?;
    let nodes = shown["setup"]["nodes"].as_array().context("it shows no nodes")?;
    let cores: Vec<Vec<u64>> = nodes.iter().map(|node| numbers(&node["cpus"])).collect();
    ensure!(cores == CORES, "the nodes have the cores {cores:?}");
    let memories = nodes.iter().filter_map(|node| node["memory_bytes"].as_u64());
    ensure!(memories.filter(|bytes| *bytes > 256 << 20).count() == CORES.len(), "{nodes:?}");
    let devices = shown["setup"]["devices"].as_array().context("it shows no devices")?;
    let words = guest.read("kqps host show")?;
    for (name, node) in DEVICES {
        let device = devices.iter().find(|device| device["name"] == name).context(name)?;
        ensure!(device["numa_node"] == node, "{name} is on node {}", device["numa_node"]);
        let mut titles = words.lines().filter(|line| line.starts_with(&format!("Network device {name}: ")));
        let is_said = titles.any(|title| title.contains(&format!(", node {node}")));
        ensure!(is_said, "the node of {name} is not shown:\n{words}");
    }
    Ok(())
}

/// Every layout for a device has its cores on the device's node, but for the one that is for several nodes.
fn advised(guest: &mut Guest, device: &str, node: usize) -> Result<()> {
    let advice = json(guest, &format!("kqps host advise --device {device} --json"))?;
    let layouts = advice["layouts"].as_array().context("it has no layouts")?;
    ensure!(layouts.len() >= 2, "it has {} layouts", layouts.len());
    for layout in layouts {
        for role in ["queue_cpus", "interrupt_cpus", "worker_cpus"] {
            let cores = numbers(&layout[role]);
            let is_near = cores.iter().all(|core| CORES[node].contains(core));
            ensure!(!cores.is_empty() && is_near, "{}: {role} are {cores:?}", layout["kind"]);
        }
    }
    // More workers than a node has cores go to the other node. The cores that receive do not.
    let advice = json(guest, &format!("kqps host advise --device {device} --workers 3 --json"))?;
    let layouts = advice["layouts"].as_array().context("it has no layouts")?;
    let second = layouts.iter().find(|layout| layout["kind"] == "second-node");
    let second = second.context("three workers have no layout with the second node")?;
    let (receiving, answering) = (numbers(&second["queue_cpus"]), numbers(&second["worker_cpus"]));
    ensure!(receiving.iter().all(|core| CORES[node].contains(core)), "{receiving:?} receive");
    ensure!(CORES[1 - node].iter().all(|core| answering.contains(core)), "{answering:?} answer");
    eprintln!(
        "{device} on node {node}: every layout is there; the second node's: {receiving:?} → {answering:?}"
    );
    Ok(())
}

/// Applies and undoes the advice for the device with queues.
fn applied(guest: &mut Guest) -> Result<()> {
    let before = Values::read(guest, "eth0")?;
    guest.read("kqps host advise --device eth0 --json >/tmp/advice.json")?;
    let advice = json(guest, "cat /tmp/advice.json")?;
    let pieces = advice["pieces"].as_array().context("it has no pieces")?;
    let changes: Vec<&str> = pieces
        .iter()
        .flat_map(|piece| piece["changes"].as_array().into_iter().flatten())
        .filter_map(|change| change[0].as_str())
        .collect();
    let sysctls = ["sysctl.kernel.numa_balancing", "sysctl.net.core.rmem_max"];
    for wanted in ["channels.eth0", "rss.eth0", "irqs.eth0"].into_iter().chain(sysctls) {
        ensure!(changes.contains(&wanted), "{wanted} is not among {changes:?}");
    }
    guest.read("kqps host apply --from /tmp/advice.json")?;
    guest.shows("now -l eth0 | grep Combined", "Combined: 2")?;
    guest.shows("table eth0", "0 1")?;
    guest.shows("cores 'virtio0-(input|output)\\.[01]'", "2 2 3 3")?;
    guest.shows("cat /proc/sys/kernel/numa_balancing", "0")?;
    guest.read("kqps host undo")?;
    before.are_back(guest)?;
    eprintln!("eth0: what was advised was applied and undone: {}", changes.join(" "));
    Ok(())
}

fn json(guest: &mut Guest, words: &str) -> Result<Value> {
    let text = guest.read(words)?;
    serde_json::from_str(&text).with_context(|| format!("{words}: {text}"))
}

fn numbers(list: &Value) -> Vec<u64> {
    list.as_array().into_iter().flatten().filter_map(Value::as_u64).collect()
}
