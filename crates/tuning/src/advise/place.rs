//! Where each kind of layout puts receiving and answering.

use super::cores::{Physical, by_thread, housekeeping_last, receivers_among};
use super::estimate::{Costs, OTHER_NODE, RECEIVE_BUSY_MOST};
use super::ground::Ground;
use super::layout::Kind;

/// Without costs, one core of this many receives (the rule of Seastar's perftune).
const CORES_PER_RECEIVER: usize = 16;

/// Without costs, on a node with at most this many physical cores a thread receives, and not a core (perftune).
const FEW_CORES: usize = 4;

/// Demands on a layout.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Demands {
    /// Workers; `None` for as many as the layout has room for.
    pub(super) workers: Option<usize>,
    /// Queries a second; `None` for as many as possible.
    pub(super) rate_qps: Option<f64>,
    pub(super) costs: Option<Costs>,
    /// Whether all workers share one socket.
    pub(super) one_socket: bool,
}

/// The cores of a layout, those to be used first at the front.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Placed {
    pub(super) kind: Kind,
    /// The cores that could receive. A device with fewer queues uses fewer of them, or steers packets to them.
    pub(super) receivers: Vec<u32>,
    pub(super) workers: Vec<u32>,
}

impl Placed {
    /// Whether both have the same cores.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        sorted(&self.receivers) == sorted(&other.receivers) && sorted(&self.workers) == sorted(&other.workers)
    }
}

pub(super) fn sorted(cpus: &[u32]) -> Vec<u32> {
    let mut sorted = cpus.to_vec();
    sorted.sort_unstable();
    sorted
}

/// Each core receives what it answers. If more workers are wanted than the device's node has physical cores, their
/// second threads follow, then the other nodes.
pub(super) fn together(ground: &Ground<'_>, wanted: &Demands) -> Placed {
    let here = housekeeping_last(&ground.here());
    let mut cpus = by_thread(&here);
    cpus.extend(by_thread(&ground.beyond()));
    cpus.truncate(wanted.workers.unwrap_or(here.len()));
    Placed { kind: Kind::Together, receivers: cpus.clone(), workers: cpus }
}

/// Some cores of the device's node receive, the others answer. `None` if there is only one physical core.
pub(super) fn split(ground: &Ground<'_>, wanted: &Demands) -> Option<Placed> {
    let here = ground.here();
    if here.len() < 2 {
        return None;
    }
    let has_two_threads = here.iter().any(|core| core.threads.len() > 1);
    let (receivers, mut workers) = if wanted.costs.is_none() && here.len() <= FEW_CORES && has_two_threads {
        let cpus = by_thread(&here);
        let (receiver, workers) = cpus.split_last().expect("there are two cores");
        (vec![*receiver], workers.to_vec())
    } else {
        let receivers = receivers_among(&here, receivers(here.len(), 0.0, wanted));
        let workers = others(&here, &receivers);
        let room = if wanted.workers.is_some() { usize::MAX } else { workers.len() };
        (firsts(&receivers), by_thread(&workers).into_iter().take(room).collect())
    };
    workers.truncate(wanted.workers.unwrap_or(usize::MAX));
    Some(Placed { kind: Kind::Split, receivers, workers })
}

/// The second thread of each core receives what the first answers. `None` if fewer cores than workers have two
/// threads.
pub(super) fn siblings(ground: &Ground<'_>, wanted: &Demands) -> Option<Placed> {
    let here = housekeeping_last(&ground.here());
    let pairs = here.iter().filter_map(|core| match core.threads[..] {
        [first, second, ..] => Some((second, first)),
        _ => None,
    });
    let (mut receivers, mut workers): (Vec<u32>, Vec<u32>) = pairs.unzip();
    let wanted = wanted.workers.unwrap_or(workers.len());
    if workers.is_empty() || workers.len() < wanted {
        return None;
    }
    receivers.truncate(wanted);
    workers.truncate(wanted);
    Some(Placed { kind: Kind::Siblings, receivers, workers })
}

