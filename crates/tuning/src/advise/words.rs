//! Why each kind of layout may be best, who found it, and what it may cost.

use std::fmt::Write as _;

use kqps_observation::cpu_list;

use super::layout::{Kind, Layout};
use super::place::Demands;

/// `core 1 receives`, `cores 0,2 receive`.
fn doing(cpus: &[u32], verb: &str) -> String {
    let list = cpu_list::write(cpus);
    if cpus.len() == 1 { format!("core {list} {verb}s") } else { format!("cores {list} {verb}") }
}

fn capitalised(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map_or_else(String::new, |first| first.to_uppercase().chain(rest).collect())
}

/// Why a layout may be best on this host.
pub(super) fn reason(layout: &Layout, wanted: &Demands) -> String {
    let (queue_cpus, worker_cpus) =
        (cpu_list::write(&layout.queue_cpus), cpu_list::write(&layout.worker_cpus));
    let mut reason = match layout.kind {
        Kind::Together => format!(
            "Each of the cores {worker_cpus} receives packets and answers them. No packet moves to another core's \
             cache if each worker has a socket of its own and a queue of its own."
        ),
        Kind::Split => format!(
            "{}, {}. A busy server does not keep the device's packets waiting.",
            capitalised(&doing(&layout.queue_cpus, "receive")),
            doing(&layout.worker_cpus, "answer")
        ),
        Kind::Siblings => format!(
            "Threads {queue_cpus} receive and their sibling threads {worker_cpus} answer. Both share all caches, and \
             neither waits for the other to be scheduled."
        ),
        Kind::SecondNode => format!(
            "Cores {queue_cpus} of the device's node receive; cores {worker_cpus} of all nodes answer. Answering \
             costs more than receiving, or the workers are more than the node's cores."
        ),
        Kind::Neighbours => format!(
            "{}, and {} from the cache that holds the packets.",
            capitalised(&doing(&layout.queue_cpus, "receive")),
            doing(&layout.worker_cpus, "answer")
        ),
    };
    if layout.is_steered && layout.interrupt_cpus.is_empty() {
        reason += " The device has no interrupts, so receive packet steering chooses the cores.";
    } else if layout.is_steered {
        reason += " The device has too few queues for them, so receive packet steering spreads the packets.";
    }
    let workers = layout.worker_cpus.len();
    if let Some(asked) = wanted.workers.filter(|asked| *asked > workers) {
        let why = match layout.kind {
            Kind::Neighbours => "further cores do not share its cache, and in the study they made it slower",
            _ => "this layout has no room for more",
        };
        let _ = write!(reason, " {workers} of the {asked} workers that were asked for: {why}.");
    }
    reason
}

/// Who found that a kind of layout is good.
pub(super) fn source(kind: Kind) -> &'static str {
    match kind {
        Kind::Together => {
            "perftune, for few threads or a queue for each; CZ.NIC, 2019 (knot-epic): 48 queues for 128 threads, \
             later 64 for 64 cores and 192 for 256 threads"
        }
        Kind::Split => {
            "Microsoft, Windows Server 2012 R2 (windows-mix): receive queues on physical cores of the server's node, \
             no receive core at 100 %, 4 are enough beyond 150k q/s"
        }
        Kind::Siblings => "kqps: two threads of a core do 1.2 to 1.4 times the work of one (docs/SCALE.md)",
        Kind::SecondNode => {
            "CZ.NIC (knot-epic), with the threads of both sockets; ES.net: the wrong socket is up to twice as slow"
        }
        Kind::Neighbours => {
            "ISC, 2015 (isc-echo): the interrupts' core and its L2 neighbour, 45 to 65 % above most pairs; three and \
             four cores were no better, or much slower"
        }
    }
}

/// The possible cost of a kind of layout.
pub(super) fn cost(kind: Kind) -> &'static str {
    match kind {
        Kind::Together => {
            "Receiving goes first: at full load a core receives what it has no time to answer. Flows spread by a \
             hash, so some cores are full before others."
        }
        Kind::Split => "The cores that receive answer nothing. If they are too many, workers are missing.",
        Kind::Siblings => "Both threads share one core's units: each is slower than a core of its own.",
        Kind::SecondNode => {
            "Packets and answers of the other nodes cross the link between sockets. A worker there may be half as \
             fast, and its latency is higher."
        }
        Kind::Neighbours => "One core receives everything: its rate is the limit.",
    }
}
