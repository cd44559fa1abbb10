//! The guest's cards, what is changed on each, and how ethtool and the kernel's files then show it.

use anyhow::{Context as _, Result, ensure};

use super::super::super::Bench;
use super::console::Guest;
use super::values::Values;

/// The kernel's drivers of the machine's devices, in the order in which the devices are named.
pub(super) const DRIVERS: [&str; 4] = ["virtio_pci", "virtio_net", "e1000e", "vmxnet3"];

/// A card of the guest.
pub(super) struct Card {
    /// Its name in the guest.
    pub(super) device: &'static str,
    /// Every kind of setting that its driver has, with a value that it does not have before.
    pub(super) changes: &'static [&'static str],
    /// Commands that do not use kqps, and what they print once all is changed.
    seen: &'static [(&'static str, &'static str)],
    /// Changes that it cannot have, and what kqps says to them.
    refused: &'static [(&'static str, &'static str)],
    /// Commands of somebody else that give it other values than those of its driver.
    before: &'static [&'static str],
    /// Commands that fail if the kernel remembers more of kqps than the values show.
    after: &'static [&'static str],
}

pub(super) const CARDS: [Card; 3] = [VIRTIO, E1000E, VMXNET3];

const VIRTIO: Card = Card {
    device: "eth0",
    changes: &[
        "channels.eth0=2",
        "rings.eth0=rx=128,tx=64",
        "feature.eth0.gro=off",
        "feature.eth0.tso=off",
        "feature.eth0.rx-gro-hw=off",
        "rss.eth0=1",
        "rss-fields.eth0.udp4=sd",
        "rss-fields.eth0.udp6=sd",
        "irqs.eth0=1-2",
        "rps.eth0=0-1",
        "xps.eth0.0=3",
        "xps.eth0.1=none",
        "napi-defer.eth0=2",
        "gro-flush.eth0=20000",
        "napi-threaded.eth0=1",
        "sysctl.net.core.rmem_max=8388608",
        "sysctl.net.core.netdev_max_backlog=40000",
        "sysctl.kernel.numa_balancing=0",
    ],
    seen: &[
        ("now -l eth0 | grep Combined", "Combined: 2"),
        ("now -g eth0 | grep -E '^(RX|TX):'", "RX: 128 TX: 64"),
        (
            "ethtool -k eth0 | grep -E 'tx-tcp-segmentation|generic-receive|rx-gro-hw'",
            "tx-tcp-segmentation: off generic-receive-offload: off rx-gro-hw: off",
        ),
        ("table eth0", "0"),
        ("fields eth0 udp4", "IP SA IP DA"),
        ("fields eth0 udp6", "IP SA IP DA"),
        ("cores 'virtio0-(input|output)'", "1 1 2 2 1 1 2 2"),
        ("cat /sys/class/net/eth0/queues/rx-*/rps_cpus", "3 3"),
        ("cat /sys/class/net/eth0/queues/tx-*/xps_cpus", "8 0"),
        ("cd /sys/class/net/eth0; cat napi_defer_hard_irqs gro_flush_timeout threaded", "2 20000 1"),
        (
            "cd /proc/sys; cat net/core/rmem_max net/core/netdev_max_backlog kernel/numa_balancing",
            "8388608 40000 0",
        ),
    ],
    refused: &[
        ("channels.eth0=5", "Invalid argument"),
        ("coalesce.eth0=75", "the driver cannot set it"),
        ("feature.eth0.no-such-thing=off", "does not have it"),
    ],
    before: &[
        "ethtool -L eth0 combined 3",
        "ethtool -G eth0 rx 64 tx 32",
        "ethtool -X eth0 weight 3 1",
        "ethtool -N eth0 rx-flow-hash udp4 sd",
        "ethtool -K eth0 gso off",
        "echo 5 >/sys/class/net/eth0/queues/rx-0/rps_cpus",
        "echo 2 >/sys/class/net/eth0/queues/rx-2/rps_cpus",
        "echo f >/sys/class/net/eth0/queues/tx-0/xps_cpus",
        "echo 1 >/sys/class/net/eth0/queues/tx-2/xps_cpus",
        "place virtio0-input 3",
        "echo 7 >/sys/class/net/eth0/napi_defer_hard_irqs",
    ],
    // A table that somebody has set keeps its queues.
    after: &["ethtool -L eth0 combined 1", "ethtool -L eth0 combined 4"],
};

