//! The study by ssh: the records of two players are what the server received, and hosts' clocks are known. Then what
//! cannot be reached is refused in words, and in the whole form a host without kqps gets it by `--push`.

use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use kqps_observation::RunTrial;
use kqps_observation::run::Role;

use super::super::{Bench, Size};
use super::lab::Lab;
use super::{check, counted, leftovers, refused, study};

/// Room for a program that is pushed.
const DISK: &str = "512m";

/// A program that no host has.
const ABSENT: &str = "/no/such/kqps";

pub(super) fn prove(bench: &Bench) -> Result<()> {
    let lab = Lab::new(bench, DISK)?;
    let before = leftovers::settings(&lab)?;
    counted::begin(&lab.server().network)?;
    let kqps = bench.kqps.program.display().to_string();
    let file = study::write(&lab, study::Extent::from_bench(bench))?;
    let hosts = study::write_hosts(bench, &lab, "hosts.toml", &kqps, |host| lab.ssh(&host.name))?;
    let out = lab.home.join("by-ssh");
    let command = study::command(&lab, &bench.kqps.program, &study::words(&file, &hosts, &out))?;
    let study::Played { run, void } = study::play(command, &out)?;
    let mut checked = check::run(&lab, &run, 0)?;
    ensure!(checked.players == [1, 2].into(), "trials had {:?} players", checked.players);
    counted::compare(&lab, &run, &void)?;
    checked.print("by ssh");
    let took = leftovers::nowhere(&lab, &before, leftovers::AFTER_END)?;
    eprintln!("nothing is left on any host {:.1} s after the run", took.as_secs_f64());
    refused::prove(bench, &lab, &file, &before)?;
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
    let words = study::words(&file, hosts, &out);
    let run = study::play(study::command(lab, &bench.kqps.program, &words)?, &out)?.run;
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
    let hosts = study::write_hosts(bench, lab, "absent.toml", ABSENT, |host| lab.ssh(&host.name))?;
    let out = lab.home.join("pushed");
    let mut words = study::words(file, &hosts, &out);
    words.push("--push".to_owned());
    let run = study::play(study::command(lab, &bench.kqps.program, &words)?, &out)?.run;
    check::run(lab, &run, 0)?.print("by ssh with --push");
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
