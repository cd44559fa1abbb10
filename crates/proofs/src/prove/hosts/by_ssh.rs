//! The study by ssh: the records of two players are what the server received, and hosts' clocks are known. In the whole
//! form a host without kqps gets it by `--push`.

use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use kqps_observation::RunTrial;
use kqps_observation::run::Role;

use super::super::{Bench, Size};
use super::host::LabHost;
use super::lab::Lab;
use super::{check, leftovers, study};

/// Room for a program that is pushed.
const DISK: &str = "512m";

/// A program that no host has.
const ABSENT: &str = "/no/such/kqps";

pub(super) fn prove(bench: &Bench) -> Result<()> {
    let lab = Lab::new(bench, DISK)?;
    let before = leftovers::settings(&lab)?;
    let by_ssh = |host: &LabHost| lab.ssh(&host.name);
    let hosts = study::write_hosts(bench, &lab, "hosts.toml", &bench.kqps.program, by_ssh)?;
    let file = study::agrees(bench, &lab, ("by ssh", &hosts), |_| ())?;
    let took = leftovers::nowhere(&lab, &before, leftovers::AFTER_END)?;
    eprintln!("nothing is left on any host {:.1} s after the run", took.as_secs_f64());
    match bench.size {
        Size::Small => Ok(()),
        Size::Whole => {
            grouped(bench, &lab, &hosts, &before).context("subjects that are searched side by side")?;
            pushed(bench, &lab, &file).context("--push")
        }
    }
}

/// A search of the subject, beside which its echo runs, with the same settings of their host.
const GROUP: &str = r#"
name = "group"
title = "A subject and its echo, side by side"
question = "Do both have the settings of their host?"
repetitions = 1
load = { search = "quick" }
fixed = { "host.sysctl.net.ipv4.udp_rmem_min" = "8192" }

[[experiment]]
name = "search"
title = "A search"
subjects = ["./counted.toml"]
"#;

/// The subject and the echo of a group hold the same settings. They must come back when the last of them ends.
fn grouped(bench: &Bench, lab: &Lab, hosts: &Path, before: &leftovers::Settings) -> Result<()> {
    let file = lab.home.join("group.toml");
    std::fs::write(&file, GROUP)?;
    let out = lab.home.join("group");
    let run = study::play(study::command(bench, lab, &file, hosts, &out)?, &out)?.run;
    let failed: Vec<&str> = run.trials.iter().filter_map(RunTrial::failure).collect();
    ensure!(failed.is_empty(), "trials failed: {}", failed.join("; "));
    for role in [Role::Subject, Role::EchoCeiling] {
        let has_role = |one: &&RunTrial| run.cells[one.cell as usize].role == role;
        let played = run.trials.iter().filter(has_role).count();
        ensure!(played > 0, "no trial of a cell of {role:?} was played");
    }
    leftovers::nowhere(lab, before, leftovers::AFTER_END).map(drop)
}

/// Hosts without kqps get it by `--push`, if the program is static.
fn pushed(bench: &Bench, lab: &Lab, file: &Path) -> Result<()> {
    if !is_static(&bench.kqps.program)? {
        eprintln!(
            "--push is not proved, since {} is not static: build it for a target with musl, and name it by --program",
            bench.kqps.program.display()
        );
        return Ok(());
    }
    let by_ssh = |host: &LabHost| lab.ssh(&host.name);
    let hosts = study::write_hosts(bench, lab, "absent.toml", Path::new(ABSENT), by_ssh)?;
    let out = lab.home.join("pushed");
    let mut command = study::command(bench, lab, file, &hosts, &out)?;
    command.arg("--push");
    let run = study::play(command, &out)?.run;
    check::run(lab, &run)?.print("by ssh with --push");
    for host in &lab.hosts {
        let cache = host.path(&host.home.join(".cache/kqps"));
        let has_it = std::fs::read_dir(&cache)?.flatten().any(|entry| entry.path().join("kqps").is_file());
        ensure!(has_it, "{} has no program in its cache", host.name);
    }
    Ok(())
}

/// Whether a program needs no loader. The path of one is in the first page of a program that does (elf(5),
/// `PT_INTERP`).
fn is_static(program: &Path) -> Result<bool> {
    let mut first = Vec::new();
    std::fs::File::open(program)?.take(4096).read_to_end(&mut first)?;
    Ok(!first.windows(4).any(|bytes| bytes == b"/ld-"))
}
