//! The study by Slurm: each agent is the one task of a job of its own, reached by `srun`.

use anyhow::{Result, ensure};

use super::super::Bench;
use super::lab::Lab;
use super::leftovers;
use super::slurm::{self, Cluster};
use super::{check, counted, packages, study};

const DISK: &str = "64m";

pub(super) fn prove(bench: &Bench) -> Result<()> {
    packages::need(&slurm::PROGRAMS)?;
    let lab = Lab::new(bench, DISK)?;
    let cluster = Cluster::start(&lab)?;
    counted::begin(&lab.server().network)?;
    let kqps = bench.kqps.program.display().to_string();
    let file = study::write(&lab, study::Extent::from_bench(bench))?;
    let hosts = study::write_hosts(bench, &lab, "slurm.toml", &kqps, |host| {
        format!("srun --quiet --nodes=1 --ntasks=1 --time=60 --nodelist={}", host.name)
    })?;
    let out = lab.home.join("by-slurm");
    // It ends with its host, and the host with this program.
    let mut command = cluster.command(&lab, &bench.kqps.program);
    command.args(study::words(&file, &hosts, &out));
    let study::Played { run, void } = study::play(command, &out)?;
    // The controller is the server's host here, and so is its clock.
    let mut checked = check::run(&lab, &run, lab.server().ahead_ns)?;
    ensure!(checked.players == [1, 2].into(), "trials had {:?} players", checked.players);
    counted::compare(&lab, &run, &void)?;
    checked.print("by Slurm");
    let agents: Vec<_> = lab
        .hosts
        .iter()
        .flat_map(super::host::LabHost::processes)
        .filter(super::host::Process::is_agent)
        .collect();
    let took = leftovers::ended(&agents, leftovers::AFTER_END)?;
    eprintln!("no agent is left {:.1} s after the run", took.as_secs_f64());
    Ok(())
}
