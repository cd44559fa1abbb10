//! Pieces of advice on the host beside the device.

use super::Piece;
use super::ground::Ground;
use super::layout::Layout;
use super::value;

/// Bytes that a socket may buffer of what it receives. ISC used 16 MB, shotgun 8 MB, Knot DNS 1 MB.
const RECEIVE_BUFFER: u64 = 8 << 20;

/// Packets that may wait for a core to which they were steered. Knot DNS recommends as many.
const BACKLOG: u64 = 40_000;

/// An idle state from which a core wakes in this time is left on, microseconds. Waking from deeper states takes longer than
/// an answer.
const WAKE_UP_US: u32 = 2;

pub(super) fn pieces(ground: &Ground<'_>, layout: Option<&Layout>) -> Vec<Piece> {
    let all = [governor(ground), idle_states(ground), numa_balancing(ground), receive_buffer(ground), backlog(ground, layout)];
    all.into_iter().flatten().collect()
}

fn governor(ground: &Ground<'_>) -> Option<Piece> {
    let slower = ground.setup.governor.values().any(|governor| governor != "performance");
    slower.then(|| Piece {
        changes: vec![value::governor()],
        reason: "A core that slows down between bursts receives the next one slowly.".into(),
        source: "tuned (network-latency), Knot DNS and others agree".into(),
        cost: "Power and heat.".into(),
        takes_link_down: false,
    })
}

fn idle_states(ground: &Ground<'_>) -> Option<Piece> {
    (!ground.setup.idle_states.is_empty()).then(|| Piece {
        changes: vec![value::idle_states(WAKE_UP_US)],
        reason: "Waking from a deep idle state takes tens of microseconds, which a query at low load waits for.".into(),
        source: "tuned (network-latency: force_latency)".into(),
        cost: "Power and heat; other cores of the package may reach lower turbo frequencies.".into(),
        takes_link_down: false,
    })
}

fn numa_balancing(ground: &Ground<'_>) -> Option<Piece> {
    let is_on = ground.setup.sysctls.get("kernel.numa_balancing").is_some_and(|value| value.trim() != "0");
    (is_on && !ground.beyond().is_empty()).then(|| Piece {
        changes: vec![value::sysctl("kernel.numa_balancing", 0)],
        reason: "The kernel unmaps pages to see which node uses them. Workers that are pinned gain nothing by it.".into(),
        source: "https://docs.kernel.org/admin-guide/sysctl/kernel.html, numa_balancing".into(),
        cost: "Memory of programs that are not pinned stays on the node where it was first used.".into(),
        takes_link_down: false,
    })
}

fn receive_buffer(ground: &Ground<'_>) -> Option<Piece> {
    let most: u64 = ground.setup.sysctls.get("net.core.rmem_max")?.trim().parse().ok()?;
    (most < RECEIVE_BUFFER).then(|| Piece {
        changes: vec![value::sysctl("net.core.rmem_max", RECEIVE_BUFFER)],
        reason: "A server may then ask for a buffer that holds a burst. Set its own option as well (SO_RCVBUF).".into(),
        source: "ISC 16 MB, shotgun 8 MB, Knot DNS 1 MB".into(),
        cost: "A full large buffer hides loss: queries are answered after their clients gave up.".into(),
        takes_link_down: false,
    })
}

/// Steered packets wait in the backlog of their core. Others never do.
fn backlog(ground: &Ground<'_>, layout: Option<&Layout>) -> Option<Piece> {
    let most: u64 = ground.setup.sysctls.get("net.core.netdev_max_backlog")?.trim().parse().ok()?;
    let is_used = layout.is_some_and(|layout| layout.is_steered);
    (is_used && most < BACKLOG).then(|| Piece {
        changes: vec![value::sysctl("net.core.netdev_max_backlog", BACKLOG)],
        reason: "Steered packets wait in a backlog, and a burst overflows a short one (softnet_stat counts that).".into(),
        source: "Knot DNS: 40,000".into(),
        cost: "Packets in a long backlog are late.".into(),
        takes_link_down: false,
    })
}
