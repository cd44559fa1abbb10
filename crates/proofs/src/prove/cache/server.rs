//! A cache, started and stopped as a user would.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use kqps_ask::{Connection, Server};
use serde_json::Value;

use super::super::Bench;
use super::message;
use crate::child::{Running, status_kib};

/// How long a client waits for a reply.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

pub(super) struct Cache {
    running: Running,
    pub(super) address: SocketAddr,
}

impl Cache {
    /// Starts a cache with these servers (`--forward ADDR` or `--stub ZONE=ADDR`) and flags.
    pub(super) fn start(bench: &Bench, servers: &[String], flags: &[&str]) -> Result<Self> {
        let mut command = bench.kqps.serve("cache");
        command.args(["--listen", "127.0.0.1:0", "--for", "2h"]).args(flags);
        for server in servers {
            command.args([if server.contains('=') { "--stub" } else { "--forward" }, server.as_str()]);
        }
        let (running, address) = Running::server(&mut command)?;
        Ok(Self { running, address })
    }

    /// A socket of a client.
    pub(super) fn client(&self) -> Result<Connection> {
        Ok(Server::over_udp(self.address).connect(PATIENCE)?)
    }

    /// Memory of its process that is in RAM, in bytes.
    pub(super) fn resident_bytes(&self) -> Result<u64> {
        let kib = status_kib(self.running.pid(), "VmRSS");
        Ok(kib.context("the cache shows no resident memory")? * 1024)
    }

    /// Ends it. Returns its counts, of which each query has one.
    pub(super) fn stop(self) -> Result<Value> {
        let ended = self.running.terminate()?;
        ensure!(ended.code == Some(0), "the cache ended with {:?}", ended.code);
        let counts: Value = serde_json::from_str(ended.output.trim())
            .with_context(|| format!("on stop the cache said {:?}", ended.output))?;
        let sum = |value: &Value| -> u64 {
            value.as_object().map_or(0, |all| all.values().filter_map(Value::as_u64).sum())
        };
        let settled = count(&counts, "/answered") + sum(&counts["dropped"]);
        ensure!(count(&counts, "/received") == settled, "{settled} queries have a fate: {counts}");
        Ok(counts)
    }
}

/// A count by its place (RFC 6901); 0 if there is none.
pub(super) fn count(counts: &Value, place: &str) -> u64 {
    counts.pointer(place).and_then(Value::as_u64).unwrap_or(0)
}

/// Asks for the addresses of a name. Returns the rcode and the addresses.
pub(super) fn ask(client: &mut Connection, id: u16, name: &str) -> Result<(u8, Vec<[u8; 4]>)> {
    let query = message::query(id, name);
    let reply = client.ask(&query, PATIENCE).with_context(|| format!("no reply for {name}"))?;
    ensure!(reply.get(12..query.len()) == Some(&query[12..]), "another question was answered for {name}");
    Ok((reply[3] & 0x0f, message::addresses(&reply)))
}
