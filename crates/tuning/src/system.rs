//! What reads and writes settings: this host, or a host in memory in tests.

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
        /// What is missing.
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

/// What a device is, whatever its name: if both differ, another device has got the name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The permanent hardware address; `None` if the driver does not report one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<[u8; 6]>,
    /// Where it is on its bus, such as `0000:3b:00.0`; `None` for a virtual device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bus: Option<String>,
}

/// What reads and writes settings. Only a setting that stands for itself alone is read and written; [`System::parts`]
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

    /// What the device of a setting is; empty if it has none, or none is known.
    fn identity(&self, _setting: &Setting) -> Identity {
        Identity::default()
    }

    /// The number of the network namespace whose devices and sysctls it reads and writes.
    fn network(&self) -> u64 {
        0
    }

    /// A remark on a setting that is about to be written, one sentence; `None` if there is none.
    fn remark(&self, _setting: &Setting) -> Option<String> {
        None
    }
}
