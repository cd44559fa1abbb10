//! Settings that are files of `/proc` and `/sys`.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::interrupts;
use crate::plain::mask;
use crate::setting::{Setting, components, value};

/// The folder of the cores.
const CPUS: &str = "/sys/devices/system/cpu";

/// The file of a setting; an error if it has none.
fn path(setting: &Setting) -> io::Result<PathBuf> {
    let of_device = |device: &str| Path::new("/sys/class/net").join(device);
    Ok(match setting {
        Setting::Sysctl(name) => Path::new("/proc/sys").join(components(name).join("/")),
        Setting::Rps { device, queue: Some(queue) } => {
            of_device(device).join(format!("queues/rx-{queue}/rps_cpus"))
        }
        Setting::Xps { device, queue: Some(queue) } => {
            of_device(device).join(format!("queues/tx-{queue}/xps_cpus"))
        }
        Setting::Napi { device, of } => of_device(device).join(of.file()),
        Setting::Irq(irq) => format!("/proc/irq/{}/smp_affinity_list", interrupts::number(irq)?).into(),
        Setting::Governor { policy: Some(policy) } => {
            format!("{CPUS}/cpufreq/policy{policy}/scaling_governor").into()
        }
        Setting::IdleState { cpu, state } => format!("{CPUS}/cpu{cpu}/cpuidle/state{state}/disable").into(),
        _ => return Err(io::ErrorKind::NotFound.into()),
    })
}

/// Whether the calling thread sees the folder of a setting's device or, without a device, a file that its mode lets
/// somebody write.
pub(super) fn is_settable(setting: &Setting) -> bool {
    if let Some(device) = setting.device() {
        return Path::new("/sys/class/net").join(device).exists();
    }
    let mode = path(setting).and_then(fs::metadata).map(|metadata| metadata.permissions().mode());
    mode.is_ok_and(|mode| mode & 0o222 != 0)
}

/// Reads a setting in the form of its values.
pub(super) fn read(setting: &Setting) -> io::Result<String> {
    let text = fs::read_to_string(path(setting)?)?;
    let text = text.trim_end_matches('\n');
    Ok(match setting {
        Setting::Rps { .. } | Setting::Xps { .. } => value::cores_word(&cores_of_mask(text)?),
        // The file says whether the state is disabled.
        Setting::IdleState { .. } if text == "0" => "on".to_owned(),
        Setting::IdleState { .. } => "off".to_owned(),
        _ => text.to_owned(),
    })
}

/// Writes a setting. The file is never made: a mistyped name would then be reported as "permission denied".
pub(super) fn write(setting: &Setting, value: &str) -> io::Result<()> {
    let text = match setting {
        Setting::Rps { .. } | Setting::Xps { .. } => mask(value),
        Setting::IdleState { .. } if value == "on" => "0".to_owned(),
        Setting::IdleState { .. } => "1".to_owned(),
        _ => value.to_owned(),
    };
    // With a line feed an empty value is written too: the call would not be made for no bytes.
    OpenOptions::new().write(true).open(path(setting)?)?.write_all(format!("{text}\n").as_bytes())
}

/// The cores of a set in the kernel's format: hexadecimal words of 32 bits, the highest first.
fn cores_of_mask(text: &str) -> io::Result<Vec<u32>> {
    let mut cpus = Vec::new();
    for (number, word) in (0_u32..).zip(text.split(',').rev()) {
        let word = u32::from_str_radix(word.trim(), 16).map_err(io::Error::other)?;
        cpus.extend((0..32).filter(|bit| word & (1 << bit) != 0).map(|bit| number * 32 + bit));
    }
    Ok(cpus)
}

/// The queues of a device whose folders begin with `prefix`, in order.
pub(super) fn queues(device: &str, prefix: &str) -> io::Result<Vec<Option<u32>>> {
    let folder = Path::new("/sys/class/net").join(device).join("queues");
    let mut queues: Vec<Option<u32>> = fs::read_dir(folder)?
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.strip_prefix(prefix)?.parse().ok().map(Some))
        .collect();
    queues.sort_unstable();
    Ok(queues)
}

/// The numbers of the groups of cores that have one frequency.
pub(super) fn policies() -> Vec<u32> {
    numbered(Path::new(&format!("{CPUS}/cpufreq")), "policy")
}

/// A state in which an idle core sleeps.
pub(super) struct IdleState {
    pub(super) cpu: u32,
    pub(super) number: u32,
    /// Microseconds that leaving it takes.
    pub(super) latency_us: u64,
    /// Whether the core polls in it, and does not sleep (`drivers/cpuidle/poll_state.c`).
    pub(super) polls: bool,
}

/// Every idle state of every core.
pub(super) fn idle_states() -> Vec<IdleState> {
    let mut found = Vec::new();
    for cpu in numbered(Path::new(CPUS), "cpu") {
        let folder = format!("{CPUS}/cpu{cpu}/cpuidle");
        for number in numbered(Path::new(&folder), "state") {
            let text = |file: &str| fs::read_to_string(format!("{folder}/state{number}/{file}")).ok();
            let polls = text("name").is_some_and(|name| name.trim() == "POLL");
            let latency_us = text("latency").and_then(|text| text.trim().parse().ok());
            found.extend(latency_us.map(|latency_us| IdleState { cpu, number, latency_us, polls }));
        }
    }
    found
}

/// The numbers at the ends of the names in a folder that begin with `prefix`, in order.
fn numbered(folder: &Path, prefix: &str) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut numbers: Vec<u32> =
        entries.filter_map(|entry| entry.file_name().to_str()?.strip_prefix(prefix)?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_cores_are_read_as_they_are_written() {
        assert_eq!(cores_of_mask("00000002,00000023\n").unwrap(), [0, 1, 5, 33]);
        assert_eq!(cores_of_mask("0").unwrap(), [0_u32; 0]);
        for cores in ["none", "0", "0,2,3", "33", "31,32,64"] {
            assert_eq!(value::cores_word(&cores_of_mask(&mask(cores)).unwrap()), cores);
        }
    }
}
