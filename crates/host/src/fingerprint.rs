//! The fingerprint of this machine: everything about it that may change a figure, read once per run.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::path::Path;

use kqps_kernel::errno::EOPNOTSUPP;
use kqps_kernel::ethtool::{self, Spreading};
use kqps_observation::fingerprint::BinaryFacts;
use kqps_observation::{Fingerprint, cpu_list};

use crate::files::Root;
use crate::sysctls;
use crate::topology::Topology;

/// Returns the fingerprint of this machine as the calling process sees it, with the running program under `binaries`.
pub fn read() -> Fingerprint {
    let mut fingerprint = read_below(&Root::real(), Topology::read());
    add_spreading(&mut fingerprint);
    match std::env::current_exe() {
        Ok(path) => {
            let version = Some(env!("CARGO_PKG_VERSION").to_owned());
            fingerprint.binaries.insert("kqps".into(), BinaryFacts { version, ..binary(&path) });
        }
        Err(error) => drop(fingerprint.unreadable.insert("binaries/kqps".into(), error.to_string())),
    }
    fingerprint
}

/// Bytes of memory that programs may still use before the kernel swaps; `None` if the kernel does not report it.
pub fn memory_available() -> Option<u64> {
    let memory = std::fs::read_to_string("/proc/meminfo").ok()?;
    Some(kib(&memory, "MemAvailable") * 1024).filter(|bytes| *bytes > 0)
}

/// A program's path and the BLAKE3 hash of its file; the hash is `None` if the file cannot be read. The caller adds
/// the version, since it may start the program.
pub fn binary(path: &Path) -> BinaryFacts {
    let hash = || -> io::Result<String> {
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(File::open(path)?)?;
        Ok(hasher.finalize().to_hex().to_string())
    };
    BinaryFacts { path: path.display().to_string(), version: None, blake3: hash().ok() }
}

fn read_below(root: &Root, topology: Topology) -> Fingerprint {
    let mut reader = Reader { root, unreadable: topology.unreadable };
    let cpuinfo = reader.text("proc/cpuinfo").unwrap_or_default();
    let memory = reader.text("proc/meminfo").unwrap_or_default();
    let mut fingerprint = Fingerprint {
        cpu_model: cpu_model(root, &cpuinfo),
        microcode: value(&cpuinfo, "microcode"),
        hypervisor: hypervisor(root, &cpuinfo),
        cores: topology.cores,
        memory_bytes: kib(&memory, "MemTotal") * 1024,
        kernel: reader.text("proc/version").map_or_else(String::new, |text| kernel(&text)),
        os: reader.text("etc/os-release").and_then(|text| os_name(&text)),
        clock_source: reader.text("sys/devices/system/clocksource/clocksource0/current_clocksource"),
        governor: governor(&mut reader),
        turbo: turbo(&mut reader),
        mitigations: root.texts("sys/devices/system/cpu/vulnerabilities", |_| true),
        sysctls: sysctls::read(root),
        limits: reader.text("proc/self/limits").map(|text| limits(&text)).unwrap_or_default(),
        interrupts: BTreeMap::new(),
        queues: queues(root),
        binaries: BTreeMap::new(),
        unreadable: BTreeMap::new(),
    };
    for interrupt in &topology.interrupts {
        let name = format!("{} {} ({})", interrupt.irq, interrupt.name, interrupt.device);
        fingerprint.interrupts.insert(name, cpu_list::write(&interrupt.cpus));
    }
    fingerprint.unreadable = reader.unreadable;
    fingerprint
}

/// Reads files, and keeps the reasons why it could not.
struct Reader<'a> {
    root: &'a Root,
    unreadable: BTreeMap<String, String>,
}

impl Reader<'_> {
    fn text(&mut self, path: &str) -> Option<String> {
        self.root.text(path).map_err(|error| self.missing(path, &error.to_string())).ok()
    }

    fn missing(&mut self, what: &str, why: &str) {
        self.unreadable.insert(what.into(), why.into());
    }
}

