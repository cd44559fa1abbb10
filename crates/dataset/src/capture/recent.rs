//! Values that were seen lately, in a fixed number of places. A new one may take the place of an older one, so a search
//! may find nothing; it never finds what was not there.

use std::ops::RangeInclusive;

pub(super) struct Recent<T> {
    /// A key, a time and what it is about, each in the place that the key's lowest bits say.
    places: Vec<Option<(u64, u64, T)>>,
    /// The latest of all times.
    latest_ns: u64,
}

impl<T: Copy> Recent<T> {
    /// As many places, a power of two.
    pub(super) fn new(places: usize) -> Self {
        Self { places: vec![None; places.next_power_of_two()], latest_ns: 0 }
    }

    pub(super) fn put(&mut self, key: u64, at_ns: u64, what: T) {
        let place = self.place(key);
        self.latest_ns = self.latest_ns.max(at_ns);
        self.places[place] = Some((key, at_ns, what));
    }

    /// Removes what has this key, if its time is among these.
    #[inline]
    pub(super) fn take(&mut self, key: u64, times_ns: RangeInclusive<u64>) -> Option<T> {
        if self.latest_ns < *times_ns.start() {
            return None;
        }
        let place = self.place(key);
        let (_, _, what) =
            self.places[place].filter(|(kept, at_ns, _)| *kept == key && times_ns.contains(at_ns))?;
        self.places[place] = None;
        Some(what)
    }

    fn place(&self, key: u64) -> usize {
        key as usize & (self.places.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thing_is_found_once_and_in_time() {
        let mut recent = Recent::new(4);
        recent.put(1, 10, 'a');
        assert_eq!(recent.take(1, 11..=20), None);
        assert_eq!(recent.take(5, 0..=20), None, "another key of the same place");
        assert_eq!(recent.take(1, 10..=20), Some('a'));
        assert_eq!(recent.take(1, 10..=20), None);
        recent.put(1, 10, 'b');
        recent.put(5, 11, 'c');
        assert_eq!((recent.take(1, 0..=20), recent.take(5, 0..=20)), (None, Some('c')));
    }
}
