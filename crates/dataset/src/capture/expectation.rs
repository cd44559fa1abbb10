//! The right answer, as far as a response in the capture shows it.

use kqps_message::question::QUESTION_TAIL_BYTES;
use kqps_message::{Header, edns, rcode, rtype};

use crate::answer::Digest;
use crate::encoded::NO_RCODE;

/// An rcode and the digest of an answer, and how long after its query the response came, in 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Expectation {
    digest: u64,
    after_us: u32,
    rcode: u16,
    has_digest: bool,
}

impl Expectation {
    /// Nothing is expected.
    pub(super) const NONE: Self = Self { digest: 0, after_us: 0, rcode: NO_RCODE, has_digest: false };

    /// The expectation from a response with this header to this question. A truncated one need not hold the whole
    /// answer, nor does the first one of a zone transfer, so its rcode alone is expected. `scratch` is a buffer to
    /// reuse, with any content.
    pub(super) fn from_response(
        header: Header<'_>,
        response: &[u8],
        question: &[u8],
        scratch: &mut Vec<u8>,
    ) -> Self {
        let rcode = edns::rcode(header, response);
        if rcode == rcode::BADCOOKIE {
            return Self::NONE;
        }
        let is_whole = !header.is_truncated() && !is_transfer(question);
        let digest = if is_whole { Digest::of_reply(response, rcode, scratch) } else { None };
        let (number, has_digest) = (digest.map(Digest::number).unwrap_or_default(), digest.is_some());
        Self { digest: number, after_us: 0, rcode, has_digest }
    }

    /// This expectation, from a response that came so long after its query, ns.
    #[must_use]
    pub(super) fn after(self, ns: u64) -> Self {
        Self { after_us: u32::try_from(ns / 1000).unwrap_or(u32::MAX), ..self }
    }

    /// How long after its query the response came, ns; 0 if there was none.
    pub(super) fn after_ns(self) -> u64 {
        u64::from(self.after_us) * 1000
    }

    pub(super) fn rcode(self) -> Option<u16> {
        (self.rcode != NO_RCODE).then_some(self.rcode)
    }

    pub(super) fn answer(self) -> Option<Digest> {
        self.has_digest.then(|| Digest::from_number(self.digest, false))
    }
}

/// Whether a question asks for the transfer of a zone: AXFR or IXFR.
pub(super) fn is_transfer(question: &[u8]) -> bool {
    let tail = question.len().checked_sub(QUESTION_TAIL_BYTES).and_then(|at| question[at..].first_chunk());
    tail.is_some_and(|qtype| matches!(u16::from_be_bytes(*qtype), rtype::AXFR | rtype::IXFR))
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUESTION: &[u8] = b"\x04test\0\x00\x01\x00\x01";

    fn expected(flags: [u8; 2], tail: &[u8], additionals: u8) -> Expectation {
        let header = [7, 7, flags[0], flags[1], 0, 1, 0, 0, 0, 0, 0, additionals];
        let response = [&header[..], QUESTION, tail].concat();
        Expectation::from_response(
            Header::from_bytes(&response).expect("a header"),
            &response,
            QUESTION,
            &mut Vec::new(),
        )
    }

    #[test]
    fn a_response_says_rcode_and_answer() {
        let refused = expected([0x80, 5], b"", 0);
        assert_eq!((refused.rcode(), refused.answer()), (Some(5), Some(Digest::of_none(5, false))));
        let nothing = expected([0x84, 0], b"", 0);
        assert_eq!((nothing.rcode(), nothing.answer()), (Some(0), Some(Digest::of_none(0, true))));
        assert_eq!((Expectation::NONE.rcode(), Expectation::NONE.answer()), (None, None));
    }

    #[test]
    fn a_truncated_response_says_the_rcode_alone() {
        let truncated = expected([0x86, 0], b"", 0);
        assert_eq!((truncated.rcode(), truncated.answer()), (Some(0), None));
    }

    #[test]
    fn what_answers_a_removed_cookie_says_nothing() {
        // The OPT record holds the upper bits of the rcode: 1 × 16 + 7.
        assert_eq!(expected([0x80, 7], b"\0\x00\x29\x04\xd0\x01\x00\x00\x00\x00\x00", 1), Expectation::NONE);
    }

    #[test]
    fn a_transfer_says_the_rcode_alone() {
        for (qtype, is_it) in [(1, false), (250, false), (251, true), (252, true), (253, false)] {
            let question = [&b"\x04test\0\x00"[..], &[qtype], b"\x00\x01"].concat();
            let response = [&[7, 7, 0x84, 0, 0, 1, 0, 0, 0, 0, 0, 0][..], &question].concat();
            let header = Header::from_bytes(&response).expect("a header");
            let expected = Expectation::from_response(header, &response, &question, &mut Vec::new());
            assert_eq!((expected.rcode(), expected.answer().is_none()), (Some(0), is_it), "{qtype}");
        }
        assert!(!is_transfer(b"\x00\xfc\x00") && !is_transfer(b""));
    }

    #[test]
    fn it_is_as_small_as_it_says() {
        assert_eq!(size_of::<Expectation>(), 16);
    }
}
