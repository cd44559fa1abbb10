//! The hosts of a run: their file, and the program that is brought to them.

use std::path::Path;
use std::thread;

use anyhow::Context as _;
use kqps_hosts::{Host, Hosts, push};
use kqps_lab::at_hosts::kept;

use crate::exit::bad_input;

/// The hosts of a file. If `is_pushed`, each gets this program first, and uses it.
pub(super) fn read(path: &Path, is_pushed: bool) -> anyhow::Result<Hosts> {
    let hosts = Hosts::read(path).map_err(bad_input)?;
    if is_pushed { pushed(hosts) } else { Ok(hosts) }
}

/// Brings this program to the hosts of the run in a folder, which then goes on with the program.
pub(super) fn push_to(folder: &Path) -> anyhow::Result<()> {
    let hosts = kept::read(folder)?;
    let Some(hosts) = hosts else {
        let place = folder.display();
        return Err(bad_input(format!("--push: the run in {place} has no hosts to bring kqps to")));
    };
    kept::write(folder, &pushed(hosts)?)?;
    Ok(())
}

/// Brings this program to all hosts side by side.
fn pushed(hosts: Hosts) -> anyhow::Result<Hosts> {
    let program = std::env::current_exe().context("finding the running program")?;
    let to = |host: Host| -> anyhow::Result<Host> {
        let kqps = push(&host, &program)?;
        Ok(Host { kqps, ..host })
    };
    thread::scope(|scope| {
        let to = &to;
        let players: Vec<_> = hosts.players.into_iter().map(|host| scope.spawn(move || to(host))).collect();
        let server = to(hosts.server)?;
        let joined = players.into_iter().map(|one| one.join().expect("pushing does not panic"));
        Ok(Hosts { server, players: joined.collect::<anyhow::Result<_>>()? })
    })
}
