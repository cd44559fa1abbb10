//! Waits whose end was not seen. Some kernels lose the events of an idle core, and with them the moment at which a thread
//! gets it. How long all such waits of a thread took together is known: it is the time that is left after its time on a
//! core, by the kernel's own count, and after its other waits.

use std::collections::HashMap;

use super::collect::{Gathered, Spent};

/// Gives each wait without an end its part of the time that is left of its thread, by the time until the thread was seen
/// on a core. Returns the share of these waits in the time off a core.
pub(super) fn close(gathered: &mut Gathered) -> f64 {
    let Gathered { sums, kernel_ns, span_ns, .. } = gathered;
    let mut known_ns: HashMap<u32, u64> = kernel_ns.iter().map(|(tid, ns)| (*tid, *ns)).collect();
    let mut open_ns: HashMap<u32, u64> = HashMap::new();
    for ((tid, spent, _), total) in &*sums {
        if *spent != Spent::OnCore || !kernel_ns.contains_key(tid) {
            *known_ns.entry(*tid).or_default() += total.ns;
        }
        *open_ns.entry(*tid).or_default() += total.open_ns;
    }
    let (mut closed_ns, mut off_ns) = (0, 0);
    for ((tid, spent, _), total) in sums.iter_mut() {
        if total.open_ns > 0 {
            let left_ns = span_ns.saturating_sub(known_ns[tid]);
            let part = (left_ns as f64 / open_ns[tid] as f64).min(1.0);
            let ns = (part * total.open_ns as f64) as u64;
            total.ns += ns;
            total.open_ns = 0;
            closed_ns += ns;
        }
        off_ns += if *spent == Spent::OnCore { 0 } else { total.ns };
    }
    if off_ns == 0 { 0.0 } else { closed_ns as f64 / off_ns as f64 }
}

#[cfg(test)]
mod tests {
    use super::super::collect::Total;
    use super::*;

    const ASLEEP: Spent = Spent::Asleep { lock: None };

    /// The nanoseconds of these sums of thread 7 after 1000 ns, in which it was on a core for 300 ns by the kernel's
    /// count, and the share of waits without an end.
    fn closed(totals: &[(Spent, u64, u64)]) -> (Vec<u64>, f64) {
        let of = |(stack, &(spent, ns, open_ns)): (u32, &(Spent, u64, u64))| {
            ((7, spent, stack), Total { count: 1, ns, open_ns })
        };
        let sums = (1..).zip(totals).map(of).collect();
        let mut gathered =
            Gathered { sums, kernel_ns: [(7, 300)].into(), span_ns: 1000, ..Gathered::default() };
        let share = close(&mut gathered);
        let ns = |(stack, (spent, ..)): (u32, &(Spent, u64, u64))| gathered.sums[&(7, *spent, stack)].ns;
        ((1..).zip(totals).map(ns).collect(), share)
    }

    #[test]
    fn waits_without_an_end_share_what_is_left() {
        // Samples show 280 ns on a core. 500 ns are left, of 800 ns until the thread was seen.
        let totals = [(Spent::OnCore, 280, 0), (ASLEEP, 200, 0), (ASLEEP, 0, 480), (Spent::Ready, 0, 320)];
        let (ns, share) = closed(&totals);
        assert_eq!(ns, [280, 200, 300, 200]);
        assert!((share - 500.0 / 700.0).abs() < 1e-9);
    }

    #[test]
    fn no_wait_is_longer_than_until_its_thread_was_seen() {
        assert_eq!(closed(&[(ASLEEP, 0, 100)]).0, [100]);
        assert_eq!(closed(&[(ASLEEP, 900, 100)]).0, [900], "nothing is left");
        assert_eq!(closed(&[(ASLEEP, 700, 0)]), (vec![700], 0.0));
    }
}
