//! The order of layouts.

use super::ground::Ground;
use super::layout::{Kind, Layout};
use super::place::Demands;

/// On a node with at most this many logical cores, or with a queue for each core, receiving and answering together
/// come first, unless costs are known (the rule of Seastar's perftune).
const FEW_THREADS: usize = 4;

/// Puts the most promising layout first: by rate, of equals the one with fewer cores. Without rates, by rules.
pub(super) fn rank(layouts: &mut [Layout], ground: &Ground<'_>, wanted: &Demands) {
    let order = order(ground, wanted);
    layouts.sort_by_key(|layout| order.iter().position(|kind| *kind == layout.kind));
    // This sort is stable, and without rates it changes nothing.
    layouts.sort_by(|one, other| {
        let (Some(of_one), Some(of_other)) = (one.rate_qps, other.rate_qps) else {
            return std::cmp::Ordering::Equal;
        };
        of_other.total_cmp(&of_one).then_with(|| cores(one).cmp(&cores(other)))
    });
}

fn order(ground: &Ground<'_>, wanted: &Demands) -> [Kind; 5] {
    let threads: usize = ground.here().iter().map(|core| core.threads.len()).sum();
    let has_queue_each = ground.queues_most() >= ground.here().len();
    if wanted.one_socket {
        [Kind::Neighbours, Kind::Split, Kind::Together, Kind::Siblings, Kind::SecondNode]
    } else if threads <= FEW_THREADS || has_queue_each {
        [Kind::Together, Kind::Siblings, Kind::Split, Kind::SecondNode, Kind::Neighbours]
    } else {
        [Kind::Split, Kind::Together, Kind::Siblings, Kind::SecondNode, Kind::Neighbours]
    }
}

/// The logical cores of a layout.
fn cores(layout: &Layout) -> usize {
    let receive_only = layout.queue_cpus.iter().filter(|cpu| !layout.worker_cpus.contains(cpu));
    receive_only.count() + layout.worker_cpus.len()
}
