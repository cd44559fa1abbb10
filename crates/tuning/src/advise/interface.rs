//! Pieces of advice on the device: what the first layout changes on it, and what holds for every layout.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::Piece;
use super::ground::Ground;
use super::layout::Layout;
use super::moves::Moves;
use super::value::{self, Change};

/// Entries of a ring that hold a burst. Knot DNS recommends as many.
const RING: u32 = 4096;

const SCALING: &str = "https://docs.kernel.org/networking/scaling.html";

/// All pieces, in the order in which they must be applied. The number of queues and the rings come before the rest,
/// since the driver then resets interrupts, RPS, XPS and RSS.
pub(super) fn pieces(ground: &Ground<'_>, layout: Option<&Layout>) -> Vec<Piece> {
    let moves = layout.map(|layout| Moves::new(ground, layout)).unwrap_or_default();
    let all = [
        moves.queues.map(queues),
        rings(ground),
        moves.interrupts.map(|change| interrupts(change, ground)),
        moves.steering.map(|change| steering(change, ground)),
        sending(moves.sending),
        rss_table(ground, layout),
        rss_fields(ground),
    ];
    all.into_iter().flatten().collect()
}

fn queues(change: Change) -> Piece {
    let piece = Piece::new(
        vec![change],
        "Each core that receives takes packets from a queue of its own. Further queues would share cores.",
        &format!("{SCALING}; CZ.NIC, 2019 (knot-epic): the rate depends on their number"),
        "The link goes down for some seconds, and the driver resets interrupts, RSS and XPS.",
    );
    Piece { takes_link_down: true, ..piece }
}

fn rings(ground: &Ground<'_>) -> Option<Piece> {
    let device = ground.device?;
    let rings = device.rings.as_ref()?;
    let (rx, tx) = (rings.rx.max(rings.rx_max.min(RING)), rings.tx.max(rings.tx_max.min(RING)));
    if (rx, tx) == (rings.rx, rings.tx) {
        return None;
    }
    let piece = Piece::new(
        vec![value::rings(&device.name, rx, tx)],
        "A longer ring holds a burst that comes while its core is busy.",
        "Knot DNS: 4096; Microsoft, Windows Server 2012 R2 (windows-mix): receive buffers at maximum",
        "The link goes down for a moment. It does not raise the rate, and a burst in a long ring leaves the cache.",
    );
    Some(Piece { takes_link_down: true, ..piece })
}

fn interrupts(change: Change, ground: &Ground<'_>) -> Piece {
    let mut reason = String::from("The core of a queue's interrupt is the core that receives its packets.");
    if let Some(pid) = ground.setup.irqbalance {
        let _ = write!(
            reason,
            " irqbalance (process {pid}) would move interrupts to other cores within seconds: apply asks it to leave \
             these alone. Without kqps, stop it."
        );
    }
    Piece::new(
        vec![change],
        &reason,
        "ISC, 2015 (isc-echo): less variance, and 45 to 65 % more with the server beside that core; Knot DNS: switch \
         irqbalance off; it ignored such requests in #202 and #297, so look again after 15 s",
        "A core with interrupts has less time for anything else that runs on it.",
    )
}

fn steering(change: Change, ground: &Ground<'_>) -> Piece {
    let dear = "Each packet interrupts a second core, and waits in a backlog (net.core.netdev_max_backlog).";
    let (reason, cost) = match (change.1 == value::NONE, ground.has_interrupts()) {
        (true, _) => (
            "There is a queue for each core that receives. Steering would move each packet to another core.",
            "Few flows, which the device puts on one queue, stay on one core.",
        ),
        (false, true) => ("The device has fewer queues than there are cores to receive.", dear),
        (false, false) => {
            ("The device has no interrupts: steering is the only way to choose the cores that receive.", dear)
        }
    };
    let source = format!("{SCALING}, RPS: redundant if there is a queue for each core");
    Piece::new(vec![change], reason, &source, cost)
}

fn sending(changes: Vec<Change>) -> Option<Piece> {
    if changes.is_empty() {
        return None;
    }
    Some(Piece::new(
        changes,
        "Each worker sends by a queue that few others use, so workers do not wait for its lock.",
        &format!("{SCALING}, XPS"),
        "None is known.",
    ))
}

/// The driver that leaves its table as it is when the number of queues changes, as Linux 6.1 has it. Later kernels make
/// a new one, and the piece then changes nothing.
const KEEPS_TABLE: &str = "virtio_net";

/// A table that leaves queues without packets, or that names queues which are gone. With another number of queues most
/// drivers make a new table, unless somebody has set the present one: the kernel then keeps it.
fn rss_table(ground: &Ground<'_>, layout: Option<&Layout>) -> Option<Piece> {
    let device = ground.device?;
    let table = &device.rss.as_ref()?.queues;
    let used: BTreeSet<u32> = table.iter().copied().collect();
    let now = u32::try_from(ground.queues()).unwrap_or(u32::MAX);
    let queues = layout.map_or(now, |layout| layout.queues);
    let is_drivers_own = (0_u32..).zip(table).all(|(slot, queue)| *queue == slot % now);
    let is_kept = device.driver.as_deref() == Some(KEEPS_TABLE);
    if used.is_empty() || (queues != now && is_drivers_own && !is_kept) {
        return None;
    }
    let (reason, source) = if used.iter().any(|queue| *queue >= queues) {
        let gone =
            "The RSS table names queues that the device then has no more, and this driver may leave it so.";
        (gone.to_owned(), "Linux: virtio_net: Update rss when set queue (2024)")
    } else if used.len() < queues as usize {
        let idle =
            format!("The RSS table names {} of {queues} queues; the others receive nothing.", used.len());
        (idle, "ISC, 2015 (isc-echo): only 3 of 8 queues carried traffic")
    } else {
        return None;
    };
    Some(Piece::new(
        vec![value::rss_table(&device.name, queues)],
        &reason,
        source,
        "Flows move to other queues once, and some packets then overtake others.",
    ))
}

fn rss_fields(ground: &Ground<'_>) -> Option<Piece> {
    let device = ground.device.filter(|_| ground.queues_most() > 1)?;
    let rss = device.rss.as_ref()?;
    let families = [("udp4", rss.fields_udp4.as_deref()), ("udp6", rss.fields_udp6.as_deref())];
    let lacking = families.into_iter().filter(|(_, fields)| fields.is_some_and(|fields| fields != "sdfn"));
    let changes: Vec<Change> = lacking.map(|(family, _)| value::rss_fields(&device.name, family)).collect();
    if changes.is_empty() {
        return None;
    }
    Some(Piece::new(
        changes,
        "The hash of UDP leaves out ports: all queries of one resolver come by one queue.",
        "Knot DNS: udp4 sdfn; Microsoft (windows-mix): 260k q/s from one source address, 300k q/s from many",
        "Fragments of one datagram may come by different queues.",
    ))
}
