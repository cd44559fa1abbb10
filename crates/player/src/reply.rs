//! Whether a reply answers its query, decided on bytes alone.

use kqps_dataset::Query;
use kqps_message::header::{HEADER_BYTES, Header};
use kqps_message::question;

/// What a reply that carries the right ID says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checked {
    /// It agrees with the query and with the dataset's expectation.
    Correct {
        /// The header's rcode, 0 to 15.
        rcode: u8,
        /// Whether TC is set.
        truncated: bool,
    },
    /// It does not.
    Wrong(Cause),
}

/// Why a reply is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// QR is 0: a query came back as it was sent.
    NotAResponse,
    /// It carries another question.
    Question,
    /// Its rcode is not the one that the dataset expects.
    Rcode,
    /// It is shorter than a header with the question.
    Short,
}

impl Cause {
    /// All causes, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::NotAResponse, Self::Question, Self::Rcode, Self::Short];

    /// The name in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotAResponse => "not-a-response",
            Self::Question => "question",
            Self::Rcode => "rcode",
            Self::Short => "short",
        }
    }
}

/// Checks a reply; `header` is its own.
#[inline]
pub fn check(query: &Query<'_>, header: Header<'_>, reply: &[u8]) -> Checked {
    if !header.is_reply() {
        return Checked::Wrong(Cause::NotAResponse);
    }
    let asked = &query.message[HEADER_BYTES..HEADER_BYTES + query.question_bytes];
    let rcode = header.rcode();
    if header.questions() == 0 && query.expected_rcode == Some(rcode) && rcode != 0 {
        // A server that could not read the query answers with a header alone, and here that was expected.
        return correct(header);
    }
    if reply.len() < HEADER_BYTES + asked.len() {
        return Checked::Wrong(Cause::Short);
    }
    if header.questions() == 0 || !question::same(asked, reply) {
        return Checked::Wrong(Cause::Question);
    }
    match query.expected_rcode {
        Some(expected) if expected != rcode => Checked::Wrong(Cause::Rcode),
        _ => correct(header),
    }
}

#[inline]
fn correct(header: Header<'_>) -> Checked {
    Checked::Correct { rcode: header.rcode() as u8, truncated: header.is_truncated() }
}
