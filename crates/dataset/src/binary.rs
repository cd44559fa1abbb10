//! A binary query file: 16-bit big-endian lengths, each followed by that many bytes of a message.

use std::io::{self, BufRead, Read};

use kqps_message::edns::Malformed;
use kqps_message::{Edns, HEADER_BYTES, Header, edns, header, question, record, rtype};

use crate::encoded::Facts;
use crate::error::RecordFault;

/// Reads the next message into `message`, which is cleared first. Returns false at the end of the file, and a
/// fault if the file ends within the message.
pub(crate) fn read(
    source: &mut impl BufRead,
    message: &mut Vec<u8>,
) -> io::Result<Result<bool, RecordFault>> {
    message.clear();
    let taken = source.by_ref().take(2).read_to_end(message)?;
    let Some(&length) = message.first_chunk() else {
        return Ok(if taken == 0 {
            Ok(false)
        } else {
            Err(RecordFault::Truncated { expected: 2, found: taken })
        });
    };
    let length = usize::from(u16::from_be_bytes(length));
    message.clear();
    let taken = source.by_ref().take(length as u64).read_to_end(message)?;
    Ok(if taken == length {
        Ok(true)
    } else {
        Err(RecordFault::Truncated { expected: 2 + length, found: 2 + taken })
    })
}

/// Whether a file with these first bytes may begin with a query after its length: long enough for a header, with a known
/// opcode (RFC 1035, section 4.1.1, to RFC 8490) and at most one question. `true` if it is too short to show this.
pub(crate) fn may_be_query(first: &[u8]) -> bool {
    const OPCODES: u8 = 7;
    let Some(&[length_high, length_low, _, _, bits, _, questions_high, questions_low]) = first.first_chunk()
    else {
        return true;
    };
    let length = usize::from(u16::from_be_bytes([length_high, length_low]));
    length >= HEADER_BYTES
        && bits >> 3 & 0xf < OPCODES
        && [0, 1].contains(&u16::from_be_bytes([questions_high, questions_low]))
}

/// Turns a message from a file into a query: its ID becomes 0. If `edns` is given, the query gets an OPT
/// record if it has none, and the DO flag if `edns` has it.
pub(crate) fn encode(message: &mut Vec<u8>, edns: Option<Edns>) -> Result<Facts, RecordFault> {
    let header = Header::from_bytes(message).ok_or(RecordFault::Short(message.len()))?;
    if header.is_reply() {
        return Err(RecordFault::Reply);
    }
    let question_bytes = question::end(message).ok_or(RecordFault::Question)? - HEADER_BYTES;
    header::set_id(message, 0);
    if let Some(edns) = edns {
        match edns::find(message)?.map(|opt| opt.end - opt.data.len()) {
            None => add_opt(message, &edns)?,
            Some(data_at) if edns.dnssec_ok => set_do(message, data_at),
            Some(_) => {}
        }
    }
    let question_bytes = u16::try_from(question_bytes).expect("a message has 65,535 bytes at most");
    Ok(Facts { question_bytes, expected_rcode: None, expected_answer: None })
}

/// Takes a message as it is, whatever its bytes are. Its ID becomes 0.
pub(crate) fn any(message: &mut [u8]) -> Result<Facts, RecordFault> {
    if message.len() < 2 {
        return Err(RecordFault::NoId(message.len()));
    }
    header::set_id(message, 0);
    let question_bytes = question::end(message).map_or(0, |end| end - HEADER_BYTES);
    let question_bytes = u16::try_from(question_bytes).expect("a message has 65,535 bytes at most");
    Ok(Facts { question_bytes, expected_rcode: None, expected_answer: None })
}

/// Whether the last record of a message is a signature (RFC 8945, section 5.1).
pub(crate) fn is_signed(message: &[u8]) -> bool {
    last_type(message) == Some(rtype::TSIG)
}

/// The type of a message's last record; `None` without records, or if they cannot be parsed.
fn last_type(message: &[u8]) -> Option<u16> {
    let header = Header::from_bytes(message)?;
    let counts = [header.answers(), header.authorities(), header.additionals()].map(u32::from);
    let last = (0..counts.iter().sum()).try_fold((question::end(message)?, None), |(at, _), _| {
        let record = record::read(message, at)?;
        Some((record.end, Some(record.rtype)))
    });
    last?.1
}

/// Sets DO in the OPT record whose data begin at `data_at`: the upper bit of the TTL's third byte, with one
/// more byte of TTL and two of RDLENGTH after it (RFC 6891, section 6.1.3).
fn set_do(message: &mut [u8], data_at: usize) {
    message[data_at - 4] |= edns::DO.to_be_bytes()[2];
}

fn add_opt(message: &mut Vec<u8>, edns: &Edns) -> Result<(), RecordFault> {
    // Bytes after the last record would stand before the new one.
    if record::end(message) != Some(message.len()) {
        return Err(Malformed.into());
    }
    let added = edns::append(message, 0, edns) && u16::try_from(message.len()).is_ok();
    if added { Ok(()) } else { Err(RecordFault::TooLong) }
}
