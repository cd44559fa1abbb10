//! Copies of other machines' `/proc` and `/sys`, as far as the topology reads them, for tests.

use std::fmt::Write as _;
use std::fs;
use std::ops::Range;
use std::path::Path;

use tempfile::TempDir;

use crate::files::Root;
use crate::topology::Topology;

/// A machine whose logical cores are numbered as by Linux on x86: the first thread of every core, package by
/// package, then the second threads in the same order.
pub(crate) struct Machine {
    pub(crate) packages: u32,
    pub(crate) cores_per_package: u32,
    pub(crate) threads_per_core: u32,
    /// How many neighbouring cores share one L2.
    pub(crate) cores_per_l2: u32,
    /// Number, handler's name, core and count of each interrupt.
    pub(crate) interrupts: &'static [(u32, &'static str, u32, u64)],
}

impl Machine {
    fn cores(&self) -> u32 {
        self.packages * self.cores_per_package
    }

    /// Its topology, for a process that may use the logical cores in `allowed`.
    pub(crate) fn topology(&self, allowed: &[u32]) -> Topology {
        let folder = TempDir::new().unwrap();
        self.write(folder.path());
        Topology::from(&Root::at(folder.path()), allowed, std::collections::BTreeMap::new())
    }

    fn write(&self, root: &Path) {
        let logical = self.cores() * self.threads_per_core;
        let file = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        };
        file("sys/devices/system/cpu/online", &format!("0-{}", logical - 1));
        for cpu in 0..logical {
            let core = cpu % self.cores();
            let package = core / self.cores_per_package;
            let folder = format!("sys/devices/system/cpu/cpu{cpu}");
            file(&format!("{folder}/topology/physical_package_id"), &package.to_string());
            file(&format!("{folder}/topology/core_id"), &(core % self.cores_per_package).to_string());
            file(&format!("{folder}/topology/core_cpus_list"), &self.threads_of(core..core + 1));
            let l2 = core - core % self.cores_per_l2;
            let package_first = package * self.cores_per_package;
            let caches = [
                (1, "Data", core..core + 1),
                (1, "Instruction", core..core + 1),
                (2, "Unified", l2..l2 + self.cores_per_l2),
                (3, "Unified", package_first..package_first + self.cores_per_package),
            ];
            for (index, (level, kind, cores)) in caches.into_iter().enumerate() {
                let cache = format!("{folder}/cache/index{index}");
                file(&format!("{cache}/level"), &level.to_string());
                file(&format!("{cache}/type"), kind);
                file(&format!("{cache}/shared_cpu_list"), &self.threads_of(cores));
            }
        }
        for package in 0..self.packages {
            let first = package * self.cores_per_package;
            let cpus = self.threads_of(first..first + self.cores_per_package);
            file(&format!("sys/devices/system/node/node{package}/cpulist"), &cpus);
        }
        file("sys/devices/system/node/online", "0");
        file("sys/class/net/eth0/operstate", "up");
        file("sys/class/net/lo/operstate", "unknown");
        file("proc/interrupts", &self.interrupts_text(logical));
        for (irq, _, cpu, _) in self.interrupts {
            file(&format!("proc/irq/{irq}/smp_affinity_list"), &format!("0-{}", logical - 1));
            file(&format!("proc/irq/{irq}/effective_affinity_list"), &cpu.to_string());
        }
    }

    fn threads_of(&self, cores: Range<u32>) -> String {
        let threads = (0..self.threads_per_core).map(|thread| {
            let first = thread * self.cores();
            format!("{}-{}", first + cores.start, first + cores.end - 1)
        });
        threads.collect::<Vec<_>>().join(",")
    }

    fn interrupts_text(&self, logical: u32) -> String {
        let mut text = String::from("     ");
        for cpu in 0..logical {
            write!(text, "       CPU{cpu}").unwrap();
        }
        for (irq, name, taker, count) in self.interrupts {
            write!(text, "\n{irq:4}:").unwrap();
            for cpu in 0..logical {
                write!(text, " {:10}", if cpu == *taker { *count } else { 0 }).unwrap();
            }
            write!(text, "  PCI-MSI 524288-edge      {name}").unwrap();
        }
        text + "\n NMI:          0          0   Non-maskable interrupts"
    }
}

/// A desktop: 8 cores with two threads each, and a network device with queues on the first two cores.
pub(crate) const DESKTOP: Machine = Machine {
    packages: 1,
    cores_per_package: 8,
    threads_per_core: 2,
    cores_per_l2: 1,
    interrupts: &[
        (9, "acpi", 3, 50),
        (40, "eth0", 5, 0),
        (41, "eth0-TxRx-0", 1, 81_234),
        (42, "eth0-TxRx-1", 8, 702),
    ],
};

/// Two sockets of four cores without SMT, each pair of cores with one L2: the servers of the ISC study.
pub(crate) const TWO_SOCKETS: Machine = Machine {
    packages: 2,
    cores_per_package: 4,
    threads_per_core: 1,
    cores_per_l2: 2,
    interrupts: &[(60, "eth0-rx-0", 1, 9_000_000)],
};

/// Two equal cores.
pub(crate) const SMALL: Machine =
    Machine { packages: 1, cores_per_package: 2, threads_per_core: 1, cores_per_l2: 1, interrupts: &[] };
