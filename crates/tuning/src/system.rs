//! Readers and writers of settings: this host, or a host in memory in tests.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::setting::{Change, Setting};

/// Why a setting cannot be read or written. Each is one sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// This host or its device has no such setting.
    #[error("{setting}: {why}")]
    Absent {
        /// The setting.
        setting: Setting,
        /// The missing part, in words.
        why: String,
    },
    /// The kernel or the driver refused.
    #[error("{setting}: {why}")]
    Refused {
        /// The setting.
        setting: Setting,
        /// The reason.
        why: String,
    },
}

impl SettingError {
    /// This host has no such setting.
    pub fn absent(setting: &Setting, why: impl Into<String>) -> Self {
        Self::Absent { setting: setting.clone(), why: why.into() }
    }

    /// The setting was refused.
    pub fn refused(setting: &Setting, why: impl Into<String>) -> Self {
        Self::Refused { setting: setting.clone(), why: why.into() }
    }
}

/// The identity of a device, whatever its name: its address and its place if it has hardware, and its number if not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The name that it had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The permanent hardware address; `None` if the driver does not report one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<[u8; 6]>,
    /// Where it is on its bus, such as `0000:3b:00.0`; `None` for a virtual device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bus: Option<String>,
    /// Its number in its network namespace, which stays when it is renamed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
}

impl Identity {
    /// Whether anything but the name is known.
    pub fn is_known(&self) -> bool {
        self.has_hardware() || self.index.is_some()
    }

    /// Whether the device has hardware, which may be unplugged and come back.
    pub fn has_hardware(&self) -> bool {
        self.mac.is_some() || self.bus.is_some()
    }

    /// Whether two identities are surely those of two devices.
    pub fn differs_from(&self, other: &Self) -> bool {
        if !self.is_known() || !other.is_known() {
            return false;
        }
        match (self.has_hardware(), other.has_hardware()) {
            (true, true) => differ(self.mac, other.mac) || differ(self.bus.as_ref(), other.bus.as_ref()),
            (false, false) => differ(self.index, other.index),
            _ => true,
        }
    }

    /// Whether two identities are surely those of one device: nothing that one of them knows is unknown to the other.
    pub fn is_of_same(&self, other: &Self) -> bool {
        let is_one_card = self.mac == other.mac && self.bus == other.bus;
        let is_certain = self.has_hardware() || self.index.is_some();
        is_certain && is_one_card && (self.has_hardware() || self.index == other.index)
    }
}

/// Whether both are known, and differ.
fn differ<T: PartialEq>(one: Option<T>, other: Option<T>) -> bool {
    one.zip(other).is_some_and(|(one, other)| one != other)
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = Vec::new();
        words.extend(self.mac.map(|mac| mac.map(|byte| format!("{byte:02x}")).join(":")));
        words.extend(self.bus.as_ref().map(|bus| format!("at {bus}")));
        if words.is_empty() {
            words.extend(self.index.map(|index| format!("number {index}")));
        }
        f.write_str(&words.join(" "))
    }
}

/// A reader and writer of settings. Only a setting that stands for itself alone is read and written; [`System::parts`]
/// divides the others.
pub trait System {
    /// The present value, in the form of [`crate::setting::value::checked`].
    fn read(&self, setting: &Setting) -> Result<String, SettingError>;

    /// Sets a value. What the kernel made of it is read afterwards.
    fn write(&self, setting: &Setting, value: &str) -> Result<(), SettingError>;

    /// The changes of single settings that a change stands for, in their order; never empty.
    fn parts(&self, change: &Change) -> Result<Vec<Change>, SettingError> {
        Ok(vec![change.clone()])
    }

    /// The settings that the driver may change by itself when this one is written.
    fn beside(&self, _setting: &Setting) -> Vec<Setting> {
        Vec::new()
    }

    /// The identity of a setting's device; empty if it has none, or none is known.
    fn identity(&self, _setting: &Setting) -> Identity {
        Identity::default()
    }

    /// The present name of a device; `None` if it is not here.
    fn find(&self, _identity: &Identity) -> Option<String> {
        None
    }

    /// Whether a device has its link, and can pass packets.
    fn is_linked(&self, _device: &str) -> bool {
        false
    }

    /// Whether the kernel places the interrupts of a device, and refuses other cores.
    fn places_interrupts(&self, _device: &str) -> bool {
        false
    }

    /// The number of the network namespace whose devices and sysctls it reads and writes.
    fn network(&self) -> u64 {
        0
    }

    /// Whether that namespace is one that this process made, and that ends with it.
    fn is_private(&self) -> bool {
        false
    }

    /// Remarks on a change, of whose parts some are about to be written. Each is a sentence without its full stop.
    fn remarks(&self, _parts: &[Change]) -> Vec<String> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_is_known_by_address_and_place_and_others_by_number() {
        let card = |mac: u8, bus: &str, index| Identity {
            device: Some("eth0".into()),
            mac: Some([2, 0, 0, 0, 0, mac]),
            bus: Some(bus.into()),
            index: Some(index),
        };
        let one = card(1, "0000:3b:00.0", 2);
        assert!(one.is_of_same(&card(1, "0000:3b:00.0", 7)), "it was plugged in again");
        assert!(
            one.differs_from(&card(2, "0000:3b:00.0", 2)) && one.differs_from(&card(1, "0000:3c:00.0", 2))
        );
        let no_address = Identity { mac: None, ..one.clone() };
        assert!(!one.differs_from(&no_address), "its driver may not have answered");
        assert!(
            !one.is_of_same(&no_address) && !no_address.is_of_same(&one),
            "it may be one in the same place"
        );
        assert!(no_address.is_of_same(&no_address));
        let number = |index| Identity { index: Some(index), ..Identity::default() };
        assert!(number(3).is_of_same(&number(3)) && number(3).differs_from(&number(4)));
        assert!(one.differs_from(&number(2)), "a device without hardware has its name");
        assert!(!one.differs_from(&Identity::default()) && !one.is_of_same(&Identity::default()));
        assert_eq!(one.to_string(), "02:00:00:00:00:01 at 0000:3b:00.0");
        assert_eq!(number(3).to_string(), "number 3");
    }
}
