//! The path between player and server: loopback, or two network namespaces that a pair of virtual devices joins. The
//! kernel removes these with the last process and descriptor that holds them, however a run ends.

use std::io;
use std::process::Command;

use anyhow::{Context as _, Result};
use kqps_kernel::namespace::veth::{self, VethSettings};
use kqps_kernel::namespace::{self, NetNs};
use kqps_kernel::probe;
use kqps_observation::question::Path as Kind;
use kqps_programs::shell;
use kqps_testbed::path::{LaidPath, VethPath};

/// The source addresses of players on a veth path, from the network that is set aside for benchmarks (RFC 2544,
/// appendix C.2.2). They are so many that no player runs out of ports.
pub(crate) const SOURCES: &str = "198.19.0.0/16";

/// Lays a path, the same for every player. The server's end completes the checksums of its packets, since a player that
/// bypasses the kernel would find them wrong. Each device has one queue, since kxdpgun starts a thread for each.
pub(crate) fn lay(kind: Kind) -> Result<LaidPath> {
    lay_with(kind, &one_queue())
}

/// The settings of the same path.
pub(crate) fn one_queue() -> VethSettings {
    VethSettings { queues: Some(1), ..VethSettings::default() }
}

/// Lays a path as [`lay`] does, with these settings of a pair of devices.
pub(crate) fn lay_with(kind: Kind, settings: &VethSettings) -> Result<LaidPath> {
    if kind == Kind::Loopback {
        return Ok(LaidPath::Loopback);
    }
    let path = LaidPath::Veth(VethPath::lay(settings).context("a veth path cannot be laid")?);
    path.at_subject(veth::complete_checksums)?;
    let player = path.player_address().to_string();
    ip(&["route", "add", "local", SOURCES, "dev", "lo"], |command| path.place_player(command))?;
    ip(&["route", "add", SOURCES, "via", &player], |command| path.place_subject(command))?;
    Ok(path)
}

/// Why no player can pass the kernel over a veth path here; `None` if it can.
pub(crate) fn lacks_frames() -> Option<String> {
    lacks(Kind::Veth).or_else(|| probe::probe_one("af-xdp").err())
}

/// Why this host cannot lay a path; `None` if it can.
pub(crate) fn lacks(kind: Kind) -> Option<String> {
    if kind == Kind::Loopback {
        return None;
    }
    match probe::probe_one("veth") {
        Err(reason) => Some(format!("no veth path can be laid: {reason}")),
        Ok(()) => shell::find("ip").is_none().then(|| "ip is missing (package iproute2)".to_owned()),
    }
}

/// Runs ip(8) where `place` puts it, and returns its output.
pub(crate) fn ip(args: &[&str], place: impl FnOnce(&mut Command) -> io::Result<()>) -> Result<String> {
    run_at("ip", args, place)
}

/// Runs a program of the network in a namespace, and returns its output.
pub(crate) fn run_in(at: &NetNs, program: &str, args: &[&str]) -> Result<String> {
    run_at(program, args, |command| namespace::enter(command, at).map(drop))
}

fn run_at(
    program: &str,
    args: &[&str],
    place: impl FnOnce(&mut Command) -> io::Result<()>,
) -> Result<String> {
    let mut command = Command::new(shell::find(program).with_context(|| format!("{program} is missing"))?);
    place(command.args(args)).context("entering a network namespace")?;
    shell::read(&mut command)
}
