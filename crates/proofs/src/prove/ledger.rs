//! The drop ledger. In network namespaces of their own, player and subject lose queries at a known place, and
//! the cause of each loss counts it. The ledger must name that place with that count, and no other place. The
//! kernel's own reasons must agree.

mod injection;
pub(super) mod network;
mod reasons;

use anyhow::{Context as _, Result, ensure};
use kqps_observation::{Ledger, Place, Trial};
use kqps_skips::{Capability, skip};
use strum::VariantArray as _;

use super::{Bench, QUERIES, Size};
use injection::{Injection, Way};
use network::Network;

/// The ledger's count may differ from the truth by one in this many.
const WITHIN_ONE_IN: u64 = 1000;

/// The fewest losses that prove something.
const LOST_LEAST: u64 = 50;

const REPETITIONS: u64 = 20;

/// Makes losses of every kind, several times each.
pub(super) fn prove(bench: &Bench) -> Result<()> {
    if let Err(reason) = network::is_offered() {
        ensure!(bench.size == Size::Small, "{reason}");
        skip(Capability::Networks, reason);
        return Ok(());
    }
    for &injection in Injection::VARIANTS {
        let mut lost = Vec::new();
        for seed in 1..=bench.choose(1, REPETITIONS) {
            let truth =
                once(bench, injection, seed).with_context(|| format!("{injection:?}, seed {seed}"))?;
            lost.push(truth);
        }
        eprintln!("{injection:?}: placed {lost:?} at {:?}", injection.place());
    }
    reasons::prove(bench)
}

/// Plays one trial over a path of its own, and compares. Returns the number of losses.
fn once(bench: &Bench, injection: Injection, seed: u64) -> Result<u64> {
    let queries = bench.queries(QUERIES / 2)?;
    let network = Network::lay()?;
    let (trial, truth) = injection.play(bench, &network, &queries, Way { seed, drop_reasons: false })?;
    compare(&trial, injection.place(), truth).with_context(|| words(&trial))?;
    Ok(truth)
}

fn compare(trial: &Trial, place: Place, truth: u64) -> Result<()> {
    trial.accounts.check()?;
    let ledger = &trial.ledger;
    let within = truth / WITHIN_ONE_IN;
    ensure!(truth >= LOST_LEAST, "only {truth} were lost, which proves nothing");
    let placed = ledger.at(place);
    ensure!(placed.abs_diff(truth) <= within, "{truth} were lost at {place:?}, and the ledger says {placed}");
    let elsewhere = elsewhere(ledger, place);
    ensure!(elsewhere <= within, "nothing else was lost, and the ledger says {elsewhere}");
    let (unexplained, beyond) = (ledger.unexplained, ledger.beyond());
    ensure!(
        unexplained.unsigned_abs().max(beyond) <= within,
        "{unexplained} are unexplained, {beyond} too many"
    );
    Ok(())
}

/// Losses that the ledger places elsewhere. Queries that the player did not send are no losses on the way,
/// and are compared with its accounts.
fn elsewhere(ledger: &Ledger, place: Place) -> u64 {
    let others = ledger.places.iter().filter(|placed| placed.place != place);
    let on_the_way = others.filter(|placed| !matches!(placed.place, Place::PlayerUnsent | Place::PlayerSend));
    on_the_way.map(|placed| placed.count).sum()
}

fn words(trial: &Trial) -> String {
    format!("of {:?} the ledger is {:?}", trial.accounts, trial.ledger)
}
