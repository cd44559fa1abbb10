//! Queries that are given up before they are sent: the player came to them too late, or their flow has no room.

use super::Books;
use super::table::Table;
use crate::supply::Supply;

/// About as many queries are given up in one call at most, so that replies do not wait.
const GIVEN_UP_MOST: u64 = 1 << 20;

impl<T: Table> Books<'_, T> {
    /// Gives up a query that is due, because its flow has no room.
    #[cold]
    pub(super) fn no_room(&mut self, due_ns: u64) {
        self.tally.accounts.intended += 1;
        self.tally.accounts.unsent += 1;
        self.tally.unsent_for_ids += 1;
        self.tally.timeline.intended(due_ns, 1);
    }

    /// Gives up queries that were due before this time, moment by moment, and returns their number. It may leave some for
    /// the next call.
    #[cold]
    pub(super) fn give_up(&mut self, supply: &mut Supply<'_>, before_ns: u64) -> u64 {
        let mut all = 0;
        while let Some(due_ns) = supply.due_before_ns(before_ns).filter(|_| all < GIVEN_UP_MOST) {
            let end_ns = self.tally.timeline.moment_end_ns(due_ns);
            let until_ns = end_ns.map_or(before_ns, |end_ns| end_ns.min(before_ns));
            let count = supply.skip(until_ns);
            self.tally.accounts.intended += count;
            self.tally.accounts.unsent += count;
            self.tally.timeline.intended(until_ns.saturating_sub(1), count);
            all += count;
            if count == 0 || until_ns == before_ns {
                break;
            }
        }
        all
    }
}
