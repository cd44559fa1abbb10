//! Replays of a capture by kqps, tcpreplay and dnsreplay. One receiver at the server's end sees all of them: how many
//! queries came in each second, and how late each was. Beside that, how fast kqps compiles a capture.

mod compile;
mod players;
mod receiver;
mod traffic;

use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use kqps_kernel::namespace::veth::{self, VethSettings};
use kqps_observation::question::Path as Kind;
use kqps_testbed::path::LaidPath;
use serde::Serialize;
use serde_json::{Value, json};

use super::Bench;
use super::precision::SECOND_WITHIN;
use super::rows::{Skipped, Target};
use super::single::{Single, Unit};
use crate::path;
use players::Replayer;
use receiver::Arrived;
use traffic::Traffic;

/// The most by which one in a hundred queries may be late.
const LATE_WITHIN_US: f64 = 1000.0;

/// The words of all rows about how a rate is kept, and of all about compiling.
const KEPT: &str = "replay of a capture";
const COMPILED: &str = "compile a capture";

/// The port of DNS, of which captures are.
const PORT: u16 = 53;

/// The server in a capture that is compiled and not played.
const SERVER_OF_FILES: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(198, 18, 0, 2), PORT);

/// The traffic of the whole form, and that of a form that only shows that it works.
const WHOLE: [Traffic; 2] = [
    Traffic { rate_qps: 100_000, queries: 2_000_000, clients: 5_000 },
    Traffic { rate_qps: 500_000, queries: 10_000_000, clients: 5_000 },
];
const SHORT: [Traffic; 1] = [Traffic { rate_qps: 10_000, queries: 12_000, clients: 50 }];

