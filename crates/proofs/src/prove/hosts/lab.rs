//! The lab: a server and players, each a host of namespaces, on a bridge for control and another one for queries. The
//! controller runs in a network namespace of its own on the former. No device, process or file outlives the lab, and no
//! service of this system is started or stopped. If the proof is killed (`kill -9`), the kernel ends the processes and
//! devices. Two things stay: its temporary folder (`.tmp*` in `TMPDIR`), and, if that happens in the second in which a
//! fault has set the wall clock, a clock that is 3 s ahead.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, anyhow};
use kqps_kernel::namespace::{self, NetNs};
use kqps_kernel::probe;
use kqps_programs::shell;
use kqps_skips::Capability;

use super::super::Bench;
use super::host::{CONTROL, DATA, LabHost, Plan};
use super::keys::Keys;
use super::network::{Port, Switch, quiet_network};

/// Programs that the lab needs, with their Debian packages.
const PROGRAMS: [(&str, &str); 7] = [
    ("sshd", "openssh-server"),
    ("ssh", "openssh-client"),
    ("ssh-keygen", "openssh-client"),
    ("unshare", "util-linux"),
    ("nsenter", "util-linux"),
    ("ip", "iproute2"),
    ("nft", "nftables"),
];

/// How far the monotonic clocks are ahead of the controller's, seconds: the server's first. A clock cannot go below
/// zero, and a machine may have started a minute ago.
const AHEAD_S: [i64; 3] = [86_400, -7, 1_234_567];

/// The address of the controller.
const CONTROLLER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

/// The address of a host for control (TEST-NET-1, RFC 5737).
fn control_address(number: usize) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, u8::try_from(10 + number).expect("few hosts"))
}

/// The address of a host for queries, from the benchmarking network (RFC 2544, appendix C.2.2).
fn data_address(number: usize) -> Ipv4Addr {
    Ipv4Addr::new(198, 18, 31, u8::try_from(10 + number).expect("few hosts"))
}

/// Why this system cannot make hosts of namespaces, with the capability that it lacks.
pub(super) fn is_offered() -> Result<(), (Capability, String)> {
    for name in ["netns", "veth"] {
        probe::probe_one(name).map_err(|reason| (Capability::Networks, reason))?;
    }
    for (program, package) in PROGRAMS {
        if shell::find(program).is_none() {
            return Err((Capability::Programs, format!("{program} is missing (package {package})")));
        }
    }
    let mut host = Command::new("unshare");
    host.args(["--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    // Without an offset a time namespace needs fewer rights.
    host.args(["--time", "--monotonic=1", "--boottime=1", "true"]);
    shell::read(&mut host).map_err(|error| (Capability::Mounts, format!("{error:#}")))?;
    let mut bridge = Command::new("unshare");
    bridge.arg("--net").arg(shell::find("ip").unwrap_or_else(|| "ip".into()));
    bridge.args(["link", "add", "name", "bridge0", "type", "bridge"]);
    shell::read(&mut bridge).map(drop).map_err(|error| (Capability::Networks, format!("{error:#}")))
}

/// The hosts, and how to reach them.
pub(super) struct Lab {
    /// The server's host, and then those of players.
    pub(super) hosts: Vec<LabHost>,
    /// The switch for ssh.
    pub(super) control: Switch,
    /// The controller's link to that switch.
    pub(super) controller_port: Port,
    /// The switch for queries.
    pub(super) data: Switch,
    pub(super) controller: NetNs,
    pub(super) keys: Keys,
    /// The configuration of OpenSSH's client.
    pub(super) config: PathBuf,
    /// The controller's home, with all that it writes.
    pub(super) home: PathBuf,
}

impl Lab {
    /// Makes a server's host and two of players. `disk` is the size of each host's home, as mount(8) reads it for
    /// tmpfs.
    pub(super) fn new(bench: &Bench, disk: &str) -> Result<Self> {
        let folder = bench.folder.path().canonicalize()?;
        let home = folder.join("home");
        fs::create_dir_all(home.join("tmp"))?;
        let keys = Keys::make(&folder)?;
        let (mut control, mut data, controller) = (Switch::new()?, Switch::new()?, quiet_network()?);
        let controller_port = control.connect(&controller, CONTROL, CONTROLLER)?;
        let mut hosts = Vec::new();
        for (number, (name, ahead_s)) in
            ["server", "player-1", "player-2"].into_iter().zip(AHEAD_S).enumerate()
        {
            let network = quiet_network()?;
            let (of_control, of_data) = (control_address(number), data_address(number));
            let ports =
                (control.connect(&network, CONTROL, of_control)?, data.connect(&network, DATA, of_data)?);
            let plan = Plan {
                name,
                control: of_control,
                data: of_data,
                ahead_s,
                disk,
                network,
                ports,
                folder: folder.join(name),
            };
            fs::create_dir_all(&plan.folder)?;
            hosts.push(LabHost::start(plan, &keys).with_context(|| format!("the host {name}"))?);
        }
        let config = PathBuf::new();
        let mut lab = Self { hosts, control, controller_port, data, controller, keys, config, home };
        lab.config = lab.keys.client(lab.hosts.iter().map(|host| (host.name.as_str(), host.control)))?;
        Ok(lab)
    }

    pub(super) fn server(&self) -> &LabHost {
        &self.hosts[0]
    }

    pub(super) fn players(&self) -> &[LabHost] {
        &self.hosts[1..]
    }

    /// The host of this name.
    pub(super) fn host(&self, name: &str) -> Result<&LabHost> {
        self.hosts.iter().find(|host| host.name == name).with_context(|| format!("no host is called {name}"))
    }

    /// The words that reach a host by ssh.
    pub(super) fn ssh(&self, host: &str) -> String {
        format!("ssh -F {} {host}", self.config.display())
    }

    /// A command of the controller, in its network and with its home.
    pub(super) fn command(&self, program: &Path) -> Result<Command> {
        let mut command = Command::new(program);
        command.env("HOME", &self.home).env("XDG_CACHE_HOME", self.home.join("cache"));
        command.env("XDG_STATE_HOME", self.home.join("state")).env("TMPDIR", self.home.join("tmp"));
        command.current_dir(&self.home);
        namespace::enter(&mut command, &self.controller)?;
        Ok(command)
    }

    /// Does something on a thread in the controller's network. Processes that it starts must end with it.
    pub(super) fn within<T: Send>(&self, act: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        self.controller
            .within(|| Ok(act()))
            .map_err(|error| anyhow!("entering the controller's network: {error}"))?
    }
}