/// Cores of the device's node receive; its other cores and those of the other nodes answer. `None` without another
/// node, if one node carries the rate (`first_qps` is what it carries), or if receiving costs more than answering.
pub(super) fn second_node(ground: &Ground<'_>, wanted: &Demands, first_qps: f64) -> Option<Placed> {
    let (here, beyond) = (ground.here(), ground.beyond());
    let is_needed = match wanted.costs {
        Some(costs) => {
            costs.server_s > costs.softirq_s && wanted.rate_qps.is_none_or(|rate| rate > first_qps)
        }
        None => wanted.workers.is_some_and(|workers| workers > here.len()),
    };
    if beyond.is_empty() || here.len() < 2 || !is_needed {
        return None;
    }
    let further = OTHER_NODE * beyond.len() as f64;
    let receivers = receivers_among(&here, receivers(here.len(), further, wanted));
    let mut answering = others(&here, &receivers);
    answering.extend(&beyond);
    let room = wanted.workers.unwrap_or(answering.len());
    let workers = by_thread(&answering).into_iter().take(room).collect();
    Some(Placed { kind: Kind::SecondNode, receivers: firsts(&receivers), workers })
}

/// A core receives, and the cores that share its cache answer. With one such core the receiver answers, too.
pub(super) fn neighbours(ground: &Ground<'_>, wanted: &Demands) -> Option<Placed> {
    let here = ground.here();
    let present = ground.only_receiver().filter(|cpu| here.iter().any(|core| core.threads.contains(cpu)));
    let receiver = match present {
        Some(cpu) => ground.cores.with(cpu)?,
        None => receivers_among(&here, 1).pop()?,
    };
    let cpu = present.unwrap_or(receiver.threads[0]);
    let near: Vec<&Physical> = here.iter().copied().filter(|core| receiver.is_near(core)).collect();
    let near = if near.is_empty() { others(&here, &[receiver]) } else { housekeeping_last(&near) };
    let mut workers = firsts(&near);
    if workers.len() < 2 {
        workers.push(cpu);
    }
    workers.truncate(wanted.workers.unwrap_or(usize::MAX));
    Some(Placed { kind: Kind::Neighbours, receivers: vec![cpu], workers })
}

/// How many of a node's `cores` receive; at least one, and one less than all. `further` cores of other nodes answer,
/// too.
fn receivers(cores: usize, further: f64, wanted: &Demands) -> usize {
    let most = cores - 1;
    let count = match (wanted.costs, wanted.rate_qps) {
        (Some(costs), Some(rate_qps)) => (rate_qps * costs.softirq_s / RECEIVE_BUSY_MOST).ceil() as usize,
        (Some(costs), None) => {
            let rate_qps = |receivers: usize| {
                let answering = (cores - receivers) as f64 + further;
                let answering = wanted.workers.map_or(answering, |workers| answering.min(workers as f64));
                (RECEIVE_BUSY_MOST * receivers as f64 / costs.softirq_s).min(answering / costs.server_s)
            };
            // `max_by` returns the last of equals: the fewest receivers.
            (1..=most).rev().max_by(|one, other| rate_qps(*one).total_cmp(&rate_qps(*other))).unwrap_or(1)
        }
        (None, _) => cores.div_ceil(CORES_PER_RECEIVER),
    };
    count.clamp(1, most)
}

/// The cores that are not among `these`, those that share a cache with one of them first, and core 0 last of equals.
fn others<'a>(all: &[&'a Physical], these: &[&Physical]) -> Vec<&'a Physical> {
    let left: Vec<&Physical> = all.iter().copied().filter(|core| !these.contains(core)).collect();
    let mut left = housekeeping_last(&left);
    left.sort_by_key(|core| !these.iter().any(|one| one.is_near(core)));
    left
}

fn firsts(physical: &[&Physical]) -> Vec<u32> {
    physical.iter().map(|core| core.threads[0]).collect()
}
