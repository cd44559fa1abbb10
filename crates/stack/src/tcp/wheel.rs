//! Timers: a hashed wheel (Varghese and Lauck, 1987) with one timer for each connection.
//!
//! A timer that is set to a later time stays where it is, and is put where it belongs when it comes up. So ACKs, which
//! put off a timer, cost nothing here.

use super::sequence::before;

/// Slots of one tick each: the wheel turns once in 4.3 s.
const SLOTS: usize = 4096;
const MASK: u32 = SLOTS as u32 - 1;

/// Stands for no timer.
const NONE: u32 = u32::MAX;

/// Stands for the slot itself, before its first timer.
const HEAD: u32 = u32::MAX - 1;

pub(super) struct Wheel {
    heads: Box<[u32]>,
    /// A bit for each slot that has timers.
    occupied: Box<[u64]>,
    links: Vec<Link>,
    /// The tick up to which timers came up.
    hand: u32,
    /// The next timer to look at in the slot of the hand.
    cursor: u32,
}

/// The timer of a connection.
#[derive(Clone, Copy)]
struct Link {
    next: u32,
    /// [`HEAD`] if it is the first of its slot, [`NONE`] if it is in no slot.
    previous: u32,
    at: u32,
}

impl Wheel {
    /// A wheel for so many connections, which begins at this tick.
    pub(super) fn new(most: u32, tick: u32) -> Self {
        Self {
            heads: vec![NONE; SLOTS].into(),
            occupied: vec![0; SLOTS / 64].into(),
            links: Vec::with_capacity(most as usize),
            hand: tick,
            cursor: NONE,
        }
    }

    /// Makes room for one more connection.
    pub(super) fn grow(&mut self) {
        self.links.push(Link { next: NONE, previous: NONE, at: 0 });
    }

    /// Makes the timer of a connection come up at this tick, or before if it is set to an earlier one.
    #[inline]
    pub(super) fn set(&mut self, index: u32, at: u32) {
        // A timer that is due already comes up with the next tick.
        let at = if before(self.hand, at) { at } else { self.hand.wrapping_add(1) };
        let link = self.links[index as usize];
        if link.previous != NONE {
            if !before(at, link.at) {
                return;
            }
            self.clear(index);
        }
        let slot = at & MASK;
        let next = self.heads[slot as usize];
        if next != NONE {
            self.links[next as usize].previous = index;
        }
        self.links[index as usize] = Link { next, previous: HEAD, at };
        self.heads[slot as usize] = index;
        self.occupied[slot as usize / 64] |= 1 << (slot % 64);
    }

    /// Removes the timer of a connection, if it has one.
    #[inline]
    pub(super) fn clear(&mut self, index: u32) {
        let Link { next, previous, at } = self.links[index as usize];
        if previous == NONE {
            return;
        }
        if self.cursor == index {
            self.cursor = next;
        }
        if next != NONE {
            self.links[next as usize].previous = previous;
        }
        if previous == HEAD {
            let slot = at & MASK;
            self.heads[slot as usize] = next;
            if next == NONE {
                self.occupied[slot as usize / 64] &= !(1 << (slot % 64));
            }
        } else {
            self.links[previous as usize].next = next;
        }
        self.links[index as usize].previous = NONE;
    }

    /// Removes a timer that is due by this tick, and returns its connection.
    #[inline]
    pub(super) fn expired(&mut self, tick: u32) -> Option<u32> {
        if before(tick, self.hand) {
            return None;
        }
        loop {
            while self.cursor != NONE {
                let index = self.cursor;
                let link = self.links[index as usize];
                self.cursor = link.next;
                if !before(tick, link.at) {
                    self.clear(index);
                    return Some(index);
                }
            }
            let ticks = tick.wrapping_sub(self.hand);
            if ticks == 0 {
                return None;
            }
            // After a whole turn, every slot is looked at once.
            let passed = ticks.saturating_sub(SLOTS as u32);
            self.hand = self.hand.wrapping_add(passed);
            let Some(distance) = self.distance(ticks - passed) else {
                self.hand = tick;
                return None;
            };
            self.hand = self.hand.wrapping_add(distance);
            self.cursor = self.heads[(self.hand & MASK) as usize];
        }
    }

