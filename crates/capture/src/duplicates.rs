//! Packets that a capture holds twice, since a port was mirrored or two interfaces were captured. Each packet has one
//! copy: the third of the same bytes is a packet again, as a flood of equal queries has them.

/// How long after a packet its copy is recognised.
const WINDOW_NS: u64 = 2_000_000;

/// The table of recent packets has 8192 sets of 4, or 512 KiB. At 100,000 packets a second, 200 are within the window.
const SETS: usize = 8192;
const WAYS: usize = 4;

pub(crate) struct Duplicates {
    sets: Box<[[Seen; WAYS]]>,
}

#[derive(Clone, Copy, Default)]
struct Seen {
    identity: u64,
    at_ns: u64,
}

impl Duplicates {
    pub(crate) fn new() -> Self {
        Self { sets: vec![[Seen::default(); WAYS]; SETS].into_boxed_slice() }
    }

    /// Whether a packet of this identity was seen at most 2 ms before or after `at_ns`, which is then forgotten.
    /// Remembers it if not.
    #[inline]
    pub(crate) fn has(&mut self, identity: u64, at_ns: u64) -> bool {
        let set = &mut self.sets[identity as usize % SETS];
        let is_copy = |seen: &Seen| seen.identity == identity && seen.at_ns.abs_diff(at_ns) <= WINDOW_NS;
        if let Some(place) = set.iter().position(is_copy) {
            set[place] = Seen::default();
            return true;
        }
        set.rotate_right(1);
        set[0] = Seen { identity, at_ns };
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_known_for_two_milliseconds_and_others_do_not_displace_it() {
        let mut duplicates = Duplicates::new();
        let of_one_set = |number: u64| 5 + number * SETS as u64;
        for number in 0..4 {
            assert!(!duplicates.has(of_one_set(number), 10_000_000));
        }
        for number in 0..4 {
            assert!(duplicates.has(of_one_set(number), if number < 2 { 12_000_000 } else { 8_000_000 }));
        }
        assert!(!duplicates.has(of_one_set(0), 20_000_000));
        assert!(!duplicates.has(of_one_set(0), 22_000_001));
        assert!(duplicates.has(of_one_set(0), 24_000_000));
    }

    #[test]
    fn a_packet_has_one_copy() {
        let mut duplicates = Duplicates::new();
        let copies = (0..10).filter(|_| duplicates.has(7, 10_000_000)).count();
        assert_eq!(copies, 5);
    }
}
