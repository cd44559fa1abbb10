//! Where names stand in the data of records: those that may be compressed, and those that point to records an
//! asker will want next.

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

/// The names in data that may be compressed: behind how many bytes they stand, and how many there are. These are
/// the types of RFC 1035 and no others (RFC 3597, section 4), since everyone knows how to read them.
#[inline]
pub(crate) fn compressible(rtype: u16) -> Option<(usize, usize)> {
    match rtype {
        rtype::NS | MD | MF | rtype::CNAME | MB | MG | MR | rtype::PTR => Some((0, 1)),
        rtype::SOA | MINFO => Some((0, 2)),
        rtype::MX => Some((2, 1)),
        _ => None,
    }
}

/// Behind how many bytes of the data the name of a host stands whose addresses belong into the additional section:
/// RFC 1035, section 3.3; RFC 1183; RFC 2230; RFC 2782; RFC 9460, section 4.1.
#[inline]
pub(crate) fn host(rtype: u16) -> Option<usize> {
    match rtype {
        rtype::NS | MB => Some(0),
        rtype::MX | AFSDB | RT | KX | rtype::SVCB | rtype::HTTPS => Some(2),
        rtype::SRV => Some(6),
        _ => None,
    }
}

/// Whether these are data of a service binding.
#[inline]
pub(crate) fn is_service(rtype: u16) -> bool {
    matches!(rtype, rtype::SVCB | rtype::HTTPS)
}
