//! What must be gone when the link to a host is, or the controller: every process of kqps, every namespace, every file
//! of an agent, and every setting's new value.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use kqps_hosts::ENDED_WITHIN;

use super::host::{LabHost, Process};
use super::lab::Lab;

/// An agent learns of a closed connection at once, and has this long to end all.
pub(super) const AFTER_END: Duration = Duration::from_secs(5);

/// Of a silent link it learns by its lease. It then ends in any case, and its guards may take another second.
pub(super) const AFTER_SILENCE: Duration = ENDED_WITHIN.saturating_add(Duration::from_secs(1));

const LOOK: Duration = Duration::from_millis(20);

/// The settings of all hosts at one moment.
pub(super) type Settings = Vec<BTreeMap<String, Vec<u8>>>;

/// Reads the settings of all hosts.
pub(super) fn settings(lab: &Lab) -> Result<Settings> {
    lab.hosts.iter().map(LabHost::settings).collect()
}

/// Waits until nothing of kqps is left on a host, and every setting has the value from before. Returns how long that
/// took. An error says what is left `within` this time.
pub(super) fn on_host(
    host: &LabHost,
    before: &BTreeMap<String, Vec<u8>>,
    within: Duration,
) -> Result<Duration> {
    let began = Instant::now();
    loop {
        let left = of_host(host, before)?;
        if left.is_empty() {
            return Ok(began.elapsed());
        }
        if began.elapsed() > within {
            bail!("{} s later there is left on {}: {}", within.as_secs(), host.name, left.join("; "));
        }
        std::thread::sleep(LOOK);
    }
}

/// As [`on_host`], of all hosts and the controller.
pub(super) fn nowhere(lab: &Lab, before: &Settings, within: Duration) -> Result<Duration> {
    let began = Instant::now();
    for (host, before) in lab.hosts.iter().zip(before) {
        on_host(host, before, within.saturating_sub(began.elapsed()))?;
    }
    while let Some(pid) = at_the_controller(&lab.home) {
        if began.elapsed() > within {
            bail!("the process {pid} of the controller lives on");
        }
        std::thread::sleep(LOOK);
    }
    Ok(began.elapsed())
}

/// Waits until these processes have ended.
pub(super) fn ended(processes: &[Process], within: Duration) -> Result<Duration> {
    let began = Instant::now();
    while let Some(one) = processes.iter().find(|process| process.lives()) {
        if began.elapsed() > within {
            bail!("{} s later `{}` lives on", within.as_secs(), one.words);
        }
        std::thread::sleep(LOOK);
    }
    Ok(began.elapsed())
}

fn of_host(host: &LabHost, before: &BTreeMap<String, Vec<u8>>) -> Result<Vec<String>> {
    let mut left: Vec<String> = host
        .strangers()
        .into_iter()
        .map(|process| format!("process {} `{}`", process.pid, process.words))
        .collect();
    // The file by which agents begin one after the other stays.
    let agents = host.path(&host.home.join(".cache/kqps/agent"));
    left.extend(folders(&agents).into_iter().map(|name| format!("folder .cache/kqps/agent/{name}")));
    for (name, value) in host.settings()? {
        if before.get(&name) != Some(&value) {
            left.push(format!("setting {name} = {:?}", String::from_utf8_lossy(&value).trim()));
        }
    }
    Ok(left)
}

/// The names of folders in a folder; none if there is no such folder.
fn folders(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let inner = entries.filter(|entry| entry.path().is_dir());
    inner.map(|entry| entry.file_name().display().to_string()).collect()
}

/// A process whose working directory is in the controller's home, as with kqps itself and the programs by which it
/// reaches hosts.
fn at_the_controller(home: &Path) -> Option<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.find(|pid| fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|folder| folder.starts_with(home)))
}
