//! The queries that are sent to servers. They have nothing of the client's but its question, and whether it wants
//! DNSSEC records and answers that were not validated.

use kqps_cache::Question;
use kqps_message::edns::{UDP_PAYLOAD_BYTES, opt_record};
use kqps_message::header::{AD, CD, RD};

/// Writes a query to `out`. Every letter of its name gets a random case, from 16 bits at a time of `random`: an
/// attacker who does not see the query must guess them (draft-vixie-dnsext-dns0x20). `is_forwarded` says whether the
/// server is asked to find the answer. The query gets its ID when it is sent.
pub(crate) fn write(
    out: &mut Vec<u8>,
    question: &Question<'_>,
    is_forwarded: bool,
    mut random: impl FnMut() -> u16,
) {
    out.clear();
    let desired = if is_forwarded { RD } else { 0 };
    // AD asks a validating server whether the answer is authentic, also without DO (RFC 6840, section 5.7).
    let flags = AD | if question.checking_disabled { CD } else { 0 };
    out.extend_from_slice(&[0, 0, desired, flags, 0, 1, 0, 0, 0, 0, 0, 1]);
    let (mut bits, mut left) = (0, 0);
    for &byte in question.name {
        // The length of a label is less than any letter.
        if !byte.is_ascii_alphabetic() {
            out.push(byte);
            continue;
        }
        if left == 0 {
            (bits, left) = (random(), u16::BITS);
        }
        out.push(if bits & 1 == 0 { byte.to_ascii_lowercase() } else { byte.to_ascii_uppercase() });
        (bits, left) = (bits >> 1, left - 1);
    }
    out.extend_from_slice(&question.rtype.to_be_bytes());
    out.extend_from_slice(&question.class.to_be_bytes());
    out.extend_from_slice(&opt_record(UDP_PAYLOAD_BYTES, 0, question.dnssec_ok));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_has_the_question_in_a_random_case() {
        let question = |dnssec_ok, checking_disabled| Question {
            name: b"\x05ab-1c\x04test\0",
            rtype: 28,
            class: 1,
            dnssec_ok,
            checking_disabled,
        };
        let mut out = b"before".to_vec();
        write(&mut out, &question(false, false), true, || 0b101_0101);
        let expected =
            b"\0\0\x01\x20\0\x01\0\0\0\0\0\x01\x05Ab-1C\x04tEsT\0\0\x1c\0\x01\0\0\x29\x04\xd0\0\0\0\0\0\0";
        assert_eq!(out, expected);
        write(&mut out, &question(true, true), false, || 0);
        assert_eq!((out[2], out[3], &out[12..18]), (0, AD | CD, &b"\x05ab-1c"[..]));
        assert_eq!(out[out.len() - 6..], [0, 0, 0x80, 0, 0, 0]);
    }

    #[test]
    fn every_letter_has_a_bit_of_its_own() {
        let name = [&[60][..], &[b'a'; 60], &[0]].concat();
        let question =
            Question { name: &name, rtype: 1, class: 1, dnssec_ok: false, checking_disabled: false };
        let (mut out, mut calls) = (Vec::new(), 0);
        write(&mut out, &question, true, || {
            calls += 1;
            if calls % 2 == 0 { 0 } else { u16::MAX }
        });
        let halves: Vec<u8> = [b'A', b'a', b'A', b'a'].into_iter().flat_map(|letter| [letter; 16]).collect();
        assert_eq!((calls, &out[13..73]), (4, &halves[..60]));
    }
}
