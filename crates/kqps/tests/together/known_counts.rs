//! Proofs whose answer is known beforehand and does not depend on how busy the host is, mostly counts: those
//! of `cargo xtask prove`, in their small form, many at the same time.

use std::path::Path;

use anyhow::Result;
use kqps_proofs::prove::{Proof, Size, prove};

fn small(proof: Proof) -> Result<()> {
    prove(proof, Size::Small, Path::new(env!("CARGO_BIN_EXE_kqps")))
}

#[test]
fn accounts_agree_with_a_relay_that_makes_faults() -> Result<()> {
    small(Proof::Accounts)
}

#[test]
fn a_tree_without_a_shell_suffices_for_a_load() -> Result<()> {
    small(Proof::Package)
}

#[test]
fn a_killed_run_loses_and_repeats_nothing() -> Result<()> {
    small(Proof::Kill)
}

#[test]
fn equals_are_not_called_different() -> Result<()> {
    small(Proof::Judgement)
}

#[test]
fn answers_are_those_that_other_servers_give() -> Result<()> {
    small(Proof::Differential)
}

#[test]
fn a_long_trial_stays_exact() -> Result<()> {
    small(Proof::Soak)
}

#[test]
fn a_history_raises_no_alarm_without_a_change_and_finds_a_step_in_time() -> Result<()> {
    small(Proof::History)
}
