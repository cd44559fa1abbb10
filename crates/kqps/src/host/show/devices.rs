//! The network devices.

use kqps_host::topology::Topology;
use kqps_observation::cpu_list;

use super::table::table;

pub(super) fn interrupts(topology: &Topology) -> String {
    if topology.interrupts.is_empty() {
        return "Interrupts of network devices: none are known.".into();
    }
    let mut table = table();
    table.set_header(["irq", "device", "name", "goes to", "since boot"]);
    for interrupt in &topology.interrupts {
        table.add_row([
            interrupt.irq.to_string(),
            interrupt.device.clone(),
            interrupt.name.clone(),
            cpu_list::write(&interrupt.cpus),
            interrupt.count.to_string(),
        ]);
    }
    format!("Interrupts of network devices:\n{}", table.trim_fmt())
}
