//! Rights and resources that a container denies this process: read as facts, and explained by a function of them.
//!
//! Sources: capabilities(7), `Seccomp` in `proc_pid_status(5)`, namespaces(7), cgroups(7), and the files that engines
//! leave (`/.dockerenv`, and `/run/.containerenv` of podman).

mod cgroup;

use kqps_observation::visible::visible_line;

use crate::files::Root;
use cgroup::Limits;

/// A right that kqps uses, and what it is for.
struct Right {
    /// The name without `CAP_`, as `--cap-add` of container engines takes it.
    name: &'static str,
    /// The number of its bit (`linux/capability.h`).
    bit: u32,
    purpose: &'static str,
}

const fn right(name: &'static str, bit: u32, purpose: &'static str) -> Right {
    Right { name, bit, purpose }
}

const RIGHTS: [Right; 8] = [
    right(
        "NET_ADMIN",
        12,
        "links between private networks, large socket buffers, settings of network devices",
    ),
    right("NET_RAW", 13, "--io xdp, and times of packets at an interface"),
    right("IPC_LOCK", 14, "large rings for profiles and --io xdp"),
    right("SYS_ADMIN", 21, "private networks"),
    right("SYS_NICE", 23, "servers and player threads that run before other programs"),
    right("SYSLOG", 34, "names of the kernel's functions in profiles"),
    right("PERFMON", 38, "profiles, and the kernel's reasons for its drops"),
    right("BPF", 39, "--io xdp, and times of packets at an interface"),
];

/// The right that `setcap` should not give: who has it can take all others.
const AS_GOOD_AS_ROOT: &str = "SYS_ADMIN";

/// The PID namespace that the kernel makes when it boots (`PROC_PID_INIT_INO`, `linux/proc_ns.h`).
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

/// The files that container engines leave.
const MARKS: [&str; 2] = ["/.dockerenv", "/run/.containerenv"];

/// Names of folders in the path of a cgroup that engines use.
const ENGINES: [&str; 6] = ["docker", "libpod_parent", "kubepods", "kubepods.slice", "lxc", "lxc.payload"];

/// Beginnings of such names if the rest is a name of the engine's choice.
const BEGINS: [&str; 2] = ["kubepods-", "lxc.payload."];

/// Beginnings of such names if the ID of a container follows.
const BEFORE_ID: [&str; 4] = ["docker-", "libpod-", "crio-", "cri-containerd-"];

/// The variables by which engines report themselves.
const VARIABLES: [&str; 2] = ["container", "KUBERNETES_SERVICE_HOST"];

/// Facts about this process and its surroundings. A fact that cannot be read is `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// Why this is a container, each in words; empty if nothing shows it.
    pub signs: Vec<String>,
    /// Bit mask of the capabilities that the process may ever get (`CapBnd`).
    pub bounding: Option<u64>,
    /// Bit mask of the capabilities that the process has (`CapEff`).
    pub effective: Option<u64>,
    /// Whether a filter of system calls is in force (seccomp mode 2).
    pub is_filtered: Option<bool>,
    /// Cores' worth of CPU time that the cgroup may use; `None` if there is no limit.
    pub cpu_limit_cores: Option<f64>,
    /// Memory that the cgroup may use, bytes; `None` if there is no limit.
    pub memory_limit_bytes: Option<u64>,
    /// The folders `/sys` and `/proc/sys`, as far as they are mounted read-only.
    pub read_only: Vec<&'static str>,
    /// The reach of the network devices.
    pub network: Option<Network>,
    /// The number of the highest capability that the kernel knows (`/proc/sys/kernel/cap_last_cap`).
    pub last_capability: Option<u32>,
}

/// The reach of a process's network devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// There is loopback and no other device.
    Loopback,
    /// Every device leads to a host's network through a pair (veth(4)), another device, or a program (`tuntap`).
    Private,
    /// A device is the host's own.
    Host,
}

/// Something that a container takes away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restriction {
    /// The kind of thing: `capabilities`, `system calls`, `cpu`, `memory`, `settings` or `network`.
    pub what: &'static str,
    /// The missing part, and all that does not work without it.
    pub reason: String,
    /// How to start the container with it.
    pub remedy: String,
}

impl Facts {
    /// Reads the facts of this process.
    pub fn read() -> Self {
        let set = |name: &&str| std::env::var_os(name).is_some();
        let variables = VARIABLES.into_iter().filter(set);
        Self::read_below(&Root::real(), variables)
    }

