//! The addresses and the interface of this host that the hosts' file names.

use std::fs;
use std::net::{IpAddr, UdpSocket};

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

/// Fails if this host cannot send from one of these addresses.
pub(super) fn check_sources(sources: &[IpAddr]) -> Result<(), Failure> {
    for source in sources {
        UdpSocket::bind((*source, 0)).map_err(|error| {
            plain(format!(
                "this host cannot send from {source} ({error}): the `sources` of the hosts' file must be its own, for \
                 which `ip route add local NETWORK dev lo` is enough"
            ))
        })?;
    }
    Ok(())
}

/// Fails if this host has no such interface.
pub(super) fn check_device(device: &str) -> Result<(), Failure> {
    // Unlike /sys, it shows the network namespace of this thread, in whatever namespace it was mounted.
    let table = fs::read_to_string("/proc/thread-self/net/dev").map_err(plain)?;
    let mut names = table.lines().filter_map(|line| Some(line.split_once(':')?.0.trim()));
    if names.any(|name| name == device) {
        return Ok(());
    }
    Err(plain(format!("this host has no interface `{device}`, which the hosts' file names as its `device`")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_this_host_has_is_accepted() {
        let of = |addresses: &[&str]| {
            let addresses: Vec<IpAddr> = addresses.iter().map(|text| text.parse().unwrap()).collect();
            check_sources(&addresses).map_err(|(reason, _)| reason)
        };
        assert_eq!((of(&[]), of(&["127.0.0.1", "127.0.0.9"])), (Ok(()), Ok(())));
        let reason = of(&["127.0.0.1", "192.0.2.1"]).unwrap_err();
        assert!(reason.starts_with("this host cannot send from 192.0.2.1 ("), "{reason}");
        assert!(check_device("lo").is_ok());
        for device in ["none0", "../net", "", "."] {
            assert!(check_device(device).is_err(), "{device}");
        }
    }
}
