//! Checks whether a reply answers its query, from the bytes alone.

use kqps_catalogue::cause::Wrong;
use kqps_dataset::{Agreement, Digest, Query};
use kqps_message::header::{HEADER_BYTES, Header};
use kqps_message::{edns, question, rcode as code};

/// The opcode UPDATE (RFC 2136, section 1.3).
const UPDATE: u8 = 5;

/// The result of checking a reply with the right ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checked {
    /// The reply agrees with the query and with the dataset's expectation.
    Correct {
        /// The rcode, 0 to 4095.
        rcode: u16,
        /// How much of the answer came.
        extent: Extent,
    },
    /// The reply does not agree.
    Wrong(Cause),
}

impl Checked {
    /// The rcode, 0 to 4095; `None` if the reply is wrong for another reason than its rcode or its answer.
    #[inline]
    pub fn rcode(self) -> Option<u16> {
        match self {
            Self::Correct { rcode, .. }
            | Self::Wrong(Cause::Rcode { got: rcode, .. } | Cause::Answer { rcode } | Cause::Ad { rcode }) => {
                Some(rcode)
            }
            Self::Wrong(_) => None,
        }
    }
}

/// How much of the answer a reply holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// The whole answer.
    Whole,
    /// TC is set, and there are records.
    Partial,
    /// TC is set, and there are no records except additional ones.
    Bare,
}

/// Why a reply is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// QR is 0: the datagram is a query.
    NotAResponse,
    /// The question is another one.
    Question,
    /// The rcode is not the one that the dataset expects.
    Rcode {
        /// The rcode that the dataset expects.
        expected: u16,
        /// The rcode of the reply.
        got: u16,
    },
    /// The reply is shorter than a header with the question, and holds no other question.
    Short,
    /// The rcode is right, but the answer differs from the one that the dataset expects, or cannot be parsed.
    Answer {
        /// The rcode, 0 to 4095.
        rcode: u16,
    },
    /// The answer is right but for its AD bit.
    Ad {
        /// The rcode, 0 to 4095.
        rcode: u16,
    },
    /// The ID is not 0, where streams match replies to queries.
    Id,
    /// The status of the response by HTTP is not 2xx.
    Status(u16),
    /// The content type of the response by HTTP is not that of DNS messages.
    ContentType,
    /// The reply is longer than a DNS message can be.
    TooLong,
}

impl Cause {
    /// The names in records, in the order of [`Self::number`].
    pub const NAMES: &[&str] = &Wrong::WORDS;

    /// The name of a status that is not 2xx. In records the status follows it.
    pub const STATUS: &str = Wrong::WORDS[Wrong::Status as usize];

    /// The cause without what it was.
    #[inline]
    pub fn kind(self) -> Wrong {
        match self {
            Self::NotAResponse => Wrong::NotAResponse,
            Self::Question => Wrong::Question,
            Self::Rcode { .. } => Wrong::Rcode,
            Self::Short => Wrong::Short,
            Self::Answer { .. } => Wrong::Answer,
            Self::Ad { .. } => Wrong::Ad,
            Self::Id => Wrong::Id,
            Self::Status(_) => Wrong::Status,
            Self::ContentType => Wrong::ContentType,
            Self::TooLong => Wrong::TooLong,
        }
    }

    /// The index of the cause's name in [`Self::NAMES`].
    #[inline]
    pub fn number(self) -> usize {
        self.kind() as usize
    }
}

