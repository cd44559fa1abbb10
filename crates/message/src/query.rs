//! Writing queries.

use crate::edns::{self, Edns};
use crate::header::RD;
use crate::name::{self, NameError};

/// The class IN, the Internet (RFC 1035, section 3.2.4).
pub const CLASS_IN: u16 = 1;

/// Appends a query to `out` and returns the length of its question section in bytes. The query has ID 0, RD set,
/// class IN, one question, and an OPT record if `edns` is given. On an error `out` is unchanged.
pub fn write(
    out: &mut Vec<u8>,
    name_text: &[u8],
    qtype: u16,
    edns: Option<&Edns>,
) -> Result<usize, NameError> {
    let start = out.len();
    out.extend_from_slice(&[0, 0, RD, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    let name_bytes = name::encode(name_text, out).inspect_err(|_| out.truncate(start))?;
    out.extend_from_slice(&qtype.to_be_bytes());
    out.extend_from_slice(&CLASS_IN.to_be_bytes());
    if let Some(edns) = edns {
        edns::append(out, start, edns);
    }
    Ok(name_bytes + crate::question::QUESTION_TAIL_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HEADER_BYTES, question, rtype};

    #[test]
    fn a_query_has_the_bytes_of_rfc_1035() {
        let mut out = b"before".to_vec();
        let question_bytes = write(&mut out, b"www.test", rtype::AAAA, None).expect("a good name");
        assert_eq!(&out[6..], b"\0\0\x01\0\0\x01\0\0\0\0\0\0\x03www\x04test\0\x00\x1c\x00\x01");
        assert_eq!(question::end(&out[6..]), Some(HEADER_BYTES + question_bytes));
    }

    #[test]
    fn a_bad_name_leaves_the_buffer_as_it_was() {
        let mut out = b"before".to_vec();
        assert!(write(&mut out, b"..", rtype::A, None).is_err());
        assert_eq!(out, b"before");
    }
}
