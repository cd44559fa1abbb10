//! The study by the words of `kubectl exec -i POD --`, with hosts of the lab in place of pods: a stand-in for kubectl
//! enters them. As with kubectl, what was started there outlives the program that entered, until its input ends or
//! nothing comes any more; so one is killed while a run goes on. No Kubernetes runs here.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use kqps_kernel::process::tie;

use super::super::{Bench, Size};
use super::host::LabHost;
use super::lab::Lab;
use super::{fault, faults, leftovers, study};

const DISK: &str = "64m";

pub(super) fn prove(bench: &Bench) -> Result<()> {
    let lab = Lab::new(bench, DISK)?;
    let before = leftovers::settings(&lab)?;
    let kubectl = stand_in(&lab)?;
    let reach = |host: &LabHost| format!("{} exec -i {} --", kubectl.display(), host.name);
    let hosts = study::write_hosts(bench, &lab, "pods.toml", &bench.kqps.program, reach)?;
    study::agrees(bench, &lab, ("by a stand-in for kubectl", &hosts), |_| ())?;
    leftovers::nowhere(&lab, &before, leftovers::AFTER_END)?;
    outlived(&lab, &before, &kubectl, &bench.kqps.program)?;
    if bench.size == Size::Small {
        return Ok(());
    }
    faults::kill_way(bench, &lab, leftovers::AFTER_SILENCE, reach)
}

/// Kills the stand-in behind which an agent runs. The agent outlives it, and ends with its input, which the controller
/// then closes.
fn outlived(lab: &Lab, before: &leftovers::Settings, kubectl: &Path, kqps: &Path) -> Result<()> {
    let (host, before) = lab.hosts.iter().zip(before).next_back().context("the lab has no host")?;
    let mut command = Command::new(kubectl);
    command.args(["exec", "-i", &host.name, "--"]).arg(kqps).arg("agent");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut entered = tie(&mut command).spawn().context("cannot start the stand-in for kubectl")?;
    let input = entered.stdin.take();
    let agent = fault::agent(host)?;
    entered.kill()?;
    entered.wait()?;
    ensure!(agent.lives(), "the agent ended with the stand-in, so what follows shows nothing");
    drop(input);
    leftovers::on_host(host, before, leftovers::AFTER_END).map(drop)
}

/// A program that reads `exec -i POD -- COMMAND…` and runs the command on the host of that name.
fn stand_in(lab: &Lab) -> Result<PathBuf> {
    let mut script =
        "#!/bin/sh\n[ \"$1 $2 $4\" = 'exec -i --' ] || exit 64\npod=$3\nshift 4\ncase $pod in\n".to_owned();
    for host in &lab.hosts {
        let (name, home) = (&host.name, host.home.display());
        writeln!(script, "{name}) HOME={home} XDG_CACHE_HOME= exec {} \"$@\" ;;", host.entered())?;
    }
    script += "esac\necho \"Error from server (NotFound): pods \\\"$pod\\\" not found\" >&2\nexit 1\n";
    let file = lab.home.join("kubectl");
    fs::write(&file, script)?;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    /// The manifest that is shipped. The part of it that says how pods behave is compared by its lines, since no crate
    /// here reads YAML.
    const MANIFEST: &str =
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/kubernetes/players.yaml"));

    /// Lines that both jobs must have.
    const OF_EACH: [&str; 11] = [
        "kind: Job",
        "backoffLimit: 0",
        "restartPolicy: Never",
        "hostNetwork: true",
        "shareProcessNamespace: true",
        "requiredDuringSchedulingIgnoredDuringExecution:",
        "topologyKey: kubernetes.io/hostname",
        "automountServiceAccountToken: false",
        "allowPrivilegeEscalation: false",
        "drop: [\"ALL\"]",
        "command: [\"sleep\", \"14400\"]",
    ];

    #[test]
    fn each_job_of_the_manifest_holds_its_pods_to_the_rules_of_measuring() {
        let documents: Vec<&str> = MANIFEST.split("\n---\n").collect();
        let [server, players] = documents[..] else { panic!("{} documents", documents.len()) };
        assert!(server.contains("component: server") && players.contains("component: player"));
        of_job(server);
        of_job(players);
        let lines: Vec<&str> = players.lines().map(str::trim).collect();
        for wanted in ["completionMode: Indexed", "completions: 2", "parallelism: 2"] {
            assert!(lines.contains(&wanted), "{wanted}");
        }
    }

    fn of_job(document: &str) {
        let lines: Vec<&str> =
            document.lines().map(|line| line.trim_start_matches([' ', '-']).trim()).collect();
        for wanted in OF_EACH {
            assert!(lines.contains(&wanted), "{wanted}");
        }
        // The pods end no later than their command.
        assert!(lines.contains(&"activeDeadlineSeconds: 14400"));
        // Guaranteed: requests are limits, and whole cores.
        let of = |what: &str| lines.iter().filter(|line| line.starts_with(what)).collect::<Vec<_>>();
        for what in ["cpu: ", "memory: "] {
            let values = of(what);
            assert!(values.len() == 2 && values[0] == values[1], "{values:?}");
        }
    }
}
