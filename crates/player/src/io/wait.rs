//! Waiting for a moment: asleep while there is time, and awake for the last stretch of it. A sleeper comes late, by a
//! few microseconds on a host of its own and by tens of them on a virtual machine, and late is what it sends then.

use kqps_kernel::clock;

use crate::deck::Deck;

/// Naps that tell how late a sleeper comes, and how long each is to last.
const NAPS: usize = 21;
const NAP_NS: u64 = 20_000;

/// One that comes even later was held up by something that passes.
const AWAKE_MOST_NS: u64 = 50_000;

/// How a thread waits.
#[derive(Debug, Default)]
pub(crate) struct Wait {
    /// The last stretch of every wait, in which the thread stays awake.
    awake_ns: u64,
    /// For how long it was awake with nothing to do.
    awake_in_all_ns: u64,
}

impl Wait {
    /// For a thread whose core nothing else needs. It takes a few naps, in about a millisecond.
    pub(crate) fn awake_at_last() -> Self {
        let nap = |_| {
            let end_ns = clock::now_ns() + NAP_NS;
            clock::sleep_until_ns(end_ns);
            clock::now_ns() - end_ns
        };
        let mut late_ns: Vec<u64> = (0..NAPS).map(nap).collect();
        late_ns.sort_unstable();
        Self { awake_ns: late_ns[NAPS * 4 / 5].min(AWAKE_MOST_NS), awake_in_all_ns: 0 }
    }

    /// For how long it was awake with nothing to do, in nanoseconds.
    pub(crate) fn awake_in_all_ns(&self) -> u64 {
        self.awake_in_all_ns
    }

    /// Waits until `at_ns`, but no longer than until `latest_ns`, give or take what a sleeper comes late.
    pub(super) fn until(&mut self, deck: &Deck<'_>, at_ns: u64, latest_ns: u64) {
        let mut now_ns = deck.now_ns();
        if self.awake_ns == 0 || at_ns > now_ns + self.awake_ns + NAP_NS {
            deck.sleep_until_ns(at_ns.saturating_sub(self.awake_ns).min(latest_ns));
            now_ns = deck.now_ns();
        }
        if at_ns > latest_ns {
            return;
        }
        let since_ns = now_ns;
        while now_ns < at_ns {
            std::hint::spin_loop();
            now_ns = deck.now_ns();
        }
        self.awake_in_all_ns += now_ns - since_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deck::tests::Desk;
    use crate::plan::Arrivals;

    #[test]
    fn a_wait_ends_on_time_and_a_short_one_is_spent_awake() {
        let desk = Desk::new();
        let deck = desk.deck(1, 16, u64::MAX, Arrivals::Even);
        let mut wait = Wait::awake_at_last();
        assert!(wait.awake_ns > 0 && wait.awake_ns <= AWAKE_MOST_NS, "a sleeper is never early");
        wait.awake_ns = 10_000;
        for (in_ns, asleep) in [(0, false), (25_000, false), (1_000_000, true)] {
            let (since_ns, before_ns) = (deck.now_ns(), wait.awake_in_all_ns());
            wait.until(&deck, since_ns + in_ns, u64::MAX);
            let waited_ns = deck.now_ns() - since_ns;
            let awake_ns = wait.awake_in_all_ns() - before_ns;
            assert!(waited_ns >= in_ns && awake_ns <= waited_ns, "{in_ns} ns");
            assert!(asleep || in_ns == 0 || awake_ns > 0, "{in_ns} ns");
        }
    }

    #[test]
    fn no_wait_is_longer_than_it_may_be() {
        let desk = Desk::new();
        let deck = desk.deck(1, 16, u64::MAX, Arrivals::Even);
        for mut wait in [Wait::default(), Wait::awake_at_last()] {
            let now_ns = deck.now_ns();
            wait.until(&deck, now_ns + 3_600_000_000_000, now_ns + 1_000_000);
            assert_eq!(wait.awake_in_all_ns(), 0);
            assert!(deck.now_ns() >= now_ns + 1_000_000);
        }
    }
}
