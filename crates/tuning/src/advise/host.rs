//! Pieces of advice on the host beside the device.

use super::Piece;
use super::ground::Ground;
use super::layout::Layout;
use super::value;

/// Bytes that a socket may buffer of what it receives. ISC used 16 MB, shotgun 8 MB, Knot DNS 1 MB.
const RECEIVE_BUFFER: u64 = 8 << 20;

/// Packets that may wait for a core to which they were steered. Knot DNS recommends as many.
const BACKLOG: u64 = 40_000;

/// An idle state from which a core wakes in this time is left on, microseconds. Waking from deeper states takes
/// longer than an answer.
const WAKE_UP_US: u32 = 2;

/// The name of the state in which a core polls (`drivers/cpuidle/poll_state.c`).
const POLLING: &str = "POLL";

pub(super) fn pieces(ground: &Ground<'_>, layout: Option<&Layout>) -> Vec<Piece> {
    let all = [
        governor(ground),
        idle_states(ground),
        numa_balancing(ground),
        receive_buffer(ground),
        backlog(ground, layout),
    ];
    all.into_iter().flatten().collect()
}

fn governor(ground: &Ground<'_>) -> Option<Piece> {
    let is_slower = ground.setup.governor.values().any(|governor| governor != "performance");
    is_slower.then(|| {
        Piece::new(
            vec![value::governor()],
            "A core that slows down between bursts receives the next one slowly.",
            "tuned (network-latency), Knot DNS and others agree",
            "Power and heat.",
        )
    })
}

/// States deeper than the lightest one in which a core does not poll. That one stays on: a core that can only poll gets
/// hot, and its sibling has less of it.
fn idle_states(ground: &Ground<'_>) -> Option<Piece> {
    let mut cpus = ground.cores.iter().flat_map(|core| &core.threads);
    let resting = ground.setup.idle_states.iter().filter(|state| state.name != POLLING);
    let lightest_us = resting.map(|state| state.latency_us).min()?;
    let most_us = lightest_us.max(WAKE_UP_US);
    let deep = ground.setup.idle_states.iter().filter(|state| state.latency_us > most_us);
    let deep: Vec<_> = deep.collect();
    let is_on = cpus.any(|cpu| deep.iter().any(|state| !state.disabled_on.contains(cpu)));
    is_on.then(|| {
        Piece::new(
            vec![value::idle_states(most_us)],
            "Waking from a deep idle state takes tens of microseconds, for which a query at low load waits.",
            "tuned (network-latency: force_latency)",
            "Power and heat. Other cores of the package may reach lower turbo frequencies.",
        )
    })
}

fn numa_balancing(ground: &Ground<'_>) -> Option<Piece> {
    let is_on = number(ground, "kernel.numa_balancing")? > 0 && !ground.beyond().is_empty();
    is_on.then(|| {
        Piece::new(
            vec![value::sysctl("kernel.numa_balancing", 0)],
            "The kernel unmaps pages to see which node uses them. Workers that are pinned gain nothing by it.",
            "https://docs.kernel.org/admin-guide/sysctl/kernel.html, numa_balancing",
            "Memory of programs that are not pinned stays on the node where it was first used.",
        )
    })
}

fn receive_buffer(ground: &Ground<'_>) -> Option<Piece> {
    let most = number(ground, "net.core.rmem_max")?;
    (most < RECEIVE_BUFFER).then(|| {
        Piece::new(
            vec![value::sysctl("net.core.rmem_max", RECEIVE_BUFFER)],
            "A server may then ask for a buffer that holds a burst. Set its own option as well (SO_RCVBUF).",
            "ISC 16 MB, shotgun 8 MB, Knot DNS 1 MB",
            "A full large buffer hides loss: queries are answered after their clients gave up.",
        )
    })
}

/// Steered packets wait in the backlog of their core. Others never do.
fn backlog(ground: &Ground<'_>, layout: Option<&Layout>) -> Option<Piece> {
    let most = number(ground, "net.core.netdev_max_backlog")?;
    let is_used = layout.is_some_and(|layout| layout.is_steered);
    (is_used && most < BACKLOG).then(|| {
        Piece::new(
            vec![value::sysctl("net.core.netdev_max_backlog", BACKLOG)],
            "Steered packets wait in a backlog, and a burst overflows a short one (softnet_stat counts that).",
            "Knot DNS: 40,000",
            "Packets in a long backlog are late.",
        )
    })
}

fn number(ground: &Ground<'_>, sysctl: &str) -> Option<u64> {
    ground.setup.sysctls.get(sysctl)?.trim().parse().ok()
}
