//! Packets that a capture holds twice, since a port was mirrored or several interfaces were captured.
//!
//! Equal bytes alone prove no copy: a client may ask the same again at once, with the same port and ID. IPv6 numbers no
//! packets, and IPv4 may number them all 0 (RFC 6864, section 4.1). A packet within 2 ms of an equal one is a copy if no
//! response came between the two, and if one of these holds:
//!
//! - It was captured at another place: its interface, the header of its frame or its hop limit differs.
//! - It has an identification, and comes within 50 µs.
//! - Copies are the rule of the capture: at least every third packet has one. (With a mirrored port, all packets do, or
//!   those of one direction.) Packets with an identification, and those within 50 µs, decide the rule.
//!
//! Each packet has one copy: the third of the same bytes is a packet again, as a flood of equal queries has them.

/// How long after a packet its copy is recognised.
const WINDOW_NS: u64 = 2_000_000;

/// How soon a copy of a mirrored port comes.
const NEAR_NS: u64 = 50_000;

/// Copies are the rule if there is one for each so many packets.
const PACKETS_FOR_A_COPY: u32 = 3;

/// After so many packets, earlier ones count half.
const PACKETS_REMEMBERED: u32 = 1024;

/// The table of recent packets has 8192 sets of 4, or 768 KiB. At 100,000 packets a second, 200 are within the window,
/// and half of these are responses with a second entry.
const SETS: usize = 8192;
const WAYS: usize = 4;

pub(crate) struct Duplicates {
    sets: Box<[[RecentPacket; WAYS]]>,
    /// The number of the last packet, which begins anew after 2³².
    number: u32,
    rule: Rule,
}

/// A packet, or the response of an exchange.
#[derive(Clone, Copy, Default)]
struct RecentPacket {
    key: u64,
    at_ns: u64,
    number: u32,
    place: u32,
}

/// How many packets have copies, by which copies are the rule of a capture or an exception.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rule {
    packets: u32,
    copies: u32,
}

impl Rule {
    fn packet(&mut self) {
        self.packets += 1;
        if self.packets >= PACKETS_REMEMBERED {
            self.packets /= 2;
            self.copies /= 2;
        }
    }

    fn holds(self) -> bool {
        self.copies > 0 && self.copies.saturating_mul(PACKETS_FOR_A_COPY) >= self.packets
    }
}

/// How a packet was captured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sight {
    /// A hash of what copies of the packet have in common.
    pub(crate) identity: u64,
    /// Whether `identity` has a number by which its sender distinguishes packets.
    pub(crate) is_numbered: bool,
    /// A hash of what differs between the places at which a packet is captured.
    pub(crate) place: u32,
    pub(crate) at_ns: u64,
    /// The exchange of a message in a datagram.
    pub(crate) exchange: Option<Exchange>,
}

/// The key that a query and its response share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exchange {
    /// A hash of client, server and ID.
    pub(crate) key: u64,
    pub(crate) is_response: bool,
}

impl Duplicates {
    /// `rule` is known from the beginning of the capture.
    pub(crate) fn new(rule: Rule) -> Self {
        Self { sets: vec![[RecentPacket::default(); WAYS]; SETS].into_boxed_slice(), number: 0, rule }
    }

    pub(crate) fn rule(&self) -> Rule {
        self.rule
    }

    /// Whether the packet is the copy of one that was seen at most 2 ms before or after it. That one is then forgotten.
    /// Remembers the packet if not.
    #[inline]
    pub(crate) fn has(&mut self, sight: &Sight) -> bool {
        self.number = self.number.wrapping_add(1);
        let earlier = self.find(sight.identity, sight.at_ns);
        if let Some((set, way)) = earlier {
            let seen = self.sets[set][way];
            self.sets[set][way] = RecentPacket::default();
            if self.is_copy(sight, seen) {
                return true;
            }
        }
        self.rule.packet();
        self.put(sight.identity, sight);
        if let Some(exchange) = sight.exchange.filter(|exchange| exchange.is_response) {
            self.put(exchange.key, sight);
        }
        false
    }

    /// Whether the packet is a copy of the equal one that was seen before. Counts it for the rule.
    fn is_copy(&mut self, sight: &Sight, seen: RecentPacket) -> bool {
        if self.is_answered_between(sight, seen) {
            return false;
        }
        if sight.place != seen.place {
            return true;
        }
        let is_near = sight.at_ns.abs_diff(seen.at_ns) <= NEAR_NS;
        self.rule.copies += u32::from(is_near || sight.is_numbered);
        (is_near && sight.is_numbered) || self.rule.holds()
    }

