//! The settings of this host: files of `/proc` and `/sys`, commands to drivers, and the socket of irqbalance.

mod driver;
mod files;
mod interrupts;
mod irqbalance;

use std::collections::BTreeSet;
use std::io;

use kqps_kernel::errno;
use kqps_kernel::namespace::{NetNs, sysfs};

use crate::owner::own_namespace;
use crate::setting::value::{self, ALL};
use crate::setting::{Change, Setting};
use crate::system::{Identity, SettingError, System};

/// This host, as one network namespace sees it.
#[derive(Debug)]
pub struct Real {
    /// The namespace of devices and their sysctls; `None` for that of this process.
    network: Option<NetNs>,
    number: u64,
}

impl Real {
    /// This host, in the network namespace of this process.
    pub fn host() -> Self {
        Self { network: None, number: own_namespace("net") }
    }

    /// This host, with the devices and sysctls of a network namespace. Sysctls that the namespace does not have, and
    /// settings that are of no network, are those of the host.
    pub fn within(network: NetNs) -> io::Result<Self> {
        let number = network.number()?;
        Ok(Self { network: Some(network), number })
    }

    /// Whether the namespace itself has a setting: one that the host has too is then another.
    pub fn has(&self, setting: &Setting) -> bool {
        setting.is_of_network() && self.at(|| Ok(files::exists(setting))).unwrap_or(false)
    }

    /// Runs `act` where the devices are, with their `/sys`.
    fn at<T: Send>(&self, act: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        match &self.network {
            None => act(),
            Some(network) => network.within(|| {
                sysfs::show_own_devices()?;
                act()
            }),
        }
    }

    /// Runs `act` in the namespace if that has the setting, and on the host otherwise.
    fn of<T: Send>(
        &self,
        setting: &Setting,
        act: impl FnOnce() -> io::Result<T> + Send,
    ) -> Result<T, SettingError> {
        let is_there = setting.device().is_some() || self.has(setting);
        let outcome = if is_there { self.at(act) } else { act() };
        outcome.map_err(|error| explained(setting, &error))
    }
}

/// The error of a call as one about a setting.
fn explained(setting: &Setting, error: &io::Error) -> SettingError {
    use io::ErrorKind::{NotFound, PermissionDenied, Unsupported};
    match error.kind() {
        NotFound => SettingError::absent(setting, "this host has no such setting"),
        PermissionDenied => {
            SettingError::refused(setting, "permission denied: it needs the rights of root (CAP_NET_ADMIN)")
        }
        _ if error.raw_os_error() == Some(errno::ENODEV) => {
            SettingError::absent(setting, "there is no such device")
        }
        kind if kind == Unsupported || error.raw_os_error() == Some(errno::EOPNOTSUPP) => {
            SettingError::absent(setting, "the driver cannot set it")
        }
        _ => SettingError::refused(setting, error.to_string()),
    }
}

impl System for Real {
    fn read(&self, setting: &Setting) -> Result<String, SettingError> {
        match setting {
            Setting::Irqbalance => irqbalance::banned().map_err(|why| SettingError::absent(setting, why)),
            Setting::Channels { device }
            | Setting::Rings { device }
            | Setting::Coalesce { device }
            | Setting::RssTable { device }
            | Setting::RssFields { device, .. }
            | Setting::Feature { device, .. } => {
                let read = self.of(setting, || driver::read(device, setting))?;
                read.ok_or_else(|| SettingError::absent(setting, "the device's driver does not have it"))
            }
            _ => self.of(setting, || files::read(setting)),
        }
    }

    fn write(&self, setting: &Setting, value: &str) -> Result<(), SettingError> {
        match setting {
            Setting::Irqbalance => irqbalance::ban(&value::numbers(value))
                .map_err(|error| SettingError::refused(setting, error.to_string())),
            Setting::Channels { device }
            | Setting::Rings { device }
            | Setting::Coalesce { device }
            | Setting::RssTable { device }
            | Setting::RssFields { device, .. }
            | Setting::Feature { device, .. } => self.of(setting, || driver::write(device, setting, value)),
            _ => self.of(setting, || files::write(setting, value)),
        }
    }