const E1000E: Card = Card {
    device: "eth1",
    changes: &[
        "rings.eth1=rx=512,tx=1024",
        "feature.eth1.gro=off",
        "feature.eth1.tso=off",
        "coalesce.eth1=rx-usecs=75",
        "irqs.eth1=1",
        "rps.eth1=2-3",
        "napi-defer.eth1=1",
        "gro-flush.eth1=30000",
        "napi-threaded.eth1=1",
        "sysctl.net.core.busy_read=50",
    ],
    seen: &[
        ("now -g eth1 | grep -E '^(RX|TX):'", "RX: 512 TX: 1024"),
        (
            "ethtool -k eth1 | grep -E 'tx-tcp-segmentation|generic-receive'",
            "tx-tcp-segmentation: off generic-receive-offload: off",
        ),
        ("ethtool -c eth1 | grep rx-usecs:", "rx-usecs: 75"),
        ("cores 'eth1-[rt]x-0'", "1 1"),
        ("cat /sys/class/net/eth1/queues/rx-0/rps_cpus", "c"),
        ("cd /sys/class/net/eth1; cat napi_defer_hard_irqs gro_flush_timeout threaded", "1 30000 1"),
        ("cat /proc/sys/net/core/busy_read", "50"),
    ],
    refused: &[
        ("channels.eth1=2", "does not have it"),
        ("rss.eth1=1", "does not have it"),
        ("rings.eth1=rx=1000000", "Invalid argument"),
    ],
    before: &[
        "ethtool -G eth1 rx 128 tx 128",
        "ethtool -C eth1 rx-usecs 100",
        "echo 6 >/sys/class/net/eth1/queues/rx-0/rps_cpus",
        "place 'eth1-[rt]x-0' 2-3",
    ],
    after: &[],
};

const VMXNET3: Card = Card {
    device: "eth2",
    changes: &[
        "rings.eth2=rx=512,tx=1024",
        "feature.eth2.lro=off",
        "feature.eth2.gro=off",
        "rss.eth2=2",
        "irqs.eth2=2,3",
        "rps.eth2=0",
        "xps.eth2.0=1",
        "napi-defer.eth2=3",
    ],
    seen: &[
        ("now -g eth2 | grep -E '^(RX|TX):'", "RX: 512 TX: 1024"),
        (
            "ethtool -k eth2 | grep -E '^(generic|large)-r'",
            "generic-receive-offload: off large-receive-offload: off",
        ),
        ("table eth2", "0 1"),
        ("cores eth2-rxtx", "2 3 2 3"),
        ("cat /sys/class/net/eth2/queues/rx-*/rps_cpus", "1 1 1 1"),
        ("cat /sys/class/net/eth2/queues/tx-0/xps_cpus", "2"),
        ("cat /sys/class/net/eth2/napi_defer_hard_irqs", "3"),
    ],
    refused: &[("channels.eth2=2", "the driver cannot set it")],
    before: &[
        "ethtool -G eth2 rx 256",
        "ethtool -X eth2 weight 1 1 2",
        "echo 4 >/sys/class/net/eth2/queues/tx-3/xps_cpus",
    ],
    after: &[],
};

pub(super) fn prove(_: &Bench, guest: &mut Guest) -> Result<()> {
    for card in &CARDS {
        let device = card.device;
        let name = || device.to_owned();
        let lines = changed_and_back(guest, card).with_context(name)?;
        for words in card.after {
            guest.read(words).with_context(name)?;
        }
        for (change, reason) in card.refused {
            is_refused(guest, device, change, reason).with_context(name)?;
        }
        for words in card.before {
            guest.read(words).with_context(name)?;
        }
        changed_and_back(guest, card).with_context(|| format!("{device}, as somebody else has set it"))?;
        eprintln!(
            "{device}: {} settings changed {lines} lines of ethtool and /sys, and all came back, twice",
            card.changes.len()
        );
    }
    Ok(())
}

/// Applies all changes of a card, compares what the kernel shows, and undoes them. Returns how many lines had another
/// value meanwhile.
fn changed_and_back(guest: &mut Guest, card: &Card) -> Result<usize> {
    let before = Values::read(guest, card.device)?;
    guest.read(&format!("kqps host apply {}", card.changes.join(" ")))?;
    for (words, wanted) in card.seen {
        guest.shows(words, wanted)?;
    }
    let lines = before.changed(guest)?;
    guest.read("kqps host undo")?;
    before.are_back(guest)?;
    Ok(lines)
}

/// A change that a card cannot have is one sentence. What was set before it is undone.
fn is_refused(guest: &mut Guest, device: &'static str, change: &str, reason: &str) -> Result<()> {
    let before = Values::read(guest, device)?;
    let reply = guest.run(&format!("kqps host apply sysctl.net.core.rmem_max=9000000 {change}"))?;
    ensure!(reply.status != 0, "{change} is not refused: {}", reply.text.trim());
    let name = change.split('=').next().unwrap_or(change);
    let is_said = reply.text.contains(&format!("{name}: ")) && reply.text.contains(reason);
    ensure!(is_said, "{change}: expected {reason:?}, found {:?}", reply.text.trim());
    before.are_back(guest)
}
