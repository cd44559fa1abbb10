//! A query in its buffer, and the reply that is written over it. ID, RD, CD and the question stay as they are.

use kqps_message::edns::{OPT_BYTES, UDP_PAYLOAD_BYTES, opt_record};
use kqps_message::header::{AD, CD, HEADER_BYTES, QR, RA, RD, TC};

use crate::block::Block;

/// Facts that a server has read of a query, so that the cache does not read it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// The position just after the question, which follows the header.
    pub question_end: usize,
    /// The DO flag of the query's OPT record of version 0; `None` without EDNS.
    pub dnssec_ok: Option<bool>,
}

/// The facts of a query on which its reply depends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Query {
    /// The end of the question.
    end: usize,
    /// The DO flag of the query's OPT record, if it has one.
    opt: Option<bool>,
    /// Whether the client may see AD: it set DO or AD itself (RFC 6840, section 5.8).
    sees_authentic: bool,
}

/// The TTLs in a reply.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ttl {
    /// The TTLs of the records, less this age in seconds.
    After(u32),
    /// This many seconds in all records.
    All(u32),
}

/// The parts of a reply that are not those of its query.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplyParts<'r> {
    pub(crate) records: &'r [u8],
    /// The numbers of answer and authority records.
    pub(crate) counts: [u16; 2],
    /// At most 15.
    pub(crate) rcode: u8,
    pub(crate) is_authentic: bool,
}

/// A reply in the buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    /// Its length.
    pub(crate) bytes: usize,
    pub(crate) is_truncated: bool,
}

impl Query {
    /// The query at the beginning of a buffer, of which the server has read this.
    #[inline]
    pub(crate) fn read(message: &[u8], form: Form) -> Self {
        let sees_authentic = form.dnssec_ok == Some(true) || message[3] & AD != 0;
        Self { end: form.question_end, opt: form.dnssec_ok, sees_authentic }
    }

    /// A query without EDNS that is a header and this question alone, whose client sees AD.
    pub(crate) fn whole(question_end: usize) -> Self {
        Self { end: question_end, opt: None, sees_authentic: true }
    }

    /// Writes the reply that is kept in a block.
    #[inline]
    pub(crate) fn answer(
        self,
        message: &mut [u8],
        limit_bytes: usize,
        block: Block<'_>,
        ttl: Ttl,
    ) -> Written {
        // A validation says nothing about the time after the TTL.
        let is_authentic = block.is_authentic() && matches!(ttl, Ttl::After(_));
        let (records, counts) = (block.records(), block.counts());
        let written = self.write(
            message,
            limit_bytes,
            ReplyParts { records, counts, rcode: block.rcode(), is_authentic },
        );
        if written.is_truncated {
            return written;
        }
        for place in block.ttl_places() {
            let at = self.end + place;
            let field: &mut [u8; 4] = message[at..].first_chunk_mut().expect("records are whole");
            let ttl_s = match ttl {
                Ttl::After(age_s) => u32::from_be_bytes(*field).saturating_sub(age_s),
                Ttl::All(ttl_s) => ttl_s,
            };
            *field = ttl_s.to_be_bytes();
        }
        written
    }

    /// Writes a reply. If it is longer than the limit or the buffer, it is truncated to the question.
    #[inline]
    pub(crate) fn write(self, message: &mut [u8], limit_bytes: usize, said: ReplyParts<'_>) -> Written {
        let ReplyParts { records, counts, rcode, is_authentic } = said;
        let end = self.end + records.len();
        let opt_bytes = if self.opt.is_some() { OPT_BYTES } else { 0 };
        if end + opt_bytes > limit_bytes.min(message.len()) {
            let bytes = self.finish(message, self.end, [0; 2], TC, rcode);
            return Written { bytes, is_truncated: true };
        }
        message[self.end..end].copy_from_slice(records);
        let low = rcode | if is_authentic && self.sees_authentic { AD } else { 0 };
        Written { bytes: self.finish(message, end, counts, 0, low), is_truncated: false }
    }

    /// Writes a reply without records.
    pub(crate) fn refuse(self, message: &mut [u8], rcode: u16) -> Written {
        let [rcode, _] = rcode.to_le_bytes();
        let bytes = self.finish(message, self.end, [0; 2], 0, rcode);
        Written { bytes, is_truncated: false }
    }

    /// Writes the OPT record behind the records, which end at `end`, and the header. `high` and `low` are bits of its
    /// bytes 2 and 3. Returns the length of the reply.
    #[inline]
    fn finish(self, message: &mut [u8], end: usize, counts: [u16; 2], high: u8, low: u8) -> usize {
        message[2] = message[2] & RD | QR | high;
        message[3] = message[3] & CD | RA | low;
        message[6..8].copy_from_slice(&counts[0].to_be_bytes());
        message[8..10].copy_from_slice(&counts[1].to_be_bytes());
        message[10..HEADER_BYTES].copy_from_slice(&[0, u8::from(self.opt.is_some())]);
        let Some(dnssec_ok) = self.opt else { return end };
        message[end..end + OPT_BYTES].copy_from_slice(&opt_record(UDP_PAYLOAD_BYTES, 0, dnssec_ok));
        end + OPT_BYTES
    }
}
