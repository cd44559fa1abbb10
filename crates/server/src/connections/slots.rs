//! The connections of a process. Each has a place as long as it is open, and the one that has been idle longest is
//! found without checking them all.

use std::collections::BTreeSet;

/// Something that is active from time to time.
pub(crate) trait Active {
    /// A point in time.
    type Moment: Copy + Ord;

    /// When it last made progress.
    fn active(&self) -> Self::Moment;

    /// Whether nothing of it is in progress.
    fn is_idle(&self) -> bool;
}

/// Connections by place.
pub(crate) struct Places<C: Active> {
    places: Vec<Place<C>>,
    free: Vec<usize>,
    /// For each connection, its last activity as of the last check, and its place. Activity itself changes nothing
    /// here.
    by_age: BTreeSet<(C::Moment, usize)>,
}

/// A place for one connection.
struct Place<C: Active> {
    held: Option<Held<C>>,
    /// The number of connections that were here before.
    turn: u32,
}

struct Held<C: Active> {
    connection: C,
    /// Its last activity as of the last check.
    seen: C::Moment,
}

impl<C: Active> Places<C> {
    pub(crate) fn new() -> Self {
        Self { places: Vec::new(), free: Vec::new(), by_age: BTreeSet::new() }
    }

    /// The number of connections.
    pub(crate) fn len(&self) -> usize {
        self.by_age.len()
    }

    /// Puts a connection into a free place. Returns the place.
    pub(crate) fn enter(&mut self, connection: C) -> usize {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place { held: None, turn: 0 });
            self.places.len() - 1
        });
        let seen = connection.active();
        self.by_age.insert((seen, place));
        self.places[place].held = Some(Held { connection, seen });
        place
    }

    /// Removes and returns the connection in this place.
    pub(crate) fn leave(&mut self, place: usize) -> Option<C> {
        let at = self.places.get_mut(place)?;
        let Held { connection, seen } = at.held.take()?;
        at.turn = at.turn.wrapping_add(1);
        self.by_age.remove(&(seen, place));
        self.free.push(place);
        Some(connection)
    }

    pub(crate) fn get_mut(&mut self, place: usize) -> Option<&mut C> {
        let held = self.places.get_mut(place)?.held.as_mut()?;
        Some(&mut held.connection)
    }

    /// The number of connections that were in this place before.
    pub(crate) fn turn(&self, place: usize) -> u32 {
        self.places[place].turn
    }

    /// All connections with their places.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &C)> {
        let places = self.places.iter().enumerate();
        places.filter_map(|(place, at)| Some((place, &at.held.as_ref()?.connection)))
    }

    /// The earliest last activity of all connections, as of their last checks, and the place of that connection;
    /// `None` if there is none. No connection has been inactive since an earlier time.
    pub(crate) fn oldest(&self) -> Option<(C::Moment, usize)> {
        self.by_age.first().copied()
    }

    /// The place of a connection that was not active after this moment.
    pub(crate) fn inactive_since(&mut self, moment: C::Moment) -> Option<usize> {
        while let Some((_, place)) = self.oldest().filter(|(seen, _)| *seen <= moment) {
            let active = self.places[place].held.as_ref()?.connection.active();
            if active <= moment {
                return Some(place);
            }
            self.see(place, active);
        }
        None
    }

    /// The place of the connection that has been idle longest.
    pub(crate) fn longest_idle(&mut self) -> Option<usize> {
        let (mut moved, mut longest) = (Vec::new(), None);
        for &(seen, place) in &self.by_age {
            // All that follow were active later than that.
            if longest.is_some_and(|(least, _)| least <= seen) {
                break;
            }
            let Some(Held { connection, .. }) = &self.places[place].held else { continue };
            let active = connection.active();
            if active > seen {
                moved.push((place, active));
            }
            if connection.is_idle() && longest.is_none_or(|(least, _)| active < least) {
                longest = Some((active, place));
            }
        }
        for (place, active) in moved {
            self.see(place, active);
        }
        longest.map(|(_, place)| place)
    }

    /// Records the last activity of a connection.
    fn see(&mut self, place: usize, active: C::Moment) {
        let Some(held) = &mut self.places[place].held else { return };
        self.by_age.remove(&(held.seen, place));
        self.by_age.insert((active, place));
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

    fn idle_since(moments: &[u64]) -> Places<Known> {
        let mut places = Places::new();
        for &active in moments {
            places.enter(Known { active, is_idle: true });
        }
        places
    }

    #[test]
    fn the_one_idle_longest_is_found_again_after_each_was_active() {
        let mut places = idle_since(&[10, 20, 30]);
        assert_eq!(places.longest_idle(), Some(0));
        places.get_mut(0).unwrap().active = 25;
        assert_eq!(places.longest_idle(), Some(1));
        places.get_mut(1).unwrap().active = 40;
        assert_eq!(places.longest_idle(), Some(0));
        places.get_mut(0).unwrap().active = 50;
        assert_eq!(places.longest_idle(), Some(2));
    }

    #[test]
    fn whoever_is_busy_is_passed_over_until_idle() {
        let mut places = idle_since(&[10, 20]);
        places.get_mut(0).unwrap().is_idle = false;
        assert_eq!(places.longest_idle(), Some(1));
        places.get_mut(1).unwrap().is_idle = false;
        assert_eq!(places.longest_idle(), None);
        places.get_mut(0).unwrap().is_idle = true;
        assert_eq!(places.longest_idle(), Some(0));
    }

    #[test]
    fn those_without_progress_are_found_and_no_others() {
        let mut places = idle_since(&[10, 20, 30]);
        // A connection that is busy must make progress, too.
        places.get_mut(1).unwrap().is_idle = false;
        places.get_mut(0).unwrap().active = 21;
        assert_eq!(places.inactive_since(19), None);
        assert_eq!(places.inactive_since(20), Some(1));
        places.leave(1);
        assert_eq!(places.inactive_since(20), None);
        assert_eq!(places.oldest(), Some((21, 0)));
        assert_eq!(places.inactive_since(21), Some(0));
    }

    #[test]
    fn a_place_is_used_again_in_another_turn() {
        let mut places = idle_since(&[10, 20]);
        assert_eq!((places.len(), places.turn(0)), (2, 0));
        assert!(places.leave(0).is_some());
        assert!(places.leave(0).is_none());
        assert!(places.get_mut(0).is_none());
        assert_eq!(places.iter().map(|(place, _)| place).collect::<Vec<_>>(), [1]);
        assert_eq!(places.enter(Known { active: 5, is_idle: true }), 0);
        assert_eq!((places.len(), places.turn(0)), (2, 1));
        assert_eq!(places.longest_idle(), Some(0));
    }
}
