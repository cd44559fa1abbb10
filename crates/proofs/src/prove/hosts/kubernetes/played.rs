//! The study by `kubectl exec`, with the account of the controller: kubectl, API server and the protocols of streams are
//! those of Kubernetes, and the commands start on hosts of the lab. A kubectl that is killed takes its agent with it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use kqps_kernel::process::tie;

use super::super::super::Bench;
use super::super::host::Process;
use super::super::lab::Lab;
use super::super::{check, counted, left, study};
use super::cluster::Cluster;
use super::kubectl::{Kubectl, until};
use super::placed::Pod;

/// The time within which an agent must be there.
const UP_WITHIN: Duration = Duration::from_secs(20);

/// Words that kubectl logs when it was refused a WebSocket.
const FALLBACK: &str = "RemoteCommand fallback";

pub(super) fn prove(
    bench: &Bench,
    lab: &Lab,
    cluster: &mut Cluster,
    placed: &[Pod],
    account: &Kubectl,
) -> Result<()> {
    let before = left::settings(lab)?;
    enterable(lab, cluster, placed, account)?;
    counted::begin(&lab.server().network)?;
    let kqps = bench.kqps.program.display().to_string();
    let file = study::write(lab, study::Extent::of(bench))?;
    let hosts = study::write_hosts(bench, lab, "kubernetes.toml", &kqps, |host| {
        let pod = lab.hosts.iter().zip(placed).find(|(one, _)| one.name == host.name);
        let pod = pod.map_or("", |(_, pod)| pod.name.as_str());
        format!("{} exec -i {pod} --", account.program.display())
    })?;
    let out = lab.home.join("by-kubernetes");
    let command = study::command(lab, &bench.kqps.program, &study::words(&file, &hosts, &out))?;
    let study::Played { run, void } = study::play(command, &out)?;
    let mut checked = check::run(lab, &run, 0)?;
    ensure!(checked.players == [1, 2].into(), "trials had {:?} players", checked.players);
    counted::compare(lab, &run, &void)?;
    checked.print("by kubectl exec");
    left::nowhere(lab, &before, left::AFTER_END)?;
    killed(lab, &before, placed, account, &kqps)
}

/// Starts the kubelet's part of each node, and waits until a command runs on the right host by way of it.
fn enterable(lab: &Lab, cluster: &mut Cluster, placed: &[Pod], account: &Kubectl) -> Result<()> {
    for (host, pod) in lab.hosts.iter().zip(placed) {
        let program = lab.home.join(format!("enter-{}", host.name));
        let script = format!(
            "#!/bin/sh\nHOME={} XDG_CACHE_HOME= XDG_STATE_HOME= exec {} \"$@\"\n",
            host.home.display(),
            host.entered()
        );
        fs::write(&program, script)?;
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
        cluster.serve_exec(lab, pod.port, &program)?;
        let name = until(|| {
            Ok(account
                .read(&["exec", "-i", &pod.name, "--", "hostname"])
                .map_err(|error| format!("{error:#}")))
        })?;
        ensure!(name.trim() == host.name, "the pod {} is on {name}", pod.name);
    }
    // Its status is that of the command, and it enters as the docs say.
    let pod = placed.first().context("there is no pod")?;
    let output = account.output(&["exec", "-v=4", "-i", &pod.name, "--", "sh", "-c", "exit 7"])?;
    ensure!(output.status.code() == Some(7), "kubectl ended with {}", output.status);
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(said.contains(FALLBACK), "kubectl enters pods by its first protocol: {said}");
    Ok(())
}

/// Kills kubectl, behind which an agent waits. The API server closes its stream, and the agent ends with its input.
fn killed(lab: &Lab, before: &left::Settings, placed: &[Pod], account: &Kubectl, kqps: &str) -> Result<()> {
    let last = lab.hosts.iter().zip(before).zip(placed).next_back();
    let ((host, before), pod) = last.context("the lab has no host")?;
    let mut command = account.command(&["exec", "-i", &pod.name, "--", kqps, "agent"])?;
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut entered = tie(&mut command).spawn().context("cannot start kubectl")?;
    let begun = Instant::now();
    while !host.strangers().iter().any(Process::is_agent) {
        ensure!(begun.elapsed() < UP_WITHIN, "no agent runs on {}", host.name);
        std::thread::sleep(Duration::from_millis(5));
    }
    entered.kill()?;
    entered.wait()?;
    let took = left::on_host(host, before, left::AFTER_END)?;
    eprintln!("nothing is left {:.1} s after a kill of kubectl", took.as_secs_f64());
    Ok(())
}
