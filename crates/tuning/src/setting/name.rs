//! Reads and writes the names of settings.

use std::fmt;
use std::str::FromStr;

use kqps_files::toml_file::{did_you_mean, nearest};
use kqps_kernel::ethtool::short_name;

use super::{Flow, NapiSetting, Setting};

/// The first words of all names.
pub const FAMILIES: [&str; 18] = [
    "sysctl",
    "rps",
    "xps",
    "channels",
    "rings",
    "coalesce",
    "rss",
    "rss-fields",
    "feature",
    "napi-defer",
    "gro-flush",
    "napi-threaded",
    "irq",
    "irqs",
    "governor",
    "idle-states",
    "idle-state",
    "irqbalance",
];

/// The most bytes of a device's name (`IFNAMSIZ`, less the 0 at its end).
const DEVICE_MOST: usize = 15;

/// Why a name is that of no setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The first word is unknown.
    #[error("no setting is called `{name}`{near} (known: {known})", known = FAMILIES.join(", "))]
    Unknown {
        /// The name.
        name: String,
        /// The word that was probably meant, as the end of a sentence; may be empty.
        near: String,
    },
    /// The rest of the name has another form.
    #[error("`{name}`: expected {expected}")]
    Form {
        /// The name.
        name: String,
        /// The form.
        expected: &'static str,
    },
}

impl FromStr for Setting {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        let (family, rest) = name.split_once('.').map_or((name, None), |(family, rest)| (family, Some(rest)));
        if !FAMILIES.contains(&family) {
            let near = did_you_mean(nearest(family, &FAMILIES));
            return Err(NameError::Unknown { name: name.to_owned(), near });
        }
        let (read, expected) = read(family, rest);
        read.ok_or_else(|| NameError::Form { name: name.to_owned(), expected })
    }
}

/// The setting of a known first word and the rest of the name, and the form that is expected.
fn read(family: &str, rest: Option<&str>) -> (Option<Setting>, &'static str) {
    let device = || rest.filter(|rest| is_device(rest)).map(str::to_owned);
    let napi = |of| device().map(|device| Setting::Napi { device, of });
    match family {
        "sysctl" => {
            (rest.filter(|name| is_sysctl(name)).map(|name| Setting::Sysctl(name.into())), "sysctl.NAME")
        }
        "rps" => {
            let read = rest.and_then(queue_of).map(|(device, queue)| Setting::Rps { device, queue });
            (read, "rps.DEVICE or rps.DEVICE.QUEUE")
        }
        "xps" => {
            let read = rest.and_then(queue_of).map(|(device, queue)| Setting::Xps { device, queue });
            (read, "xps.DEVICE or xps.DEVICE.QUEUE")
        }
        "channels" => (device().map(|device| Setting::Channels { device }), "channels.DEVICE"),
        "rings" => (device().map(|device| Setting::Rings { device }), "rings.DEVICE"),
        "coalesce" => (device().map(|device| Setting::Coalesce { device }), "coalesce.DEVICE"),
        "rss" => (device().map(|device| Setting::RssTable { device }), "rss.DEVICE"),
        "rss-fields" => {
            let read = rest.and_then(|rest| rest.rsplit_once('.')).and_then(|(device, flow)| {
                let flow = [Flow::Udp4, Flow::Udp6].into_iter().find(|one| one.word() == flow)?;
                is_device(device).then(|| Setting::RssFields { device: device.into(), flow })
            });
            (read, "rss-fields.DEVICE.udp4 or rss-fields.DEVICE.udp6")
        }
        "feature" => {
            let read = rest.and_then(|rest| rest.rsplit_once('.')).and_then(|(device, name)| {
                let is_named = !name.is_empty() && is_device(device);
                is_named.then(|| Setting::Feature { device: device.into(), name: short_name(name).into() })
            });
            (read, "feature.DEVICE.NAME")
        }
        "napi-defer" => (napi(NapiSetting::Defer), "napi-defer.DEVICE"),
        "gro-flush" => (napi(NapiSetting::Flush), "gro-flush.DEVICE"),
        "napi-threaded" => (napi(NapiSetting::Threaded), "napi-threaded.DEVICE"),
        "irq" => {
            let is_named = |name: &&str| !name.is_empty() && !name.contains(char::is_whitespace);
            (rest.filter(is_named).map(|name| Setting::Irq(name.into())), "irq.NUMBER or irq.HANDLER")
        }
        "irqs" => (device().map(|device| Setting::Irqs { device }), "irqs.DEVICE"),
        "governor" => {
            let policy = rest.map(|rest| rest.parse().ok());
            let read = match policy {
                None => Some(Setting::Governor { policy: None }),
                Some(policy) => policy.map(|policy| Setting::Governor { policy: Some(policy) }),
            };
            (read, "governor or governor.POLICY")
        }
        "idle-states" => (rest.is_none().then_some(Setting::IdleStates), "idle-states"),
        "idle-state" => {
            let read = rest.and_then(|rest| rest.split_once('.')).and_then(|(cpu, state)| {
                Some(Setting::IdleState { cpu: cpu.parse().ok()?, state: state.parse().ok()? })
            });
            (read, "idle-state.CPU.STATE")
        }
        _ => (rest.is_none().then_some(Setting::Irqbalance), "irqbalance"),
    }
}

