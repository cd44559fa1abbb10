//! The layouts that a host has room for, with their queues and their rates.

use super::estimate::RECEIVE_BUSY_MOST;
use super::ground::Ground;
use super::layout::{Kind, Layout};
use super::moves::Moves;
use super::place::{self, Demands, Placed, sorted};
use super::rank::rank;
use super::words;

/// With fewer queues than one for this many receiving cores, packets are steered, unless costs are known.
const CORES_PER_QUEUE: usize = 4;

/// All layouts that this host has room for, the most promising first. Empty if no core may be used.
pub(super) fn all(ground: &Ground<'_>, wanted: &Demands) -> Vec<Layout> {
    if ground.cores.is_empty() {
        return Vec::new();
    }
    let mut placed: Vec<Placed> = Vec::new();
    if !wanted.one_socket {
        placed.push(place::together(ground, wanted));
        placed.extend(place::siblings(ground, wanted));
    }
    placed.extend(place::split(ground, wanted));
    if !wanted.one_socket {
        let rates = placed.iter().filter_map(|one| made(ground, wanted, one).rate_qps);
        let first_qps = rates.fold(0.0, f64::max);
        placed.extend(place::second_node(ground, wanted, first_qps));
    }
    if let Some(neighbours) = place::neighbours(ground, wanted) {
        // With one receiver near all workers, both are the same. Those whose workers share a socket need its words.
        if wanted.one_socket {
            placed.retain(|one| !one.is_like(&neighbours));
        }
        if placed.iter().all(|one| !one.is_like(&neighbours)) {
            placed.push(neighbours);
        }
    }
    let mut layouts: Vec<Layout> = placed.iter().map(|one| made(ground, wanted, one)).collect();
    rank(&mut layouts, ground, wanted);
    layouts
}

/// A layout with its queues, its steering and its rate.
fn made(ground: &Ground<'_>, wanted: &Demands, placed: &Placed) -> Layout {
    let Placed { kind, receivers, workers } = placed;
    let queues = match kind {
        // All queues go to one core, and stay as many as they are.
        Kind::Neighbours => ground.queues(),
        // Packets are steered, and fewer or more queues change nothing.
        _ if !ground.has_interrupts() => ground.queues(),
        _ if ground.device.is_none() || ground.can_set_queues() => receivers.len().min(ground.queues_most()),
        _ => ground.queues(),
    };
    let interrupted = sorted(&receivers[..queues.min(receivers.len())]);
    let has_interrupts = ground.has_interrupts();
    let is_steered = !has_interrupts || is_steering_needed(wanted, placed, queues);
    let queue_cpus = if is_steered { sorted(receivers) } else { interrupted.clone() };
    let costs = wanted.costs.filter(|_| !wanted.one_socket);
    let rate_qps = costs.map(|costs| costs.rate_qps(&ground.cores, ground.node, &queue_cpus, workers));
    let receive_busy = costs.zip(wanted.rate_qps.or(rate_qps));
    let mut layout = Layout {
        kind: *kind,
        queues: u32::try_from(queues).unwrap_or(u32::MAX),
        queues_to_try: queues_to_try(ground, wanted, placed, queues),
        receive_busy: receive_busy.map(|(costs, rate_qps)| costs.receive_busy(rate_qps, queue_cpus.len())),
        queue_cpus,
        interrupt_cpus: if has_interrupts { interrupted } else { Vec::new() },
        is_steered,
        worker_cpus: sorted(workers),
        rate_qps,
        reason: String::new(),
        source: words::source(*kind).into(),
        cost: words::cost(*kind).into(),
        changes: Vec::new(),
    };
    layout.reason = words::reason(&layout, wanted);
    layout.changes = Moves::new(ground, &layout).all();
    layout
}

/// Whether the queues of a device with interrupts are too few for the cores that could receive.
fn is_steering_needed(wanted: &Demands, placed: &Placed, queues: usize) -> bool {
    let Placed { kind, receivers, workers } = placed;
    if queues >= receivers.len() {
        return false;
    }
    match wanted.costs {
        Some(costs) => {
            let receives_too = matches!(kind, Kind::Together);
            let query_s = costs.server_s + if receives_too { costs.softirq_s } else { 0.0 };
            let most_qps = workers.len() as f64 / query_s;
            let rate_qps = wanted.rate_qps.unwrap_or(most_qps);
            costs.receive_busy(rate_qps, queues) > RECEIVE_BUSY_MOST
        }
        None => queues * CORES_PER_QUEUE <= receivers.len(),
    }
}

/// The number of receivers of a split, a quarter and a half of the workers, all workers, and the most that the device
/// has.
fn queues_to_try(ground: &Ground<'_>, wanted: &Demands, placed: &Placed, queues: usize) -> Vec<u32> {
    let is_kind = matches!(placed.kind, Kind::Together | Kind::SecondNode);
    let is_search = is_kind && ground.can_set_queues() && ground.has_interrupts();
    let mut all = vec![queues];
    if is_search {
        let workers = placed.workers.len();
        let of_split = place::split(ground, wanted).map(|split| split.receivers.len());
        all.extend(of_split);
        all.extend([workers / 4, workers / 2, workers]);
        all.extend((ground.queues_most() <= workers).then_some(ground.queues_most()));
        all.retain(|&queues| (1..=ground.queues_most()).contains(&queues));
    }
    let mut all: Vec<u32> = all.into_iter().map(|queues| u32::try_from(queues).unwrap_or(u32::MAX)).collect();
    all.sort_unstable();
    all.dedup();
    all
}
