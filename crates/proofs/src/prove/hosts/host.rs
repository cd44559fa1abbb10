//! A host of the lab: namespaces for its network, name, mounts, processes and clock, with Debian's sshd and a home of
//! its own. Ending its first process ends all of it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use kqps_kernel::namespace::{self, NetNs};
use kqps_programs::shell;

use super::keys::Keys;
use super::network::Port;
use super::sshd::Sshd;
use crate::child::{Running, children_of, has_ended, pids};
use crate::wait::until;

/// The devices of every host.
pub(super) const CONTROL: &str = "control0";
pub(super) const DATA: &str = "data0";

/// How long sshd may take to accept, and a killed host to end.
const UP_WITHIN: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(5);

/// The first process of a host. `$1` is its name, `$2` its folder, `$3` its home, `$4` the size of its disk and `$5`
/// sshd, which is started again if it is killed, as systemd does. What a host writes below /run, /var/lib and its home
/// ends with it.
const INIT: &str = r#"
set -e
mount -t tmpfs -o mode=755 none /run
mkdir /run/sshd
mount -t tmpfs -o mode=755 none /var/lib
mount -t tmpfs -o mode=700,size="$4" none "$3"
mount -t sysfs none /sys
mount --bind "$2/passwd" /etc/passwd
mount --bind "$2/shadow" /etc/shadow
echo "$1" >/proc/sys/kernel/hostname
echo up
while :; do "$5" -D -e -f "$2/sshd_config" 2>>"$2/sshd.log" || sleep 0.1; done
"#;

/// A host.
pub(super) struct LabHost {
    pub(super) name: String,
    /// The address for ssh.
    pub(super) control: Ipv4Addr,
    /// The address of queries and replies.
    pub(super) data: Ipv4Addr,
    /// How far its monotonic clock is ahead of the controller's, nanoseconds.
    pub(super) ahead_ns: i64,
    pub(super) network: NetNs,
    pub(super) control_port: Port,
    pub(super) data_port: Port,
    /// Its home, as its own processes name it.
    pub(super) home: PathBuf,
    folder: PathBuf,
    /// Its first process, as this program numbers it.
    init: u32,
    _namespaces: Running,
}

/// Parts and settings from which a host is made.
pub(super) struct Plan<'a> {
    pub(super) name: &'a str,
    pub(super) control: Ipv4Addr,
    pub(super) data: Ipv4Addr,
    pub(super) ahead_s: i64,
    /// The size of its home, as mount(8) reads it for tmpfs.
    pub(super) disk: &'a str,
    pub(super) network: NetNs,
    pub(super) ports: (Port, Port),
    pub(super) folder: PathBuf,
}

/// A process on a host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Process {
    /// Its number here.
    pub(super) pid: u32,
    /// When it began, in the kernel's ticks; with the number it is unique.
    began: u64,
    /// Its command line, with blanks between words.
    pub(super) words: String,
}

impl LabHost {
    /// Starts a host, and waits until it accepts connections of ssh.
    pub(super) fn start(plan: Plan<'_>, keys: &Keys) -> Result<Self> {
        let Plan { name, control, data, ahead_s, disk, network, ports, folder } = plan;
        let home = folder.join("home");
        fs::create_dir_all(&home)?;
        write_accounts(&folder, &home)?;
        let key = keys.of_host(name)?;
        let config = format!(
            "ListenAddress {control}\nHostKey {}\nPidFile none\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\n\
             PasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\n\
             MaxStartups 100\nPrintMotd no\nLogLevel ERROR\nSubsystem sftp internal-sftp\n",
            key.display(),
            keys.authorized().display()
        );
        fs::write(folder.join("sshd_config"), config)?;
        let sshd = shell::find("sshd").context("sshd is missing (package openssh-server)")?;
        let mut command = Command::new("unshare");
        command.args(["--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--time"]);
        command.args([format!("--monotonic={ahead_s}"), format!("--boottime={ahead_s}")]);
        command.args(["sh", "-c", INIT, "sh", name]).arg(&folder).arg(&home).arg(disk).arg(sshd);
        namespace::enter(&mut command, &network)?;
        let mut running = Running::start(&mut command)?;
        let line = running.line()?;
        ensure!(line.trim() == "up", "the host {name} did not come up");
        let init = *children_of(running.pid()).first().context("a host has a first process")?;
        let (control_port, data_port) = ports;
        let host = Self {
            name: name.to_owned(),
            control,
            data,
            ahead_ns: ahead_s * 1_000_000_000,
            network,
            control_port,
            data_port,
            home,
            folder,
            init,
            _namespaces: running,
        };
        host.accepts()?;
        Ok(host)
    }