/// A device, and its queue if the last part of the name is a number. Of a device with a dot in its name, `eth0.100`,
/// the queue must be named.
fn queue_of(rest: &str) -> Option<(String, Option<u32>)> {
    let numbered = rest.rsplit_once('.').and_then(|(device, queue)| Some((device, queue.parse().ok()?)));
    let (device, queue) = numbered.map_or((rest, None), |(device, queue)| (device, Some(queue)));
    is_device(device).then(|| (device.to_owned(), queue))
}

/// Whether a text can be a device's name (`dev_valid_name` of the kernel).
fn is_device(name: &str) -> bool {
    let is_odd = |letter: char| letter == '/' || letter == ':' || letter.is_whitespace();
    !name.is_empty() && name.len() <= DEVICE_MOST && ![".", ".."].contains(&name) && !name.contains(is_odd)
}

fn is_sysctl(name: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    name.contains('.')
        && name.chars().all(is_plain)
        && !name.contains("..")
        && !name.starts_with('.')
        && !name.ends_with('.')
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queued = |f: &mut fmt::Formatter<'_>, family: &str, device: &str, queue: Option<u32>| match queue
        {
            Some(queue) => write!(f, "{family}.{device}.{queue}"),
            None => write!(f, "{family}.{device}"),
        };
        match self {
            Self::Sysctl(name) => write!(f, "sysctl.{name}"),
            Self::Rps { device, queue } => queued(f, "rps", device, *queue),
            Self::Xps { device, queue } => queued(f, "xps", device, *queue),
            Self::Channels { device } => write!(f, "channels.{device}"),
            Self::Rings { device } => write!(f, "rings.{device}"),
            Self::Coalesce { device } => write!(f, "coalesce.{device}"),
            Self::RssTable { device } => write!(f, "rss.{device}"),
            Self::RssFields { device, flow } => write!(f, "rss-fields.{device}.{}", flow.word()),
            Self::Feature { device, name } => write!(f, "feature.{device}.{name}"),
            Self::Napi { device, of: NapiSetting::Defer } => write!(f, "napi-defer.{device}"),
            Self::Napi { device, of: NapiSetting::Flush } => write!(f, "gro-flush.{device}"),
            Self::Napi { device, of: NapiSetting::Threaded } => write!(f, "napi-threaded.{device}"),
            Self::Irq(name) => write!(f, "irq.{name}"),
            Self::Irqs { device } => write!(f, "irqs.{device}"),
            Self::Governor { policy: None } => f.write_str("governor"),
            Self::Governor { policy: Some(policy) } => write!(f, "governor.{policy}"),
            Self::IdleStates => f.write_str("idle-states"),
            Self::IdleState { cpu, state } => write!(f, "idle-state.{cpu}.{state}"),
            Self::Irqbalance => f.write_str("irqbalance"),
        }
    }
}
