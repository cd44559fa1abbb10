//! Back ends that are killed or stopped: the others answer in their place, and if none is left, clients get
//! SERVFAIL at once.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use kqps_kernel::process::Signal;
use kqps_observation::Accounts;

use super::super::{Bench, Size};
use super::counts::FrontCounts;
use super::honest::{AskResult, Client};
use super::pauses;
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

/// How soon the front must refuse a query that no back end can answer.
const REFUSED_WITHIN: Duration = Duration::from_millis(500);

/// How soon the front must use back ends that are up again: usually, and at most if others use the host.
const BACK_SOON: Duration = Duration::from_millis(300);
const BACK_WITHIN: Duration = Duration::from_secs(5);

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
            judged(bench, |_| all(bench, scenario))
                .with_context(|| format!("all down, {transport:?}, repetition {repetition}"))?;
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
            let servers = servers(bench, zone, 4)?;
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
fn front(bench: &Bench, name: &str, urls: &[String], flags: &[&str]) -> Result<Front> {
    match bench.size {
        Size::Small => Front::start(bench, name, urls, flags),
        Size::Whole => Front::start_first(bench, name, urls, flags),
    }
}

fn servers(bench: &Bench, zone: &Path, count: usize) -> Result<Vec<Server>> {
    (0..count).map(|number| Server::start(bench, zone, &format!("server{number}"), None)).collect()
}

fn server_urls(servers: &[Server], transport: Transport) -> Vec<String> {
    servers.iter().map(|server| server.url(transport)).collect()
}

/// Kills or stops one of four back ends under load. The trial is spoiled if the host was so busy that other
/// back ends seemed dead too, or that the player gave up queries.
fn one_of_four(bench: &Bench, scenario: &Scenario<'_>, signal: Signal, seed: u64) -> Result<TrialResult> {
    let servers = servers(bench, scenario.zone, 4)?;
    let front = front(bench, "four", &server_urls(&servers, scenario.transport), &[])?;
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
    if stood_still(&played.accounts) {
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

/// Whether the player was paused so long that it gave up queries.
fn stood_still(accounts: &Accounts) -> bool {
    if accounts.unsent > 0 {
        eprintln!("the player stood still and gave up {} queries: made again", accounts.unsent);
    }
    accounts.unsent > 0
}

/// All back ends are killed under load, and come back at the same addresses.
fn all(bench: &Bench, scenario: &Scenario<'_>) -> Result<TrialResult> {
    let Scenario { zone, transport, queries, rate } = scenario;
    let servers = servers(bench, zone, 2)?;
    let front = front(bench, "all", &server_urls(&servers, *transport), &["--timeout", "1s"])?;
    front.is_ready(servers.len())?;
    // Longer than the front lets any client wait.
    let flags = |rate, duration| ["-T", "1", "-c", "8", "-Q", rate, "-l", duration, "-t", "1500ms"];
    let player = bench.kqps.start_load(front.address, queries, &flags(rate, "7s"))?;
    std::thread::sleep(Duration::from_millis(500));
    let places = servers.into_iter().map(Server::kill).collect::<Result<Vec<_>>>()?;
    let mut client = Client::udp(front.address)?;
    let refused_after = all_are_refused(&front, &mut client)?;
    let down = bench.kqps.trial(front.address, queries, &flags("2k", "1s"))?;
    let (failed, accounts) = (failures(&down)?, down.accounts);
    if stood_still(&accounts) {
        return Ok(TrialResult::Spoiled);
    }
    ensure!(failed == accounts.sent, "while all are down: {accounts:?}");
    if accounts.lost + accounts.late > 0 {
        return Ok(TrialResult::Lost(format!("while all are down: {accounts:?}")));
    }

    let began = Instant::now();
    let start =
        |(number, place): (usize, _)| Server::start(bench, zone, &format!("server{number}"), Some(place));
    let servers = places.into_iter().enumerate().map(start).collect::<Result<Vec<_>>>()?;
    let started = began.elapsed();
    while client.ask("after", BACK_WITHIN)? == AskResult::Rcode(2) {
        ensure!(began.elapsed() < started + BACK_WITHIN, "back ends that are there again are not used");
        std::thread::sleep(Duration::from_millis(20));
    }
    let back = began.elapsed().saturating_sub(started);
    let played = finish(player)?.measured()?;
    let failed = failures(&played)?;
    ensure!(0 < failed && failed < played.accounts.sent, "all through: {:?}", played.accounts);
    front.is_ready(servers.len())?;
    let up = bench.kqps.trial(front.address, queries, &flags(rate, "1s"))?;
    let failed_after = failures(&up)?;
    front.stop()?;
    eprintln!(
        "all down by {transport:?}: SERVFAIL within {:.1} ms, used again after {:.0} ms, {failed} of {} failed all \
         through and {failed_after} of {} afterwards",
        refused_after.as_secs_f64() * 1e3,
        back.as_secs_f64() * 1e3,
        played.accounts.sent,
        up.accounts.sent
    );
    if bench.size == Size::Whole && back > BACK_SOON {
        return Ok(TrialResult::Lost(format!(
            "clients were served again only after {} ms",
            back.as_millis()
        )));
    }
    if bench.size == Size::Whole && failed_after > 0 {
        return Ok(TrialResult::Lost(format!("{failed_after} queries failed after all were back")));
    }
    Ok(TrialResult::Held)
}

/// Waits until a front has marked all its back ends down, and then sends queries. Returns the longest time of
/// a refusal.
fn all_are_refused(front: &Front, client: &mut Client) -> Result<Duration> {
    let none_is_up = |counts: &FrontCounts| counts.back_ends.values().all(|at| at.up == 0);
    // A query or a check lets the front notice that they are down.
    client.ask("before", BACK_WITHIN)?;
    front.wait_until("that all are down", BACK_WITHIN, none_is_up)?;
    let mut refused_after = Duration::ZERO;
    for number in 0..50 {
        let began = Instant::now();
        let result = client.ask(&format!("down{number}"), BACK_WITHIN)?;
        refused_after = refused_after.max(began.elapsed());
        ensure!(result == AskResult::Rcode(2), "a query that none can answer had {result:?}");
    }
    ensure!(refused_after <= REFUSED_WITHIN, "SERVFAIL came after {refused_after:?}");
    Ok(refused_after)
}