    /// Reads them below a root. `variables` are those of [`VARIABLES`] that are set.
    fn read_below(root: &Root, variables: impl Iterator<Item = &'static str>) -> Self {
        let status = root.text("/proc/self/status").unwrap_or_default();
        let mounts = root.text("/proc/self/mountinfo").unwrap_or_default();
        let cgroups = root.text("/proc/self/cgroup").unwrap_or_default();
        let limits = Limits::read(root, &cgroups);
        Self {
            signs: signs(root, &cgroups, variables),
            bounding: field(&status, "CapBnd").and_then(|text| u64::from_str_radix(text, 16).ok()),
            effective: field(&status, "CapEff").and_then(|text| u64::from_str_radix(text, 16).ok()),
            is_filtered: field(&status, "Seccomp").map(|mode| mode == "2"),
            cpu_limit_cores: limits.cores,
            memory_limit_bytes: limits.memory_bytes,
            read_only: ["/sys", "/proc/sys"].into_iter().filter(|path| is_read_only(&mounts, path)).collect(),
            network: network(root),
            last_capability: root.number("/proc/sys/kernel/cap_last_cap").ok(),
        }
    }

    /// Lists all that the container takes away; empty if this is no container. `fails` says whether a capability of
    /// `kqps probe` does not work.
    pub fn taken(&self, fails: impl Fn(&str) -> bool) -> Vec<Restriction> {
        if self.signs.is_empty() {
            return Vec::new();
        }
        let found = [
            self.rights(),
            self.calls(fails),
            self.cpu_time(),
            self.memory(),
            self.settings(),
            self.network(),
        ];
        found.into_iter().flatten().collect()
    }

    /// All capabilities, as `setcap` takes them, that this process may have and that may be given to the program's file,
    /// if the process lacks one of them: `setcap` replaces those that a file has. Empty if it lacks none, or if they are
    /// not known.
    pub fn for_setcap(&self) -> Vec<String> {
        let Some(effective) = self.effective else { return Vec::new() };
        let bounding = self.bounding.unwrap_or(u64::MAX);
        // A file with a right that the process may not have does not start (execve(2), EPERM).
        let is_given = |right: &&Right| right.name != AS_GOOD_AS_ROOT && bounding & (1 << right.bit) != 0;
        let given: Vec<&Right> = self.known_rights().filter(is_given).collect();
        if given.iter().all(|right| effective & (1 << right.bit) != 0) {
            return Vec::new();
        }
        given.iter().map(|right| format!("cap_{}", right.name.to_lowercase())).collect()
    }

    /// The rights that this kernel knows. PERFMON and BPF came with 5.8, which gives older ones no such bit.
    fn known_rights(&self) -> impl Iterator<Item = &'static Right> {
        let last = self.last_capability.unwrap_or(u32::MAX);
        RIGHTS.iter().filter(move |right| right.bit <= last)
    }

    fn rights(&self) -> Option<Restriction> {
        let bounding = self.bounding?;
        let missing: Vec<&Right> =
            self.known_rights().filter(|right| bounding & (1 << right.bit) == 0).collect();
        if missing.is_empty() {
            return None;
        }
        let each = missing.iter().map(|right| format!("CAP_{} ({})", right.name, right.purpose));
        let flags = missing.iter().map(|right| format!("--cap-add {}", right.name));
        Some(Restriction {
            what: "capabilities",
            reason: format!("it may not have {}", each.collect::<Vec<_>>().join("; ")),
            remedy: flags.collect::<Vec<_>>().join(" "),
        })
    }

    fn calls(&self, fails: impl Fn(&str) -> bool) -> Option<Restriction> {
        if self.is_filtered != Some(true) {
            return None;
        }
        let calls = [
            ("io_uring_setup", "uring"),
            ("perf_event_open", "core-samples"),
            ("bpf", "reuseport-cbpf"),
            ("bpf", "packet-stamps"),
            ("unshare", "netns"),
        ];
        let mut failing: Vec<&str> =
            calls.iter().filter(|(_, capability)| fails(capability)).map(|(call, _)| *call).collect();
        failing.dedup();
        let reason = if failing.is_empty() {
            "a filter (seccomp) looks at every system call, which costs some time at each".to_owned()
        } else {
            let names = failing.join(", ");
            format!("a filter (seccomp) looks at every system call, and may be why these fail: {names}")
        };
        let remedy = "--security-opt seccomp=unconfined, or a profile that allows the calls".to_owned();
        Some(Restriction { what: "system calls", reason, remedy })
    }

    fn cpu_time(&self) -> Option<Restriction> {
        let cores = self.cpu_limit_cores?;
        Some(Restriction {
            what: "cpu",
            reason: format!(
                "its cgroup may use the time of {cores:.2} cores, and stands still for the rest of each period when it has \
                 used that: rates and latencies then show the limit"
            ),
            remedy: "--cpuset-cpus LIST in place of --cpus".into(),
        })
    }

    fn memory(&self) -> Option<Restriction> {
        let bytes = self.memory_limit_bytes?;
        Some(Restriction {
            what: "memory",
            reason: format!("its cgroup may use {} MiB, and the kernel kills what needs more", bytes >> 20),
            remedy: "--memory SIZE".into(),
        })
    }

    fn settings(&self) -> Option<Restriction> {
        if self.read_only.is_empty() {
            return None;
        }
        let places = self.read_only.join(" and ");
        Some(Restriction {
            what: "settings",
            reason: format!(
                "{places} cannot be written: kqps host apply and host settings of studies do not work"
            ),
            remedy: "run kqps host apply on the host itself, or start the container with --privileged".into(),
        })
    }

    fn network(&self) -> Option<Restriction> {
        let reason = match self.network? {
            Network::Host => return None,
            Network::Loopback => "it has no network but loopback: no other host can be reached",
            Network::Private => {
                "its network is private: packets to other hosts pass virtual devices or a program of the engine, whose \
                 cost is in every figure, and the host's own devices cannot be seen"
            }
        };
        Some(Restriction { what: "network", reason: reason.into(), remedy: "--network host".into() })
    }
}

