//! Writes a query file: lines of `name type`, with columns for EDNS and the expected answer.

use std::io::{self, Write};

use kqps_message::{rcode, rtype};

use super::draw::Stream;
use super::question::{Question, Questions};
use super::recipe::{Expect, RecipeQueries};

const FLUSHED_BYTES: usize = 1 << 16;

/// Writes all queries.
pub(super) fn write(
    questions: &mut Questions<'_>,
    asked: &RecipeQueries,
    out: &mut dyn Write,
) -> io::Result<()> {
    let types: Vec<String> =
        questions.types.iter().map(|qtype| format!(" {}", rtype::RtypeName(*qtype))).collect();
    let rcodes = [rcode::NOERROR, rcode::SERVFAIL, rcode::NXDOMAIN, rcode::REFUSED];
    let rcodes = rcodes.map(|rcode| (rcode, format!(" {}", rcode::RcodeName(rcode))));
    let mut stream = Stream::new(asked.seed);
    let mut question = Question::default();
    let mut lines = Vec::with_capacity(FLUSHED_BYTES + 1024);
    while questions.next(&mut stream, &mut question) {
        let start = lines.len();
        lines.extend_from_slice(question.name.absolute());
        if asked.mixed_case > 0.0 && stream.unit() < asked.mixed_case {
            mix_case(&mut stream, &mut lines[start..]);
        }
        lines.extend_from_slice(types[question.qtype].as_bytes());
        if asked.edns + asked.dnssec > 0.0 {
            let unit = stream.unit();
            if unit < asked.dnssec {
                lines.extend_from_slice(b" D");
            } else if unit < asked.edns {
                lines.extend_from_slice(b" E");
            }
        }
        if asked.expect != Expect::Nothing {
            let column = rcodes.iter().find(|(rcode, _)| *rcode == question.rcode);
            lines.extend_from_slice(column.map_or("", |(_, column)| column).as_bytes());
        }
        if let Some(digest) = question.answer {
            append_digest(digest.number(), &mut lines);
        }
        lines.push(b'\n');
        if lines.len() > FLUSHED_BYTES {
            out.write_all(&lines)?;
            lines.clear();
        }
    }
    out.write_all(&lines)
}

fn append_digest(digest: u64, line: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    line.extend_from_slice(b" =");
    line.extend((0..16).rev().map(|place| DIGITS[(digest >> (4 * place) & 15) as usize]));
}

/// Gives every letter a random case, as some resolvers do to hide a few random bits in the name ("0x20").
fn mix_case(stream: &mut Stream, name: &mut [u8]) {
    let mut random = 0;
    for (place, letter) in name.iter_mut().filter(|letter| letter.is_ascii_alphabetic()).enumerate() {
        if place % 64 == 0 {
            random = stream.next();
        }
        if random & 1 == 1 {
            *letter ^= 0x20;
        }
        random >>= 1;
    }
}
