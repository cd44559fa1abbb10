//! Pieces of advice on the device: what the first layout changes on it, and what holds for every layout.

use std::collections::BTreeSet;

use super::Piece;
use super::ground::Ground;
use super::layout::Layout;
use super::moves::Moves;
use super::value::{self, Change};

/// Entries of a ring that hold a burst. Knot DNS recommends as many.
const RING: u32 = 4096;

/// All pieces, in the order in which they must be applied. The number of queues and the rings come before the rest, since
/// the driver then resets interrupts, RPS, XPS and RSS.
pub(super) fn pieces(ground: &Ground<'_>, layout: Option<&Layout>) -> Vec<Piece> {
    let moves = layout.map(|layout| Moves::of(ground, layout)).unwrap_or_default();
    let mut pieces = Vec::new();
    pieces.extend(queues(moves.queues));
    pieces.extend(rings(ground));
    if moves.interrupts.is_some() {
        pieces.extend(irqbalance(ground));
    }
    pieces.extend(moves.interrupts.map(interrupts));
    pieces.extend(steering(moves.steering, ground));
    pieces.extend(sending(moves.sending));
    pieces.extend(rss_table(ground, layout));
    pieces.extend(rss_fields(ground));
    pieces
}

fn queues(change: Option<Change>) -> Option<Piece> {
    Some(Piece {
        changes: vec![change?],
        reason: "Each core that receives takes packets from a queue of its own; further queues would share cores.".into(),
        source: "https://docs.kernel.org/networking/scaling.html; CZ.NIC, 2019 (knot-epic): the rate depends on their number"
            .into(),
        cost: "The link goes down for some seconds, and the driver resets interrupts, RSS and XPS.".into(),
        takes_link_down: true,
    })
}

fn rings(ground: &Ground<'_>) -> Option<Piece> {
    let device = ground.device?;
    let rings = device.rings.as_ref()?;
    let (rx, tx) = (rings.rx.max(rings.rx_max.min(RING)), rings.tx.max(rings.tx_max.min(RING)));
    ((rx, tx) != (rings.rx, rings.tx)).then(|| Piece {
        changes: vec![value::rings(&device.name, rx, tx)],
        reason: "A longer ring holds a burst that comes while its core is busy.".into(),
        source: "Knot DNS: 4096; Microsoft, Windows Server 2012 R2 (windows-mix): receive buffers at maximum".into(),
        cost: "The link goes down for a moment. It does not raise the rate, and a burst in a long ring leaves the cache."
            .into(),
        takes_link_down: true,
    })
}

fn irqbalance(ground: &Ground<'_>) -> Option<Piece> {
    ground.setup.irqbalance?;
    let mut irqs: Vec<u32> = ground.interrupts().iter().map(|one| one.irq).collect();
    irqs.sort_unstable();
    (!irqs.is_empty()).then(|| Piece {
        changes: vec![value::irqbalance(&irqs)],
        reason: "irqbalance runs, and would move the interrupts to other cores within seconds.".into(),
        source: "Knot DNS: switch it off; irqbalance #202 and #297: it ignored such requests, so look again after 15 s".into(),
        cost: "Nothing balances these interrupts any more.".into(),
        takes_link_down: false,
    })
}

fn interrupts(change: Change) -> Piece {
    Piece {
        changes: vec![change],
        reason: "The core of a queue's interrupt is the core that receives its packets.".into(),
        source: "ISC, 2015 (isc-echo): less variance, and 45 to 65 % more with the server beside that core".into(),
        cost: "A core with interrupts has less time for anything else that runs on it.".into(),
        takes_link_down: false,
    }
}

fn steering(change: Option<Change>, ground: &Ground<'_>) -> Option<Piece> {
    let change = change?;
    let is_off = change.1.is_empty();
    let (reason, cost) = match (is_off, ground.has_interrupts()) {
        (true, _) => (
            "There is a queue for each core that receives. Steering would move each packet to another core.",
            "Few flows, which the device puts on one queue, stay on one core.",
        ),
        (false, true) => (
            "The device has fewer queues than there are cores to receive.",
            "Each packet interrupts a second core, and waits in a backlog (net.core.netdev_max_backlog).",
        ),
        (false, false) => (
            "The device has no interrupts: steering is the only way to choose the cores that receive.",
            "Each packet interrupts a second core, and waits in a backlog (net.core.netdev_max_backlog).",
        ),
    };
    Some(Piece {
        changes: vec![change],
        reason: reason.into(),
        source: "https://docs.kernel.org/networking/scaling.html, RPS: redundant if there is a queue for each core".into(),
        cost: cost.into(),
        takes_link_down: false,
    })
}

fn sending(changes: Vec<Change>) -> Option<Piece> {
    (!changes.is_empty()).then(|| Piece {
        changes,
        reason: "Each worker sends by a queue that few others use, so workers do not wait for its lock.".into(),
        source: "https://docs.kernel.org/networking/scaling.html, XPS".into(),
        cost: "None is known.".into(),
        takes_link_down: false,
    })
}

/// A table that leaves queues without packets, unless the number of queues changes, which makes a new table.
fn rss_table(ground: &Ground<'_>, layout: Option<&Layout>) -> Option<Piece> {
    let device = ground.device?;
    let used: BTreeSet<u32> = device.rss.as_ref()?.queues.iter().copied().collect();
    let queues = ground.queues();
    let is_kept = layout.is_none_or(|layout| layout.queues as usize == queues);
    (is_kept && !used.is_empty() && used.len() < queues).then(|| Piece {
        changes: vec![value::rss_table(&device.name, queues as u32)],
        reason: format!("The RSS table names {} of {queues} queues; the others receive nothing.", used.len()),
        source: "ISC, 2015 (isc-echo): only 3 of 8 queues carried traffic".into(),
        cost: "Flows move to other queues once, and some packets overtake others then.".into(),
        takes_link_down: false,
    })
}

fn rss_fields(ground: &Ground<'_>) -> Option<Piece> {
    let device = ground.device.filter(|_| ground.queues_most() > 1)?;
    let rss = device.rss.as_ref()?;
    let families = [("udp4", &rss.fields_udp4), ("udp6", &rss.fields_udp6)];
    let lacking = families.into_iter().filter(|(_, fields)| fields.as_ref().is_some_and(|fields| fields != "sdfn"));
    let changes: Vec<Change> = lacking.map(|(family, _)| value::rss_fields(&device.name, family)).collect();
    (!changes.is_empty()).then(|| Piece {
        changes,
        reason: "The hash of UDP leaves out ports: all queries of one resolver come by one queue.".into(),
        source: "Knot DNS: udp4 sdfn; Microsoft (windows-mix): 260 kq/s from one source address, 300 kq/s from many".into(),
        cost: "Fragments of one datagram may come by different queues.".into(),
        takes_link_down: false,
    })
}
