//! The most frequent names in bounded memory: Space-Saving (Metwally, Agrawal and El Abbadi, ICDT 2005). Each name
//! that is asked in more than one of [`COUNTERS`] queries is among them, and no count is too low.

use std::collections::HashMap;
use std::rc::Rc;

/// Names that are counted at a time.
const COUNTERS: usize = 8192;

#[derive(Clone, Debug)]
struct Counter {
    name: Rc<[u8]>,
    count: u64,
    /// The count that the name took over from the one before it.
    too_high_by: u64,
}

/// Counters in a heap, the lowest count first, and the place of each name in it.
#[derive(Debug, Default)]
pub(super) struct Top {
    heap: Vec<Counter>,
    places: HashMap<Rc<[u8]>, usize>,
}

impl Top {
    /// Counts a name.
    pub(super) fn add(&mut self, name: &[u8]) {
        if let Some(&place) = self.places.get(name) {
            self.heap[place].count += 1;
            self.sink(place);
            return;
        }
        let name: Rc<[u8]> = name.into();
        if self.heap.len() < COUNTERS {
            // A count of 1 is as low as any, so the new place is a right one but for its parents.
            self.heap.push(Counter { name: Rc::clone(&name), count: 1, too_high_by: 0 });
            self.places.insert(name, self.heap.len() - 1);
            self.rise(self.heap.len() - 1);
            return;
        }
        let lowest = &mut self.heap[0];
        self.places.remove(&lowest.name);
        *lowest = Counter { name: Rc::clone(&name), count: lowest.count + 1, too_high_by: lowest.count };
        self.places.insert(name, 0);
        self.sink(0);
    }

    /// The most frequent names, each with its count and by how many that may be too high.
    pub(super) fn most(&self, number: usize) -> Vec<(&[u8], u64, u64)> {
        let mut counters: Vec<&Counter> = self.heap.iter().collect();
        counters.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.name.cmp(&b.name)));
        counters.truncate(number);
        counters.into_iter().map(|one| (&*one.name, one.count, one.too_high_by)).collect()
    }

    fn rise(&mut self, mut place: usize) {
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.heap[parent].count <= self.heap[place].count {
                break;
            }
            self.swap(parent, place);
            place = parent;
        }
    }

    fn sink(&mut self, mut place: usize) {
        loop {
            let children = [2 * place + 1, 2 * place + 2];
            let lower = children.into_iter().filter(|child| *child < self.heap.len());
            let Some(lowest) = lower.min_by_key(|child| self.heap[*child].count) else { return };
            if self.heap[place].count <= self.heap[lowest].count {
                return;
            }
            self.swap(place, lowest);
            place = lowest;
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        for place in [a, b] {
            if let Some(kept) = self.places.get_mut(&self.heap[place].name) {
                *kept = place;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_names_are_counted_exactly() {
        let mut top = Top::default();
        for (name, times) in [(&b"a"[..], 3), (b"b", 5), (b"c", 1), (b"d", 5)] {
            (0..times).for_each(|_| top.add(name));
        }
        assert_eq!(top.most(3), [(&b"b"[..], 5, 0), (b"d", 5, 0), (b"a", 3, 0)]);
        assert_eq!(top.most(9).len(), 4);
    }

    #[test]
    fn frequent_names_are_found_among_very_many() {
        let mut top = Top::default();
        let mut random = fastrand::Rng::with_seed(3);
        for number in 0..200_000_u64 {
            top.add(&number.to_be_bytes());
            if random.u8(..) < 64 {
                top.add(b"often");
            }
        }
        let (name, count, too_high_by) = top.most(1)[0];
        assert_eq!(name, b"often");
        assert!((45_000..55_000).contains(&(count - too_high_by)), "{count} {too_high_by}");
        assert!(top.heap.len() == COUNTERS && top.places.len() == COUNTERS);
        assert!(top.places.iter().all(|(name, place)| top.heap[*place].name == *name));
    }
}
