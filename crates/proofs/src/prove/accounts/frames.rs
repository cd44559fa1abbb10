//! The accounts past the kernel's network stack: `--io xdp` over a veth path, at a relay that makes faults, by one
//! thread and by two that hand each other frames, and with a player that stands still until the ring of received frames
//! is full.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use kqps_faults::relay::{Counts, Fault, Plan, RelaySettings, Share};
use kqps_kernel::namespace::veth::VethSettings;
use kqps_observation::Trial;
use kqps_observation::question::Path as Kind;
use kqps_skips::Capability;
use kqps_testbed::path::LaidPath;

use super::super::patience::{ATTEMPTS, until_proved};
use super::super::{Bench, QUERIES};
use super::device::Device;
use super::{Queries, SHARE_EACH, agreed, dropped_on, lost_on_path, start};
use crate::path;
use crate::program::finish;
use crate::wait::until;

/// The threads of each trial, which is also the number of queues of each device, and its load. With two queues a reply
/// may come by that of the other thread.
const LOADS: [(u32, &[&str]); 5] = [
    (1, &["-q", "1000"]),
    (1, &["-Q", "50k"]),
    (1, &["-Q", "50k", "--arrivals", "poisson"]),
    (2, &["-q", "1000"]),
    (2, &["-Q", "50k"]),
];

/// Passes over the queries of each load in the whole form.
const PASSES: u64 = 20;

/// Queries that are outstanding while the player stands still: several times as many as its ring has frames (8192).
const AT_ONCE: u32 = 40_000;

/// How long the relay keeps each reply: long enough to stop the player when it has sent all queries.
const KEPT_US: u64 = 500_000;

/// How long the player stands still after that: until all replies have come.
const STANDS: Duration = Duration::from_millis(1200);

/// The longest time until all queries have come.
const COME_WITHIN: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(1);

/// Compares trials with the relay's counts.
pub(super) fn prove(bench: &Bench) -> Result<()> {
    if let Some(reason) = path::lacks_frames() {
        let reason = format!("accounts past the network stack: {reason}");
        return bench.leave_out(Capability::Networks, reason);
    }
    let names = bench.choose(QUERIES / 16, QUERIES);
    let queries = Queries::new(bench, names, bench.choose(1, PASSES))?;
    for (seed, (threads, load)) in (1..).zip(LOADS) {
        let words = format!("--io xdp -T {threads} {}", load.join(" "));
        let trial = with_faults(bench, (threads, load), &queries, seed)
            .with_context(|| format!("with seed {seed}, {words}"))?;
        eprintln!("{} queries agree ({words})", trial.accounts.sent);
    }
    full_ring(bench).context("a full ring")
}

/// A trial at a relay that makes all faults but one: a reply from another port is not for the player, so its program
/// leaves it to the kernel, as it does with all that is not for it.
fn with_faults(
    bench: &Bench,
    (threads, load): (u32, &[&str]),
    queries: &Queries,
    seed: u64,
) -> Result<Trial> {
    let none: Share = format!("{}=0", Fault::WrongPort).parse()?;
    let plan = Plan::from_shares(&[format!("every={SHARE_EACH}").parse()?, none])?;
    let path = path::lay_with(Kind::Veth, &VethSettings { queues: Some(threads), ..path::one_queue() })?;
    let sockets = queries.sockets();
    let (passes, threads) = (queries.passes.to_string(), threads.to_string());
    let mut flags = vec!["-n", &passes, "-c", &sockets, "-T", &threads];
    flags.extend(["--io", "xdp", "-a", path::SOURCES, "--check", "answers"]);
    flags.extend(load);
    let trial = agreed(bench, &path, &plan, &flags, &queries.file, seed)?;
    let player = &trial.players.first;
    ensure!(player.io == "xdp", "the player used {}", player.io);
    ensure!(player.threads.to_string() == threads, "the player had {} threads", player.threads);
    Ok(trial)
}

/// The player sends all queries at once and is then stopped. The replies find a ring that is soon full. Those that do
/// not fit are lost, and the player must count them as dropped there, to the last one. Those that fit are in time,
/// however late the player reads them.
fn full_ring(bench: &Bench) -> Result<()> {
    let file = bench.queries(AT_ONCE)?;
    until_proved(ATTEMPTS, |_| {
        let path = path::lay(Kind::Veth)?;
        let (trial, counts) = standing_still(bench, &path, &file)?;
        trial.accounts.check()?;
        let drops = trial.players.first.socket_drops;
        let accounts = trial.accounts;
        let none = || (drops == 0).then(|| "no reply was dropped by the ring".to_owned());
        let doubt = counts.doubt().or(lost_on_path(dropped_on(&path)?)).or_else(none);
        if let Some(doubt) = doubt {
            return Ok(Err(doubt));
        }
        ensure!(
            accounts.sent == counts.queries && counts.queries == u64::from(AT_ONCE),
            "the player says that it sent {}, and {} came",
            accounts.sent,
            counts.queries
        );
        ensure!(
            accounts.lost == drops && accounts.correct == accounts.sent - drops,
            "{drops} replies were dropped by the full ring, and the player says {accounts:?}"
        );
        eprintln!("a full ring dropped {drops} of {AT_ONCE} replies, and as many queries were lost");
        Ok(Ok(()))
    })
}

/// Plays a trial whose player stands still while the replies come.
fn standing_still(bench: &Bench, path: &LaidPath, file: &Path) -> Result<(Trial, Counts)> {
    let relay = start(bench, path, RelaySettings { delay_us: KEPT_US, ..RelaySettings::default() })?;
    let at_once = AT_ONCE.to_string();
    let flags = ["-q", &at_once, "-n", "1", "-c", "8", "-T", "1", "-t", "2s", "--drain", "2s", "--io", "xdp"];
    let player = bench.kqps.start_load_over(path, relay.address(), file, &flags)?;
    let have_come = || {
        let come = Device::at_subject(path)?.received + Device::at_player(path)?.dropped;
        Ok((come >= u64::from(AT_ONCE)).then_some(()))
    };
    until((COME_WITHIN, LOOK), have_come, || format!("the player did not send {AT_ONCE} queries at once"))?;
    player.stand_still(STANDS)?;
    let trial = finish(player)?.measured()?;
    Ok((trial, relay.stop()?))
}
