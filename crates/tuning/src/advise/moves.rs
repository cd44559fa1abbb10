//! Changes that a layout makes on a device, in the order in which they must be set.

use super::ground::Ground;
use super::layout::Layout;
use super::value::{self, Change};

/// The changes by kind. What is so already is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Moves {
    /// The number of queues. It comes first, since the driver then resets the rest.
    pub(super) queues: Option<Change>,
    /// The cores of the interrupts.
    pub(super) interrupts: Option<Change>,
    /// RPS, on or off.
    pub(super) steering: Option<Change>,
    /// XPS of each queue.
    pub(super) sending: Vec<Change>,
}

impl Moves {
    pub(super) fn new(ground: &Ground<'_>, layout: &Layout) -> Self {
        let Some(device) = ground.device else { return Self::default() };
        let name = device.name.as_str();
        let is_new = layout.queues as usize != ground.queues();
        let queues = is_new.then(|| value::channels(name, ground.is_combined(), layout.queues));
        let cpus = &layout.interrupt_cpus;
        let interrupts = !cpus.is_empty() && !ground.are_interrupts_managed();
        let interrupts = interrupts && (is_new || !are_interrupts_on(ground, cpus));
        let mask: &[u32] = if layout.is_steered { &layout.queue_cpus } else { &[] };
        let is_lost = layout.is_steered && (is_new || device.rps.is_empty());
        let steering = is_lost || device.rps.values().any(|cpus| cpus != mask);
        Self {
            queues,
            interrupts: interrupts.then(|| value::interrupts(name, cpus)),
            steering: steering.then(|| value::steering(name, mask)),
            sending: if device.xps.is_empty() { Vec::new() } else { sending(ground, layout, is_new) },
        }
    }

    /// All changes in their order.
    pub(super) fn all(&self) -> Vec<Change> {
        let before = [&self.queues, &self.interrupts, &self.steering];
        before.into_iter().flatten().chain(&self.sending).cloned().collect()
    }
}

/// Whether each queue's interrupt goes to its core.
fn are_interrupts_on(ground: &Ground<'_>, cpus: &[u32]) -> bool {
    let interrupts = ground.interrupts();
    let mut pairs = interrupts.iter().zip(cpus.iter().cycle());
    !interrupts.is_empty() && pairs.all(|(interrupt, cpu)| interrupt.takers() == [*cpu])
}

/// XPS of every queue that has workers, if one of them is not so yet. A single queue needs none.
fn sending(ground: &Ground<'_>, layout: &Layout, is_new: bool) -> Vec<Change> {
    let Some(device) = ground.device.filter(|_| layout.queues > 1) else { return Vec::new() };
    let queues = layout.queues as usize;
    let of_queue = |queue: usize| -> Vec<u32> {
        layout.worker_cpus.iter().skip(queue).step_by(queues).copied().collect()
    };
    let wanted = (0..layout.queues).zip((0..queues).map(of_queue)).filter(|(_, cpus)| !cpus.is_empty());
    let wanted: Vec<(u32, Vec<u32>)> = wanted.collect();
    let is_so = |(queue, cpus): &(u32, Vec<u32>)| device.xps.get(queue) == Some(cpus);
    if !is_new && wanted.iter().all(is_so) {
        return Vec::new();
    }
    wanted.iter().map(|(queue, cpus)| value::sending(&device.name, *queue, cpus)).collect()
}
