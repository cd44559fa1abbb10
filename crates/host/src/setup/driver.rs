//! Answers of devices' drivers.

use std::collections::BTreeMap;

use kqps_kernel::ethtool::{self, Flow};
use serde::{Deserialize, Serialize};

use super::facts::{Channels, Coalesce, Rings, Rss};
use crate::unreadable::noted;

/// A way to ask the drivers of devices. It does not fail: what it cannot read is in the answers, with the reason.
pub trait Driver {
    /// Returns the answers of a device's driver.
    fn answers(&self, device: &str) -> Answers;
}

/// The answers of a device's driver. `None` is a setting that the driver does not have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Answers {
    /// The driver's name.
    pub driver: Option<String>,
    /// The device's address on its bus.
    pub bus: Option<String>,
    /// The Ethernet address with which the device was made.
    pub permanent_mac: Option<[u8; 6]>,
    /// The numbers of queues.
    pub queues: Option<Channels>,
    /// The queues' rings.
    pub rings: Option<Rings>,
    /// The delays of interrupts.
    pub coalesce: Option<Coalesce>,
    /// The spreading of packets over queues.
    pub rss: Option<Rss>,
    /// Name of an offload → whether it is on.
    pub features: BTreeMap<String, bool>,
    /// Settings that could not be read (`rings`) → why.
    pub unreadable: BTreeMap<String, String>,
}

/// The real drivers, asked by ioctl.
#[derive(Clone, Copy, Debug)]
pub struct Ioctls;

/// The offloads that matter to packets of DNS, by the names in [`Answers::features`].
const FEATURES: [&str; 10] = [
    "gro",
    "gso",
    "lro",
    "tso",
    "rx-checksum",
    "rx-gro-hw",
    "rx-gro-list",
    "rx-hashing",
    "rx-udp-gro-forwarding",
    "tx-udp-segmentation",
];

impl Driver for Ioctls {
    fn answers(&self, device: &str) -> Answers {
        let mut answers = Answers::default();
        let unreadable = &mut answers.unreadable;
        if let Some(info) = noted("driver", ethtool::driver_info(device), unreadable) {
            answers.driver = Some(info.name).filter(|name| !name.is_empty());
            answers.bus = info.bus;
        }
        answers.permanent_mac = noted("permanent-mac", ethtool::permanent_mac(device), unreadable);
        answers.queues = noted("channels", ethtool::channels(device), unreadable).map(Channels::from);
        answers.rings = noted("rings", ethtool::rings(device), unreadable).map(Rings::from);
        answers.coalesce = noted("coalesce", ethtool::coalesce(device), unreadable).map(Coalesce::from);
        let spreading = noted("rss", ethtool::spreading(device), unreadable);
        answers.rss = spreading.filter(|spreading| !spreading.queues.is_empty()).map(|spreading| {
            let mut fields = |what: &str, flow| {
                let fields = noted(what, ethtool::hash_fields(device, flow), unreadable);
                fields.map(|fields| fields.to_string())
            };
            let (udp4, udp6) = (fields("rss-fields/udp4", Flow::Udp4), fields("rss-fields/udp6", Flow::Udp6));
            Rss { queues: spreading.queues, fields_udp4: udp4, fields_udp6: udp6 }
        });
        let features = noted("features", ethtool::features(device), unreadable);
        let states = FEATURES.iter().filter_map(|name| {
            let feature = features.get(ethtool::kernel_name(name))?;
            // Features that are off for good say nothing of a device.
            (feature.on || feature.changeable).then(|| ((*name).to_owned(), feature.on))
        });
        answers.features = states.collect();
        answers
    }
}

impl From<ethtool::Channels> for Channels {
    fn from(channels: ethtool::Channels) -> Self {
        let ethtool::Channels { rx, tx, combined, rx_max, tx_max, combined_max, .. } = channels;
        Self { rx, tx, combined, rx_max, tx_max, combined_max }
    }
}

impl From<ethtool::Rings> for Rings {
    fn from(rings: ethtool::Rings) -> Self {
        let ethtool::Rings { rx, tx, rx_max, tx_max } = rings;
        Self { rx, tx, rx_max, tx_max }
    }
}

impl From<ethtool::Coalesce> for Coalesce {
    fn from(asked: ethtool::Coalesce) -> Self {
        let ethtool::Coalesce { rx_usecs, rx_frames, tx_usecs, tx_frames, adaptive_rx, adaptive_tx } = asked;
        Self { rx_usecs, rx_frames, tx_usecs, tx_frames, adaptive_rx, adaptive_tx }
    }
}