    /// Waits until sshd accepts.
    pub(super) fn accepts(&self) -> Result<()> {
        let address = SocketAddr::from((self.control, 22));
        let connect = || Ok(self.network.within(|| TcpStream::connect_timeout(&address, UP_WITHIN)).ok());
        until((UP_WITHIN, LOOK), connect, || {
            let said = fs::read_to_string(self.folder.join("sshd.log")).unwrap_or_default();
            format!("sshd of {} does not accept: {}", self.name, said.trim())
        })
        .map(drop)
    }

    /// A command that runs on the host, without ssh.
    pub(super) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.init.to_string()]);
        command.args(["--mount", "--uts", "--net", "--pid", "--time", "--"]).arg(program);
        command.env("HOME", &self.home).env_remove("XDG_CACHE_HOME").env_remove("XDG_STATE_HOME");
        command
    }

    /// Whether a command line is one of [`Self::command`] or [`Self::entered`].
    pub(super) fn is_entered_by(&self, words: &[String]) -> bool {
        let init = self.init.to_string();
        words.windows(2).any(|pair| pair[0] == "--target" && pair[1] == init)
    }

    /// The words that [`Self::command`] puts before a program.
    pub(super) fn entered(&self) -> String {
        format!("nsenter --target {} --mount --uts --net --pid --time --", self.init)
    }

    /// A path on the host, as this program reaches it.
    pub(super) fn path(&self, there: &Path) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.init));
        root.join(there.strip_prefix("/").unwrap_or(there))
    }

    /// Its processes that live, without the first.
    pub(super) fn processes(&self) -> Vec<Process> {
        let inode = |pid: u32| fs::metadata(format!("/proc/{pid}/ns/pid")).map(|facts| facts.ino()).ok();
        let Some(own) = inode(self.init) else { return Vec::new() };
        pids().filter(|pid| *pid != self.init && inode(*pid) == Some(own)).filter_map(Process::read).collect()
    }

    /// Its processes that belong to kqps: all but sshd, and the pause of the first process.
    pub(super) fn strangers(&self) -> Vec<Process> {
        let is_ours =
            |process: &Process| Sshd::parse(&process.words).is_some() || process.words == "sleep 0.1";
        self.processes().into_iter().filter(|process| !is_ours(process)).collect()
    }

    /// Writes one of the sysctls among [`Self::settings`], as somebody else would.
    pub(super) fn write(&self, name: &str, value: &[u8]) -> Result<()> {
        let sysctl = name.strip_prefix("sysctl.").filter(|name| SYSCTLS.contains(name));
        let sysctl = sysctl.with_context(|| format!("{name} is no sysctl of these proofs"))?;
        let path = format!("/proc/sys/{}", sysctl.replace('.', "/"));
        self.network.within(|| fs::write(&path, value)).with_context(|| format!("cannot write {path}"))
    }

    /// The values of everything that the proofs set here, byte for byte, and the lists of devices and mounts. A network
    /// namespace without a process is held by a mount.
    pub(super) fn settings(&self) -> Result<BTreeMap<String, Vec<u8>>> {
        let mut found = BTreeMap::new();
        let mounts = fs::read(format!("/proc/{}/mountinfo", self.init));
        found.insert("mounts".to_owned(), mounts.with_context(|| format!("{} has ended", self.name))?);
        let devices = fs::read_dir(self.path(Path::new("/sys/class/net")))?.flatten();
        let mut devices: Vec<String> =
            devices.map(|device| device.file_name().display().to_string()).collect();
        devices.sort();
        found.insert("devices".to_owned(), devices.join(" ").into_bytes());
        for name in SYSCTLS {
            let path = format!("/proc/sys/{}", name.replace('.', "/"));
            found.insert(format!("sysctl.{name}"), self.network.within(|| fs::read(&path))?);
        }
        let queues = self.path(Path::new("/sys/class/net")).join(DATA).join("queues");
        for entry in fs::read_dir(&queues).with_context(|| format!("{} has no queues", self.name))? {
            let folder = entry?.path();
            let queue = folder.file_name().map(|name| name.display().to_string()).unwrap_or_default();
            for (beginning, file, kind) in [("rx-", "rps_cpus", "rps"), ("tx-", "xps_cpus", "xps")] {
                if let Some(number) = queue.strip_prefix(beginning) {
                    // A kernel without this may refuse to read it.
                    let value = fs::read(folder.join(file)).unwrap_or_default();
                    found.insert(format!("{kind}.{DATA}.{number}"), value);
                }
            }
        }
        Ok(found)
    }
}

