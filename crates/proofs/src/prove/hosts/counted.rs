//! Queries that the server received, by two counts that know no player: that of the server itself, which writes it to a
//! file at its end, and that of the packet filter on its host, by the sender's address and the port.

use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use kqps_kernel::namespace::NetNs;
use kqps_observation::Run;
use serde::Deserialize;
use serde_json::Value;

use super::super::ledger::network::nft;
use super::lab::Lab;
use super::subject::planted;
use super::void::VoidQueries;

/// A set whose elements are senders and ports, each with a counter.
const RULES: &str = "add table ip proof; \
    add set ip proof seen { type ipv4_addr . inet_service; flags dynamic; size 65535; }; \
    add chain ip proof first { type filter hook prerouting priority -300; }; \
    add rule ip proof first meta l4proto udp update @seen { ip saddr . udp dport counter }";

/// A start of the server, as it describes it.
#[derive(Clone, Copy, Debug)]
struct Start {
    port: u16,
    received: u64,
}

#[derive(Deserialize)]
struct Line {
    #[serde(default)]
    addresses: Vec<SocketAddr>,
    received: Option<u64>,
}

/// The file of the server's counts, on its host.
pub(super) fn file(lab: &Lab) -> PathBuf {
    lab.server().home.join("counts")
}

/// An echo that appends its lines of JSON to a file, by which it says where it listens and what it counted.
pub(super) fn subject(file: &Path) -> String {
    let script = format!("exec \"$@\" >>'{}'", file.display());
    let echo = "{kqps} serve echo --listen {endpoint} --io mmsg --cpus={cpus} --json";
    let command: Vec<&str> = ["sh", "-c", &script, "sh"].into_iter().chain(echo.split(' ')).collect();
    planted("counted", "mmsg", &command)
}

/// Starts to count datagrams that reach a host.
pub(super) fn begin(at: &NetNs) -> Result<()> {
    nft(at, &[RULES]).map(drop)
}

/// Compares both counts with the run's records and with its void trials, which have none. Returns the queries of players
/// that all three counted.
pub(super) fn compare(lab: &Lab, run: &Run, void: &VoidQueries) -> Result<u64> {
    let seen = seen(&lab.server().network)?;
    let mut of_players = 0;
    for player in lab.players() {
        let of_host = |(from, _): &(Ipv4Addr, u16)| *from == player.data;
        let arrived: u64 = seen.iter().filter(|(key, _)| of_host(key)).map(|(_, count)| count).sum();
        let trials = run.trials.iter().filter_map(|one| one.measured());
        let parts = trials.flat_map(|trial| &trial.parts).filter(|part| part.host == player.name);
        let sent: u64 = parts.map(|part| part.accounts.sent).sum();
        ensure!(sent > 0, "{} sent nothing", player.name);
        let in_void = void.get(&player.name).copied().unwrap_or(0);
        ensure!(
            sent + in_void == arrived,
            "{} accounts for {sent} queries, and for {in_void} in void trials, and {arrived} datagrams of it reached \
             the server",
            player.name
        );
        of_players += arrived;
    }
    let file = lab.server().path(&file(lab));
    let starts = starts(&fs::read_to_string(&file).context("the server left no counts")?)?;
    ensure!(!starts.is_empty(), "the server was never started");
    for start in &starts {
        let by = |is_counted: &dyn Fn(&Ipv4Addr) -> bool| -> u64 {
            let counted = seen.iter().filter(|((from, port), _)| *port == start.port && is_counted(from));
            counted.map(|(_, count)| count).sum()
        };
        let is_player = |from: &Ipv4Addr| lab.players().iter().any(|player| player.data == *from);
        let (asked, probed) = (by(&is_player), by(&|from| !is_player(from)));
        // The host itself asks until the server answers. What it asked before the server listened was not received.
        let answered = start.received.saturating_sub(asked);
        ensure!(
            (1..=probed).contains(&answered),
            "the server at port {} received {} queries: {asked} datagrams came from players, and {probed} probes",
            start.port,
            start.received
        );
    }
    eprintln!(
        "{of_players} queries of {} players, {} of them in void trials: each player's account equals what the filter \
         counted from it, and the server's own count that and the probes that it answered, at each of its {} starts",
        lab.players().len(),
        void.values().sum::<u64>(),
        starts.len()
    );
    Ok(of_players)
}

