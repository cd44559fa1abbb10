//! Two namespaces joined by a veth pair, for tests.

use kqps_skips::{Capability, skip};

use super::NetNs;
use super::veth::{End, VethSettings, join};

/// Namespaces with the addresses 198.18.0.1 and 198.18.0.2, if this process may make them.
pub(crate) fn joined(settings: &VethSettings) -> Option<(NetNs, NetNs)> {
    if let Err(reason) = crate::probe::probe_one("veth") {
        skip(Capability::Networks, reason);
        return None;
    }
    let (one, other) = (NetNs::new().unwrap(), NetNs::new().unwrap());
    join(end(&one, 1), end(&other, 2), settings).unwrap();
    Some((one, other))
}

/// The end of the pair in a namespace, whose address ends in `last`.
pub(crate) fn end(namespace: &NetNs, last: u8) -> End<'_> {
    End { namespace, address: [198, 18, 0, last].into() }
}
