//! The devices of this host, and what their drivers can do for frames past the network stack.

use comfy_table::Table;
use kqps_kernel::probe;
use schemars::JsonSchema;
use serde::Serialize;

use crate::table::titled;

/// A device with Ethernet frames.
#[derive(Serialize, JsonSchema)]
pub(super) struct Device {
    name: String,
    driver: Option<String>,
    /// The number of queues that receive; `None` if the kernel does not say.
    queues: Option<u32>,
    /// Whether the driver hands frames to sockets itself; `None` if the kernel does not say.
    xdp_native: Option<bool>,
    /// Whether the device reads and writes the frames of sockets itself; `None` if the kernel does not say.
    xdp_zero_copy: Option<bool>,
    /// Why the last two are not known; `None` if they are.
    reason: Option<String>,
}

/// All devices, by index; the reason if they cannot be listed.
pub(super) fn all() -> Result<Vec<Device>, String> {
    let all = probe::devices().map_err(|error| error.to_string())?;
    Ok(all.into_iter().map(Device::from_probe).collect())
}

impl Device {
    fn from_probe(device: probe::Device) -> Self {
        let probe::Device { name, driver, queues, features, .. } = device;
        let (known, reason) = match features {
            Ok(features) => (Some(features), None),
            Err(reason) => (None, Some(reason)),
        };
        Self {
            name,
            driver,
            queues,
            xdp_native: known.map(|features| features.native),
            xdp_zero_copy: known.map(|features| features.zero_copy),
            reason,
        }
    }
}

pub(super) fn table(devices: &[Device]) -> Table {
    let mut table = titled(["device", "driver", "queues", "XDP native", "XDP zero-copy"]);
    for device in devices {
        let unknown = || "unknown".to_owned();
        let word = |known: Option<bool>| match known {
            Some(true) => "yes".to_owned(),
            Some(false) => "no".to_owned(),
            None => device.reason.as_ref().map_or_else(unknown, |reason| format!("unknown: {reason}")),
        };
        table.add_row([
            device.name.clone(),
            device.driver.clone().unwrap_or_else(unknown),
            device.queues.map_or_else(unknown, |queues| queues.to_string()),
            word(device.xdp_native),
            word(device.xdp_zero_copy),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_has_its_reason() {
        let device = |features| {
            let (name, driver) = ("eth0".to_owned(), Some("igb".to_owned()));
            Device::from_probe(probe::Device { index: 2, name, driver, queues: Some(4), features })
        };
        let known = device(Ok(probe::XdpFeatures { native: true, zero_copy: false }));
        assert_eq!((known.xdp_native, known.xdp_zero_copy, &known.reason), (Some(true), Some(false), &None));
        let unknown = device(Err("the kernel is old".to_owned()));
        assert_eq!((unknown.xdp_native, unknown.xdp_zero_copy), (None, None));
        let text = table(&[known, unknown]).to_string();
        let rows: Vec<&str> = text.lines().collect();
        assert!(rows[1].contains("igb") && rows[1].contains("yes") && rows[1].contains("no"), "{text}");
        assert!(rows[2].contains("unknown: the kernel is old"), "{text}");
    }
}