/// The value of the first line `name : value`.
fn value(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

fn kib(text: &str, name: &str) -> u64 {
    value(text, name).and_then(|value| value.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// On Arm the kernel gives numbers of implementer and part instead of a name.
fn cpu_model(root: &Root, cpuinfo: &str) -> String {
    let numbers = || {
        let (maker, part) = (value(cpuinfo, "CPU implementer")?, value(cpuinfo, "CPU part")?);
        Some(format!("implementer {maker} part {part}"))
    };
    let board = || root.text("proc/device-tree/model").ok();
    value(cpuinfo, "model name").or_else(numbers).or_else(board).unwrap_or_else(|| "unknown".into())
}

/// The hypervisor; `None` on bare metal, as far as the machine shows it.
fn hypervisor(root: &Root, cpuinfo: &str) -> Option<String> {
    if let Ok(kind) = root.text("sys/hypervisor/type") {
        return Some(kind);
    }
    let flags = value(cpuinfo, "flags")?;
    flags.split_whitespace().any(|flag| flag == "hypervisor").then(|| {
        let named = |file: &str| root.text(&format!("sys/class/dmi/id/{file}")).ok();
        match (named("sys_vendor"), named("product_name")) {
            (Some(vendor), Some(product)) => format!("{vendor} {product}"),
            (Some(name), None) | (None, Some(name)) => name,
            (None, None) => "an unknown hypervisor".into(),
        }
    })
}

/// Shortens `Linux version 6.1.0-18-amd64 (builder) (gcc …) #1 SMP …` to release and build, without the compiler.
fn kernel(version: &str) -> String {
    let release = version.split_whitespace().nth(2).unwrap_or(version);
    let build = version.find('#').map(|at| &version[at..]).unwrap_or_default();
    format!("{release} {build}").trim().to_owned()
}

/// `PRETTY_NAME` of `os-release(5)`.
fn os_name(text: &str) -> Option<String> {
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(name.trim_matches('"').to_owned())
}

/// The frequency governor of all cores, or each one in use.
fn governor(reader: &mut Reader<'_>) -> Option<String> {
    let mut governors: Vec<String> = reader
        .root
        .names("sys/devices/system/cpu/cpufreq")
        .iter()
        .filter(|name| name.starts_with("policy"))
        .filter_map(|name| {
            reader.root.text(&format!("sys/devices/system/cpu/cpufreq/{name}/scaling_governor")).ok()
        })
        .collect();
    governors.sort_unstable();
    governors.dedup();
    if governors.is_empty() {
        reader.missing("governor", "the kernel does not control the frequency of this machine's cores");
        return None;
    }
    Some(governors.join(", "))
}

fn turbo(reader: &mut Reader<'_>) -> Option<bool> {
    let folder = "sys/devices/system/cpu";
    if let Ok(off) = reader.root.number(&format!("{folder}/intel_pstate/no_turbo")) {
        return Some(off == 0);
    }
    let on = reader.root.number(&format!("{folder}/cpufreq/boost"));
    on.map(|on| on != 0).map_err(|_| reader.missing("turbo", "no driver says whether cores may boost")).ok()
}

/// Parses `/proc/self/limits`: a name of several words, then the soft limit, the hard one, and a unit or nothing.
fn limits(text: &str) -> BTreeMap<String, String> {
    let wanted = ["Max open files", "Max locked memory", "Max processes", "Max realtime priority"];
    let limit = |name: &&str| {
        let rest = text.lines().find_map(|line| line.strip_prefix(*name))?;
        let mut words = rest.split_whitespace();
        let (soft, hard) = (words.next()?, words.next()?);
        Some(((*name).to_owned(), format!("{soft} (at most {hard})")))
    };
    wanted.iter().filter_map(limit).collect()
}

/// The queues of every network device, and the cores to which software steers their packets.
/// <https://docs.kernel.org/networking/scaling.html>
fn queues(root: &Root) -> BTreeMap<String, String> {
    let mut queues = BTreeMap::new();
    for device in root.names("sys/class/net") {
        for queue in root.names(&format!("sys/class/net/{device}/queues")) {
            let steering =
                if queue.starts_with("rx") { ["rps_cpus", "rps_flow_cnt"] } else { ["xps_cpus", "xps_rxqs"] };
            let values: Vec<String> = steering
                .iter()
                .filter_map(|file| {
                    let value = root.text(&format!("sys/class/net/{device}/queues/{queue}/{file}")).ok()?;
                    Some(format!("{file} {value}"))
                })
                .collect();
            queues.insert(format!("{device}/{queue}"), values.join(", "));
        }
    }
    queues
}

/// Adds how each network card spreads received packets over its queues.
fn add_spreading(fingerprint: &mut Fingerprint) {
    for device in Root::real().names("sys/class/net") {
        let name = format!("{device}/rss");
        let none = || io::Error::from_raw_os_error(EOPNOTSUPP);
        match ethtool::spreading(&device).and_then(|found| found.ok_or_else(none)) {
            Ok(spreading) => drop(fingerprint.queues.insert(name, spreading_words(&spreading))),
            Err(error) => drop(fingerprint.unreadable.insert(name, error.to_string())),
        }
    }
}

/// For example `128 slots: queue 0 64, queue 1 64; Toeplitz; key 6d5a56da…`.
fn spreading_words(spreading: &Spreading) -> String {
    let mut slots = BTreeMap::new();
    for queue in &spreading.queues {
        *slots.entry(queue).or_insert(0_u32) += 1;
    }
    let slots: Vec<String> = slots.iter().map(|(queue, count)| format!("queue {queue} {count}")).collect();
    let function = match spreading.function {
        1 => "Toeplitz",
        2 => "exclusive or",
        4 => "CRC-32",
        _ => "hash unknown",
    };
    if spreading.queues.is_empty() {
        return "no table".into();
    }
    let mut words = format!("{} slots: {}; {function}; key ", spreading.queues.len(), slots.join(", "));
    for byte in &spreading.key {
        let _ = write!(words, "{byte:02x}");
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spreading_is_described_by_its_slots() {
        let spreading = Spreading { function: 1, queues: vec![0, 1, 0, 1], key: vec![0x6d, 0x5a] };
        assert_eq!(spreading_words(&spreading), "4 slots: queue 0 2, queue 1 2; Toeplitz; key 6d5a");
        assert_eq!(spreading_words(&Spreading { function: 1, ..Spreading::default() }), "no table");
    }

    #[test]
    fn lines_of_cpuinfo() {
        let text = "processor\t: 0\nmodel name\t: AMD EPYC 7543 32-Core\nmicrocode\t: 0xa0011d1\nflags\t\t: fpu hypervisor\n";
        assert_eq!(value(text, "model name").as_deref(), Some("AMD EPYC 7543 32-Core"));
        assert_eq!(value(text, "model"), None);
        assert_eq!(kib("MemTotal:       16303788 kB\n", "MemTotal"), 16_303_788);
    }

    #[test]
    fn the_kernels_version_goes_without_its_compiler() {
        let text =
            "Linux version 6.1.0-18-amd64 (debian-kernel@lists.debian.org) (gcc-12) #1 SMP Debian 6.1.76-1";
        assert_eq!(kernel(text), "6.1.0-18-amd64 #1 SMP Debian 6.1.76-1");
    }

    #[test]
    fn limits_have_names_of_several_words() {
        let text = "Limit                     Soft Limit           Hard Limit           Units     \n\
                    Max open files            1024                 524288               files     \n";
        let wanted = BTreeMap::from([("Max open files".to_owned(), "1024 (at most 524288)".to_owned())]);
        assert_eq!(limits(text), wanted);
    }

    #[test]
    fn the_hash_is_of_the_content() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let empty = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
        assert_eq!(binary(file.path()).blake3.as_deref(), Some(empty));
        assert_eq!(binary(Path::new("/nonexistent")).blake3, None);
    }

    #[test]
    fn this_machine_is_read() {
        let fingerprint = read();
        assert!(!fingerprint.cores.is_empty());
        assert!(fingerprint.memory_bytes > 0);
        assert!(fingerprint.sysctls.contains_key("net.core.rmem_max"));
        assert_eq!(fingerprint.binaries["kqps"].blake3.as_ref().map(String::len), Some(64));
    }
}