/// Checks a reply. `scratch` is a buffer that every call may reuse. Bytes after the last record are ignored, since no
/// RFC forbids them.
#[inline]
pub fn check(query: &Query<'_>, reply: &[u8], scratch: &mut Vec<u8>) -> Checked {
    let Some(header) = Header::from_bytes(reply) else { return Checked::Wrong(Cause::Short) };
    if !header.is_reply() {
        return Checked::Wrong(Cause::NotAResponse);
    }
    // A message of any bytes may be shorter than a header.
    let asked = query.message.get(HEADER_BYTES..HEADER_BYTES + query.question_bytes).unwrap_or_default();
    let rcode = rcode(query.expected_rcode, header, reply);
    let is_of_header = matches!(rcode, code::FORMERR | code::NOTIMP)
        || (query.expected_rcode == Some(rcode) && rcode != code::NOERROR)
        || (header.questions() == 0 && is_update(query.message));
    if header.questions() == 0 && is_of_header {
        // A server that cannot parse the query, or does not support its kind, may answer with a header alone.
        return match query.expected_rcode {
            Some(expected) if expected != rcode => Checked::Wrong(Cause::Rcode { expected, got: rcode }),
            _ => correct(header, rcode),
        };
    }
    if reply.len() < HEADER_BYTES + asked.len() {
        let has_other_question = header.questions() > 0 && question::end(reply).is_some();
        return Checked::Wrong(if has_other_question { Cause::Question } else { Cause::Short });
    }
    if !question::same(asked, reply) {
        return Checked::Wrong(Cause::Question);
    }
    match query.expected_rcode {
        Some(expected) if expected != rcode => Checked::Wrong(Cause::Rcode { expected, got: rcode }),
        _ => match expected_digest(query, header).map(|digest| digest.agreement(reply, rcode, scratch)) {
            None | Some(Agreement::Whole) => correct(header, rcode),
            Some(Agreement::ButForAd) => Checked::Wrong(Cause::Ad { rcode }),
            Some(Agreement::None) => Checked::Wrong(Cause::Answer { rcode }),
        },
    }
}

/// Whether a message is a dynamic update. The response to one may have a header alone (RFC 2136, section 3.8).
#[cold]
fn is_update(message: &[u8]) -> bool {
    Header::from_bytes(message).is_some_and(|header| header.opcode() == UPDATE)
}

/// The digest that the dataset expects of a reply with this header. A truncated reply need not hold the whole answer, so its
/// records show nothing.
#[inline]
fn expected_digest(query: &Query<'_>, header: Header<'_>) -> Option<Digest> {
    query.expected_answer.filter(|_| !header.is_truncated())
}

/// The reply's rcode. An OPT record may hold its upper eight bits (RFC 6891, section 6.1.3). The OPT record is searched
/// for only if it can matter: if another rcode was expected, or if the reply has no records before it, since replies
/// with such an rcode have none.
#[inline]
fn rcode(expected: Option<u16>, header: Header<'_>, reply: &[u8]) -> u16 {
    let is_expected = expected.is_some_and(|expected| expected == header.rcode());
    let is_bare = header.answers() == 0 && header.authorities() == 0;
    let matters = is_bare || (expected.is_some() && !is_expected);
    if matters { edns::rcode(header, reply) } else { header.rcode() }
}

#[inline]
fn correct(header: Header<'_>, rcode: u16) -> Checked {
    let is_bare = header.answers() == 0 && header.authorities() == 0;
    let extent = match (header.is_truncated(), is_bare) {
        (false, _) => Extent::Whole,
        (true, false) => Extent::Partial,
        (true, true) => Extent::Bare,
    };
    Checked::Correct { rcode, extent }
}

#[cfg(test)]
mod tests {
    use kqps_message::header::AD;

    use super::*;

    const QUESTION: &[u8] = b"\x01a\0\x00\x01\x00\x01";
    /// An OPT record whose upper rcode bits are 1 (RFC 6891, section 6.1.2).
    const OPT: &[u8] = b"\0\x00\x29\x04\xd0\x01\x00\x00\x00\x00\x00";
    const RECORD: &[u8] = b"\0\x00\x01\x00\x01\x00\x00\x0e\x10\x00\x01x";

    /// A message with these flags and counts, and `rest` after its header.
    fn message(flags: [u8; 2], counts: [u8; 4], rest: &[&[u8]]) -> Vec<u8> {
        let [qd, an, ns, ar] = counts;
        [&[0, 0, flags[0], flags[1], 0, qd, 0, an, 0, ns, 0, ar][..], &rest.concat()].concat()
    }

    fn checked(asked: &[u8], expected_rcode: Option<u16>, reply: &[u8]) -> Checked {
        let count = u8::from(!asked.is_empty());
        let message = message([1, 0], [count, 0, 0, 0], &[asked]);
        let query =
            Query { message: &message, question_bytes: asked.len(), expected_rcode, expected_answer: None };
        check(&query, reply, &mut Vec::new())
    }

    fn correct(rcode: u16) -> Checked {
        Checked::Correct { rcode, extent: Extent::Whole }
    }

    fn unexpected(expected: u16, got: u16) -> Checked {
        Checked::Wrong(Cause::Rcode { expected, got })
    }

