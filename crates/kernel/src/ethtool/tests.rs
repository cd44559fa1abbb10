//! Settings of real devices: loopback, which has hardly any, and the ends of a veth pair.

use std::io;

use kqps_skips::{Capability, skip};

use super::*;
use crate::namespace::veth::{DEVICE, VethSettings};
use crate::namespace::{self, NetNs};

/// Two namespaces joined by devices with two queues, if this process may create them.
fn joined() -> Option<(NetNs, NetNs)> {
    namespace::joined::joined(&VethSettings { queues: Some(2), ..VethSettings::default() })
}

#[test]
fn a_device_without_hardware_lacks_most_settings() {
    assert_eq!(channels("lo").unwrap(), None);
    assert_eq!(rings("lo").unwrap(), None);
    assert_eq!(coalesce("lo").unwrap(), None);
    assert_eq!(spreading("lo").unwrap(), None);
    assert_eq!(hash_fields("lo", Flow::Udp4).unwrap(), None);
    assert_eq!(permanent_mac("lo").unwrap(), None);
}

#[test]
fn an_unknown_device_is_an_error() {
    let lacks = |error: io::Error| error.raw_os_error() == Some(libc::ENODEV);
    for name in ["none", "", "a-name-of-16-byte", "lo\0"] {
        assert!(lacks(channels(name).unwrap_err()), "{name:?}");
        assert!(lacks(features(name).unwrap_err()), "{name:?}");
        assert!(lacks(driver_info(name).unwrap_err()), "{name:?}");
    }
}

#[test]
fn the_kernels_features_have_names() {
    let features = features("lo").unwrap();
    assert_eq!(features["vlan-challenged"], Feature { on: true, changeable: false });
    for name in ["gro", "gso", "lro", "tso"] {
        assert!(features.contains_key(kernel_name(name)), "{name} in {features:?}");
    }
}

#[test]
fn the_features_of_a_veth_device_can_be_switched() {
    let Some((one, _other)) = joined() else { return };
    let is_on = || one.within(|| features(DEVICE)).unwrap()["rx-gro"].on;
    for on in [true, false, true] {
        one.within(|| set_feature(DEVICE, "gro", on)).unwrap();
        assert_eq!(is_on(), on);
    }
    let unknown = one.within(|| set_feature(DEVICE, "no-such-thing", true)).unwrap_err();
    assert_eq!(unknown.to_string(), "this kernel knows no feature `no-such-thing`");
    assert!(one.within(|| set_feature("lo", "vlan-challenged", false)).is_err());
}

#[test]
fn the_queues_of_a_veth_device_can_be_set() {
    let Some((one, _other)) = joined() else { return };
    let counts = || one.within(|| channels(DEVICE)).unwrap().map(|channels| (channels.rx, channels.tx));
    let Some(found) = one.within(|| channels(DEVICE)).unwrap() else {
        skip(Capability::Networks, "this kernel's veth does not report its queues");
        return;
    };
    assert_eq!((found.rx, found.tx, found.rx_max, found.tx_max), (2, 2, 2, 2));
    assert_eq!(found.receiving(), 2);
    match one.within(|| set_channels(DEVICE, &Channels { rx: 1, ..found })) {
        Ok(()) => assert_eq!(counts(), Some((1, 2))),
        Err(error) => skip(Capability::Networks, format!("this kernel's veth keeps its queues: {error}")),
    }
    assert!(one.within(|| set_channels(DEVICE, &Channels { rx: 3, ..found })).is_err());
}

#[test]
fn a_setting_that_a_driver_lacks_cannot_be_set() {
    let Some((one, _other)) = joined() else { return };
    let refused = [
        one.within(|| set_rings("lo", 64, 64)),
        one.within(|| set_coalesce("lo", &Coalesce::default())),
        one.within(|| set_spreading("lo", &[0])),
        one.within(|| set_hash_fields("lo", Flow::Udp6, "sdfn".parse().unwrap())),
    ];
    for outcome in refused {
        assert_eq!(outcome.unwrap_err().raw_os_error(), Some(libc::EOPNOTSUPP));
    }
}

#[test]
fn a_veth_device_has_a_driver_and_no_bus() {
    let Some((one, _other)) = joined() else { return };
    let info = one.within(|| driver_info(DEVICE)).unwrap().unwrap();
    assert_eq!((info.name.as_str(), info.bus), ("veth", None));
    assert_eq!(one.within(|| permanent_mac(DEVICE)).unwrap(), None);
}