    /// Whether a response to a query came after the equal one that was seen before. The order of time counts as well,
    /// since a capture may have the packets of one interface after those of another.
    fn is_answered_between(&self, sight: &Sight, seen: RecentPacket) -> bool {
        let Some(exchange) = sight.exchange.filter(|exchange| !exchange.is_response) else { return false };
        self.find(exchange.key, sight.at_ns).is_some_and(|(set, way)| {
            let response = self.sets[set][way];
            let is_later = response.number.wrapping_sub(seen.number) <= u32::MAX / 2;
            is_later && (seen.at_ns..=sight.at_ns).contains(&response.at_ns)
        })
    }

    fn find(&self, key: u64, at_ns: u64) -> Option<(usize, usize)> {
        let set = key as usize % SETS;
        let is_it = |seen: &RecentPacket| seen.key == key && seen.at_ns.abs_diff(at_ns) <= WINDOW_NS;
        self.sets[set].iter().position(is_it).map(|way| (set, way))
    }

    fn put(&mut self, key: u64, sight: &Sight) {
        let set = &mut self.sets[key as usize % SETS];
        set.rotate_right(1);
        set[0] = RecentPacket { key, at_ns: sight.at_ns, number: self.number, place: sight.place };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sight(identity: u64, at_ns: u64) -> Sight {
        Sight { identity, is_numbered: true, place: 1, at_ns, exchange: None }
    }

    fn at_another_place(identity: u64, at_ns: u64) -> Sight {
        Sight { place: 2, ..sight(identity, at_ns) }
    }

    #[test]
    fn a_copy_is_known_for_two_milliseconds_and_others_do_not_displace_it() {
        let mut duplicates = Duplicates::new(Rule::default());
        let of_one_set = |number: u64| 5 + number * SETS as u64;
        for number in 0..4 {
            assert!(!duplicates.has(&sight(of_one_set(number), 10_000_000)));
        }
        for number in 0..4 {
            let at_ns = if number < 2 { 12_000_000 } else { 8_000_000 };
            assert!(duplicates.has(&at_another_place(of_one_set(number), at_ns)));
        }
        assert!(!duplicates.has(&sight(of_one_set(0), 20_000_000)));
        assert!(!duplicates.has(&at_another_place(of_one_set(0), 22_000_001)));
        assert!(duplicates.has(&sight(of_one_set(0), 24_000_000)));
    }

    #[test]
    fn a_packet_has_one_copy() {
        let mut duplicates = Duplicates::new(Rule::default());
        let copies = (0..10).filter(|_| duplicates.has(&sight(7, 10_000_000))).count();
        assert_eq!(copies, 5);
    }

    /// The copies among pairs of equal packets with a gap between the two, each pair after so many single packets.
    fn copies(pairs: u64, singles: u64, gap_ns: u64, is_numbered: bool) -> usize {
        let mut duplicates = Duplicates::new(Rule::default());
        let mut is_copy = |identity, at_ns| {
            let sight = Sight { is_numbered, ..sight(identity, at_ns) };
            usize::from(duplicates.has(&sight))
        };
        let mut count = 0;
        for pair in 0..pairs {
            let at_ns = (pair + 1) * 1_000_000_000;
            count += (0..singles).map(|single| is_copy(pair << 32 | single << 16, at_ns)).sum::<usize>();
            count += is_copy(pair << 32 | 1, at_ns) + is_copy(pair << 32 | 1, at_ns + gap_ns);
        }
        count
    }

    #[test]
    fn without_another_place_copies_are_near_and_numbered_or_the_rule() {
        assert_eq!(copies(10, 20, NEAR_NS, true), 10);
        assert_eq!(copies(10, 20, NEAR_NS + 1, true), 0);
        assert_eq!(copies(10, 20, NEAR_NS, false), 0);
        // As the rule: the identification, or the short gap, shows that they are copies.
        assert_eq!(copies(10, 0, WINDOW_NS, true), 10);
        assert_eq!(copies(10, 2, NEAR_NS, false), 10);
        assert_eq!(copies(10, 0, NEAR_NS + 1, false), 0);
    }

    #[test]
    fn a_query_after_its_response_is_no_copy() {
        let exchange = |is_response| Some(Exchange { key: 9, is_response });
        let query = |at_ns| Sight { exchange: exchange(false), ..sight(7, at_ns) };
        let response = |at_ns| Sight { exchange: exchange(true), ..sight(8, at_ns) };
        let mut duplicates = Duplicates::new(Rule { packets: 100, copies: 100 });
        let found = [query(10_000), query(20_000), query(30_000), response(40_000), query(50_000)];
        assert_eq!(found.map(|sight| duplicates.has(&sight)), [false, true, false, false, false]);
        // The packets of another interface follow, and their times say what came first.
        let found = [query(5_000_000), response(5_040_000), query(5_010_000)];
        assert_eq!(found.map(|sight| duplicates.has(&sight)), [false, false, true]);
    }
}