    fn parts(&self, change: &Change) -> Result<Vec<Change>, SettingError> {
        let Change { setting, value } = change;
        let each = |settings: Vec<Setting>| {
            settings.into_iter().map(|setting| Change { setting, value: value.clone() }).collect::<Vec<_>>()
        };
        let parts = match setting {
            Setting::Rps { device, queue: None } => {
                let queues = self.of(setting, || files::queues(device, "rx-"))?;
                each(queues.into_iter().map(|queue| Setting::Rps { device: device.clone(), queue }).collect())
            }
            Setting::Xps { device, queue: None } => {
                let queues = self.of(setting, || files::queues(device, "tx-"))?;
                each(queues.into_iter().map(|queue| Setting::Xps { device: device.clone(), queue }).collect())
            }
            Setting::Governor { policy: None } => {
                let policies = files::policies();
                each(policies.into_iter().map(|policy| Setting::Governor { policy: Some(policy) }).collect())
            }
            Setting::IdleStates => idle_states(value),
            Setting::Irqs { device } => {
                // Devices of another namespace have no interrupts of their own.
                let found = if self.network.is_none() { interrupts::of_device(device) } else { Vec::new() };
                with_irqbalance(in_turn(found, &value::cores(value)))
            }
            Setting::Irq(_) => with_irqbalance(vec![change.clone()]),
            Setting::Irqbalance => vec![left_alone(value::numbers(value))],
            _ => vec![change.clone()],
        };
        if parts.is_empty() {
            return Err(SettingError::absent(setting, "this host has no such setting"));
        }
        Ok(parts)
    }

    fn beside(&self, setting: &Setting) -> Vec<Setting> {
        let Setting::Channels { device } = setting else { return Vec::new() };
        let queues = |prefix: &'static str| self.at(|| files::queues(device, prefix)).unwrap_or_default();
        let rps = queues("rx-").into_iter().map(|queue| Setting::Rps { device: device.clone(), queue });
        let xps = queues("tx-").into_iter().map(|queue| Setting::Xps { device: device.clone(), queue });
        let irqs = interrupts::of_device(device).into_iter().map(|(_, irq)| Setting::Irq(irq));
        [Setting::RssTable { device: device.clone() }].into_iter().chain(rps).chain(xps).chain(irqs).collect()
    }

    fn identity(&self, setting: &Setting) -> Identity {
        match setting.device() {
            Some(device) => self.at(|| Ok(driver::identity(device))).unwrap_or_default(),
            None => Identity::default(),
        }
    }

    fn network(&self) -> u64 {
        self.number
    }

    fn remark(&self, setting: &Setting) -> Option<String> {
        let pid = matches!(setting, Setting::Irq(_)).then(irqbalance::process).flatten()?;
        let why = irqbalance::banned().err()?;
        Some(format!(
            "irqbalance (process {pid}) runs, and cannot be asked to leave interrupts alone ({why}): it may move them"
        ))
    }
}

/// One core for each interrupt: the queues take turns over the cores.
fn in_turn(interrupts: Vec<(u32, String)>, cores: &[u32]) -> Vec<Change> {
    let core = |queue: u32| cores.get(queue as usize % cores.len().max(1)).copied();
    let change = |(queue, irq): (u32, String)| {
        Some(Change { setting: Setting::Irq(irq), value: core(queue)?.to_string() })
    };
    interrupts.into_iter().filter_map(change).collect()
}

/// The changes of interrupts with one before them that asks irqbalance to leave them alone, if it runs and answers.
fn with_irqbalance(changes: Vec<Change>) -> Vec<Change> {
    let numbers = changes.iter().filter_map(|change| match &change.setting {
        Setting::Irq(irq) => interrupts::number(irq).ok(),
        _ => None,
    });
    let numbers: BTreeSet<u32> = numbers.collect();
    if numbers.is_empty() || irqbalance::banned().is_err() {
        return changes;
    }
    [left_alone(numbers)].into_iter().chain(changes).collect()
}

/// The change that makes irqbalance leave these interrupts alone, beside those that it does already.
fn left_alone(numbers: BTreeSet<u32>) -> Change {
    let before = irqbalance::banned().map(|banned| value::numbers(&banned)).unwrap_or_default();
    let all = before.into_iter().chain(numbers).collect();
    Change { setting: Setting::Irqbalance, value: value::numbers_word(&all) }
}

/// Each idle state of each core: on if it takes no longer to leave than the limit.
fn idle_states(limit: &str) -> Vec<Change> {
    let limit_us = limit.trim_end_matches("us").parse::<u64>().ok().filter(|_| limit != ALL);
    let states = files::idle_states().into_iter();
    let word =
        |latency_us: u64| if limit_us.is_none_or(|limit_us| latency_us <= limit_us) { "on" } else { "off" };
    states
        .map(|(cpu, state, latency_us)| Change {
            setting: Setting::IdleState { cpu, state },
            value: word(latency_us).into(),
        })
        .collect()
}

#[cfg(test)]
mod tests;
