//! Queries that may be sent as early data, which an attacker can replay (RFC 8446, section 8; RFC 9250, section 4.5).

use crate::header::{HEADER_BYTES, Header};
use crate::rtype;

/// The opcode QUERY (RFC 1035, section 4.1.1).
const QUERY: u8 = 0;

/// Whether a query changes nothing at the server, however often it arrives: it has the opcode QUERY and asks for no
/// zone transfer.
pub fn may_be_replayed(query: &[u8]) -> bool {
    let Some(header) = Header::from_bytes(query) else { return false };
    header.opcode() == QUERY && !matches!(qtype(query), Some(rtype::AXFR | rtype::IXFR))
}

/// The type of the first question; `None` if it cannot be read.
fn qtype(query: &[u8]) -> Option<u16> {
    let mut rest = query.get(HEADER_BYTES..)?;
    loop {
        let (&length, after) = rest.split_first()?;
        match usize::from(length) {
            0 => {
                let (qtype, _) = after.split_first_chunk::<2>()?;
                return Some(u16::from_be_bytes(*qtype));
            }
            label => rest = after.get(label..)?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_may_be_replayed_and_updates_and_transfers_may_not() {
        let query = |flags: u8, qtype: u8| {
            let mut message = vec![0, 0, flags, 0, 0, 1, 0, 0, 0, 0, 0, 0];
            message.extend(b"\x04test\x00\x00");
            message.extend([qtype, 0, 1]);
            message
        };
        assert!(may_be_replayed(&query(0x01, 1)));
        for (flags, qtype) in [(0, 251), (0, 252), (0x20, 1), (0x28, 6)] {
            assert!(!may_be_replayed(&query(flags, qtype)), "{flags} {qtype}");
        }
        assert!(!may_be_replayed(&[0; 11]));
        assert!(may_be_replayed(&[0; 12]), "it asks nothing");
    }
}
