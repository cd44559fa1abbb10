//! What kqps must find when the answer is known beforehand: the small form of every `cargo xtask prove`.
//! They play load over loopback, so they take turns.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use xtask::prove::{Proof, Size, prove};

static TURN: Mutex<()> = Mutex::new(());

fn small(proof: Proof) {
    // A proof that failed says nothing about the next one.
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    prove(proof, Size::Small, Path::new(env!("CARGO_BIN_EXE_kqps")))
        .unwrap_or_else(|error| panic!("{error:#}"));
}

#[test]
fn accounts_agree_with_a_relay_that_makes_faults() {
    small(Proof::Accounts);
}

#[test]
fn a_frozen_subject_shows_in_the_quantiles() {
    small(Proof::Freeze);
}

#[test]
fn a_constant_delay_moves_the_median_by_just_that() {
    small(Proof::Delay);
}

#[test]
fn a_starved_player_gives_no_rate() {
    small(Proof::Starved);
}

#[test]
fn a_killed_run_loses_and_repeats_nothing() {
    small(Proof::Kill);
}

#[test]
fn every_loss_is_placed_where_it_was_made() {
    small(Proof::Ledger);
}

#[test]
fn equals_are_not_called_different() {
    small(Proof::Judgement);
}

#[test]
fn a_long_trial_stays_exact() {
    small(Proof::Soak);
}
