//! Errors of a plan in the words of the flags.

use kqps_player::PlanError;
use kqps_player::plan::{BURST_MOST, CONNECTIONS_MOST, PILE_MOST, SOCKETS_MOST, THREADS_MOST};

/// An error of a plan, with the flags that set the wrong value.
pub(super) fn with_flags(error: &PlanError) -> String {
    match error {
        PlanError::Threads(threads) => format!("-T {threads}: expected 1 to {THREADS_MOST} threads"),
        PlanError::Sockets(sockets) => format!("-c {sockets}: expected 1 to {SOCKETS_MOST} sockets"),
        PlanError::SocketsOfTargets { sockets, targets } => {
            format!("-c {sockets}: each of the {targets} targets needs a socket of its own at least")
        }
        PlanError::Connections(connections) => {
            format!("-c {connections}: expected 1 to {CONNECTIONS_MOST} connections")
        }
        PlanError::ConnectionsOfTargets { connections, targets } => {
            format!("-c {connections}: each of the {targets} targets needs a connection of its own at least")
        }
        PlanError::Burst(burst) => format!("--burst {burst}: expected 1 to {BURST_MOST}"),
        PlanError::Timeout => "-t 0: every reply would be late".into(),
        PlanError::Drain { drain, timeout } => {
            format!("--drain {drain:?} is shorter than -t ({timeout:?}): replies in time would be missed")
        }
        PlanError::Coalesce { coalesce, lag_allowed } => format!(
            "--coalesce is {coalesce:?}, and --lag only {lag_allowed:?}: queries would be given up before they leave"
        ),
        PlanError::Window { window, threads } => {
            format!("-q {window}: each of the {threads} threads needs a window of 1 at least")
        }
        PlanError::WindowBeyondFlows { window, flows, most, is_replay } => format!(
            "-q {window}: {flows} sockets or connections can have {most} queries outstanding; expected {most} at most{}",
            if *is_replay { "" } else { ", or more of them (-c)" }
        ),
        PlanError::TlsName(name) => {
            format!("--server-name: `{name}` is no name of a server: expected a DNS name or an address")
        }
        PlanError::Device(device) => {
            format!("--device {device} is for --io xdp; leave it out with other I/O")
        }
        PlanError::WindowBeyondCapture { at, capture } => {
            format!("--window: {at:?} is beyond the capture, which ends {capture:?} after its first query")
        }
        PlanError::NoReplay => {
            "--arrivals captured is for captures, such as -d FILE.pcap; leave it out".into()
        }
        PlanError::ReplayIo(io) => format!(
            "--io {io} does not replay captures over udp, where each client has an address: expected auto, mmsg or xdp"
        ),
        PlanError::Pile(pile) => format!("--pile {pile}: expected 1 to {PILE_MOST}"),
        PlanError::Speed(speed) => format!("--speed {speed}: expected more than 0"),
        // The flags of connections and of captures are checked as they are read.
        _ => error.to_string(),
    }
}