    /// The tick of the next slot that has timers. None of them comes up before.
    pub(super) fn next(&self) -> Option<u32> {
        self.distance(SLOTS as u32).map(|distance| self.hand.wrapping_add(distance))
    }

    /// Ticks from the hand to the next slot that has timers, 1 to `most`.
    #[inline]
    fn distance(&self, most: u32) -> Option<u32> {
        let mut distance = 1;
        while distance <= most {
            let slot = self.hand.wrapping_add(distance) & MASK;
            let word = self.occupied[slot as usize / 64] >> (slot % 64);
            if word != 0 {
                let distance = distance + word.trailing_zeros();
                return (distance <= most).then_some(distance);
            }
            distance += 64 - slot % 64;
        }
        None
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.heads) + size_of_val(&*self.occupied) + size_of_val(&*self.links)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn wheel(timers: u32, tick: u32) -> Wheel {
        let mut wheel = Wheel::new(timers, tick);
        (0..timers).for_each(|_| wheel.grow());
        wheel
    }

    fn due(wheel: &mut Wheel, tick: u32) -> Vec<u32> {
        let mut due: Vec<u32> = std::iter::from_fn(|| wheel.expired(tick)).collect();
        due.sort_unstable();
        due
    }

    #[test]
    fn timers_come_up_at_their_tick_and_not_before() {
        let mut wheel = wheel(4, u32::MAX - 2);
        wheel.set(0, u32::MAX);
        wheel.set(1, 5);
        wheel.set(2, 5 + SLOTS as u32);
        assert_eq!(wheel.next(), Some(u32::MAX));
        assert!(due(&mut wheel, u32::MAX - 1).is_empty());
        assert_eq!(due(&mut wheel, 0), [0]);
        assert!(due(&mut wheel, 4).is_empty());
        assert_eq!(due(&mut wheel, 5), [1]);
        assert!(due(&mut wheel, 5).is_empty());
        assert!(due(&mut wheel, 4 + SLOTS as u32).is_empty());
        assert_eq!(due(&mut wheel, 5 + SLOTS as u32), [2]);
        assert_eq!(wheel.next(), None);
        // An overdue timer comes up with the next tick, and after several turns every timer does.
        wheel.set(3, 1);
        wheel.set(0, 6 + SLOTS as u32 + 100);
        assert!(due(&mut wheel, 5 + SLOTS as u32).is_empty());
        assert_eq!(due(&mut wheel, 10 * SLOTS as u32), [0, 3]);
    }

    #[test]
    fn a_later_time_leaves_a_timer_and_an_earlier_one_moves_it() {
        let mut wheel = wheel(1, 0);
        wheel.set(0, 10);
        wheel.set(0, 20);
        assert_eq!(due(&mut wheel, 10), [0]);
        wheel.set(0, 20);
        wheel.set(0, 15);
        assert_eq!(due(&mut wheel, 15), [0]);
        wheel.set(0, 20);
        wheel.clear(0);
        wheel.clear(0);
        assert!(due(&mut wheel, 30).is_empty());
    }

    #[test]
    fn it_does_what_a_sorted_map_does() {
        let mut random = fastrand::Rng::with_seed(5);
        let (mut wheel, mut map, mut tick) = (wheel(200, 7), BTreeMap::<u32, u32>::new(), 7_u32);
        for _ in 0..20_000 {
            let index = random.u32(0..200);
            match random.u32(0..4) {
                0 => {
                    wheel.clear(index);
                    map.remove(&index);
                }
                1 => {
                    let most = [3, 100, 9000][random.usize(0..3)];
                    tick += random.u32(0..most);
                    let due = due(&mut wheel, tick);
                    let expected: Vec<u32> =
                        map.iter().filter(|(_, at)| **at <= tick).map(|(index, _)| *index).collect();
                    assert_eq!(due, expected);
                    map.retain(|_, at| *at > tick);
                }
                _ => {
                    let at = tick + 1 + random.u32(0..10_000);
                    wheel.set(index, at);
                    let earliest = map.get(&index).map_or(at, |old| at.min(*old));
                    map.insert(index, earliest);
                }
            }
        }
    }
}
