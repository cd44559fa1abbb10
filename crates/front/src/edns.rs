//! EDNS between a client and the front (RFC 6891), which is negotiated per hop: reading the OPT record of a query,
//! and writing that of the front's own replies. The front supports version 0.

use kqps_message::edns::{DO, OPT_BYTES, UDP_PAYLOAD_BYTES, are_options, opt_record};
use kqps_message::header::HEADER_BYTES;
use kqps_message::{Header, rcode, record, rtype};

/// The result of looking for EDNS in the records of a query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct EdnsSeen {
    /// The first OPT record, in any section.
    pub(super) opt: Option<Opt>,
    /// A record cannot be read, or the OPT record is invalid. There may be one OPT record, owned by the root, in the
    /// additional section (section 6.1.1), and its options must be whole.
    is_malformed: bool,
}

/// The fields of an OPT record that the front uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Opt {
    version: u8,
    dnssec_ok: bool,
}

/// Reads the records of a query, which begin at `at`.
pub(super) fn see(query: &[u8], mut at: usize) -> EdnsSeen {
    let mut seen = EdnsSeen::default();
    let Some(header) = Header::from_bytes(query) else { return seen };
    let before = u32::from(header.answers()) + u32::from(header.authorities());
    for number in 0..before + u32::from(header.additionals()) {
        let Some(record) = record::read(query, at) else {
            seen.is_malformed = true;
            break;
        };
        if record.rtype == rtype::OPT {
            let [_, version, ..] = record.ttl_s.to_be_bytes();
            let opt = Opt { version, dnssec_ok: record.ttl_s & DO != 0 };
            let is_in_place = number >= before && query[at] == 0 && seen.opt.is_none();
            // The format of options in other versions is unknown.
            let is_whole = opt.version > 0 || are_options(record.data);
            seen.is_malformed |= !is_in_place || !is_whole;
            seen.opt.get_or_insert(opt);
        }
        at = record.end;
    }
    seen
}

/// The rcode with which the front refuses a query, whose records begin at `at`. The front answers other versions
/// itself (section 6.1.3): it cannot know what the rest of such an OPT record means, and the answer must not depend
/// on which back ends are up.
#[inline]
pub(super) fn objection(query: &[u8], at: usize) -> Option<u16> {
    if query[6..HEADER_BYTES] == [0; 6] {
        return None;
    }
    let seen = see(query, at);
    let is_other_version = seen.opt.is_some_and(|opt| opt.version > 0);
    if seen.is_malformed {
        return Some(rcode::FORMERR);
    }
    is_other_version.then_some(rcode::BADVERS)
}

/// The OPT record of the front's own reply: no options, and DO as in the query (RFC 3225, section 3).
pub(super) fn own(opt: Opt, rcode: u16) -> [u8; OPT_BYTES] {
    opt_record(UDP_PAYLOAD_BYTES, rcode, opt.dnssec_ok)
}

/// The OPT record of a reply that the front truncated. Size and rcode are those of the back end's OPT record, if
/// there is one.
pub(super) fn of_cut(opt: Opt, back_ends: Option<record::Record<'_>>) -> [u8; OPT_BYTES] {
    match back_ends {
        Some(said) => {
            let [upper_bits, ..] = said.ttl_s.to_be_bytes();
            opt_record(said.class, u16::from(upper_bits) << 4, opt.dnssec_ok)
        }
        None => own(opt, rcode::NOERROR),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `a. A IN` with these record counts, followed by these records.
    fn query(counts: [u8; 3], records: &[&[u8]]) -> Vec<u8> {
        let [answers, authorities, additionals] = counts;
        let head = [0, 1, 0, 0, 0, 1, 0, answers, 0, authorities, 0, additionals];
        [&head, &b"\x01a\0\0\x01\0\x01"[..], &records.concat()].concat()
    }

    fn objected(counts: [u8; 3], records: &[&[u8]]) -> Option<u16> {
        objection(&query(counts, records), 19)
    }

    const OPT: &[u8] = b"\0\0\x29\x04\xd0\0\0\0\0\0\0";
    const VERSION_1: &[u8] = b"\0\0\x29\x04\xd0\0\x01\x80\0\0\0";
    const A: &[u8] = b"\xc0\x0c\0\x01\0\x01\0\0\0\0\0\x04\x7f\0\0\x01";

    #[test]
    fn a_query_has_at_most_one_opt_record_of_the_root_and_of_version_0() {
        let (formerr, badvers) = (Some(1), Some(16));
        let cookie = b"\0\0\x29\x04\xd0\0\0\0\0\0\x0c\0\x0a\0\x0812345678";
        for (counts, records, expected) in [
            ([0, 0, 0], &[][..], None),
            ([0, 0, 1], &[OPT], None),
            ([0, 0, 1], &[cookie], None),
            ([0, 0, 2], &[A, OPT], None),
            ([0, 0, 2], &[OPT, A], None),
            ([1, 1, 1], &[A, A, OPT], None),
            // Bytes behind the counted records are ignored.
            ([0, 0, 0], &[OPT, OPT], None),
            ([0, 0, 1], &[VERSION_1], badvers),
            // The data of another version is ignored.
            ([0, 0, 1], &[b"\0\0\x29\x04\xd0\0\x02\0\0\0\x01x"], badvers),
            ([0, 0, 2], &[OPT, OPT], formerr),
            ([0, 0, 2], &[VERSION_1, OPT], formerr),
            ([0, 1, 1], &[OPT, A], formerr),
            ([1, 0, 0], &[OPT], formerr),
            ([0, 0, 1], &[b"\x01a", OPT], formerr),
            ([0, 0, 1], &[b"\xc0\x0e", &OPT[1..]], formerr),
            // Options that are cut off, and an option that is longer than the data.
            ([0, 0, 1], &[b"\0\0\x29\x04\xd0\0\0\0\0\0\x03\0\x0a\0"], formerr),
            ([0, 0, 1], &[b"\0\0\x29\x04\xd0\0\0\0\0\0\x05\0\x0a\0\x02x"], formerr),
            // Counts of more records than there are.
            ([0, 0, 1], &[], formerr),
            ([0, 0, 1], &[&OPT[..10]], formerr),
            ([255, 255, 255], &[A, OPT], formerr),
        ] {
            assert_eq!(objected(counts, records), expected, "{counts:?} {records:x?}");
        }
    }

    #[test]
    fn an_own_opt_record_has_the_bytes_of_rfc_6891() {
        let opt = |dnssec_ok| Opt { version: 3, dnssec_ok };
        assert_eq!(own(opt(false), rcode::SERVFAIL), *b"\0\0\x29\x04\xd0\0\0\0\0\0\0");
        assert_eq!(own(opt(true), rcode::BADVERS), *b"\0\0\x29\x04\xd0\x01\0\x80\0\0\0");
    }

    #[test]
    fn a_cut_reply_keeps_the_back_ends_size_and_rcode() {
        let asked = Opt { version: 0, dnssec_ok: true };
        // 512 bytes, the upper bits 2, version 5, all flags but DO, an option.
        let said = b"\0\0\x29\x02\0\x02\x05\x7f\xff\0\x04\0\x03\0\0";
        let message = query([0, 0, 1], &[said]);
        let record = record::read(&message, 19).unwrap();
        assert_eq!(of_cut(asked, Some(record)), *b"\0\0\x29\x02\0\x02\0\x80\0\0\0");
        assert_eq!(of_cut(asked, None), *b"\0\0\x29\x04\xd0\0\0\x80\0\0\0");
    }
}
