//! The settings that kqps changes, by name: `rps.eth0.3`, `sysctl.net.core.rmem_max`.

mod name;
mod sysctl;
pub mod value;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use name::NameError;
pub(crate) use sysctl::components;
pub use value::ValueError;

/// A setting of a host. Some names stand for several: `rps.eth0` for every receive queue of the device. A name that
/// stands for one setting can be read and written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Setting {
    /// A sysctl, by its dotted name: `sysctl.net.core.rmem_max`.
    Sysctl(String),
    /// The cores that process the packets of a receive queue (RPS), `rps.eth0.3`; of every queue, `rps.eth0`.
    Rps {
        /// The device.
        device: String,
        /// The queue; `None` for all.
        queue: Option<u32>,
    },
    /// The cores that send by a queue (XPS), `xps.eth0.3`; of every queue, `xps.eth0`.
    Xps {
        /// The device.
        device: String,
        /// The queue; `None` for all.
        queue: Option<u32>,
    },
    /// The numbers of queues, `channels.eth0`.
    Channels {
        /// The device.
        device: String,
    },
    /// The sizes of the rings of descriptors, `rings.eth0`.
    Rings {
        /// The device.
        device: String,
    },
    /// How long the device waits before it interrupts, `coalesce.eth0`.
    Coalesce {
        /// The device.
        device: String,
    },
    /// The queue that each hash of a packet selects (RSS), `rss.eth0`.
    RssTable {
        /// The device.
        device: String,
    },
    /// The fields of a packet that are hashed, `rss-fields.eth0.udp4`.
    RssFields {
        /// The device.
        device: String,
        /// The kind of packets.
        flow: Flow,
    },
    /// An offload, by its name in `ethtool -k`: `feature.eth0.gro`.
    Feature {
        /// The device.
        device: String,
        /// The name of the feature.
        name: String,
    },
    /// How the kernel polls a device: `napi-defer.eth0`, `gro-flush.eth0`, `napi-threaded.eth0`.
    Napi {
        /// The device.
        device: String,
        /// The setting of polling.
        of: NapiSetting,
    },
    /// The cores of one interrupt, by its number or the name of its handler: `irq.45`, `irq.eth0-TxRx-3`.
    Irq(String),
    /// The cores of every queue's interrupt of a device, `irqs.eth0`.
    Irqs {
        /// The device.
        device: String,
    },
    /// The frequency governor of a group of cores, `governor.0`; of all, `governor`.
    Governor {
        /// The number of the policy; `None` for all.
        policy: Option<u32>,
    },
    /// The longest time that a core may take to wake up, `idle-states`: deeper states are switched off.
    IdleStates,
    /// Whether a core may enter an idle state, `idle-state.2.3`.
    IdleState {
        /// The core.
        cpu: u32,
        /// The number of the state.
        state: u32,
    },
    /// The interrupts that irqbalance leaves alone, `irqbalance`.
    Irqbalance,
}

/// The offloads for which many drivers begin anew with the device.
const RESETTING: [&str; 3] = ["lro", "ntuple", "rx-gro-hw"];

/// A kind of packets whose hashed fields can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Flow {
    /// UDP over IPv4.
    Udp4,
    /// UDP over IPv6.
    Udp6,
}

impl Flow {
    /// Its word, as `ethtool -N` takes it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Udp4 => "udp4",
            Self::Udp6 => "udp6",
        }
    }
}

/// A setting of how the kernel polls a device, a file in `/sys/class/net/DEVICE`.
/// <https://docs.kernel.org/networking/napi.html>
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NapiSetting {
    /// Polls that find nothing before interrupts are switched on again.
    Defer,
    /// Nanoseconds between such polls.
    Flush,
    /// Whether threads poll instead of softirqs.
    Threaded,
}

impl NapiSetting {
    /// The name of its file.
    pub fn file(self) -> &'static str {
        match self {
            Self::Defer => "napi_defer_hard_irqs",
            Self::Flush => "gro_flush_timeout",
            Self::Threaded => "threaded",
        }
    }
}

impl Setting {
    /// The network device that it belongs to; `None` if it belongs to none.
    pub fn device(&self) -> Option<&str> {
        match self {
            Self::Rps { device, .. }
            | Self::Xps { device, .. }
            | Self::Channels { device }
            | Self::Rings { device }
            | Self::Coalesce { device }
            | Self::RssTable { device }
            | Self::RssFields { device, .. }
            | Self::Feature { device, .. }
            | Self::Napi { device, .. }
            | Self::Irqs { device } => Some(device),
            Self::Sysctl(_)
            | Self::Irq(_)
            | Self::Governor { .. }
            | Self::IdleStates
            | Self::IdleState { .. }
            | Self::Irqbalance => None,
        }
    }

