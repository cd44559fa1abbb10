//! The connections of a thread. Each has a slot while it is open. The connection that has been idle longest is found
//! without checking all of them.

use std::collections::BTreeSet;

/// Something that is active from time to time.
pub trait Active {
    /// A point in time.
    type Moment: Copy + Ord;

    /// When it last made progress.
    fn active(&self) -> Self::Moment;

    /// Whether nothing of it is in progress.
    fn is_idle(&self) -> bool;
}

/// Connections by slot.
pub struct Slots<C: Active> {
    slots: Vec<Slot<C>>,
    free: Vec<usize>,
    /// For each connection, its last activity as of the last check, and its slot. Activity itself changes nothing
    /// here.
    by_age: BTreeSet<(C::Moment, usize)>,
}

/// A slot for one connection.
struct Slot<C: Active> {
    held: Option<Held<C>>,
    /// The number of connections that were here before.
    turn: u32,
}

struct Held<C: Active> {
    connection: C,
    /// Its last activity as of the last check.
    seen: C::Moment,
}

impl<C: Active> Default for Slots<C> {
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
    pub fn enter(&mut self, connection: C) -> usize {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { held: None, turn: 0 });
            self.slots.len() - 1
        });
        let seen = connection.active();
        self.by_age.insert((seen, slot));
        self.slots[slot].held = Some(Held { connection, seen });
        slot
    }

    /// Removes and returns the connection in this slot.
    pub fn leave(&mut self, slot: usize) -> Option<C> {
        let at = self.slots.get_mut(slot)?;
        let Held { connection, seen } = at.held.take()?;
        at.turn = at.turn.wrapping_add(1);
        self.by_age.remove(&(seen, slot));
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

    /// The earliest last activity of all connections, as of their last checks, and the slot of that connection;
    /// `None` if there is none. No connection has been inactive since an earlier time.
    pub fn oldest(&self) -> Option<(C::Moment, usize)> {
        self.by_age.first().copied()
    }

    /// The slot of a connection that was not active after this moment.
    pub fn inactive_since(&mut self, moment: C::Moment) -> Option<usize> {
        while let Some((_, slot)) = self.oldest().filter(|(seen, _)| *seen <= moment) {
            let active = self.slots[slot].held.as_ref()?.connection.active();
            if active <= moment {
                return Some(slot);
            }
            self.see(slot, active);
        }
        None
    }

    /// The slot of the connection that has been idle longest.
    pub fn longest_idle(&mut self) -> Option<usize> {
        let (mut moved, mut longest) = (Vec::new(), None);
        for &(seen, slot) in &self.by_age {
            // All that follow were active later than that.
            if longest.is_some_and(|(least, _)| least <= seen) {
                break;
            }
            let Some(Held { connection, .. }) = &self.slots[slot].held else { continue };
            let active = connection.active();
            if active > seen {
                moved.push((slot, active));
            }
            if connection.is_idle() && longest.is_none_or(|(least, _)| active < least) {
                longest = Some((active, slot));
            }
        }
        for (slot, active) in moved {
            self.see(slot, active);
        }
        longest.map(|(_, slot)| slot)
    }

    /// Records the last activity of a connection.
    fn see(&mut self, slot: usize, active: C::Moment) {
        let Some(held) = &mut self.slots[slot].held else { return };
        self.by_age.remove(&(held.seen, slot));
        self.by_age.insert((active, slot));
        held.seen = active;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Known {
        active: u64,
        is_idle: bool,
    }

    impl Active for Known {
        type Moment = u64;

        fn active(&self) -> u64 {
            self.active
        }

        fn is_idle(&self) -> bool {
            self.is_idle
        }
    }

    fn idle_since(moments: &[u64]) -> Slots<Known> {
        let mut slots = Slots::default();
        for &active in moments {
            slots.enter(Known { active, is_idle: true });
        }
        slots
    }

    #[test]
    fn the_one_idle_longest_is_found_again_after_each_was_active() {
        let mut slots = idle_since(&[10, 20, 30]);
        assert_eq!(slots.longest_idle(), Some(0));
        slots.get_mut(0).unwrap().active = 25;
        assert_eq!(slots.longest_idle(), Some(1));
        slots.get_mut(1).unwrap().active = 40;
        assert_eq!(slots.longest_idle(), Some(0));
        slots.get_mut(0).unwrap().active = 50;
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
        slots.get_mut(0).unwrap().active = 21;
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
        assert_eq!(slots.enter(Known { active: 5, is_idle: true }), 0);
        assert_eq!((slots.len(), slots.turn(0)), (2, 1));
        assert_eq!(slots.longest_idle(), Some(0));
    }
}
