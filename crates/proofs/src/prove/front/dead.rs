//! A back end of several that is killed or stopped: the others answer in its place.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use kqps_kernel::process::Signal;

use super::super::{Bench, Size, pauses};
use super::counts::FrontCounts;
use super::servers::{Front, Server, failures, half_of_capacity};
use crate::program::finish;
use kqps_faults::back_end::Transport;

/// The load in the small form, where other tests may share the host. The whole form uses half of the
/// capacity.
const SMALL_QPS: f64 = 5000.0;

/// Repetitions of each trial in the whole form.
const REPETITIONS: u64 = 20;

/// How often a trial is made until it can be judged, in the small form and in the whole one.
const SMALL_ATTEMPTS: u64 = 5;
const ATTEMPTS: u64 = 10;

/// The longest pause of a core after which losses can still be judged in the whole form. At half of the
/// capacity, the queries during a pause fill much of the front's buffer, which holds those of some 25 ms.
const PAUSE_MOST: Duration = Duration::from_millis(15);

/// The share of all queries that may fail when one of four back ends is killed.
const FAILED_MOST: f64 = 1e-4;

/// How soon the front must mark the back end down.
const FOUND_WITHIN: Duration = Duration::from_secs(1);

const TRANSPORTS: [Transport; 3] = [Transport::Tcp, Transport::Unix, Transport::Udp];

/// The zone, its transport, and the load.
struct Scenario<'a> {
    zone: &'a Path,
    transport: Transport,
    queries: &'a Path,
    rate: String,
}

pub(super) fn prove(bench: &Bench) -> Result<()> {
    let (zone, queries) = bench.zone(1000)?;
    let transports = bench.choose(&TRANSPORTS[..1], &TRANSPORTS);
    let of = |&transport| scenario(bench, &zone, &queries, transport);
    let scenarios = transports.iter().map(of).collect::<Result<Vec<_>>>()?;
    for repetition in 0..bench.choose(1, REPETITIONS) {
        for scenario in &scenarios {
            let transport = scenario.transport;
            let seed = |attempt| bench.seed + repetition * ATTEMPTS + attempt;
            for signal in [Signal::Kill, Signal::Stop] {
                judged(bench, |attempt| one_of_four(bench, scenario, signal, seed(attempt)))
                    .with_context(|| format!("{signal:?}, {transport:?}, repetition {repetition}"))?;
            }
        }
    }
    Ok(())
}

fn scenario<'a>(
    bench: &Bench,
    zone: &'a Path,
    queries: &'a Path,
    transport: Transport,
) -> Result<Scenario<'a>> {
    let rate_qps = match bench.size {
        Size::Small => SMALL_QPS,
        Size::Whole => {
            let servers = servers(bench, zone)?;
            half_of_capacity(bench, &server_urls(&servers, transport), queries)?
        }
    };
    Ok(Scenario { zone, transport, queries, rate: format!("{rate_qps:.0}") })
}

/// The result of a trial. Errors are failures that no busy host excuses: wrong sums, a front that hangs, or
/// one that does not notice.
enum TrialResult {
    /// All promises hold.
    Held,
    /// Queries were lost that should not have been.
    Lost(String),
    /// The trial cannot be judged.
    Spoiled,
}

/// Makes a trial until it can be judged. Losses cannot be judged if a core was paused meanwhile.
fn judged(bench: &Bench, trial: impl Fn(u64) -> Result<TrialResult>) -> Result<()> {
    let cpus = [bench.kqps.player_cpu, bench.kqps.subject_cpu];
    let attempts = bench.choose(SMALL_ATTEMPTS, ATTEMPTS);
    for attempt in 0..attempts {
        let (found, pause) = pauses::longest_during(&cpus, || trial(attempt))?;
        match found? {
            TrialResult::Spoiled => {}
            TrialResult::Held | TrialResult::Lost(_) if bench.size == Size::Whole && pause > PAUSE_MOST => {
                eprintln!("a core stood still for {:.1} ms: made again", pause.as_secs_f64() * 1e3);
            }
            TrialResult::Held => return Ok(()),
            TrialResult::Lost(what) => bail!(what),
        }
    }
    bail!("the host was too busy {attempts} times")
}

/// A front. Its back ends share its core here. Four of them at half of the capacity could keep it from
/// running so long that its buffer overflows, so it has a higher priority in the whole form.
fn front(bench: &Bench, urls: &[String]) -> Result<Front> {
    match bench.size {
        Size::Small => Front::start(bench, "four", urls, &[]),
        Size::Whole => Front::start_first(bench, "four", urls),
    }
}

fn servers(bench: &Bench, zone: &Path) -> Result<Vec<Server>> {
    (0..4).map(|number| Server::start(bench, zone, &format!("server{number}"))).collect()
}

fn server_urls(servers: &[Server], transport: Transport) -> Vec<String> {
    servers.iter().map(|server| server.url(transport)).collect()
}

/// Kills or stops one of four back ends under load. The trial is spoiled if the host was so busy that other
/// back ends seemed dead too, or that the player gave up queries.
fn one_of_four(bench: &Bench, scenario: &Scenario<'_>, signal: Signal, seed: u64) -> Result<TrialResult> {
    let servers = servers(bench, scenario.zone)?;
    let front = front(bench, &server_urls(&servers, scenario.transport))?;
    front.is_ready(servers.len())?;
    let duration = bench.choose("2s", "4s");
    let flags = ["-T", "1", "-c", "8", "-Q", &scenario.rate, "-l", duration, "-t", "3s"];
    let player = bench.kqps.start_load(front.address, scenario.queries, &flags)?;
    let mut rng = fastrand::Rng::with_seed(seed);
    std::thread::sleep(Duration::from_millis(500 + rng.u64(..500)));
    let victim = rng.usize(..servers.len());
    let name = format!("b{victim}");
    servers[victim].running.signal(signal)?;
    let is_down = |counts: &FrontCounts| counts.back_ends[&name].up == 0;
    let found = front.wait_until("that one is down", Duration::from_secs(10), is_down)?;
    let played = finish(player)?.measured()?;
    let counts = front.stop()?;
    let (failed, sent) = (failures(&played)?, played.accounts.sent);
    eprintln!(
        "{signal:?} one of four by {:?}: {failed} of {sent} failed, found out after {:.0} ms; {:?}",
        scenario.transport,
        found.as_secs_f64() * 1e3,
        counts.back_ends[&name]
    );
    let others = counts.back_ends.iter().filter(|(other, _)| **other != name);
    let others_down: u64 = others.map(|(_, at)| at.downs).sum();
    if others_down > 0 {
        eprintln!("others were silent for so long that they were taken for down: made again");
        return Ok(TrialResult::Spoiled);
    }
    if played.accounts.unsent > 0 {
        eprintln!("the player stood still and gave up {} queries: made again", played.accounts.unsent);
        return Ok(TrialResult::Spoiled);
    }
    ensure!(found <= FOUND_WITHIN, "it took the front {:.1} s to find that out", found.as_secs_f64());
    ensure!(counts.back_ends[&name].downs > 0, "it was never found to be down");
    if failed as f64 > FAILED_MOST * sent as f64 {
        let (accounts, back_ends) = (played.accounts, counts.back_ends);
        return Ok(TrialResult::Lost(format!(
            "{failed} of {sent} queries failed: {accounts:?}, {back_ends:?}"
        )));
    }
    Ok(TrialResult::Held)
}
