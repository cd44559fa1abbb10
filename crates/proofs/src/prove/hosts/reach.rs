//! A link to a host of the lab, as kqps itself makes it.

use std::net::IpAddr;
use std::path::Path;

use anyhow::{Context as _, Result};
use kqps_fleet::{HelloFacts, Host, Link, Role};

use super::host::LabHost;
use super::lab::Lab;
use crate::identity::identity_of;

/// Opens a link by ssh to a host, on which this program is the agent. To be called in the controller's network.
pub(super) fn open(lab: &Lab, host: &LabHost, program: &Path) -> Result<Link> {
    let reached = Host {
        name: host.name.clone(),
        reach: lab.ssh(&host.name).split(' ').map(str::to_owned).collect(),
        kqps: program.display().to_string(),
        data: IpAddr::V4(host.data),
        sources: None,
        cores: None,
        device: None,
    };
    let hello = HelloFacts {
        role: Role::Player,
        name: host.name.clone(),
        targets: vec![IpAddr::V4(lab.server().data)],
    };
    Link::open(&reached, &identity_of(program)?, &hello).with_context(|| format!("the link to {}", host.name))
}
