//! The header of a reply.

use kqps_message::header::{AA, HEADER_BYTES, OPCODE, QR, RD, TC};

/// The header of a reply, without the counts of its records.
#[derive(Clone, Copy, Debug, Default)]
pub struct Heading {
    /// The rcode, of which the header has the lower four bits.
    pub rcode: u16,
    /// Whether the answer is of this server's own zone (AA).
    pub is_authoritative: bool,
    /// Whether something is missing that had no room (TC).
    pub is_truncated: bool,
}

impl Heading {
    pub(crate) fn refusal(rcode: u16) -> Self {
        Self { rcode, ..Self::default() }
    }

    /// Turns the query's header at the front of `buffer` into the reply's. `counts` are those of the sections after the
    /// question.
    #[inline]
    pub fn write(self, buffer: &mut [u8], has_question: bool, counts: [u16; 3]) {
        let authoritative = if self.is_authoritative { AA } else { 0 };
        let truncated = if self.is_truncated { TC } else { 0 };
        buffer[2] = QR | buffer[2] & (OPCODE | RD) | authoritative | truncated;
        // CD is for validating servers, so it is cleared (RFC 4035, section 3.1.6).
        let [_, rcode] = self.rcode.to_be_bytes();
        buffer[3] = rcode & 0x0f;
        buffer[4..6].copy_from_slice(&u16::from(has_question).to_be_bytes());
        for (count, place) in counts.iter().zip(buffer[6..HEADER_BYTES].chunks_exact_mut(2)) {
            place.copy_from_slice(&count.to_be_bytes());
        }
    }
}
