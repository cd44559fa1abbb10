//! The connections of a thread. Each has a slot while it is open. The connection that has been idle longest is found
//! without checking all of them.

use std::collections::BTreeSet;

/// Something that is active from time to time.
pub trait Active {
    /// When it last made progress, in nanoseconds.
    fn active_ns(&self) -> u64;

    /// Whether nothing of it is in progress.
    fn is_idle(&self) -> bool;
}

/// Connections by slot.
pub struct Slots<C> {
    slots: Vec<Slot<C>>,
    free: Vec<usize>,
    /// For each connection, its last activity as of the last check, and its slot. Activity itself changes nothing
    /// here.
    by_age: BTreeSet<(u64, usize)>,
}

/// A slot for one connection.
struct Slot<C> {
    held: Option<Held<C>>,
    /// The number of connections that were here before.
    turn: u32,
}

struct Held<C> {
    connection: C,
    /// Its last activity as of the last check.
    seen_ns: u64,
}

impl<C> Default for Slots<C> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), by_age: BTreeSet::new() }
    }
}

impl<C: Active> Slots<C> {
    /// The number of connections.
    pub fn len(&self) -> usize {
        self.by_age.len()
    }

    /// Whether there is no connection.
    pub fn is_empty(&self) -> bool {
        self.by_age.is_empty()
    }

    /// Puts a connection into a free slot. Returns the slot.
    pub(super) fn enter(&mut self, connection: C) -> usize {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { held: None, turn: 0 });
            self.slots.len() - 1
        });
        let seen_ns = connection.active_ns();
        self.by_age.insert((seen_ns, slot));
        self.slots[slot].held = Some(Held { connection, seen_ns });
        slot
    }

    /// Removes and returns the connection in this slot.
    pub(super) fn leave(&mut self, slot: usize) -> Option<C> {
        let at = self.slots.get_mut(slot)?;
        let Held { connection, seen_ns } = at.held.take()?;
        at.turn = at.turn.wrapping_add(1);
        self.by_age.remove(&(seen_ns, slot));
        self.free.push(slot);
        Some(connection)
    }

    /// The connection in this slot, if there is one.
    pub fn get_mut(&mut self, slot: usize) -> Option<&mut C> {
        let held = self.slots.get_mut(slot)?.held.as_mut()?;
        Some(&mut held.connection)
    }

    /// The number of connections that were in this slot before.
    pub fn turn(&self, slot: usize) -> u32 {
        self.slots[slot].turn
    }

    /// All connections with their slots.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &C)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(slot, at)| Some((slot, &at.held.as_ref()?.connection)))
    }

    /// The earliest last activity of all connections in nanoseconds, as of their last checks, and the slot of that
    /// connection; `None` if there is none. No connection has been inactive since an earlier time.
    pub fn oldest(&self) -> Option<(u64, usize)> {
        self.by_age.first().copied()
    }

    /// The slot of a connection that was not active after this time in nanoseconds.
    pub fn inactive_since(&mut self, since_ns: u64) -> Option<usize> {
        while let Some((_, slot)) = self.oldest().filter(|(seen_ns, _)| *seen_ns <= since_ns) {
            let active_ns = self.slots[slot].held.as_ref()?.connection.active_ns();
            if active_ns <= since_ns {
                return Some(slot);
            }
            self.see(slot, active_ns);
        }
        None
    }

    /// The slot of the connection that has been idle longest.
    pub(super) fn longest_idle(&mut self) -> Option<usize> {
        let (mut moved, mut longest) = (Vec::new(), None);
        for &(seen_ns, slot) in &self.by_age {
            // All that follow were active later than that.
            if longest.is_some_and(|(least_ns, _)| least_ns <= seen_ns) {
                break;
            }
            let Some(Held { connection, .. }) = &self.slots[slot].held else { continue };
            let active_ns = connection.active_ns();
            if active_ns > seen_ns {
                moved.push((slot, active_ns));
            }
            if connection.is_idle() && longest.is_none_or(|(least_ns, _)| active_ns < least_ns) {
                longest = Some((active_ns, slot));
            }
        }
        for (slot, active_ns) in moved {
            self.see(slot, active_ns);
        }
        longest.map(|(_, slot)| slot)
    }

    /// Records the last activity of a connection.
    fn see(&mut self, slot: usize, active_ns: u64) {
        let Some(held) = &mut self.slots[slot].held else { return };
        self.by_age.remove(&(held.seen_ns, slot));
        self.by_age.insert((active_ns, slot));
        held.seen_ns = active_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct TestConnection {
        active_ns: u64,
        is_idle: bool,
    }

    impl Active for TestConnection {
        fn active_ns(&self) -> u64 {
            self.active_ns
        }

        fn is_idle(&self) -> bool {
            self.is_idle
        }
    }

    fn idle_since(times_ns: &[u64]) -> Slots<TestConnection> {
        let mut slots = Slots::default();
        for &active_ns in times_ns {
            slots.enter(TestConnection { active_ns, is_idle: true });
        }
        slots
    }

    #[test]
    fn the_one_idle_longest_is_found_again_after_each_was_active() {
        let mut slots = idle_since(&[10, 20, 30]);
        assert_eq!(slots.longest_idle(), Some(0));
        slots.get_mut(0).unwrap().active_ns = 25;
        assert_eq!(slots.longest_idle(), Some(1));
        slots.get_mut(1).unwrap().active_ns = 40;
        assert_eq!(slots.longest_idle(), Some(0));
        slots.get_mut(0).unwrap().active_ns = 50;
        assert_eq!(slots.longest_idle(), Some(2));
    }

    #[test]
    fn a_busy_connection_is_passed_over_until_idle() {
        let mut slots = idle_since(&[10, 20]);
        slots.get_mut(0).unwrap().is_idle = false;
        assert_eq!(slots.longest_idle(), Some(1));
        slots.get_mut(1).unwrap().is_idle = false;
        assert_eq!(slots.longest_idle(), None);
        slots.get_mut(0).unwrap().is_idle = true;
        assert_eq!(slots.longest_idle(), Some(0));
    }

    #[test]
    fn those_without_progress_are_found_and_no_others() {
        let mut slots = idle_since(&[10, 20, 30]);
        // A connection that is busy must make progress, too.
        slots.get_mut(1).unwrap().is_idle = false;
        slots.get_mut(0).unwrap().active_ns = 21;
        assert_eq!(slots.inactive_since(19), None);
        assert_eq!(slots.inactive_since(20), Some(1));
        slots.leave(1);
        assert_eq!(slots.inactive_since(20), None);
        assert_eq!(slots.oldest(), Some((21, 0)));
        assert_eq!(slots.inactive_since(21), Some(0));
    }

    #[test]
    fn a_place_is_used_again_in_another_turn() {
        let mut slots = idle_since(&[10, 20]);
        assert_eq!((slots.len(), slots.turn(0)), (2, 0));
        assert!(slots.leave(0).is_some());
        assert!(slots.leave(0).is_none());
        assert!(slots.get_mut(0).is_none());
        assert_eq!(slots.iter().map(|(slot, _)| slot).collect::<Vec<_>>(), [1]);
        assert_eq!(slots.enter(TestConnection { active_ns: 5, is_idle: true }), 0);
        assert_eq!((slots.len(), slots.turn(0)), (2, 1));
        assert_eq!(slots.longest_idle(), Some(0));
    }
}