    /// Whether most drivers take the link down for a moment to change it.
    pub fn takes_link_down(&self) -> bool {
        match self {
            Self::Channels { .. } | Self::Rings { .. } => true,
            Self::Feature { name, .. } => RESETTING.contains(&name.as_str()),
            _ => false,
        }
    }

    /// Whether some drivers begin anew with a device to change it, so that its link may go down and other settings may
    /// get new values.
    pub fn may_reset(&self) -> bool {
        self.takes_link_down() || matches!(self, Self::Coalesce { .. })
    }

    /// Its place in the order in which settings are made: numbers of queues come first, then sizes of rings, offloads,
    /// and delays of interrupts, since drivers may begin anew with the rest for each of them.
    pub fn rank(&self) -> u32 {
        match self {
            Self::Channels { .. } => 0,
            Self::Rings { .. } => 1,
            Self::Feature { .. } => 2,
            Self::Coalesce { .. } => 3,
            _ => 4,
        }
    }

    /// Whether the driver or the kernel rounds its value, so that what is read back may differ from what was written.
    pub fn is_rounded(&self) -> bool {
        match self {
            Self::Channels { .. } | Self::Rings { .. } | Self::Coalesce { .. } => true,
            Self::Sysctl(name) => sysctl::is_rounded(name),
            _ => false,
        }
    }

    /// The setting of a device that has another name now. `was` is the name that the device had.
    #[must_use]
    pub fn renamed(&self, was: &str, is: &str) -> Self {
        let mut setting = self.clone();
        match &mut setting {
            Self::Rps { device, .. }
            | Self::Xps { device, .. }
            | Self::Channels { device }
            | Self::Rings { device }
            | Self::Coalesce { device }
            | Self::RssTable { device }
            | Self::RssFields { device, .. }
            | Self::Feature { device, .. }
            | Self::Napi { device, .. }
            | Self::Irqs { device } => is.clone_into(device),
            // Most drivers name their handlers for the device: `eth0-TxRx-3`, `i40e-eth0-TxRx-3`.
            Self::Irq(handler) if !was.is_empty() => *handler = handler.replacen(was, is, 1),
            Self::Sysctl(_)
            | Self::Irq(_)
            | Self::Governor { .. }
            | Self::IdleStates
            | Self::IdleState { .. }
            | Self::Irqbalance => {}
        }
        setting
    }

    /// Whether it is in a network namespace, if that has it: devices and many sysctls of `net` are.
    pub fn is_of_network(&self) -> bool {
        self.device().is_some() || matches!(self, Self::Sysctl(name) if name.starts_with("net."))
    }
}

impl From<Setting> for String {
    fn from(setting: Setting) -> Self {
        setting.to_string()
    }
}

impl TryFrom<String> for Setting {
    type Error = NameError;

    fn try_from(name: String) -> Result<Self, NameError> {
        name.parse()
    }
}

/// A setting and the value that it shall have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Change {
    /// The setting.
    pub setting: Setting,
    /// The value, in the form of [`value::checked`].
    pub value: String,
}

/// Why a change cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // the messages say it
pub enum ChangeError {
    #[error("`{0}`: expected SETTING=VALUE, such as rps.eth0=0-3")]
    Form(String),
    #[error(transparent)]
    Name(#[from] NameError),
    #[error(transparent)]
    Value(#[from] ValueError),
}

impl Change {
    /// Reads a change from the name of its setting and a value as people type it.
    pub fn read(name: &str, value: &str) -> Result<Self, ChangeError> {
        let setting: Setting = name.parse()?;
        let value = value::checked(&setting, value)?;
        Ok(Self { setting, value })
    }
}

/// Puts changes in the order of [`Setting::rank`]. Those of one rank stay in theirs.
pub fn in_order(changes: &mut [Change]) {
    changes.sort_by_key(|change| change.setting.rank());
}

impl FromStr for Change {
    type Err = ChangeError;

    fn from_str(text: &str) -> Result<Self, ChangeError> {
        let (name, value) = text.split_once('=').ok_or_else(|| ChangeError::Form(text.to_owned()))?;
        Self::read(name.trim(), value)
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.setting, self.value)
    }
}

#[cfg(test)]
mod tests {
    use kqps_observation::factors::name::HOST_SETTINGS;

    use super::*;

