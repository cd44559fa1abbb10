//! The hosts of a run: their file, and the program that is brought to them.

use std::path::Path;

use anyhow::Context as _;
use kqps_fleet::{Host, Hosts, HostsError, find_pushed, map_hosts, push};
use kqps_remote::controller::hosts_copy;

use crate::exit::bad_input;

/// The hosts of a file.
pub(super) fn read(path: &Path) -> anyhow::Result<Hosts> {
    Hosts::read(path).map_err(bad_input)
}

/// Brings this program to the hosts of the run in a folder, which then goes on with the program.
pub(super) fn push_to(folder: &Path) -> anyhow::Result<()> {
    let hosts = hosts_copy::read(folder)?;
    let Some(hosts) = hosts else {
        let place = folder.display();
        return Err(bad_input(format!("--push: the run in {place} has no hosts to bring kqps to")));
    };
    hosts_copy::write(folder, &pushed(hosts)?)?;
    Ok(())
}

/// Brings this program to all hosts, which then use it.
pub(super) fn pushed(hosts: Hosts) -> anyhow::Result<Hosts> {
    with(hosts, |host, program| push(host, program).map(Some))
}

/// The hosts for a dry run with `--push`: those to which this program was brought before use it, and nothing is brought
/// to the others.
pub(super) fn found(hosts: Hosts) -> anyhow::Result<Hosts> {
    with(hosts, |host, program| {
        let path = find_pushed(host, program)?;
        if path.is_none() {
            let name = &host.name;
            eprintln!("kqps: a dry run brings no program to {name}, so the one that it has is asked");
        }
        Ok(path)
    })
}

/// The hosts with the path that each has for this program, if it has one. Some are asked at once.
fn with(
    hosts: Hosts,
    path: impl Fn(&Host, &Path) -> Result<Option<String>, HostsError> + Sync,
) -> anyhow::Result<Hosts> {
    let program = std::env::current_exe().context("finding the running program")?;
    let to = |host: Host| -> anyhow::Result<Host> {
        Ok(match path(&host, &program)? {
            Some(kqps) => Host { kqps, ..host },
            None => host,
        })
    };
    let all = [hosts.server].into_iter().chain(hosts.players).collect();
    let mut players = map_hosts(all, to).into_iter().collect::<anyhow::Result<Vec<Host>>>()?;
    let server = players.remove(0);
    Ok(Hosts { server, players })
}
