//! The networks of the lab: bridges in namespaces of their own, to which hosts are connected by veth pairs. The kernel
//! removes all of it with the descriptors and processes that hold it, so a killed proof leaves no device.

use std::fs;
use std::io::{self, ErrorKind};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd as _, AsRawFd as _};

use anyhow::{Context as _, Result};
use kqps_kernel::namespace::NetNs;

use crate::path::run_in;

const BRIDGE: &str = "bridge0";

/// Queues of each device in each direction, so that there is something to tune.
const QUEUES: &str = "4";

/// The prefix length of every network here, bits.
const PREFIX: u8 = 24;

/// A bridge in a namespace of its own.
pub(super) struct Switch {
    namespace: NetNs,
    ports: u32,
}

/// The switch's end of a link. Taking it down is what pulling the cable is.
pub(super) struct Port(String);

impl Port {
    /// The name of the device, in the switch's namespace.
    pub(super) fn name(&self) -> &str {
        &self.0
    }
}

impl Switch {
    /// Its namespace.
    pub(super) fn namespace(&self) -> &NetNs {
        &self.namespace
    }

    pub(super) fn new() -> Result<Self> {
        let namespace = quiet_network()?;
        ip(&namespace, &["link", "add", "name", BRIDGE, "type", "bridge"])
            .context("no bridge can be made")?;
        ip(&namespace, &["link", "set", BRIDGE, "up"])?;
        Ok(Self { namespace, ports: 0 })
    }

    /// Links a namespace to the bridge by a device of this name and address there.
    pub(super) fn connect(&mut self, to: &NetNs, device: &str, address: Ipv4Addr) -> Result<Port> {
        let port = format!("port{}", self.ports);
        self.ports += 1;
        let there = format!("/proc/{}/fd/{}", std::process::id(), to.as_fd().as_raw_fd());
        let queues = ["numtxqueues", QUEUES, "numrxqueues", QUEUES];
        let mut add = vec!["link", "add", "name", &port];
        add.extend(queues);
        add.extend(["type", "veth", "peer", "name", device]);
        add.extend(queues);
        add.extend(["netns", &there]);
        ip(&self.namespace, &add)?;
        self.join(&port)?;
        ip(to, &["address", "add", &format!("{address}/{PREFIX}"), "dev", device])?;
        ip(to, &["link", "set", device, "up"])?;
        Ok(Port(port))
    }

    /// Puts a device of the switch's namespace on the bridge.
    pub(super) fn join(&self, device: &str) -> Result<()> {
        ip(&self.namespace, &["link", "set", device, "master", BRIDGE, "up"])
    }

    /// Takes a link down, or up again.
    pub(super) fn set(&self, port: &Port, up: bool) -> Result<()> {
        ip(&self.namespace, &["link", "set", &port.0, if up { "up" } else { "down" }])
    }
}

/// A namespace without IPv6, whose devices send nothing by themselves but ARP.
pub(super) fn quiet_network() -> Result<NetNs> {
    let namespace = NetNs::new().context("no network namespace can be made")?;
    namespace.within(|| {
        let off = |which: &str| fs::write(format!("/proc/sys/net/ipv6/conf/{which}/disable_ipv6"), "1");
        ["all", "default"].into_iter().try_for_each(|which| without_ipv6(off(which)))
    })?;
    Ok(namespace)
}

/// A kernel without IPv6 has no such file.
fn without_ipv6(outcome: io::Result<()>) -> io::Result<()> {
    match outcome {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Runs ip(8) in a namespace.
pub(super) fn ip(at: &NetNs, args: &[&str]) -> Result<()> {
    run_in(at, "ip", args).map(drop)
}