    #[test]
    fn every_name_is_read_as_it_is_written() {
        for name in [
            "sysctl.net.core.rmem_max",
            "rps.eth0",
            "rps.eth0.3",
            "rps.eth0.100.0",
            "xps.eth0.0",
            "channels.eth0",
            "rings.eth0",
            "coalesce.enp1s0f0np0",
            "rss.eth0",
            "rss-fields.eth0.udp6",
            "feature.eth0.rx-udp-gro-forwarding",
            "napi-defer.eth0",
            "gro-flush.eth0",
            "napi-threaded.eth0",
            "irq.45",
            "irq.mlx5_comp3@pci:0000:3b:00.0",
            "irqs.eth0",
            "governor",
            "governor.7",
            "idle-states",
            "idle-state.2.3",
            "irqbalance",
        ] {
            let setting: Setting = name.parse().unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(setting.to_string(), name);
            let stored = serde_json::to_string(&setting).unwrap();
            assert_eq!(serde_json::from_str::<Setting>(&stored).unwrap(), setting);
            let of_family = |family: &&str| *name == **family || name.starts_with(&format!("{family}."));
            assert!(HOST_SETTINGS.iter().any(of_family), "{name}");
        }
    }

    #[test]
    fn a_slip_is_one_sentence() {
        for (text, expected) in [
            ("rps.eth0", "`rps.eth0`: expected SETTING=VALUE"),
            ("rsp.eth0=1", "no setting is called `rsp.eth0`; did you mean `rps`?"),
            ("rps=1", "`rps`: expected rps.DEVICE or rps.DEVICE.QUEUE"),
            ("rps.=1", "`rps.`: expected rps.DEVICE or rps.DEVICE.QUEUE"),
            ("rps.../x=1", "`rps.../x`: expected rps.DEVICE or rps.DEVICE.QUEUE"),
            ("sysctl.net..x=1", "expected sysctl.NAME"),
            ("rss-fields.eth0.tcp4=sd", "expected rss-fields.DEVICE.udp4 or rss-fields.DEVICE.udp6"),
            ("idle-state.1=on", "expected idle-state.CPU.STATE"),
            ("governor.x=performance", "expected governor or governor.POLICY"),
            ("rps.eth0=3-1", "rps.eth0: expected cores such as 0,2-3, or none, found `3-1`"),
        ] {
            let error = text.parse::<Change>().unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn a_setting_has_one_name() {
        let feature: Setting = "feature.eth0.rx-gro".parse().unwrap();
        assert_eq!(feature, "feature.eth0.gro".parse().unwrap());
        assert_eq!(feature.to_string(), "feature.eth0.gro");
    }

    #[test]
    fn what_makes_drivers_begin_anew_comes_first() {
        let words =
            ["irqs.eth0=0", "coalesce.eth0=9", "feature.eth0.lro=off", "rings.eth0=9", "channels.eth0=2"];
        let mut changes = words.map(|word| word.parse::<Change>().unwrap());
        in_order(&mut changes);
        let names = changes.map(|change| change.setting.to_string());
        assert_eq!(names, ["channels.eth0", "rings.eth0", "feature.eth0.lro", "coalesce.eth0", "irqs.eth0"]);
        let down = |name: &str| name.parse::<Setting>().unwrap().takes_link_down();
        assert!(down("rings.eth0") && down("feature.eth0.rx-lro") && down("feature.eth0.ntuple"));
        assert!(!down("feature.eth0.gro") && !down("rss.eth0"));
    }

    #[test]
    fn a_device_with_another_name_has_the_same_settings() {
        for (name, wanted) in [
            ("rps.eth0.3", "rps.lan0.3"),
            ("feature.eth0.gro", "feature.lan0.gro"),
            ("irq.i40e-eth0-TxRx-3", "irq.i40e-lan0-TxRx-3"),
            ("irq.mlx5_comp3@pci:0000:3b:00.0", "irq.mlx5_comp3@pci:0000:3b:00.0"),
            ("governor.0", "governor.0"),
        ] {
            let setting: Setting = name.parse().unwrap();
            assert_eq!(setting.renamed("eth0", "lan0").to_string(), wanted);
        }
    }

    #[test]
    fn the_factors_of_a_cell_know_the_families() {
        for family in HOST_SETTINGS {
            let is_open = kqps_observation::factors::name::is_host_setting(&format!("host.{family}"));
            let is_known = kqps_observation::factors::name::is_host_setting(&format!("host.{family}.eth0"));
            assert!(is_open || is_known, "{family}");
        }
    }
}