/// Signs that this is a container. A mark or a variable alone is not enough: images of virtual machines have them too.
fn signs(root: &Root, cgroups: &str, variables: impl Iterator<Item = &'static str>) -> Vec<String> {
    let marks = MARKS.into_iter().filter(|mark| root.path(mark).exists());
    let mut signs: Vec<String> = marks.map(|mark| format!("{mark} exists")).collect();
    signs.extend(variables.map(|name| format!("the variable {name} is set")));
    let paths = cgroups.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    let mut of_engines = paths.filter(|path| path.split('/').any(is_of_an_engine));
    let path = of_engines.next().map(|path| format!("its cgroup is {}", visible_line(path)));
    let is_inner = root.link("/proc/self/ns/pid").is_some_and(|namespace| namespace != FIRST_PID_NAMESPACE);
    let numbers = is_inner.then(|| "its process numbers are its own".to_owned());
    let is_enough = signs.len() > 1 || path.is_some() || numbers.is_some();
    signs.extend(path.into_iter().chain(numbers));
    if is_enough { signs } else { Vec::new() }
}

/// Whether a container engine names a folder of cgroups like this. Names of services, such as `docker.service`, are none.
fn is_of_an_engine(name: &str) -> bool {
    let is_id = |rest: &str| {
        let id = rest.trim_end_matches(".scope");
        id.len() >= 12 && id.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    ENGINES.contains(&name)
        || BEGINS.iter().any(|begin| name.starts_with(begin))
        || BEFORE_ID.iter().any(|begin| name.strip_prefix(begin).is_some_and(is_id))
}

/// The value of a line `NAME:  VALUE`.
fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// Whether the uppermost mount at this path, or at the folder above it, is read-only (`proc_pid_mountinfo(5)`).
fn is_read_only(mounts: &str, path: &str) -> bool {
    let options = |place: &str| {
        let of = |line: &str| {
            let fields: Vec<&str> = line.split(' ').collect();
            (fields.get(4) == Some(&place)).then(|| fields.get(5).copied().unwrap_or_default().to_owned())
        };
        mounts.lines().rev().find_map(of)
    };
    let above = path.rsplit_once('/').map_or("", |(above, _)| above);
    options(path).or_else(|| options(above)).is_some_and(|options| options.split(',').any(|one| one == "ro"))
}

/// Returns the reach of this network's devices. `None` if no device can be seen.
fn network(root: &Root) -> Option<Network> {
    let mut devices = root.names("/sys/class/net");
    // Files such as `bonding_masters` are no devices.
    devices.retain(|device| root.path(&format!("/sys/class/net/{device}")).is_dir());
    if devices.is_empty() {
        return None;
    }
    devices.retain(|device| device != "lo");
    let number = |device: &str, file: &str| root.number(&format!("/sys/class/net/{device}/{file}")).ok();
    // A device of the host has its own number in `iflink`. A device that leads to another one has the other's number
    // there. A device of a program has flags.
    let is_inner = |device: &String| {
        let numbers = number(device, "ifindex").zip(number(device, "iflink"));
        numbers.is_some_and(|(own, other)| own != other)
            || root.path(&format!("/sys/class/net/{device}/tun_flags")).exists()
    };
    Some(match devices.as_slice() {
        [] => Network::Loopback,
        some if some.iter().all(is_inner) => Network::Private,
        _ => Network::Host,
    })
}

#[cfg(test)]
mod tests;
