//! The devices that carry the way to this host: that of the default route, and that of the SSH connection. What takes
//! their link down may cut the user off.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::setting::Change;

/// The way to this host goes over a device whose link a change takes down.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{change} takes down the link of {device}, which carries {way}: it needs --confirm-within, which undoes it unless \
     you answer in time"
)]
pub struct TakesLinkDown {
    /// The change.
    pub change: Change,
    /// The device.
    pub device: String,
    /// What the device carries.
    pub way: String,
}

/// Refuses changes that take down the link of a device that carries the way here.
pub fn check(changes: &[Change]) -> Result<(), TakesLinkDown> {
    let carriers = carriers();
    for change in changes.iter().filter(|change| change.setting.takes_link_down()) {
        let device = change.setting.device().unwrap_or_default();
        if let Some(way) = carriers.get(device) {
            return Err(TakesLinkDown { change: change.clone(), device: device.into(), way: way.clone() });
        }
    }
    Ok(())
}

/// Device → what it carries. Devices below another, as those of a bond, carry the same.
pub fn carriers() -> BTreeMap<String, String> {
    let read = |file: &str| fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap_or_default();
    let routes = Routes { v4: routes_v4(&read("route")), v6: routes_v6(&read("ipv6_route")) };
    let client = std::env::var("SSH_CONNECTION").ok().and_then(|words| client_of(&words));
    let mut found = routes.carriers(client);
    let mut to_see: Vec<(String, String)> = found.clone().into_iter().collect();
    while let Some((device, way)) = to_see.pop() {
        for entry in fs::read_dir(format!("/sys/class/net/{device}")).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let Some(lower) = name.to_str().and_then(|name| name.strip_prefix("lower_")) else { continue };
            if found.insert(lower.to_owned(), way.clone()).is_none() {
                to_see.push((lower.to_owned(), way.clone()));
            }
        }
    }
    found
}

/// The address of the other end of an SSH connection: the first word of `SSH_CONNECTION` (ssh(1)).
fn client_of(words: &str) -> Option<IpAddr> {
    let address = words.split_whitespace().next()?;
    address.split('%').next()?.parse().ok()
}

/// A way to a network.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Way<A> {
    device: String,
    network: A,
    bits: u32,
}

struct Routes {
    v4: Vec<Way<Ipv4Addr>>,
    v6: Vec<Way<Ipv6Addr>>,
}

impl Routes {
    fn carriers(&self, client: Option<IpAddr>) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        let of_v4 = self.v4.iter().filter(|way| way.bits == 0).map(|way| &way.device);
        let of_v6 = self.v6.iter().filter(|way| way.bits == 0).map(|way| &way.device);
        for device in of_v4.chain(of_v6) {
            found.insert(device.clone(), "the default route".to_owned());
        }
        if let Some(device) = client.and_then(|client| self.device_to(client)) {
            found.insert(device, "your SSH connection".to_owned());
        }
        found
    }

    /// The device of the most special route to an address.
    fn device_to(&self, address: IpAddr) -> Option<String> {
        let within = |one: u128, other: u128, bits: u32, all: u32| {
            let rest = all - bits;
            one.checked_shr(rest).unwrap_or(0) == other.checked_shr(rest).unwrap_or(0)
        };
        match address {
            IpAddr::V4(address) => {
                let address = u128::from(address.to_bits());
                let is_way =
                    |way: &&Way<Ipv4Addr>| within(address, way.network.to_bits().into(), way.bits, 32);
                let way = self.v4.iter().filter(is_way).max_by_key(|way| way.bits)?;
                Some(way.device.clone())
            }
            IpAddr::V6(address) => {
                let address = address.to_bits();
                let is_way = |way: &&Way<Ipv6Addr>| within(address, way.network.to_bits(), way.bits, 128);
                let way = self.v6.iter().filter(is_way).max_by_key(|way| way.bits)?;
                Some(way.device.clone())
            }
        }
    }
}

/// Parses `/proc/net/route` (`proc_net_route)`: a heading, then device, network, gateway, flags, three counts and the
/// mask. Addresses are hexadecimal numbers in the byte order of the network, read as numbers of this machine.
fn routes_v4(text: &str) -> Vec<Way<Ipv4Addr>> {
    let way = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let address = |word: &str| Some(Ipv4Addr::from(u32::from_str_radix(word, 16).ok()?.to_ne_bytes()));
        let mask = address(words.get(7)?)?;
        let (device, network) = ((*words.first()?).to_owned(), address(words.get(1)?)?);
        Some(Way { device, network, bits: mask.to_bits().leading_ones() })
    };
    text.lines().skip(1).filter_map(way).collect()
}

/// The route leads nowhere (`RTF_REJECT`).
const REJECT: u32 = 0x0200;

/// The address is one of this host's (`RTF_LOCAL`).
const LOCAL: u32 = 0x8000_0000;

/// Parses `/proc/net/ipv6_route`: network, its bits, source, its bits, next hop, metric, two counts, flags and device;
/// numbers are hexadecimal.
fn routes_v6(text: &str) -> Vec<Way<Ipv6Addr>> {
    let way = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| u32::from_str_radix(words.get(at)?, 16).ok();
        let network = Ipv6Addr::from(u128::from_str_radix(words.first()?, 16).ok()?);
        let leads = number(8)? & (REJECT | LOCAL) == 0;
        let device = (*words.get(9)?).to_owned();
        leads.then_some(Way { device, network, bits: number(1)? })
    };
    text.lines().filter_map(way).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const V4: &str = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
                      eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
                      eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n\
                      eth1\t000012C6\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n";

    /// A line of `/proc/net/ipv6_route`.
    fn line(network: &str, bits: &str, flags: &str, device: &str) -> String {
        let zero = "0".repeat(32);
        format!("{network:0<32} {bits} {zero} 00 {zero} 00000400 00000001 00000000 {flags} {device}\n")
    }

    #[test]
    fn the_default_route_and_the_connection_have_devices() {
        let v6 = [
            line("20010db8", "20", "00000001", "eth1"),
            line("", "00", "00000003", "eth2"),
            line("", "00", "00200200", "lo"),
        ];
        let routes = Routes { v4: routes_v4(V4), v6: routes_v6(&v6.concat()) };
        let of = |client: Option<&str>| routes.carriers(client.and_then(client_of));
        let defaults: BTreeMap<String, String> =
            ["eth0", "eth2"].map(|device| (device.to_owned(), "the default route".to_owned())).into();
        assert_eq!(of(None), defaults);
        let over_eth1 = of(Some("198.18.0.7 50000 198.18.0.2 22"));
        assert_eq!(over_eth1["eth1"], "your SSH connection");
        assert_eq!(of(Some("2001:db8::7 50000 2001:db8::2 22"))["eth1"], "your SSH connection");
        assert_eq!(of(Some("203.0.113.9 1 192.0.2.1 22"))["eth0"], "your SSH connection");
        assert_eq!(of(Some("fe80::1%eth0 1 fe80::2 22"))["eth2"], "your SSH connection");
        assert!(!over_eth1.contains_key("lo"));
    }

    #[test]
    fn only_what_takes_the_link_down_is_refused() {
        let device = carriers().into_keys().next().unwrap_or_else(|| "eth0".into());
        let change = |text: String| text.parse::<Change>().unwrap();
        assert_eq!(
            check(&[change(format!("rps.{device}=0")), change(format!("coalesce.{device}=9"))]),
            Ok(())
        );
        let rings = [change(format!("rings.{device}=9"))];
        assert_eq!(check(&rings).is_err(), carriers().contains_key(&device));
    }
}
