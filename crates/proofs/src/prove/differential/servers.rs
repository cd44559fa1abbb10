//! The compared servers, started as the lab starts them, with their defaults.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, bail, ensure};
use kqps_skips::{Capability, skip};
use kqps_testbed::subject::{StartError, Subject, Zone, builtin};

use super::super::{Bench, Size};
use super::query::Query;

/// The peers, by the names of their files under `subjects`.
const PEERS: [&str; 3] = ["nsd", "knot", "bind"];

const OURS: &str = "kqps-auth";

const IO: &str = "mmsg";

/// A server that answers. Dropping it ends it.
pub(super) struct Server {
    pub(super) title: String,
    pub(super) is_ours: bool,
    subject: Subject,
}

impl Server {
    pub(super) fn address(&self) -> SocketAddr {
        self.subject.address()
    }

    /// An error if the server has ended, with these queries as the likely cause.
    pub(super) fn check(&mut self, queries: &[Query]) -> Result<()> {
        let Some((how, output)) = self.subject.ended() else { return Ok(()) };
        let (first, last) = (queries.first(), queries.last());
        let index = |query: Option<&Query>| query.map_or(0, |query| query.index);
        bail!("{how} between queries {} and {}:\n{}", index(first), index(last), output.join("\n"))
    }
}

/// Starts the peers, and our server last. A server that is not installed is an error, unless a small proof
/// has another peer.
pub(super) fn start(bench: &Bench, zones: &[Zone]) -> Result<Vec<Server>> {
    let known = builtin::servers();
    let mut servers = Vec::new();
    for name in PEERS.into_iter().chain([OURS]) {
        let definition = known.iter().find(|definition| definition.name == name);
        let definition = definition.with_context(|| format!("there is no subject {name}"))?;
        match bench.subject(definition, name, zones, IO, &[]) {
            Ok(subject) => {
                servers.push(Server { title: definition.title.clone(), is_ours: name == OURS, subject });
            }
            Err(missing @ StartError::Missing { .. }) if bench.size == Size::Small => {
                skip(Capability::Programs, format_args!("{}: {missing}", definition.title));
            }
            Err(error) => {
                let output = error.output().join("\n");
                return Err(error).with_context(|| format!("{} does not start\n{output}", definition.title));
            }
        }
    }
    ensure!(servers.iter().any(|server| !server.is_ours), "there is no peer to compare with");
    Ok(servers)
}
