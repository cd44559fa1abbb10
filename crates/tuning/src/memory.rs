//! A host in memory, for tests: settings with values, and a kernel and a driver that change some of them by themselves.

pub(crate) mod card;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use crate::journal::Journal;
use crate::setting::value::{NONE, pairs};
use crate::setting::{Change, Setting};
use crate::system::{Identity, SettingError, System};
use card::Card;

/// The highest value of a sysctl. The kernel takes a higher one for this.
pub(crate) const HIGHEST: u64 = 2_147_483_647;

/// The changes that these words mean.
pub(crate) fn changes(words: &[&str]) -> Vec<Change> {
    words.iter().map(|word| word.parse().unwrap()).collect()
}

/// A host, an empty journal, and the folder of that.
pub(crate) fn journaled<S>(system: S) -> (S, Journal, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    (system, Journal::at(folder.path()).unwrap(), folder)
}

/// The values of a host's settings.
pub(crate) fn values(memory: &Memory) -> BTreeMap<Setting, String> {
    memory.values.borrow().clone()
}

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
    /// A setting that cannot be read.
    pub(crate) unreadable: RefCell<Option<Setting>>,
    /// Identities of devices, by name.
    pub(crate) identities: RefCell<BTreeMap<String, Identity>>,
    /// The devices that have their link.
    pub(crate) linked: RefCell<BTreeSet<String>>,
    /// The looks at a link after a driver began anew, until it is back.
    pub(crate) looks: Cell<u32>,
    /// The looks that are left.
    looks_left: Cell<u32>,
    pub(crate) network: Cell<u64>,
    pub(crate) is_private: Cell<bool>,
    /// Whether the kernel places the interrupts of all devices.
    pub(crate) places_interrupts: Cell<bool>,
    /// The card `eth0`, whose driver begins anew with other settings.
    pub(crate) card: Option<Card>,
}

impl Memory {
    pub(crate) fn with_values(values: &[(&str, &str)]) -> Self {
        let values =
            values.iter().map(|(name, value)| (name.parse().unwrap(), (*value).to_owned())).collect();
        Self { values: RefCell::new(values), ..Self::default() }
    }

    /// Changes a setting as somebody else does.
    pub(crate) fn change(&self, name: &str, value: &str) {
        self.values.borrow_mut().insert(name.parse().unwrap(), value.to_owned());
    }

    /// The value of a setting.
    pub(crate) fn value(&self, name: &str) -> String {
        self.read(&name.parse().unwrap()).unwrap()
    }

    /// Gives a device another name, with all of its settings.
    pub(crate) fn rename(&self, was: &str, is: &str) {
        let is_its = |setting: &Setting| self.owner(setting).as_deref() == Some(was);
        let values = self.values.borrow().clone();
        let renamed = values.into_iter().map(|(setting, value)| {
            (if is_its(&setting) { setting.renamed(was, is) } else { setting }, value)
        });
        let renamed: BTreeMap<Setting, String> = renamed.collect();
        self.values.replace(renamed);
        let mut identities = self.identities.borrow_mut();
        if let Some(identity) = identities.remove(was) {
            identities.insert(is.to_owned(), identity);
        }
    }

    /// Takes a device away. Returns it, for [`Self::plug`].
    pub(crate) fn unplug(&self, device: &str) -> (BTreeMap<Setting, String>, Option<Identity>) {
        let is_its = |setting: &Setting| self.owner(setting).as_deref() == Some(device);
        let (its, others) =
            self.values.borrow().clone().into_iter().partition(|(setting, _)| is_its(setting));
        self.values.replace(others);
        (its, self.identities.borrow_mut().remove(device))
    }

    /// Brings a device back.
    pub(crate) fn plug(
        &self,
        device: &str,
        (values, identity): (BTreeMap<Setting, String>, Option<Identity>),
    ) {
        self.values.borrow_mut().extend(values);
        self.identities.borrow_mut().extend(identity.map(|identity| (device.to_owned(), identity)));
    }

    /// The device of a setting; of an interrupt the one that its handler is named for.
    fn owner(&self, setting: &Setting) -> Option<String> {
        match setting {
            Setting::Irq(_) if self.card.is_some() => Some(card::DEVICE.to_owned()),
            Setting::Irq(handler) => {
                let known = self.identities.borrow();
                known.keys().find(|device| handler.starts_with(&format!("{device}-"))).cloned()
            }
            _ => setting.device().map(str::to_owned),
        }
    }

