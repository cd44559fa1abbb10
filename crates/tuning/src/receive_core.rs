//! All receive work of a device on one core: by its interrupts where it has them, and by RPS where it has none, as veth
//! and loopback, or where the kernel places them.

use crate::setting::value::NONE;
use crate::setting::{Change, Setting};
use crate::system::{SettingError, System};

/// The changes that put the receive work of a device on a core. If interrupts do it, RPS is switched off, which would
/// pass the packets on to other cores.
///
/// # Errors
///
/// The device, or its receive queues, do not exist.
pub fn receive_core(system: &dyn System, device: &str, core: u32) -> Result<Vec<Change>, SettingError> {
    let interrupts = Change { setting: Setting::Irqs { device: device.to_owned() }, value: core.to_string() };
    let steering = |value: String| {
        let queues = Setting::Rps { device: device.to_owned(), queue: None };
        Change { setting: queues, value }
    };
    if system.parts(&interrupts).is_ok() && !system.places_interrupts(device) {
        let off = steering(NONE.to_owned());
        let off = system.parts(&off).is_ok().then_some(off);
        return Ok([interrupts].into_iter().chain(off).collect());
    }
    let steering = steering(core.to_string());
    system.parts(&steering)?;
    Ok(vec![steering])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;

    #[test]
    fn interrupts_come_before_rps_which_is_switched_off() {
        let memory =
            Memory::with_values(&[("irq.eth0-rx-0", "0-3"), ("rps.eth0.0", "none"), ("rps.veth0.0", "none")]);
        memory.change("irq.eth1-rx-0", "0-3");
        let words = |device: &str| -> Result<Vec<String>, SettingError> {
            let changes = receive_core(&memory, device, 2)?;
            Ok(changes.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        assert_eq!(words("eth0"), Ok(vec!["irqs.eth0=2".to_owned(), "rps.eth0=none".to_owned()]));
        assert_eq!(words("eth1"), Ok(vec!["irqs.eth1=2".to_owned()]), "it has no RPS to switch off");
        assert_eq!(words("veth0"), Ok(vec!["rps.veth0=2".to_owned()]));
        assert!(matches!(words("none"), Err(SettingError::Absent { .. })));
        memory.places_interrupts.set(true);
        assert_eq!(words("eth0"), Ok(vec!["rps.eth0=2".to_owned()]), "the kernel refuses other cores");
    }
}
