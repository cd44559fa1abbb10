//! The drop ledger. In network namespaces of their own, player and subject lose queries at a known place, and
//! the cause of each loss counts it. The ledger must name that place with that count, and no other place. The
//! kernel's own reasons must agree.

mod injection;
pub(super) mod network;
mod reasons;

use anyhow::{Context as _, Result, ensure};
use kqps_observation::{Ledger, Place, Trial};
use kqps_skips::Capability;

use super::{Bench, QUERIES};
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
        return bench.leave_out(Capability::Networks, reason);
    }
    for injection in Injection::ALL {
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
    trial.accounts.check()?;
    let ledger = std::iter::once(&trial.ledger);
    agree(ledger, injection.place(), truth).with_context(|| words(&trial))?;
    Ok(truth)
}

/// Compares ledgers together with the truth: so many losses at one place, and none elsewhere. Queries that a player did
/// not send are no losses on the way, and are compared with its accounts.
pub(super) fn agree<'a>(ledgers: impl Iterator<Item = &'a Ledger>, place: Place, truth: u64) -> Result<()> {
    ensure!(truth >= LOST_LEAST, "only {truth} were lost, which proves nothing");
    let within = truth / WITHIN_ONE_IN;
    let (mut placed, mut elsewhere, mut unexplained) = (0, 0, 0);
    for ledger in ledgers {
        placed += ledger.at(place);
        let of_player = [Place::PlayerUnsent, Place::PlayerSend];
        let others = ledger.places.iter().filter(|one| one.place != place && !of_player.contains(&one.place));
        elsewhere += others.map(|one| one.count).sum::<u64>();
        unexplained += ledger.unexplained.max(0).unsigned_abs() + ledger.beyond();
    }
    ensure!(placed.abs_diff(truth) <= within, "{truth} were lost at {place:?}, and the ledger says {placed}");
    ensure!(elsewhere <= within, "nothing else was lost, and the ledger says {elsewhere}");
    ensure!(unexplained <= within, "{unexplained} are unexplained or too many");
    Ok(())
}

fn words(trial: &Trial) -> String {
    format!("of {:?} the ledger is {:?}", trial.accounts, trial.ledger)
}
