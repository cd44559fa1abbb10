//! The positions of names in the data of records: names that may be compressed, and names whose addresses the
//! client will need next.

use kqps_message::rtype;

const MD: u16 = 3;
const MF: u16 = 4;
const MB: u16 = 7;
const MG: u16 = 8;
const MR: u16 = 9;
const MINFO: u16 = 14;
const AFSDB: u16 = 18;
const RT: u16 = 21;
const KX: u16 = 36;

/// The position and the number of names in the data that may be compressed. Only the types of RFC 1035 have such
/// names (RFC 3597, section 4), since every client knows these types.
#[inline]
pub(crate) fn compressible(rtype: u16) -> Option<(usize, usize)> {
    match rtype {
        rtype::NS | MD | MF | rtype::CNAME | MB | MG | MR | rtype::PTR => Some((0, 1)),
        rtype::SOA | MINFO => Some((0, 2)),
        rtype::MX => Some((2, 1)),
        _ => None,
    }
}

/// Where the data of this type has the name of a host whose addresses belong in the additional section, in bytes: RFC
/// 1035, section 3.3; RFC 1183; RFC 2230; RFC 2782; RFC 9460, section 4.1.
#[inline]
pub(crate) fn host(rtype: u16) -> Option<usize> {
    match rtype {
        rtype::NS | MB => Some(0),
        rtype::MX | AFSDB | RT | KX | rtype::SVCB | rtype::HTTPS => Some(2),
        rtype::SRV => Some(6),
        _ => None,
    }
}

/// Whether this is a type of service bindings.
#[inline]
pub(crate) fn is_service(rtype: u16) -> bool {
    matches!(rtype, rtype::SVCB | rtype::HTTPS)
}
