//! The interrupts of a device: the queue that each serves, and the cores to which it may go.

use super::facts::{Direction, QueueInterrupt};
use crate::files::Root;
use crate::interrupts::Interrupt;

/// The interrupts among `all` that belong to a device.
pub(super) fn of_device(root: &Root, device: &str, all: &[Interrupt]) -> Vec<QueueInterrupt> {
    let own = all.iter().filter(|interrupt| interrupt.device == device);
    own.map(|interrupt| read(root, interrupt)).collect()
}

fn read(root: &Root, interrupt: &Interrupt) -> QueueInterrupt {
    let list = |name: &str| root.list(&format!("proc/irq/{}/{name}", interrupt.irq)).unwrap_or_default();
    let (direction, queue) = match queue_of(&interrupt.name) {
        Some((direction, queue)) => (direction, Some(queue)),
        None => (Direction::Other, None),
    };
    QueueInterrupt {
        irq: interrupt.irq,
        name: interrupt.name.clone(),
        queue,
        direction,
        cpus: list("smp_affinity_list"),
        effective: list("effective_affinity_list"),
        managed: is_managed(root, interrupt.irq),
        count: interrupt.count,
    }
}

/// Whether the kernel placed an interrupt and refuses other cores. Newer kernels let nobody write the file of such an
/// interrupt. Older ones say it in debugfs only, if that is mounted.
fn is_managed(root: &Root, irq: u32) -> Option<bool> {
    if !root.is_writable(&format!("proc/irq/{irq}/smp_affinity_list"))? {
        return Some(true);
    }
    let flags = root.text(&format!("sys/kernel/debug/irq/irqs/{irq}")).ok()?;
    Some(flags.contains("IRQD_AFFINITY_MANAGED"))
}

/// The queue in a driver's name for an interrupt. The kernel has no other source for it. `eth0-TxRx-3` (ixgbe, igb,
/// bnxt), `i40e-eth0-TxRx-3`, `ice-eth0-TxRx-3`, `eth0-Tx-Rx-3` (ena), `eth0-rxtx-3` (vmxnet3), `eth0-rx-3` (tg3),
/// `mlx5_comp3@pci:0000:3b:00.0`, `virtio3-input.1`.
fn queue_of(name: &str) -> Option<(Direction, u32)> {
    let name = name.split('@').next().unwrap_or(name);
    if let Some(queue) = name.strip_prefix("mlx5_comp") {
        return Some((Direction::Both, queue.parse().ok()?));
    }
    // `i40e-0000:3b:00.0:fdir-TxRx-0` is that of the flow director, which has no queue of the kernel.
    if name.contains(':') {
        return None;
    }
    let (rest, queue) = name.rsplit_once(['-', '.'])?;
    let rest = rest.to_ascii_lowercase();
    let ends = |endings: &[&str]| endings.iter().any(|ending| rest.ends_with(ending));
    let direction = if ends(&["-txrx", "-tx-rx", "-rxtx"]) {
        Direction::Both
    } else if ends(&["-rx", "-input"]) {
        Direction::Receive
    } else if ends(&["-tx", "-output"]) {
        Direction::Send
    } else {
        return None;
    };
    Some((direction, queue.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_drivers_have_the_queue() {
        let both = Some((Direction::Both, 3));
        for name in [
            "eth0-TxRx-3",
            "i40e-eth0-TxRx-3",
            "ice-enp59s0f0-TxRx-3",
            "ens5-Tx-Rx-3",
            "ens192-rxtx-3",
            "mlx5_comp3@pci:0000:3b:00.0",
            "mlx5_comp3",
        ] {
            assert_eq!(queue_of(name), both, "{name}");
        }
        assert_eq!(queue_of("virtio3-input.1"), Some((Direction::Receive, 1)));
        assert_eq!(queue_of("virtio3-output.1"), Some((Direction::Send, 1)));
        assert_eq!(queue_of("eth0-rx-12"), Some((Direction::Receive, 12)));
    }

    #[test]
    fn other_interrupts_have_none() {
        for name in [
            "eth0",
            "eth0-1",
            "i40e-0000:3b:00.0:misc",
            "i40e-0000:3b:00.0:fdir-TxRx-0",
            "ice-0000:3b:00.0:misc",
            "mlx5_async0@pci:0000:3b:00.0",
            "ena-mgmnt@pci:0000:00:05.0",
            "virtio3-config",
            "mlx5_comp",
        ] {
            assert_eq!(queue_of(name), None, "{name}");
        }
    }
}
