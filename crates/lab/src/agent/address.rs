//! The address of this host that the hosts' file names.

use std::net::IpAddr;

use kqps_kernel::local_address::is_local;

use super::failure::{Failure, plain};

/// Fails if no interface of this host has the address.
pub(super) fn check(address: IpAddr) -> Result<(), Failure> {
    if is_local((address, 0).into()) {
        return Ok(());
    }
    Err(plain(format!(
        "this host has no address {address}: the hosts' file must name one of its own as `data`"
    )))
}
