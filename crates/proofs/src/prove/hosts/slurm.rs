//! A cluster of Slurm over the lab's hosts: Debian's munged and slurmd on each, and slurmctld on the server's host,
//! from which jobs are started. All of it ends with the hosts.

use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use kqps_programs::shell;

use super::host::LabHost;
use super::lab::Lab;
use crate::child::Running;

/// The programs, with their Debian packages.
pub(super) const PROGRAMS: [(&str, &str); 5] = [
    ("munged", "munge"),
    ("slurmctld", "slurmctld"),
    ("slurmd", "slurmd"),
    ("srun", "slurm-client"),
    ("sinfo", "slurm-client"),
];

/// How long nodes may take to be idle.
const UP_WITHIN: Duration = Duration::from_mins(2);
const LOOK: Duration = Duration::from_millis(200);

/// Everything of Slurm's that would touch the machine is off: control groups, accounting, pinning.
const CONFIG: &str = "\
ClusterName=kqps
SlurmctldHost={server}({address})
AuthType=auth/munge
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation=/var/lib/slurm/ctld
SlurmdSpoolDir=/var/lib/slurm/d
SlurmctldPidFile=/run/slurm/slurmctld.pid
SlurmdPidFile=/run/slurm/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
SchedulerType=sched/builtin
SelectType=select/linear
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
";

/// slurmd looks for the kind of control groups unless it is named, and the lab's hosts have none. This kind is set up
/// when it is used, and nothing uses it here.
const CGROUP_CONFIG: &str = "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n";

/// A cluster that runs.
pub(super) struct Cluster {
    /// Its configuration.
    pub(super) config: PathBuf,
    _daemons: Vec<Running>,
}

impl Cluster {
    /// Starts the daemons, and waits until every node takes jobs.
    pub(super) fn start(lab: &Lab) -> Result<Self> {
        let folder = lab.home.clone();
        let key = folder.join("munge.key");
        let bytes: Vec<u8> = std::iter::repeat_with(|| fastrand::u8(..)).take(1024).collect();
        fs::write(&key, bytes)?;
        fs::set_permissions(&key, fs::Permissions::from_mode(0o400))?;
        let config = folder.join("slurm.conf");
        fs::write(&config, configuration(lab))?;
        fs::write(folder.join("cgroup.conf"), CGROUP_CONFIG)?;
        let mut daemons = Vec::new();
        for host in &lab.hosts {
            let folders = ["/run/munge", "/run/slurm", "/var/lib/slurm/ctld", "/var/lib/slurm/d"];
            shell::run(host.command("mkdir").arg("-p").args(folders))?;
            let mut munged = host.command(find("munged")?);
            munged.args(["--foreground", "--force", "--socket=/run/munge/munge.socket.2"]);
            munged.args(["--pid-file=/run/munge/munged.pid", "--log-file=/run/munge/munged.log"]);
            munged.args(["--seed-file=/run/munge/munged.seed"]).arg(format!("--key-file={}", key.display()));
            daemons.push(Running::start(&mut munged)?);
            appears(&host.path(Path::new("/run/munge/munge.socket.2")))?;
        }
        let mut controller = lab.server().command(find("slurmctld")?);
        controller.args(["-D", "-c", "-f"]).arg(&config).env("SLURM_CONF", &config);
        daemons.push(Running::start(&mut controller)?);
        for host in &lab.hosts {
            let mut node = host.command(find("slurmd")?);
            node.args(["-D", "-N", &host.name, "-f"]).arg(&config).env("SLURM_CONF", &config);
            daemons.push(Running::start(&mut node)?);
        }
        let cluster = Self { config, _daemons: daemons };
        cluster.is_idle(lab)?;
        Ok(cluster)
    }

    /// A command on the host from which jobs are started.
    pub(super) fn command(&self, lab: &Lab, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = lab.server().command(program);
        command.env("SLURM_CONF", &self.config);
        command
    }

    fn is_idle(&self, lab: &Lab) -> Result<()> {
        let end = Instant::now() + UP_WITHIN;
        loop {
            // It fails until slurmctld listens.
            let states = shell::read(self.command(lab, "sinfo").args(["-h", "-N", "-o", "%T"]));
            let states = states.unwrap_or_else(|error| format!("{error:#}"));
            if states.lines().count() == lab.hosts.len() && states.lines().all(|state| state.trim() == "idle")
            {
                return Ok(());
            }
            if Instant::now() > end {
                bail!("the nodes take no jobs: {}", states.trim());
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// The configuration of a cluster of the lab's hosts.
fn configuration(lab: &Lab) -> String {
    let address: Ipv4Addr = lab.server().control;
    let mut text = CONFIG.replace("{server}", &lab.server().name).replace("{address}", &address.to_string());
    let node = |host: &LabHost| {
        format!("NodeName={} NodeAddr={} NodeHostname={0} CPUs=2 State=UNKNOWN\n", host.name, host.control)
    };
    text.extend(lab.hosts.iter().map(node));
    text + "PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n"
}

fn appears(file: &Path) -> Result<()> {
    let end = Instant::now() + UP_WITHIN;
    while !file.exists() {
        if Instant::now() > end {
            bail!("{} does not appear", file.display());
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

fn find(program: &str) -> Result<PathBuf> {
    shell::find(program).with_context(|| format!("{program} is missing"))
}