/// The starts of the server, from its lines: where it listens, and after each its counts.
fn starts(text: &str) -> Result<Vec<Start>> {
    let mut found: Vec<Start> = Vec::new();
    let mut port = None;
    for line in text.lines() {
        let read: Line = serde_json::from_str(line).with_context(|| format!("the server wrote {line:?}"))?;
        match (read.addresses.first(), read.received, port) {
            (Some(address), _, _) => port = Some(address.port()),
            (None, Some(received), Some(of)) => {
                ensure!(!found.iter().any(|start| start.port == of), "the port {of} was used twice");
                found.push(Start { port: of, received });
                port = None;
            }
            _ => ensure!(read.received.is_none(), "counts of a server that never listened: {line}"),
        }
    }
    Ok(found)
}

/// Datagrams that came so far, by sender and port.
fn seen(at: &NetNs) -> Result<BTreeMap<(Ipv4Addr, u16), u64>> {
    let listed = nft(at, &["-n", "-j", "list", "set", "ip", "proof", "seen"])?;
    let listed: Value = serde_json::from_str(&listed)?;
    elements(&listed).with_context(|| format!("the counters cannot be read from {listed}"))
}

/// The elements of the set in nft's JSON (libnftables-json(5), "SET" and "ELEM").
fn elements(listed: &Value) -> Option<BTreeMap<(Ipv4Addr, u16), u64>> {
    let set = listed["nftables"].as_array()?.iter().find_map(|item| item.get("set"))?;
    let none = Vec::new();
    let elements = set.get("elem").and_then(Value::as_array).unwrap_or(&none);
    elements
        .iter()
        .map(|element| {
            let (value, counter) = (&element["elem"]["val"]["concat"], &element["elem"]["counter"]);
            let port = value[1].as_u64().or_else(|| value[1].as_str()?.parse().ok())?;
            Some((
                (value[0].as_str()?.parse().ok()?, u16::try_from(port).ok()?),
                counter["packets"].as_u64()?,
            ))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counters_of_a_set_are_read() {
        let text = r#"{"nftables": [{"metainfo": {"version": "1.0.6"}}, {"set": {"family": "ip", "name": "seen",
            "elem": [{"elem": {"val": {"concat": ["198.18.31.11", 5300]}, "counter": {"packets": 7, "bytes": 9}}},
            {"elem": {"val": {"concat": ["198.18.31.12", "5301"]}, "counter": {"packets": 2, "bytes": 9}}}]}}]}"#;
        let read = elements(&serde_json::from_str(text).unwrap()).unwrap();
        let key = |last, port| (Ipv4Addr::new(198, 18, 31, last), port);
        assert_eq!(read, [(key(11, 5300), 7), (key(12, 5301), 2)].into());
    }

    #[test]
    fn each_start_has_its_port_and_its_counts() {
        let ready = |port| format!("{{\"kind\": \"ready\", \"addresses\": [\"198.18.31.10:{port}\"]}}\n");
        let text = format!("{}{{\"received\": 7}}\n{}{{\"received\": 9}}\n", ready(1), ready(2));
        let read = starts(&text).unwrap();
        assert_eq!(read.iter().map(|one| (one.port, one.received)).collect::<Vec<_>>(), [(1, 7), (2, 9)]);
        assert!(starts("{\"received\": 7}\n").is_err());
        assert!(starts(&format!("{text}{}{{\"received\": 1}}\n", ready(2))).is_err());
    }
}