    /// Follows a new number of queues as the driver does: with as many receive queues, and a table that spreads over
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

    /// Returns a value in the form that the kernel makes of it.
    fn taken(setting: &Setting, value: &str) -> String {
        match (setting, value.parse::<u64>()) {
            (Setting::Sysctl(name), Ok(number)) if name == "net.core.rps_sock_flow_entries" => {
                if number == 0 { "0".to_owned() } else { number.next_power_of_two().to_string() }
            }
            (Setting::Sysctl(_), Ok(number)) => number.min(HIGHEST).to_string(),
            // It shortens a text.
            (Setting::Sysctl(name), _) if name == "kernel.core_pattern" => value.chars().take(8).collect(),
            // This driver has rings of powers of two.
            (Setting::Rings { .. }, _) => {
                let rounded = |size: &str| size.parse::<u32>().map_or(0, u32::next_power_of_two);
                let all = pairs(value);
                format!("rx={},tx={}", rounded(&all["rx"]), rounded(&all["tx"]))
            }
            _ => value.to_owned(),
        }
    }
}

impl System for Memory {
    fn read(&self, setting: &Setting) -> Result<String, SettingError> {
        if self.unreadable.borrow().as_ref() == Some(setting) {
            return Err(SettingError::refused(setting, "it does not answer"));
        }
        let value = self.values.borrow().get(setting).cloned();
        value.ok_or_else(|| SettingError::absent(setting, "this host has no such setting"))
    }

    fn write(&self, setting: &Setting, value: &str) -> Result<(), SettingError> {
        self.read(setting)?;
        if self.refused.borrow().as_ref() == Some(setting) {
            return Err(SettingError::refused(setting, "permission denied"));
        }
        self.steps.take();
        let value = match &self.card {
            Some(card) => card.takes(&self.values.borrow(), setting, value)?,
            None => Self::taken(setting, value),
        };
        self.values.borrow_mut().insert(setting.clone(), value.clone());
        match (&self.card, setting) {
            (Some(card), _) => card.begin_anew(&mut self.values.borrow_mut(), setting, &value),
            (None, Setting::Channels { device }) => self.reshape(device, &value),
            _ => {}
        }
        if setting.may_reset() {
            self.looks_left.set(self.looks.get());
        }
        self.steps.take();
        Ok(())
    }

    fn parts(&self, change: &Change) -> Result<Vec<Change>, SettingError> {
        let is_part = |setting: &&Setting| match (&change.setting, setting) {
            (Setting::Rps { device, queue: None }, Setting::Rps { device: of, queue: Some(_) })
            | (Setting::Xps { device, queue: None }, Setting::Xps { device: of, queue: Some(_) }) => {
                device == of
            }
            (Setting::Irqs { device }, Setting::Irq(name)) => {
                self.card.is_some() || name.starts_with(&format!("{device}-"))
            }
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
        let Some(device) = setting.device().filter(|_| setting.may_reset()) else { return Vec::new() };
        let is_beside = |one: &&Setting| match one {
            Setting::RssTable { .. }
            | Setting::Rps { .. }
            | Setting::Xps { .. }
            | Setting::Coalesce { .. } => one.device() == Some(device) && *one != setting,
            Setting::Irq(_) => self.card.is_some(),
            _ => false,
        };
        self.values.borrow().keys().filter(is_beside).cloned().collect()
    }

    fn identity(&self, setting: &Setting) -> Identity {
        let identity = self.owner(setting).and_then(|device| self.identities.borrow().get(&device).cloned());
        identity.unwrap_or_default()
    }

    fn find(&self, identity: &Identity) -> Option<String> {
        let known = self.identities.borrow();
        known.iter().find(|(_, known)| known.is_of_same(identity)).map(|(device, _)| device.clone())
    }

    fn is_linked(&self, device: &str) -> bool {
        let left = self.looks_left.get();
        self.looks_left.set(left.saturating_sub(1));
        left == 0 && self.linked.borrow().contains(device)
    }

    fn places_interrupts(&self, _device: &str) -> bool {
        self.places_interrupts.get()
    }

    fn network(&self) -> u64 {
        self.network.get()
    }

    fn is_private(&self) -> bool {
        self.is_private.get()
    }
}
