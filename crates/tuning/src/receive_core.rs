//! All receive work of a device on one core: by its interrupts where it has them, and by RPS where it has none, as veth
//! and loopback.

use crate::setting::{Change, Setting};
use crate::system::{SettingError, System};

/// The changes that put the receive work of a device on a core.
///
/// # Errors
///
/// The device, or its receive queues, do not exist.
pub fn receive_core(system: &dyn System, device: &str, core: u32) -> Result<Vec<Change>, SettingError> {
    let interrupts = Change { setting: Setting::Irqs { device: device.to_owned() }, value: core.to_string() };
    if system.parts(&interrupts).is_ok() {
        return Ok(vec![interrupts]);
    }
    let queues = Setting::Rps { device: device.to_owned(), queue: None };
    let queues = Change { setting: queues, value: core.to_string() };
    system.parts(&queues)?;
    Ok(vec![queues])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;

    #[test]
    fn interrupts_come_before_rps() {
        let memory = Memory::of(&[("irq.eth0-rx-0", "0-3"), ("rps.eth0.0", "none"), ("rps.veth0.0", "none")]);
        let words = |device: &str| -> Result<Vec<String>, SettingError> {
            let changes = receive_core(&memory, device, 2)?;
            Ok(changes.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        assert_eq!(words("eth0"), Ok(vec!["irqs.eth0=2".to_owned()]));
        assert_eq!(words("veth0"), Ok(vec!["rps.veth0=2".to_owned()]));
        assert!(matches!(words("none"), Err(SettingError::Absent { .. })));
    }
}
