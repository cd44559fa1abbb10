//! The devices that carry the way to this host: those of default routes, and those of SSH connections. What takes their
//! link down may cut the user off.

mod clients;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;

use kqps_kernel::ethtool;
use kqps_kernel::namespace::routes::{self, Route};

use crate::own_sys;
use crate::setting::{Change, Setting};
use clients::Client;

/// The way to this host goes over a device whose link a change takes down.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{change} takes down the link of {device}, which carries {way}")]
pub struct TakesLinkDown {
    /// The change.
    pub change: Change,
    /// The device.
    pub device: String,
    /// The route or connection that the device carries.
    pub way: String,
}

/// Drivers that begin anew with a device for other delays of interrupts, if they join packets (LRO).
const RESET_BY_DELAYS: [&str; 2] = ["ixgbe", "ixgbevf"];

/// Refuses changes that take down the link of a device that carries the way here, or that may carry it if routes and
/// connections cannot be read.
pub fn check(changes: &[Change]) -> Result<(), TakesLinkDown> {
    let driver = |device: &str| ethtool::driver_info(device).ok().flatten().map(|info| info.name);
    let taking: Vec<&Change> =
        changes.iter().filter(|change| takes_link_down(&change.setting, &driver)).collect();
    if taking.is_empty() { Ok(()) } else { refused(&taking, &carriers()) }
}

fn takes_link_down(setting: &Setting, driver: &dyn Fn(&str) -> Option<String>) -> bool {
    let is_reset = |device: &str| driver(device).is_some_and(|name| RESET_BY_DELAYS.contains(&name.as_str()));
    setting.takes_link_down() || matches!(setting, Setting::Coalesce { device } if is_reset(device))
}

fn refused(taking: &[&Change], carriers: &io::Result<BTreeMap<String, String>>) -> Result<(), TakesLinkDown> {
    for change in taking {
        let device = change.setting.device().unwrap_or_default();
        let way = match carriers {
            Ok(carriers) => carriers.get(device).cloned(),
            Err(error) => Some(format!("the way here, as far as is known (routes or connections: {error})")),
        };
        if let Some(way) = way {
            return Err(TakesLinkDown { change: (*change).clone(), device: device.into(), way });
        }
    }
    Ok(())
}

/// Device → what it carries. Devices below another, as those of a bond, carry the same.
fn carriers() -> io::Result<BTreeMap<String, String>> {
    let found = of_routes(&routes::all()?, &clients::all()?);
    own_sys::within(|| Ok(with_lower(found)))
}

/// The devices of default routes and of routes to clients, in any table: rules decide which table a packet looks into.
/// Of routes to one network each counts, as packets may take any.
fn of_routes(routes: &[Route], clients: &[Client]) -> BTreeMap<String, String> {
    let defaults = routes.iter().filter(|route| route.bits == 0);
    let mut found: BTreeMap<String, String> =
        defaults.map(|route| (route.device.clone(), "the default route".to_owned())).collect();
    let tables: BTreeSet<u32> = routes.iter().map(|route| route.table).collect();
    for client in clients {
        let mut devices: Vec<String> = client.zone.iter().cloned().collect();
        for table in tables.iter().filter(|_| client.zone.is_none()) {
            let is_way = |route: &&Route| route.table == *table && route.has(client.address);
            let most = routes.iter().filter(is_way).map(|route| route.bits).max();
            let ways = routes.iter().filter(is_way).filter(|route| Some(route.bits) == most);
            devices.extend(ways.map(|route| route.device.clone()));
        }
        found.extend(devices.into_iter().map(|device| (device, "your SSH connection".to_owned())));
    }
    found
}

fn with_lower(mut found: BTreeMap<String, String>) -> BTreeMap<String, String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn route(device: &str, network: &str, table: u32) -> Route {
        let (address, bits) = network.split_once('/').unwrap();
        Route { device: device.into(), network: address.parse().unwrap(), bits: bits.parse().unwrap(), table }
    }

    fn devices(routes: &[Route], client: &str) -> Vec<String> {
        let client = Client::of_connection(client).unwrap();
        let found = of_routes(routes, &[client]);
        found.into_iter().filter(|(_, way)| way == "your SSH connection").map(|(device, _)| device).collect()
    }

    #[test]
    fn the_default_route_and_the_connection_have_devices() {
        let routes = [
            route("eth0", "0.0.0.0/0", 254),
            route("eth0", "192.0.2.0/24", 254),
            route("eth1", "198.18.0.0/16", 254),
            route("eth1", "2001:db8::/32", 254),
            route("eth2", "::/0", 254),
            route("eth0", "fe80::/64", 254),
            route("eth2", "fe80::/64", 254),
        ];
        let defaults = of_routes(&routes, &[]);
        assert_eq!(defaults.into_keys().collect::<Vec<_>>(), ["eth0", "eth2"]);
        assert_eq!(devices(&routes, "198.18.0.7 50000 198.18.0.2 22"), ["eth1"]);
        assert_eq!(devices(&routes, "2001:db8::7 50000 2001:db8::2 22"), ["eth1"]);
        assert_eq!(devices(&routes, "203.0.113.9 1 192.0.2.1 22"), ["eth0"]);
        assert_eq!(devices(&routes, "fe80::1%eth0 1 fe80::2%eth0 22"), ["eth0"]);
        assert_eq!(devices(&routes, "fe80::1 1 fe80::2 22"), ["eth0", "eth2"], "it may be either");
    }

    #[test]
    fn every_table_counts_and_every_device_of_a_route() {
        let routes = [
            route("eth0", "0.0.0.0/0", 254),
            route("eth1", "0.0.0.0/0", 100),
            route("eth2", "203.0.113.0/24", 100),
            route("eth3", "203.0.113.0/24", 100),
            route("eth4", "203.0.0.0/16", 100),
        ];
        assert_eq!(of_routes(&routes, &[]).into_keys().collect::<Vec<_>>(), ["eth0", "eth1"]);
        assert_eq!(devices(&routes, "203.0.113.9 1 192.0.2.1 22"), ["eth0", "eth2", "eth3"]);
    }

    #[test]
    fn what_takes_the_link_down_is_refused_on_the_way_here_and_if_that_is_unknown() {
        let change = |word: &str| word.parse::<Change>().unwrap();
        let driver = |device: &str| Some(if device == "eth7" { "ixgbe" } else { "ice" }.to_owned());
        let takes = |word: &str| takes_link_down(&change(word).setting, &driver);
        for word in ["channels.eth0=2", "rings.eth0=9", "feature.eth0.lro=off", "coalesce.eth7=9"] {
            assert!(takes(word), "{word}");
        }
        for word in ["rps.eth0=0", "coalesce.eth0=9", "feature.eth0.gro=off", "governor=performance"] {
            assert!(!takes(word), "{word}");
        }
        let carriers = Ok(BTreeMap::from([("eth0".to_owned(), "the default route".to_owned())]));
        let (rings, others) = (change("rings.eth0=9"), change("rings.eth1=9"));
        let error = refused(&[&others, &rings], &carriers).unwrap_err();
        assert_eq!((&error.change, error.way.as_str()), (&rings, "the default route"));
        let words = "takes down the link of eth0, which carries the default route";
        assert_eq!(error.to_string(), format!("{rings} {words}"), "not every command has a flag for it");
        assert_eq!(refused(&[&others], &carriers), Ok(()));
        let unknown = Err(io::Error::from(io::ErrorKind::PermissionDenied));
        assert!(refused(&[&others], &unknown).unwrap_err().to_string().contains("as far as is known"));
        assert!(super::carriers().is_ok(), "this host's routes and connections can be read");
    }
}