    #[test]
    fn a_cause_has_the_number_of_its_name() {
        assert_eq!(Cause::NAMES[Cause::TooLong.number()], "too-long");
        assert_eq!(Cause::NAMES[Cause::Status(503).number()], Cause::STATUS);
    }

    #[test]
    fn an_rcode_above_fifteen_is_read_from_the_opt_record() {
        let bad_version = message([0x80, 0], [1, 0, 0, 1], &[QUESTION, OPT]);
        let bad_cookie = message([0x80, 7], [1, 0, 0, 1], &[QUESTION, OPT]);
        assert_eq!(checked(QUESTION, Some(16), &bad_version), correct(16));
        assert_eq!(checked(QUESTION, Some(23), &bad_cookie), correct(23));
        assert_eq!(checked(QUESTION, None, &bad_cookie), correct(23), "its name in the record");
        assert_eq!(checked(QUESTION, Some(7), &bad_cookie), unexpected(7, 23));
        assert_eq!(checked(QUESTION, Some(0), &bad_version), unexpected(0, 16));
        let with_a_record = message([0x80, 7], [1, 1, 0, 1], &[QUESTION, RECORD, OPT]);
        assert_eq!(checked(QUESTION, Some(23), &with_a_record), correct(23));
        let without = message([0x80, 7], [1, 0, 0, 0], &[QUESTION]);
        assert_eq!(checked(QUESTION, Some(23), &without), unexpected(23, 7));
        assert_eq!(checked(QUESTION, Some(7), &without), correct(7));
    }

    #[test]
    fn a_query_without_a_question_is_answered_without_one() {
        let reply = message([0x80, 0], [0; 4], &[]);
        assert_eq!(checked(b"", None, &reply), correct(0));
        assert_eq!(checked(QUESTION, None, &reply), Checked::Wrong(Cause::Short));
        let padded = message([0x80, 0], [0; 4], &[QUESTION]);
        assert_eq!(checked(QUESTION, None, &padded), Checked::Wrong(Cause::Question));
    }

    #[test]
    fn a_reply_without_a_whole_header_is_short() {
        let whole = message([0x80, 0], [1, 0, 0, 0], &[QUESTION]);
        for bytes in 0..whole.len() {
            assert_eq!(checked(QUESTION, None, &whole[..bytes]), Checked::Wrong(Cause::Short), "{bytes}");
        }
        assert_eq!(checked(QUESTION, None, &whole), correct(0));
        assert_eq!(
            checked(QUESTION, None, &[&whole[..], b"junk"].concat()),
            correct(0),
            "what follows is free"
        );
        let asked = message([1, 0], [1, 0, 0, 0], &[QUESTION]);
        assert_eq!(checked(QUESTION, None, &asked), Checked::Wrong(Cause::NotAResponse));
        assert_eq!(checked(QUESTION, None, &asked[..12]), Checked::Wrong(Cause::NotAResponse));
    }

    #[test]
    fn a_server_that_cannot_read_a_query_answers_with_a_header_alone() {
        for rcode in [1, 4] {
            let reply = message([0x80, rcode], [0; 4], &[]);
            let got = u16::from(rcode);
            assert_eq!(checked(QUESTION, None, &reply), correct(got));
            assert_eq!(checked(QUESTION, Some(got), &reply), correct(got));
            assert_eq!(checked(QUESTION, Some(0), &reply), unexpected(0, got));
        }
        let refused = message([0x80, 5], [0; 4], &[]);
        assert_eq!(checked(QUESTION, Some(5), &refused), correct(5));
        assert_eq!(checked(QUESTION, Some(0), &refused), Checked::Wrong(Cause::Short));
        let counted = message([0x80, 1], [1, 0, 0, 0], &[]);
        assert_eq!(
            checked(QUESTION, None, &counted),
            Checked::Wrong(Cause::Short),
            "its question is missing"
        );
    }

    #[test]
    fn an_update_may_be_answered_with_a_header_alone() {
        let update = message([0x28, 0], [1, 0, 0, 0], &[QUESTION]);
        let query = Query {
            message: &update,
            question_bytes: QUESTION.len(),
            expected_rcode: None,
            expected_answer: None,
        };
        let checked = |reply: &[u8]| check(&query, reply, &mut Vec::new());
        assert_eq!(checked(&message([0xa8, 0], [0; 4], &[])), correct(0));
        assert_eq!(checked(&message([0xa8, 9], [0; 4], &[])), correct(9));
        assert_eq!(checked(&message([0xa8, 0], [1, 0, 0, 0], &[QUESTION])), correct(0));
        let other = message([0xa8, 0], [1, 0, 0, 0], &[b"\x01b\0\x00\x01\x00\x01"]);
        assert_eq!(checked(&other), Checked::Wrong(Cause::Question));
    }

