//! The trials of one start in a comparison: their number and their duration.

use kqps_observation::{Cell, CellLoad};
use kqps_verdict::compare::LEAST_BLOCKS;
use kqps_verdict::disturbed::BESIDE_S;

/// The number of trials in a start of this cell, under each load.
pub(crate) fn rounds(cell: &Cell) -> usize {
    cell.factors.rounds().map_or(1, |rounds| rounds as usize)
}

/// Seconds that the trials of one start of this cell take.
pub(crate) fn trials_s(cell: &Cell) -> f64 {
    let of_loads = |loads: usize, duration_s: f64| loads as f64 * (duration_s + BESIDE_S);
    rounds(cell) as f64
        * match &cell.load {
            CellLoad::Closed(duration_s) => of_loads(1, *duration_s),
            CellLoad::Rates { rates_qps, duration_s } => of_loads(rates_qps.len(), *duration_s),
            CellLoad::Search => 0.0,
        }
}

/// A trial in closed loop lasts at least this multiple of the latency. Over a long path, answers come window by
/// window, and a rate that counts only a few windows is coarse.
pub(crate) const LATENCIES: f64 = 20.0;

/// Makes the closed-loop trials of a cell longer, and reduces their number, if `latency_s` asks for it. Returns
/// whether it did.
pub(crate) fn lengthen(cell: &mut Cell, latency_s: f64) -> bool {
    let CellLoad::Closed(duration_s) = cell.load else { return false };
    let loaded_s = duration_s * rounds(cell) as f64;
    let wanted_s = (LATENCIES * latency_s).min(loaded_s);
    if wanted_s <= duration_s {
        return false;
    }
    let rounds = (loaded_s / wanted_s).floor().max(1.0);
    // To the millisecond, as a record shows it.
    cell.load = CellLoad::Closed((loaded_s / rounds * 1e3).round() / 1e3);
    cell.factors.set_rounds(u32::try_from(rounds as u64).unwrap_or(u32::MAX));
    true
}

/// How many of the planned blocks fit the time that is left, if one takes `block_s`; at least as many as a
/// verdict needs.
pub(crate) fn fitting(planned: u32, left_s: f64, block_s: f64) -> u32 {
    let fitting = u32::try_from((left_s / block_s) as u64).unwrap_or(u32::MAX);
    planned.min(fitting.max(LEAST_BLOCKS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trials_last_twenty_times_as_long_as_an_answer_takes() {
        let lengthened = |latency_s: f64| {
            let mut cell = Cell { load: CellLoad::Closed(0.1), ..Cell::default() };
            cell.factors.set_rounds(26);
            let is_longer = lengthen(&mut cell, latency_s);
            (is_longer, cell.load.clone(), rounds(&cell))
        };
        assert_eq!(lengthened(0.005), (false, CellLoad::Closed(0.1), 26));
        assert_eq!(lengthened(0.03), (true, CellLoad::Closed(0.65), 4));
        assert_eq!(lengthened(0.5), (true, CellLoad::Closed(2.6), 1), "no longer than was asked for");
        let mut given =
            Cell { load: CellLoad::Rates { rates_qps: vec![1.0], duration_s: 0.1 }, ..Cell::default() };
        assert!(!lengthen(&mut given, 0.5));
    }

    #[test]
    fn blocks_are_left_out_for_which_starts_take_too_long() {
        // Two minutes for eight blocks of 14 s each, less 5 s that have passed.
        assert_eq!(fitting(8, 115.0, 14.0), 8);
        assert_eq!(fitting(8, 110.0, 14.0), 7);
        assert_eq!(fitting(8, 115.0, 20.0), 6, "with fewer there is no verdict");
        assert_eq!((fitting(8, 0.0, 20.0), fitting(20, 1e3, 0.0)), (6, 20));
        assert_eq!(fitting(1, 0.0, 90.0), 1, "no more than was planned");
    }
}
