//! Facts of a query in a capture besides its bytes: when it was due, who asked, and how it was carried.

use kqps_capture::Transport as Carried;

use crate::encoded::CAPTURED_BYTES;

/// The idle time of a connection that was still open when the capture ended, in ms.
pub(crate) const IDLE_BEYOND: u32 = u32::MAX;

const CARRIED: u32 = 0b111;
const BEGINS: u32 = 1 << 3;
const ENDS: u32 = 1 << 4;

/// How a query of a capture came to its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Captured {
    /// The time from the first query of the capture, in nanoseconds. It never decreases from query to query.
    pub due_ns: u64,
    /// The number of the client, counted from 0 in the order of their first queries.
    pub client: u32,
    /// The transport.
    pub carried: Carried,
    /// Over connections: the lowest number that no other connection that was open at that time has. Over UDP: 0.
    pub place: u32,
    /// Whether this is the first query of its connection. False over UDP.
    pub begins: bool,
    /// Whether this is the last query of its connection. False over UDP.
    pub ends: bool,
    /// How long the connection stayed open after its last query and the last response to any, in milliseconds.
    /// `u32::MAX` if it was still open when the capture ended, and 0 for every other query.
    pub idle_ms: u32,
}

impl Captured {
    pub(crate) fn to_bytes(self) -> [u8; CAPTURED_BYTES] {
        let mut bytes = [0; CAPTURED_BYTES];
        bytes[..8].copy_from_slice(&self.due_ns.to_le_bytes());
        for (at, number) in [(8, self.client), (12, self.place), (16, self.idle_ms), (20, self.bits())] {
            bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    #[inline]
    pub(crate) fn from_bytes(bytes: &[u8; CAPTURED_BYTES]) -> Self {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let bits = word(20);
        Self {
            due_ns: u64::from(word(4)) << 32 | u64::from(word(0)),
            client: word(8),
            carried: carried_of(bits & CARRIED),
            place: word(12),
            begins: bits & BEGINS != 0,
            ends: bits & ENDS != 0,
            idle_ms: word(16),
        }
    }

    fn bits(self) -> u32 {
        let begins = if self.begins { BEGINS } else { 0 };
        let ends = if self.ends { ENDS } else { 0 };
        u32::from(self.carried.byte()) | begins | ends
    }
}

/// The transport of a number in the encoded form.
#[inline]
fn carried_of(number: u32) -> Carried {
    Carried::ALL.get(number as usize).copied().unwrap_or(Carried::Udp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_read_back() {
        for carried in Carried::ALL {
            for (begins, ends) in [(false, false), (true, false), (false, true), (true, true)] {
                let captured = Captured {
                    due_ns: 0x0102_0304_0506_0708,
                    client: 9,
                    carried,
                    place: 10,
                    begins,
                    ends,
                    idle_ms: IDLE_BEYOND,
                };
                assert_eq!(Captured::from_bytes(&captured.to_bytes()), captured);
            }
        }
    }

    #[test]
    fn the_bytes_are_those_of_the_format() {
        let captured = Captured {
            due_ns: 1,
            client: 2,
            carried: Carried::Tcp,
            place: 3,
            begins: true,
            ends: true,
            idle_ms: 4,
        };
        let expected = [1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 0b11001, 0, 0, 0];
        assert_eq!(captured.to_bytes(), expected);
    }
}
