//! Proofs whose answer is known beforehand and does not depend on how busy the host is, mostly counts: those
//! of `cargo xtask prove`, in their small form, many at the same time.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use kqps_proofs::prove::{Proof, Size, prove, prove_part};

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

/// The turn of proofs whose programs need a core each: on a host of two cores a second one beside them withholds CPU time from both.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    // A proof that failed leaves nothing behind.
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A part of the proof of connections.
fn of_connections(part: &str) -> Result<()> {
    let _turn = turn();
    prove_part(Proof::Connections, part, Size::Small, Path::new(env!("CARGO_BIN_EXE_kqps")))
}

#[test]
fn accounts_agree_with_a_server_whose_replies_have_faults() -> Result<()> {
    of_connections("replies")
}

#[test]
fn accounts_agree_with_a_server_that_ends_connections() -> Result<()> {
    of_connections("ends")
}

#[test]
fn accounts_agree_where_queries_wait_for_streams_and_datagrams_are_lost() -> Result<()> {
    of_connections("streams")
}

#[test]
fn accounts_of_a_player_by_uring_agree() -> Result<()> {
    of_connections("uring")
}

#[test]
fn what_a_server_refuses_is_counted() -> Result<()> {
    of_connections("refusals")
}

#[test]
fn a_server_that_is_killed_leaves_every_query_its_fate() -> Result<()> {
    of_connections("killed")
}

#[test]
fn descriptors_and_ports_that_run_out_give_a_result() -> Result<()> {
    of_connections("descriptors")?;
    of_connections("ports")
}

#[test]
fn idle_connections_stay_open() -> Result<()> {
    of_connections("idle")
}

#[test]
fn a_server_that_never_reads_hangs_no_player() -> Result<()> {
    of_connections("deaf")
}

/// A part of the proof of several hosts.
fn of_hosts(part: &str) -> Result<()> {
    let _turn = turn();
    prove_part(Proof::Hosts, part, Size::Small, Path::new(env!("CARGO_BIN_EXE_kqps")))
}

#[test]
fn one_controller_holds_many_players() -> Result<()> {
    of_hosts("scale")
}

#[test]
fn a_fault_anywhere_leaves_nothing_behind_and_the_run_goes_on() -> Result<()> {
    of_hosts("faults")
}

#[test]
fn every_setting_comes_back_wherever_its_change_was_killed() -> Result<()> {
    of_hosts("tuning")
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
