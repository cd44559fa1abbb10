//! Cells whose subject or player passes the kernel's network stack (`io = xdp`, `player.io = xdp`): where they can be
//! measured, and what their path needs.

use std::collections::BTreeMap;

use kqps_catalogue::choice::Io;
use kqps_observation::question::Path;
use kqps_observation::{Cell, Factors};

use crate::echo_io::XDP;

/// The capability that both need.
const CAPABILITY: &str = "af-xdp";

/// Why loopback is no path for such a cell.
const NO_FRAMES: &str = "xdp passes Ethernet frames, and loopback has none: it needs path=veth";

/// Whether the player of a cell passes the kernel.
pub fn is_player(factors: &Factors) -> bool {
    factors.player().io == Some(Io::Xdp)
}

/// Why a cell with these factors cannot be measured here, if it passes the kernel; `None` if it can or does not. `io`
/// is the I/O model of a subject that takes one.
pub fn why_not(io: Option<&str>, factors: &Factors, lacking: &BTreeMap<String, String>) -> Option<String> {
    if passes(io, factors) && factors.path().kind.unwrap_or_default() == Path::Loopback {
        return Some(NO_FRAMES.to_owned());
    }
    why_not_between_hosts(io, factors, lacking)
}

/// As [`why_not`], if subject and player are on two hosts, between which there are Ethernet frames.
pub fn why_not_between_hosts(
    io: Option<&str>,
    factors: &Factors,
    lacking: &BTreeMap<String, String>,
) -> Option<String> {
    let lacking = lacking.get(CAPABILITY).filter(|_| passes(io, factors));
    lacking.map(|reason| format!("no {CAPABILITY}: {reason}"))
}

/// Whether subject or player of a cell passes the kernel.
fn passes(io: Option<&str>, factors: &Factors) -> bool {
    io == Some(XDP) || is_player(factors)
}

/// The queues of each device on the path of a cell that passes the kernel and names no number: one for each worker or
/// player's thread, of whichever there are more. A driver runs programs only if it has a queue for each of the other
/// end. A thread of the player sends by all of its queues in turn, so every worker has queries. `None` for other cells.
pub fn queues(cell: &Cell) -> Option<u32> {
    let of_subject = (cell.io == XDP).then_some(cell.workers);
    let cores = u32::try_from(cell.player_cpus.len()).unwrap_or(u32::MAX);
    let threads = || cell.factors.player().senders.unwrap_or(cores);
    let of_player = is_player(&cell.factors).then(threads);
    of_subject.max(of_player).map(|queues| queues.max(1))
}

/// Why a subject that passes the kernel would not get all frames there: those of a queue without a worker go to the
/// kernel's sockets. `None` if each queue has a worker, and for other cells.
pub fn few_workers(cell: &Cell) -> Option<String> {
    let queues = cell.factors.path().queues.or_else(|| queues(cell))?;
    (cell.io == XDP && cell.workers < queues).then(|| {
        let has = format!("the path has {queues} queues, and workers of the subject have {}", cell.workers);
        format!("{has}: the frames of the others would not pass the kernel; it needs as many workers")
    })
}

#[cfg(test)]
mod tests {
    use kqps_observation::factors::name;

    use super::*;

    fn factors(words: &[(&str, &str)]) -> Factors {
        let mut factors = Factors::default();
        for (name, word) in words {
            factors.set(name, *word).unwrap();
        }
        factors
    }

    #[test]
    fn loopback_is_no_path_and_a_lacking_capability_has_its_reason() {
        let none = BTreeMap::new();
        let lacking: BTreeMap<_, _> = [("af-xdp".to_owned(), "no right to".to_owned())].into();
        let veth = (name::PATH, "veth");
        assert_eq!(why_not(Some("mmsg"), &factors(&[]), &lacking), None);
        assert_eq!(why_not(None, &factors(&[veth]), &lacking), None);
        assert_eq!(why_not(Some(XDP), &factors(&[]), &none).as_deref(), Some(NO_FRAMES));
        assert_eq!(why_not(Some(XDP), &factors(&[veth]), &none), None);
        let player = factors(&[(name::PLAYER_IO, XDP), veth]);
        assert_eq!(why_not(None, &player, &none), None);
        assert_eq!(why_not(None, &player, &lacking).as_deref(), Some("no af-xdp: no right to"));
    }

    #[test]
    fn every_thread_has_a_queue() {
        let cell = |io: &str, workers, player: &[(&str, &str)]| {
            let (io, factors) = (io.to_owned(), factors(player));
            queues(&Cell { io, workers, factors, player_cpus: vec![4, 5, 6], ..Cell::default() })
        };
        let xdp = (name::PLAYER_IO, XDP);
        assert_eq!(cell("mmsg", 4, &[]), None);
        assert_eq!(cell(XDP, 4, &[]), Some(4));
        assert_eq!(cell("mmsg", 4, &[xdp]), Some(3));
        assert_eq!(cell(XDP, 2, &[xdp, (name::PLAYER_SENDERS, "1")]), Some(2));
    }

    #[test]
    fn every_queue_needs_a_worker_if_the_subject_passes_the_kernel() {
        let reason = |io: &str, workers, player: &[(&str, &str)]| {
            let (io, factors) = (io.to_owned(), factors(player));
            few_workers(&Cell { io, workers, factors, player_cpus: vec![4], ..Cell::default() })
        };
        let xdp = (name::PLAYER_IO, XDP);
        let senders = |number| (name::PLAYER_SENDERS, number);
        for (io, workers, player) in [
            ("mmsg", 1, &[xdp, senders("4")][..]),
            (XDP, 2, &[xdp, senders("2")]),
            (XDP, 4, &[xdp, senders("1")]),
            (XDP, 1, &[]),
        ] {
            assert_eq!(reason(io, workers, player), None, "{io} {workers} {player:?}");
        }
        let reason = reason(XDP, 1, &[xdp, senders("2")]).unwrap();
        assert!(reason.contains("2 queues") && reason.contains("have 1"), "{reason}");
    }
}
