//! Servers of a cache that fail in every way: each query of a client has one fate, equal questions wait for one query,
//! and the servers get at most twice as many queries as healthy ones would.

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use fastrand::Rng;
use kqps_faults::scripted::Asked;

use super::super::Bench;
use super::message::{address, empty, query};
use super::server::{Cache, count};
use super::upstream::Upstream;

/// Repetitions of each fault in the whole form.
const REPETITIONS: u64 = 20;

/// Clients that ask the same names at the same time.
const CLIENTS: u16 = 8;
const SMALL_NAMES: u16 = 50;
const WHOLE_NAMES: u16 = 200;

/// How long a client waits for each reply.
const WAIT: Duration = Duration::from_secs(3);

const ADDRESS: [u8; 4] = [192, 0, 2, 7];

/// The fault of a server with some of its queries.
#[derive(Clone, Copy, Debug)]
enum Fault {
    None,
    /// It sends nothing.
    Silent,
    /// It sends nothing by UDP the first time, as if the datagram were lost.
    Losing,
    /// It answers after 50 ms.
    Slow,
    Servfail,
    WrongIds,
    /// It sends bytes that are no message.
    Garbage,
    /// Its answers by UDP are truncated.
    Truncated,
    /// It sends each answer three times.
    Repeating,
}

const FAULTS: [Fault; 9] = [
    Fault::None,
    Fault::Silent,
    Fault::Losing,
    Fault::Slow,
    Fault::Servfail,
    Fault::WrongIds,
    Fault::Garbage,
    Fault::Truncated,
    Fault::Repeating,
];

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{self:?}")
    }
}

/// Messages that the server sends for the question of this number.
fn spoiled(fault: Fault, number: u64, one: &Asked<'_>) -> Vec<Vec<u8>> {
    let (asked, by_udp) = (one.query, one.socket.is_some());
    let right = address(asked, 300, ADDRESS);
    match (fault, by_udp) {
        (Fault::Silent, _) => Vec::new(),
        (Fault::Losing, true) if number.is_multiple_of(2) => Vec::new(),
        (Fault::Slow, _) => {
            std::thread::sleep(Duration::from_millis(50));
            vec![right]
        }
        (Fault::Servfail, _) => vec![empty(asked, 2)],
        (Fault::WrongIds, _) => vec![[&[!asked[0], asked[1]][..], &right[2..]].concat()],
        (Fault::Garbage, true) => vec![vec![number.to_le_bytes()[0]; 40]],
        (Fault::Truncated, true) => {
            let mut cut = empty(asked, 0);
            cut[2] |= 0x02;
            vec![cut]
        }
        (Fault::Repeating, _) => vec![right.clone(), right.clone(), right],
        _ => vec![right],
    }
}

pub(super) fn prove(bench: &Bench) -> Result<()> {
    for repetition in 0..bench.choose(1, REPETITIONS) {
        for fault in FAULTS {
            let seed = bench.seed + repetition;
            trial(bench, fault, seed).with_context(|| format!("{fault}, seed {seed}"))?;
        }
    }
    Ok(())
}

/// Several clients ask the same names in another order each. From a seeded question on, the server fails for some.
fn trial(bench: &Bench, fault: Fault, seed: u64) -> Result<()> {
    let names = bench.choose(SMALL_NAMES, WHOLE_NAMES);
    let mut rng = Rng::with_seed(seed << 8 | fault as u64);
    let from = rng.u64(..u64::from(names) / 2);
    let share = rng.u64(2..=4);
    let number = AtomicU64::new(0);
    let server = Upstream::start(move |one| {
        let number = number.fetch_add(1, Relaxed);
        // In one of `share` questions all is well.
        let fault = if number < from || number % share == 1 { Fault::None } else { fault };
        spoiled(fault, number, one)
    })?;
    let cache = Cache::start(bench, &[server.address.to_string()], &["--timeout", "600ms"])?;
    let mut replies = 0;
    let mut clients = (0..CLIENTS).map(|_| cache.client()).collect::<Result<Vec<_>>>()?;
    for client in &mut clients {
        let mut order: Vec<u16> = (0..names).collect();
        rng.shuffle(&mut order);
        for (sent, id) in order.into_iter().enumerate() {
            client.send(&[&query(id, &format!("name-{id}.fault.test"))])?;
            if sent % 64 == 63 {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
    for client in &mut clients {
        let mut seen = HashSet::new();
        while seen.len() < usize::from(names) {
            let Ok(reply) = client.receive(WAIT) else { break };
            ensure!(reply.len() > 12, "a reply of {} bytes", reply.len());
            let id = u16::from_be_bytes([reply[0], reply[1]]);
            ensure!(id < names && seen.insert(id), "a second reply to query {id}");
        }
        replies += seen.len() as u64;
    }
    let asked = server.asked();
    let counts = cache.stop()?;
    let received = count(&counts, "/received");
    ensure!(replies == received, "{replies} of {received} queries were answered: {counts}");
    ensure!(asked <= 2 * u64::from(names), "{asked} questions for {names} names: {counts}");
    let coalesced = count(&counts, "/cache/coalesced") + count(&counts, "/cache/overtaken");
    let at_once = count(&counts, "/cache/hits") + count(&counts, "/cache/failures");
    ensure!(coalesced + at_once + u64::from(names) >= received, "equal questions were asked apart: {counts}");
    eprintln!("{fault}, seed {seed}: {received} queries, {asked} questions for {names} names");
    Ok(())
}
