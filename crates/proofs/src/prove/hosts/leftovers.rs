//! Traces that must be gone when the link to a host is, or the controller: every process of kqps, every folder of an
//! agent, every device and mount, and every setting's new value.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use kqps_fleet::ENDED_WITHIN;

use super::host::{LabHost, Process};
use super::lab::Lab;
use crate::child::working_in;
use crate::wait::until;

/// An agent learns of a closed connection at once, and has this long to end all.
pub(super) const AFTER_END: Duration = Duration::from_secs(5);

/// An agent learns of a silent link by its lease. It then ends in any case, and its guards may take another second.
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
    let is_empty = || Ok(of_host(host, before)?.is_empty().then(|| began.elapsed()));
    until((within, LOOK), is_empty, || {
        let left = of_host(host, before).map_or_else(|error| error.to_string(), |left| left.join("; "));
        format!("{} s later there is left on {}: {left}", within.as_secs(), host.name)
    })
}

/// As [`on_host`], of all hosts and the controller, which also leaves no temporary file.
pub(super) fn nowhere(lab: &Lab, before: &Settings, within: Duration) -> Result<Duration> {
    let began = Instant::now();
    for (host, before) in lab.hosts.iter().zip(before) {
        on_host(host, before, within.saturating_sub(began.elapsed()))?;
    }
    let ended = || Ok(working_in(&lab.home).next().is_none().then_some(()));
    let rest = within.saturating_sub(began.elapsed());
    until((rest, LOOK), ended, || "processes of the controller live on".to_owned())?;
    let files = entries(&lab.home.join("tmp"));
    ensure!(files.is_empty(), "the controller left temporary files: {}", files.join(", "));
    Ok(began.elapsed())
}

/// Processes and folders of an agent that is about to be cut off from its controller, and all else that ends with it.
#[derive(Debug, Default)]
pub(super) struct Remains {
    /// The name of its host; `None` if no agent is cut off.
    host: Option<String>,
    processes: Vec<Process>,
    folders: Vec<String>,
}

impl Remains {
    /// Processes and folders on a host at this moment.
    pub(super) fn read(host: &LabHost) -> Self {
        Self { host: Some(host.name.clone()), processes: host.strangers(), folders: agents(host) }
    }

    /// A process that ends by itself.
    pub(super) fn of_process(process: Process) -> Self {
        Self { processes: vec![process], ..Self::default() }
    }

    /// Waits until all of it is gone, and until every setting of the host has had its value from before. The next agent
    /// sets it again, but not within this time. Returns how long that took.
    pub(super) fn gone(&self, lab: &Lab, before: &Settings, within: Duration) -> Result<Duration> {
        let began = Instant::now();
        let host = lab.hosts.iter().zip(before).find(|(host, _)| Some(&host.name) == self.host.as_ref());
        let mut are_back = host.is_none();
        let left = || {
            let mut left: Vec<String> = self.processes.iter().filter(|one| one.lives()).map(words).collect();
            let folders = host.into_iter().flat_map(|(host, _)| agents(host));
            let folders = folders.filter(|folder| self.folders.contains(folder));
            left.extend(folders.map(|folder| format!("folder {folder}")));
            left
        };
        let is_gone = || {
            if let Some((host, before)) = host {
                are_back = are_back || host.settings()? == *before;
            }
            Ok((are_back && left().is_empty()).then(|| began.elapsed()))
        };
        until((within, LOOK), is_gone, || {
            format!(
                "{} s later there is left: {}, or no setting came back",
                within.as_secs(),
                left().join("; ")
            )
        })
    }
}

fn of_host(host: &LabHost, before: &BTreeMap<String, Vec<u8>>) -> Result<Vec<String>> {
    let mut left: Vec<String> = host.strangers().iter().map(words).collect();
    left.extend(agents(host).into_iter().map(|name| format!("folder {name}")));
    for (name, value) in host.settings()? {
        if before.get(&name) != Some(&value) {
            left.push(format!("setting {name} = {:?}", String::from_utf8_lossy(&value).trim()));
        }
    }
    Ok(left)
}

fn words(process: &Process) -> String {
    format!("process {} `{}`", process.pid, process.words)
}

/// The names of the folders of agents on a host. The file by which agents begin one after the other is no folder, and
/// stays.
fn agents(host: &LabHost) -> Vec<String> {
    let home = host.path(&host.home.join(".cache/kqps/agent"));
    entries(&home).into_iter().filter(|name| home.join(name).is_dir()).collect()
}

/// The names of what is in a folder; none if there is no such folder.
fn entries(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().display().to_string()).collect()
}