    #[test]
    fn a_query_of_any_bytes_may_be_shorter_than_a_header() {
        let query = Query { message: b"ab", question_bytes: 0, expected_rcode: None, expected_answer: None };
        let reply = message([0x80, 1], [0; 4], &[]);
        assert_eq!(check(&query, &reply, &mut Vec::new()), correct(1));
    }

    #[test]
    fn a_reply_is_whole_partial_or_bare() {
        let extent =
            |flags, counts, rest: &[&[u8]]| match checked(QUESTION, None, &message(flags, counts, rest)) {
                Checked::Correct { extent, .. } => extent,
                wrong @ Checked::Wrong(_) => panic!("{wrong:?}"),
            };
        assert_eq!(extent([0x80, 0], [1, 0, 0, 0], &[QUESTION]), Extent::Whole);
        assert_eq!(extent([0x82, 3], [1, 0, 0, 0], &[QUESTION]), Extent::Bare);
        assert_eq!(extent([0x82, 0], [1, 0, 0, 1], &[QUESTION, OPT]), Extent::Bare);
        assert_eq!(extent([0x82, 0], [1, 0, 1, 0], &[QUESTION, RECORD]), Extent::Partial);
    }

    #[test]
    fn another_ad_bit_is_told_from_another_answer() {
        let asked = message([1, AD], [1, 0, 0, 0], &[QUESTION]);
        let of = |is_set: bool, flags: [u8; 2], data: &[u8]| {
            let plain = message([0x80, 0], [1, 1, 0, 0], &[QUESTION, &RECORD[..11], b"x"]);
            let digest = Digest::of_reply(&plain, 0, &mut Vec::new()).expect("a digest");
            let query = Query {
                message: &asked,
                question_bytes: QUESTION.len(),
                expected_rcode: Some(0),
                expected_answer: Some(digest.covering_ad(0, is_set)),
            };
            let reply = message(flags, [1, 1, 0, 0], &[QUESTION, &RECORD[..11], data]);
            check(&query, &reply, &mut Vec::new())
        };
        let lost = Checked::Wrong(Cause::Ad { rcode: 0 });
        assert_eq!([of(true, [0x80, AD], b"x"), of(true, [0x80, 0], b"x")], [correct(0), lost]);
        assert_eq!([of(false, [0x80, 0], b"x"), of(false, [0x80, AD], b"x")], [correct(0), lost]);
        assert_eq!(of(true, [0x80, 0], b"y"), Checked::Wrong(Cause::Answer { rcode: 0 }));
        assert_eq!(of(true, [0x80, 2], b"x"), unexpected(0, 2));
    }

    #[test]
    fn an_answer_is_held_to_its_digest_unless_it_is_truncated() {
        let with = |flags, data: &[u8]| message(flags, [1, 1, 0, 0], &[QUESTION, &RECORD[..11], data]);
        let right = with([0x84, 0], b"x");
        let expected_answer = Digest::of_reply(&right, 0, &mut Vec::new());
        assert!(expected_answer.is_some());
        let asked = message([1, 0], [1, 0, 0, 0], &[QUESTION]);
        let query = Query {
            message: &asked,
            question_bytes: QUESTION.len(),
            expected_rcode: Some(0),
            expected_answer,
        };
        let checked = |reply: &[u8]| check(&query, reply, &mut Vec::new());
        assert_eq!(checked(&right), correct(0));
        assert_eq!(checked(&with([0x84, 0], b"y")), Checked::Wrong(Cause::Answer { rcode: 0 }));
        assert_eq!(
            checked(&with([0x84, 0], b"")),
            Checked::Wrong(Cause::Answer { rcode: 0 }),
            "it cannot be read"
        );
        assert_eq!(checked(&with([0x84, 2], b"x")), unexpected(0, 2), "the rcode comes first");
        let cut = checked(&with([0x86, 0], b"y"));
        assert_eq!(cut, Checked::Correct { rcode: 0, extent: Extent::Partial });
    }
}
