//! The cores that take the interrupts of network devices. `/proc/interrupts` has the counts, `/proc/irq/N/`
//! the cores that each may go to, and `/sys/class/net` the devices.

use std::collections::BTreeMap;
use std::io;

use serde::{Deserialize, Serialize};

use crate::files::Root;

/// An interrupt of a network device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interrupt {
    /// The kernel's number of the interrupt.
    pub irq: u32,
    /// The driver's name for it: `eth0-TxRx-3`, `virtio2-input.0`.
    pub name: String,
    /// The name of the network device.
    pub device: String,
    /// The cores to which it is delivered or, if the kernel does not report them, those to which it may be
    /// delivered.
    pub cpus: Vec<u32>,
    /// How often it came since boot, on all cores.
    pub count: u64,
}

/// Reads all interrupts of network devices, by number.
pub(crate) fn read(root: &Root) -> io::Result<Vec<Interrupt>> {
    let lines = parse(&root.text("proc/interrupts")?);
    let devices = devices(root);
    let mut interrupts = Vec::new();
    for line in lines {
        let Some(device) = devices.owner(&line) else { continue };
        let folder = format!("proc/irq/{}", line.irq);
        let cpus = root
            .list(&format!("{folder}/effective_affinity_list"))
            .ok()
            .filter(|cpus| !cpus.is_empty())
            .or_else(|| root.list(&format!("{folder}/smp_affinity_list")).ok())
            .unwrap_or_else(|| line.cpus_seen.clone());
        interrupts.push(Interrupt { irq: line.irq, name: line.name, device, cpus, count: line.count });
    }
    Ok(interrupts)
}

#[derive(Debug, PartialEq, Eq)]
struct Line {
    irq: u32,
    name: String,
    count: u64,
    cpus_seen: Vec<u32>,
}

/// <https://docs.kernel.org/filesystems/proc.html>, 1.2. The heading names the online cores. The names of
/// controllers and handlers follow the counts. Lines such as `NMI:` are not devices, and are left out.
fn parse(text: &str) -> Vec<Line> {
    let mut lines = text.lines();
    let cpus: Vec<u32> = lines
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .filter_map(|word| word.strip_prefix("CPU")?.parse().ok())
        .collect();
    lines.filter_map(|line| parse_line(line, &cpus)).collect()
}

fn parse_line(line: &str, cpus: &[u32]) -> Option<Line> {
    let (irq, rest) = line.split_once(':')?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    let counts: Vec<u64> = words.iter().take(cpus.len()).map_while(|word| word.parse().ok()).collect();
    let cpus_seen = cpus.iter().zip(&counts).filter(|(_, count)| **count > 0).map(|(cpu, _)| *cpu).collect();
    Some(Line {
        irq: irq.trim().parse().ok()?,
        name: (*words.get(counts.len()..)?.last()?).to_owned(),
        count: counts.iter().sum(),
        cpus_seen,
    })
}

/// Network devices, by the message-signalled interrupts of their hardware, and by what handlers are named for: the
/// device, or the virtio device below it, which may have no such interrupts.
struct Devices {
    by_irq: BTreeMap<u32, String>,
    by_name: BTreeMap<String, String>,
}

impl Devices {
    fn owner(&self, line: &Line) -> Option<String> {
        let by_name = || {
            let named = self.by_name.iter().find(|(name, _)| belongs(&line.name, name));
            named.map(|(_, device)| device.clone())
        };
        self.by_irq.get(&line.irq).cloned().or_else(by_name)
    }
}

/// Whether a handler's name begins with a device's: `eth1` and `eth1-TxRx-0` do, but not `eth10-TxRx-0`.
fn belongs(handler: &str, device: &str) -> bool {
    handler.strip_prefix(device).is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_digit()))
}

fn devices(root: &Root) -> Devices {
    let mut devices = Devices { by_irq: BTreeMap::new(), by_name: BTreeMap::new() };
    for name in root.names("sys/class/net") {
        let hardware = format!("sys/class/net/{name}/device");
        let mut irqs = root.names(&format!("{hardware}/msi_irqs"));
        if irqs.is_empty() {
            // A virtio device is a child of the PCI device that has the interrupts. The parent of a PCI device is a
            // bridge, whose interrupts are not the network's.
            irqs = root.names(&format!("{hardware}/../msi_irqs"));
        }
        for irq in irqs.iter().filter_map(|irq| irq.parse().ok()) {
            devices.by_irq.insert(irq, name.clone());
        }
        if let Some(virtio) = root.link(&hardware).filter(|link| link.starts_with("virtio")) {
            devices.by_name.insert(virtio, name.clone());
        }
        if name != "lo" {
            devices.by_name.insert(name.clone(), name);
        }
    }
    devices
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "           CPU0       CPU2
  9:          0          4   IO-APIC   9-fasteoi   acpi
 40:       1108          7  PCI-MSI 524288-edge      eth1-TxRx-0
 41:          0          0  PCI-MSI 524289-edge      eth10-TxRx-0
NMI:          1          2   Non-maskable interrupts
ERR:          0
";

    #[test]
    fn numbered_lines_are_read_with_their_cores() {
        let lines = parse(TEXT);
        assert_eq!(lines.iter().map(|line| line.irq).collect::<Vec<_>>(), [9, 40, 41]);
        assert_eq!(
            lines[1],
            Line { irq: 40, name: "eth1-TxRx-0".into(), count: 1115, cpus_seen: vec![0, 2] }
        );
        assert_eq!(lines[0].cpus_seen, [2]);
    }

    #[test]
    fn a_handler_belongs_to_the_device_it_is_named_for() {
        assert!(belongs("eth1-TxRx-0", "eth1"));
        assert!(belongs("eth1", "eth1"));
        assert!(!belongs("eth10-TxRx-0", "eth1"));
    }
}
