//! A host in memory, for tests: settings with values, and a driver that changes some of them by itself.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use crate::setting::value::{NONE, pairs};
use crate::setting::{Change, Setting};
use crate::system::{SettingError, System};

/// How the test ends the program.
pub(crate) struct Killed;

/// A number of steps after which the program is killed; `None` for never. Shared by all that take steps.
#[derive(Clone, Debug)]
pub(crate) struct Steps {
    /// `u32::MAX` for never.
    left: Arc<AtomicU32>,
    taken: Arc<AtomicU32>,
}

impl Default for Steps {
    fn default() -> Self {
        Self { left: Arc::new(AtomicU32::new(u32::MAX)), taken: Arc::default() }
    }
}

impl Steps {
    /// Kills the program after so many steps from now on.
    pub(crate) fn kill_after(&self, steps: Option<u32>) {
        self.left.store(steps.unwrap_or(u32::MAX), SeqCst);
        self.taken.store(0, SeqCst);
    }

    /// The steps since then.
    pub(crate) fn taken(&self) -> u32 {
        self.taken.load(SeqCst)
    }

    /// Takes a step. A kill unwinds without a message: nothing else of the program runs.
    pub(crate) fn take(&self) {
        self.taken.fetch_add(1, SeqCst);
        match self.left.load(SeqCst) {
            0 => std::panic::resume_unwind(Box::new(Killed)),
            u32::MAX => {}
            left => self.left.store(left - 1, SeqCst),
        }
    }
}

/// The host.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub(crate) values: RefCell<BTreeMap<Setting, String>>,
    pub(crate) steps: Steps,
    /// A setting that cannot be written.
    pub(crate) refused: RefCell<Option<Setting>>,
}

impl Memory {
    pub(crate) fn of(values: &[(&str, &str)]) -> Self {
        let values =
            values.iter().map(|(name, value)| (name.parse().unwrap(), (*value).to_owned())).collect();
        Self { values: RefCell::new(values), ..Self::default() }
    }

    /// Changes a setting as somebody else does.
    pub(crate) fn change(&self, name: &str, value: &str) {
        self.values.borrow_mut().insert(name.parse().unwrap(), value.to_owned());
    }

    /// What the driver does when the number of queues changes: as many receive queues, and a table that spreads over
    /// them.
    fn reshape(&self, device: &str, value: &str) {
        let count: u32 = pairs(value)["combined"].parse().unwrap();
        let mut values = self.values.borrow_mut();
        values.insert(Setting::RssTable { device: device.into() }, format!("equal={count}"));
        values.retain(|setting, _| {
            !matches!(setting, Setting::Rps { device: of, queue: Some(queue) } if of == device && *queue >= count)
        });
        for queue in 0..count {
            let queue = Setting::Rps { device: device.into(), queue: Some(queue) };
            values.entry(queue).or_insert_with(|| NONE.into());
        }
    }
}

impl System for Memory {
    fn read(&self, setting: &Setting) -> Result<String, SettingError> {
        let value = self.values.borrow().get(setting).cloned();
        value.ok_or_else(|| SettingError::absent(setting, "this host has no such setting"))
    }

    fn write(&self, setting: &Setting, value: &str) -> Result<(), SettingError> {
        self.read(setting)?;
        if self.refused.borrow().as_ref() == Some(setting) {
            return Err(SettingError::refused(setting, "permission denied"));
        }
        self.steps.take();
        // This driver has rings of powers of two.
        let rounded = |size: &str| size.parse::<u32>().map_or(0, u32::next_power_of_two);
        let value = match setting {
            Setting::Rings { .. } => {
                let all = pairs(value);
                format!("rx={},tx={}", rounded(&all["rx"]), rounded(&all["tx"]))
            }
            _ => value.to_owned(),
        };
        self.values.borrow_mut().insert(setting.clone(), value.clone());
        if let Setting::Channels { device } = setting {
            self.reshape(device, &value);
        }
        self.steps.take();
        Ok(())
    }

    fn parts(&self, change: &Change) -> Result<Vec<Change>, SettingError> {
        let is_part = |setting: &&Setting| match (&change.setting, setting) {
            (Setting::Rps { device, queue: None }, Setting::Rps { device: of, queue: Some(_) }) => {
                device == of
            }
            (Setting::Irqs { device }, Setting::Irq(name)) => name.starts_with(&format!("{device}-")),
            (one, other) => one == *other,
        };
        let values = self.values.borrow();
        let parts: Vec<Change> = values
            .keys()
            .filter(is_part)
            .map(|setting| Change { setting: setting.clone(), value: change.value.clone() })
            .collect();
        if parts.is_empty() {
            return Err(SettingError::absent(&change.setting, "this host has no such setting"));
        }
        Ok(parts)
    }

    fn beside(&self, setting: &Setting) -> Vec<Setting> {
        let Setting::Channels { device } = setting else { return Vec::new() };
        let is_beside = |one: &&Setting| {
            one.device() == Some(device) && matches!(one, Setting::RssTable { .. } | Setting::Rps { .. })
        };
        self.values.borrow().keys().filter(is_beside).cloned().collect()
    }
}
