//! Settings that drivers keep, by the commands of ethtool(8).

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use kqps_kernel::ethtool::{self, Channels, Coalesce, HashFields};

use crate::setting::value::{pairs, table_to_write, table_word};
use crate::setting::{Flow, Setting};
use crate::system::Identity;

/// Reads a setting; `None` if the driver does not have it.
pub(super) fn read(device: &str, setting: &Setting) -> io::Result<Option<String>> {
    Ok(match setting {
        Setting::Channels { .. } => ethtool::channels(device)?
            .map(|now| format!("rx={},tx={},combined={}", now.rx, now.tx, now.combined)),
        Setting::Rings { .. } => ethtool::rings(device)?.map(|now| format!("rx={},tx={}", now.rx, now.tx)),
        Setting::Coalesce { .. } => ethtool::coalesce(device)?.map(|now| {
            let switch = |on| if on { "on" } else { "off" };
            let (rx, tx) = (switch(now.adaptive_rx), switch(now.adaptive_tx));
            let Coalesce { rx_usecs, tx_usecs, .. } = now;
            format!("rx-usecs={rx_usecs},tx-usecs={tx_usecs},adaptive-rx={rx},adaptive-tx={tx}")
        }),
        Setting::RssTable { .. } => {
            let spreading = ethtool::spreading(device)?.filter(|now| !now.queues.is_empty());
            spreading.map(|now| table_word(&now.queues))
        }
        Setting::RssFields { flow, .. } => {
            ethtool::hash_fields(device, of_kernel(*flow))?.map(|fields| fields.to_string())
        }
        Setting::Feature { name, .. } => {
            let features = ethtool::features(device)?;
            let feature = features.get(ethtool::kernel_name(name));
            feature.map(|feature| if feature.on { "on".to_owned() } else { "off".to_owned() })
        }
        _ => None,
    })
}

/// Writes a setting. What a value leaves open stays as it is.
pub(super) fn write(device: &str, setting: &Setting, value: &str) -> io::Result<()> {
    let all = pairs(value);
    match setting {
        Setting::Channels { .. } => {
            let now = ethtool::channels(device)?.ok_or(io::ErrorKind::Unsupported)?;
            let (rx, tx) = (number(&all, "rx", now.rx), number(&all, "tx", now.tx));
            let combined = number(&all, "combined", now.combined);
            ethtool::set_channels(device, &Channels { rx, tx, combined, ..now })
        }
        Setting::Rings { .. } => {
            let now = ethtool::rings(device)?.ok_or(io::ErrorKind::Unsupported)?;
            ethtool::set_rings(device, number(&all, "rx", now.rx), number(&all, "tx", now.tx))
        }
        Setting::Coalesce { .. } => {
            let now = ethtool::coalesce(device)?.ok_or(io::ErrorKind::Unsupported)?;
            let is_on = |key: &str, now: bool| all.get(key).map_or(now, |word| word == "on");
            let wanted = Coalesce {
                rx_usecs: number(&all, "rx-usecs", now.rx_usecs),
                tx_usecs: number(&all, "tx-usecs", now.tx_usecs),
                adaptive_rx: is_on("adaptive-rx", now.adaptive_rx),
                adaptive_tx: is_on("adaptive-tx", now.adaptive_tx),
                ..now
            };
            ethtool::set_coalesce(device, &wanted)
        }
        Setting::RssTable { .. } => {
            let slots = ethtool::spreading(device)?.ok_or(io::ErrorKind::Unsupported)?.queues.len();
            let wrong = || io::Error::other(format!("the device's table has {slots} slots"));
            let queues = ethtool::channels(device).ok().flatten().map(|now| now.receiving());
            ethtool::set_spreading(device, &table_to_write(value, slots, queues).ok_or_else(wrong)?)
        }
        Setting::RssFields { flow, .. } => {
            let fields: HashFields = value.parse().map_err(io::Error::other)?;
            ethtool::set_hash_fields(device, of_kernel(*flow), fields)
        }
        Setting::Feature { name, .. } => ethtool::set_feature(device, name, value == "on"),
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// The identity of a device; empty if there is none.
pub(super) fn identity(device: &str) -> Identity {
    let folder = Path::new("/sys/class/net").join(device);
    let Ok(index) = fs::read_to_string(folder.join("ifindex")) else { return Identity::default() };
    // Some drivers without hardware answer with a word of their own.
    let has_hardware = folder.join("device").exists();
    let info = ethtool::driver_info(device).ok().flatten().filter(|_| has_hardware);
    Identity {
        device: Some(device.to_owned()),
        mac: ethtool::permanent_mac(device).ok().flatten(),
        bus: info.and_then(|info| info.bus),
        index: index.trim().parse().ok(),
    }
}

fn of_kernel(flow: Flow) -> ethtool::Flow {
    match flow {
        Flow::Udp4 => ethtool::Flow::Udp4,
        Flow::Udp6 => ethtool::Flow::Udp6,
    }
}

fn number(all: &BTreeMap<String, String>, key: &str, now: u32) -> u32 {
    all.get(key).and_then(|word| word.parse().ok()).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_over_all_queues_is_the_drivers_own() {
        assert_eq!(table_to_write("equal=4", 8, Some(4)), Some(vec![]));
        assert_eq!(table_to_write("0,1,2,3,0,1,2,3", 8, Some(4)), Some(vec![]));
        assert_eq!(table_to_write("equal=2", 8, Some(4)), Some(vec![0, 1, 0, 1, 0, 1, 0, 1]));
        assert_eq!(table_to_write("equal=2", 4, None), Some(vec![0, 1, 0, 1]));
        assert_eq!(table_to_write("0,0,1", 4, Some(4)), None);
        // A table with fewer slots than there are queues is whole, too.
        assert_eq!(table_to_write("equal=4", 4, Some(8)), Some(vec![]));
    }
}