/// All figures, and the rows that this host cannot measure. `is_wanted` chooses among the words of rows.
pub(super) fn measure(
    bench: &Bench<'_>,
    blocks: u32,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<(Vec<Single>, Vec<Skipped>)> {
    let (mut singles, mut skipped) = (Vec::new(), Vec::new());
    let traffics: &[Traffic] = if bench.is_short { &SHORT } else { &WHOLE };
    let wanted: Vec<Replayer> =
        Replayer::ALL.into_iter().filter(|replayer| is_wanted(replayer.words())).collect();
    if !wanted.is_empty() {
        if let Some(reason) = path::lacks(Kind::Veth) {
            skipped.push(Skipped { what: KEPT, reason });
        } else {
            for traffic in traffics {
                singles.extend(kept(bench, &wanted, traffic, blocks)?);
            }
            skipped.extend(wanted.iter().filter_map(|replayer| {
                let reason = replayer.lacks()?;
                Some(Skipped { what: replayer.words(), reason })
            }));
        }
    }
    if is_wanted(COMPILED)
        && let Some(traffic) = traffics.last()
    {
        singles.extend(compile::measure(bench, traffic, blocks)?);
    }
    Ok((singles, skipped))
}

/// A replay as the receiver saw it.
#[derive(Clone, Debug, Serialize)]
struct Replay {
    /// The share by which the worst whole second differs from the rate.
    second_off: f64,
    /// Quantiles of how late queries came, compared with the earliest one.
    late_p50_us: u64,
    late_p99_us: u64,
    late_max_us: u64,
    /// Queries that arrived.
    arrived: u64,
    /// Queries that the receiver's socket dropped.
    dropped: u64,
    /// The player's report.
    player: Value,
}

/// How the rate of some traffic is kept by each player that this host has, in turn.
fn kept(bench: &Bench<'_>, wanted: &[Replayer], traffic: &Traffic, blocks: u32) -> Result<Vec<Single>> {
    let file = bench.scratch.join(format!("{}.pcap", traffic.rate_qps));
    let replayers: Vec<Replayer> =
        wanted.iter().copied().filter(|replayer| replayer.lacks().is_none()).collect();
    let mut replays: Vec<Vec<Replay>> = vec![Vec::new(); replayers.len()];
    for block in 0..blocks as usize {
        for turn in 0..replayers.len() {
            // Each begins a block in turn, so that a drift of the host favours none.
            let at = (block + turn) % replayers.len();
            let path = path::lay_with(Kind::Veth, &received_apart(bench.kqps.subject_cpu))?;
            if !file.exists() {
                traffic.write(&file, hardware(&path)?, server(&path)?)?;
            }
            let replay = once(bench, replayers[at], traffic, &file, &path)
                .with_context(|| format!("{} at {} q/s", replayers[at].words(), traffic.rate_qps))?;
            eprintln!(
                "{} at {} q/s {}/{blocks}: 1 s {:.5}, p99 {} µs late",
                replayers[at].words(),
                traffic.rate_qps,
                block + 1,
                replay.second_off,
                replay.late_p99_us
            );
            replays[at].push(replay);
        }
    }
    let all = replayers.into_iter().zip(replays);
    Ok(all.flat_map(|(replayer, replays)| singles(replayer, traffic, &replays)).collect())
}

/// Replays once, at a receiver of its own.
fn once(
    bench: &Bench<'_>,
    replayer: Replayer,
    traffic: &Traffic,
    file: &Path,
    path: &LaidPath,
) -> Result<Replay> {
    let target = server(path)?;
    let receiver = receiver::start(path, target.into(), bench.kqps.subject_cpu, replayer.needs_answers())?;
    let player = replayer.play(bench, path, file, target)?;
    let Arrived { queries, dropped } = receiver.stop()?;
    ensure!(!queries.is_empty(), "no query arrived");
    let (late, second_off) = traffic.compare(&queries);
    Ok(Replay {
        second_off,
        late_p50_us: traffic::quantile(&late, 0.50),
        late_p99_us: traffic::quantile(&late, 0.99),
        late_max_us: traffic::quantile(&late, 1.0),
        arrived: queries.len() as u64,
        dropped,
        player,
    })
}

/// The figures of a player at a rate. Only kqps is held to limits.
fn singles(replayer: Replayer, traffic: &Traffic, replays: &[Replay]) -> [Single; 3] {
    let target = |target| if replayer.is_ours() { target } else { Target::Reported };
    let kqps = traffic.rate_qps / 1000;
    let what =
        |figure: &str| format!("{} at {kqps} kqps, {} clients: {figure}", replayer.words(), traffic.clients);
    let single = |figure: &str, unit, value: &dyn Fn(&Replay) -> f64, target| Single {
        every: true,
        ..Single::new(what(figure), unit, replays.iter().map(value), target)
    };
    let second = target(Target::AtMost(SECOND_WITHIN));
    let late = target(Target::AtMost(LATE_WITHIN_US));
    let missing = |replay: &Replay| 1.0 - replay.arrived as f64 / f64::from(traffic.queries);
    let second = single("worst 1 s bin", Unit::Share, &|replay| replay.second_off, second);
    let late =
        single("p99 of how late queries came", Unit::Microseconds, &|replay| replay.late_p99_us as f64, late);
    let missing = single("queries that did not come", Unit::Share, &missing, Target::Reported);
    [Single { beside: json!(replays), ..second }, late, missing]
}

/// A pair of devices whose packets pass the receiving end's network stack on a core of the receiver. On veth the sender's
/// core would do that, as no sender over a wire has to.
fn received_apart(cpu: u32) -> VethSettings {
    VethSettings { rps_cpus: Some(vec![cpu]), ..path::one_queue() }
}

/// The address of the receiver: the port that a capture has, which no other program of a private network uses.
fn server(path: &LaidPath) -> Result<SocketAddrV4> {
    match path.subject_address() {
        IpAddr::V4(address) => Ok(SocketAddrV4::new(address, PORT)),
        IpAddr::V6(address) => bail!("{address} is no address of a veth path"),
    }
}

/// The hardware address of the device at the server's end, for players that write frames.
fn hardware(path: &LaidPath) -> Result<[u8; 6]> {
    let words = ["-j", "link", "show", "dev", veth::DEVICE];
    let shown = path::ip(&words, |command| path.place_subject(command))?;
    let links: Value = serde_json::from_str(&shown).with_context(|| format!("ip printed {shown:?}"))?;
    let text = links[0]["address"].as_str().context("ip shows no hardware address")?;
    let bytes: Vec<u8> = text.split(':').filter_map(|byte| u8::from_str_radix(byte, 16).ok()).collect();
    bytes.try_into().ok().with_context(|| format!("{text} is no hardware address"))
}

/// The address of a client: of [`path::SOURCES`], in networks of 250.
fn client(number: u32) -> Ipv4Addr {
    let [network, host] =
        [number / 250, 1 + number % 250].map(|byte| u8::try_from(byte).expect("64,000 clients at most"));
    Ipv4Addr::new(198, 19, network, host)
}
