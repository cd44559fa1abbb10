//! What kqps must find when the answer is known beforehand: the small form of every `cargo xtask prove`.
//! They play load over loopback, so they take turns, but for those that hold however busy the host is.

use std::path::Path;
use std::sync::{PoisonError, RwLock};

use xtask::prove::{Proof, Size, prove};

/// Held for writing by whoever needs the host alone.
static TURN: RwLock<()> = RwLock::new(());

/// A proof that needs the host alone.
fn alone(proof: Proof) {
    // A proof that failed says nothing about the next one.
    let _turn = TURN.write().unwrap_or_else(PoisonError::into_inner);
    small(proof);
}

/// A proof about counts, or about what a busy host must not change.
fn beside_others(proof: Proof) {
    let _turn = TURN.read().unwrap_or_else(PoisonError::into_inner);
    small(proof);
}

fn small(proof: Proof) {
    prove(proof, Size::Small, Path::new(env!("CARGO_BIN_EXE_kqps")))
        .unwrap_or_else(|error| panic!("{error:#}"));
}

#[test]
fn accounts_agree_with_a_relay_that_makes_faults() {
    beside_others(Proof::Accounts);
}

#[test]
fn a_frozen_subject_shows_in_the_quantiles() {
    alone(Proof::Freeze);
}

#[test]
fn a_constant_delay_moves_the_median_by_just_that() {
    alone(Proof::Delay);
}

#[test]
fn a_starved_player_gives_no_rate() {
    alone(Proof::Starved);
}

#[test]
fn a_killed_run_loses_and_repeats_nothing() {
    beside_others(Proof::Kill);
}

#[test]
fn every_loss_is_placed_where_it_was_made() {
    alone(Proof::Ledger);
}

#[test]
fn equals_are_not_called_different() {
    beside_others(Proof::Judgement);
}

#[test]
fn a_flood_costs_an_authoritative_server_little() {
    alone(Proof::Overload);
}

#[test]
fn a_front_gives_every_query_one_end() {
    alone(Proof::Front);
}

#[test]
fn answers_are_those_that_other_servers_give() {
    beside_others(Proof::Differential);
}

#[test]
fn a_long_trial_stays_exact() {
    beside_others(Proof::Soak);
}
