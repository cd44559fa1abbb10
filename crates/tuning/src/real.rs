//! The settings of this host: files of `/proc` and `/sys`, commands to drivers, and the socket of irqbalance.

mod driver;
mod files;
mod interrupts;
mod irqbalance;
mod parts;

use std::fs;
use std::io;

use kqps_kernel::namespace::{NetNs, sysfs};
use kqps_kernel::{errno, ethtool};

use crate::own_sys;
use crate::owner::own_namespace;
use crate::setting::value;
use crate::setting::{Change, Flow, Setting};
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

    /// This host, with the devices and sysctls of a network namespace that this process made. Settings that are of no
    /// network are those of the host.
    pub fn within(network: NetNs) -> io::Result<Self> {
        let number = network.number()?;
        Ok(Self { network: Some(network), number })
    }

    /// Whether the namespace itself has a setting, which can be set there: one that the host has too is then another.
    /// Newer kernels show some sysctls of the host in every namespace, which nobody may write there.
    pub fn has(&self, setting: &Setting) -> bool {
        setting.is_of_network() && self.at(|| Ok(files::is_settable(setting))).unwrap_or(false)
    }

    /// Runs `act` where the devices are, with their `/sys`.
    fn at<T: Send>(&self, act: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        match &self.network {
            None => own_sys::within(act),
            Some(network) => network.within(|| {
                sysfs::show_own_devices()?;
                act()
            }),
        }
    }

    /// Runs `act` in the namespace if the setting is of a network, and on the host otherwise.
    fn run_for<T: Send>(
        &self,
        setting: &Setting,
        act: impl FnOnce() -> io::Result<T> + Send,
    ) -> Result<T, SettingError> {
        let outcome = if setting.is_of_network() { self.at(act) } else { act() };
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

/// The error of an irqbalance that cannot be asked. One that runs may answer later, and has its list still.
fn unanswered(setting: &Setting, why: String, it_runs: bool) -> SettingError {
    if it_runs { SettingError::refused(setting, why) } else { SettingError::absent(setting, why) }
}

impl System for Real {
    fn read(&self, setting: &Setting) -> Result<String, SettingError> {
        match setting {
            Setting::Irqbalance => {
                irqbalance::banned().map_err(|why| unanswered(setting, why, irqbalance::process().is_some()))
            }
            Setting::Channels { device }
            | Setting::Rings { device }
            | Setting::Coalesce { device }
            | Setting::RssTable { device }
            | Setting::RssFields { device, .. }
            | Setting::Feature { device, .. } => {
                let read = self.run_for(setting, || driver::read(device, setting))?;
                read.ok_or_else(|| SettingError::absent(setting, "the device's driver does not have it"))
            }
            _ => self.run_for(setting, || files::read(setting)),
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
            | Setting::Feature { device, .. } => {
                self.run_for(setting, || driver::write(device, setting, value))
            }
            _ => self.run_for(setting, || files::write(setting, value)),
        }
    }

    fn parts(&self, change: &Change) -> Result<Vec<Change>, SettingError> {
        let Change { setting, value } = change;
        let each = |settings: Vec<Setting>| {
            settings.into_iter().map(|setting| Change { setting, value: value.clone() }).collect::<Vec<_>>()
        };
        let parts = match setting {
            Setting::Rps { device, queue: None } => {
                let queues = self.run_for(setting, || files::queues(device, "rx-"))?;
                each(queues.into_iter().map(|queue| Setting::Rps { device: device.clone(), queue }).collect())
            }
            Setting::Xps { device, queue: None } => {
                let queues = self.run_for(setting, || files::queues(device, "tx-"))?;
                each(queues.into_iter().map(|queue| Setting::Xps { device: device.clone(), queue }).collect())
            }
            Setting::Governor { policy: None } => {
                let policies = files::policies();
                each(policies.into_iter().map(|policy| Setting::Governor { policy: Some(policy) }).collect())
            }
            Setting::RssTable { device } => {
                let table = self.run_for(setting, || ethtool::spreading(device))?;
                vec![parts::table(change, table.map_or(0, |table| table.queues.len()))]
            }
            Setting::IdleStates => parts::idle_states(&files::idle_states(), value),
            Setting::Irqs { device } => {
                let found = self.at(|| Ok(interrupts::of_device(device))).unwrap_or_default();
                parts::with_irqbalance(parts::in_turn(found, &value::cores(value)))
            }
            Setting::Irq(irq) => {
                let irq = self.at(|| Ok(interrupts::named(irq))).unwrap_or_else(|_| irq.clone());
                parts::with_irqbalance(vec![Change { setting: Setting::Irq(irq), value: value.clone() }])
            }
            Setting::Irqbalance => vec![parts::left_alone(value::numbers(value))],
            _ => vec![change.clone()],
        };
        if parts.is_empty() {
            return Err(SettingError::absent(setting, "this host has no such setting"));
        }
        Ok(parts)
    }

    fn beside(&self, setting: &Setting) -> Vec<Setting> {
        let Some(name) = setting.device().filter(|_| setting.may_reset()) else { return Vec::new() };
        let device = || name.to_owned();
        let queues = |prefix: &'static str| self.at(|| files::queues(name, prefix)).unwrap_or_default();
        let rps = queues("rx-").into_iter().map(|queue| Setting::Rps { device: device(), queue });
        let xps = queues("tx-").into_iter().map(|queue| Setting::Xps { device: device(), queue });
        // Interrupts that the kernel places cannot be put back, and go where they were by themselves.
        let irqs = if self.places_interrupts(name) {
            Vec::new()
        } else {
            self.at(|| Ok(interrupts::of_device(name))).unwrap_or_default()
        };
        let irqs = irqs.into_iter().map(|(_, irq)| Setting::Irq(irq));
        let fields = [Flow::Udp4, Flow::Udp6].map(|flow| Setting::RssFields { device: device(), flow });
        let of_driver = [Setting::RssTable { device: device() }, Setting::Coalesce { device: device() }];
        let all = of_driver.into_iter().chain(fields).chain(rps).chain(xps).chain(irqs);
        all.filter(|one| one != setting).collect()
    }

    fn identity(&self, setting: &Setting) -> Identity {
        let device = match setting {
            Setting::Irq(irq) => self.at(|| Ok(interrupts::owner(irq))).unwrap_or_default(),
            _ => setting.device().map(str::to_owned),
        };
        device.and_then(|device| self.at(|| Ok(driver::identity(&device))).ok()).unwrap_or_default()
    }

    fn find(&self, identity: &Identity) -> Option<String> {
        let find = || {
            let names = fs::read_dir("/sys/class/net")?.flatten();
            let mut names = names.filter_map(|entry| entry.file_name().into_string().ok());
            Ok(names.find(|name| driver::identity(name).is_of_same(identity)))
        };
        self.at(find).unwrap_or_default()
    }

    fn is_linked(&self, device: &str) -> bool {
        self.at(|| ethtool::is_linked(device)).unwrap_or(false)
    }

    fn places_interrupts(&self, device: &str) -> bool {
        self.at(|| Ok(interrupts::are_placed(device))).unwrap_or(false)
    }

    fn network(&self) -> u64 {
        self.number
    }

    fn is_private(&self) -> bool {
        self.network.is_some()
    }

    fn remarks(&self, parts: &[Change]) -> Vec<String> {
        let steered = parts.iter().find_map(|part| match &part.setting {
            Setting::Rps { device, .. } if part.value != value::NONE => Some(device),
            _ => None,
        });
        let placed = steered.filter(|device| self.places_interrupts(device));
        let placed = placed.map(|device| {
            format!(
                "the kernel places the interrupts of {device} and refuses other cores: the cores that take them pass \
                 the packets on (RPS)"
            )
        });
        parts::remarks_of_interrupts(parts).into_iter().chain(placed).collect()
    }
}

#[cfg(test)]
mod tests;
