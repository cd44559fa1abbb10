//! Interrupts by the names of their handlers, which stay when a driver gets other numbers.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};

use kqps_host::Topology;
use kqps_host::setup::{Direction, HostSetup};

/// The number of an interrupt that is named by its number or by its handler.
pub(super) fn number(irq: &str) -> io::Result<u32> {
    if let Ok(number) = irq.parse() {
        return Ok(number);
    }
    let text = fs::read_to_string("/proc/interrupts")?;
    number_in(&text, irq).ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// The number of the handler's line: a number and a colon, counts, the controller, and the handler's name at the end.
fn number_in(text: &str, handler: &str) -> Option<u32> {
    text.lines().find_map(|line| {
        let (number, rest) = line.split_once(':')?;
        let is_its = rest.split_whitespace().next_back() == Some(handler);
        is_its.then(|| number.trim().parse().ok()).flatten()
    })
}

/// The name of the handler of a network device's interrupt that is given by its number. The number stays if it has no
/// handler there, or one whose name others have too.
pub(super) fn named(irq: &str) -> String {
    let Ok(number) = irq.parse::<u32>() else { return irq.to_owned() };
    let interrupts = Topology::read().interrupts;
    let named = interrupts.iter().find(|one| one.irq == number).map(|one| one.name.as_str());
    let is_alone = |name: &&str| interrupts.iter().filter(|one| one.name == **name).count() == 1;
    named.filter(is_alone).unwrap_or(irq).to_owned()
}

/// The network device whose interrupt it is, by number or handler; `None` if it is of none.
pub(super) fn owner(irq: &str) -> Option<String> {
    let number = number(irq).ok()?;
    Topology::read().interrupts.into_iter().find(|one| one.irq == number).map(|one| one.device)
}

/// Whether the kernel places the interrupts of a device's queues, and refuses other cores.
pub(super) fn are_placed(device: &str) -> bool {
    let setup = HostSetup::read();
    let all = setup.device(device).into_iter().flat_map(|device| &device.interrupts);
    let mut of_queues = all.filter(|one| one.direction != Direction::Other);
    of_queues.any(|one| one.managed.unwrap_or_else(|| is_refused(one.irq)))
}

/// Whether the kernel refuses to place an interrupt where it is, which changes nothing. Older kernels show it in no
/// other way.
fn is_refused(irq: u32) -> bool {
    let path = format!("/proc/irq/{irq}/smp_affinity_list");
    let Ok(cores) = fs::read(&path) else { return false };
    OpenOptions::new().write(true).open(&path).is_ok_and(|mut file| file.write_all(&cores).is_err())
}

/// The interrupts of a device's queues, each with its queue: by the names of their handlers, and by number if two have
/// one name.
pub(super) fn of_device(device: &str) -> Vec<(u32, String)> {
    let setup = HostSetup::read();
    let all: Vec<&str> =
        setup.devices.iter().flat_map(|device| &device.interrupts).map(|one| one.name.as_str()).collect();
    let is_alone = |name: &str| all.iter().filter(|other| **other == name).count() == 1;
    let ours = setup.device(device).into_iter().flat_map(|device| &device.interrupts);
    ours.filter(|one| one.direction != Direction::Other)
        .filter_map(|one| {
            let name = if is_alone(&one.name) { one.name.clone() } else { one.irq.to_string() };
            Some((one.queue?, name))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handler_has_a_number() {
        let text = "           CPU0       CPU1\n  9:          0          4   IO-APIC   9-fasteoi   acpi\n \
                    41:       1108          7  PCI-MSI 524288-edge      eth0-TxRx-1\n \
                    42:          0          0  PCI-MSI 524289-edge      eth0-TxRx-11\nNMI:  1  2   Non-maskable\n";
        assert_eq!(number_in(text, "eth0-TxRx-1"), Some(41));
        assert_eq!(number_in(text, "eth0-TxRx-11"), Some(42));
        assert_eq!(number_in(text, "eth0-TxRx-2"), None);
        assert_eq!(number("45").unwrap(), 45);
    }
}