/// The sysctls of a network namespace that the proofs set.
const SYSCTLS: [&str; 4] =
    ["net.ipv4.udp_rmem_min", "net.ipv4.udp_wmem_min", "net.ipv4.ip_default_ttl", "net.ipv4.tcp_fin_timeout"];

impl Drop for LabHost {
    fn drop(&mut self) {
        // The kernel ends all processes of a host with its first one.
        let _ = kqps_kernel::process::signal(self.init, kqps_kernel::process::Signal::Kill);
        let namespace = PathBuf::from(format!("/proc/{}/ns/pid", self.init));
        let _ = until((UP_WITHIN, LOOK), || Ok((!namespace.exists()).then_some(())), String::new);
    }
}

impl Process {
    /// `None` if it has ended.
    fn read(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok().filter(|stat| !has_ended(stat))?;
        // Field 22 (proc(5)), counted after the name.
        let began = stat.rsplit_once(") ")?.1.split(' ').nth(19)?.parse().ok()?;
        let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let words = String::from_utf8_lossy(&line).replace('\0', " ").trim().to_owned();
        Some(Self { pid, began, words })
    }

    /// Whether this very process lives, and not another one of its number.
    pub(super) fn lives(&self) -> bool {
        Self::read(self.pid).is_some_and(|now| now.began == self.began)
    }

    /// Whether it is an agent of kqps.
    pub(super) fn is_agent(&self) -> bool {
        self.words.ends_with(" agent")
    }
}

/// The accounts of a host: those of this system, with a home of its own for root, a password that nobody knows, and the
/// user to which sshd drops its rights.
fn write_accounts(folder: &Path, home: &Path) -> Result<()> {
    let of_system = fs::read_to_string("/etc/passwd").context("cannot read /etc/passwd")?;
    let mut passwd = format!("root:x:0:0:root:{}:/bin/sh\n", home.display());
    let mut shadow = "root:*:19000:0:99999:7:::\n".to_owned();
    for line in of_system.lines().filter(|line| !line.starts_with("root:")) {
        let _ = writeln!(passwd, "{line}");
        let _ = writeln!(shadow, "{}:*:19000:0:99999:7:::", line.split(':').next().unwrap_or_default());
    }
    if !of_system.lines().any(|line| line.starts_with("sshd:")) {
        passwd += "sshd:x:64:65534::/run/sshd:/usr/sbin/nologin\n";
    }
    fs::write(folder.join("passwd"), passwd)?;
    fs::write(folder.join("shadow"), shadow)?;
    Ok(())
}
