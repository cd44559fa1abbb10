//! Proofs whose answer is known beforehand and does not depend on how busy the host is, mostly counts: those
//! of `cargo xtask prove`, in their small form, many at the same time.

use std::path::Path;
use std::time::Instant;

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

/// Parts of proofs whose programs need a core each: on a host of two cores a second one beside them withholds CPU time
/// from both.
const IN_TURN: [(&str, Proof, &[&str]); 12] = [
    ("accounts agree with a server whose replies have faults", Proof::Connections, &["replies"]),
    ("accounts agree with a server that ends connections", Proof::Connections, &["ends"]),
    ("accounts agree if queries wait for streams and datagrams are lost", Proof::Connections, &["streams"]),
    ("accounts of a player by io_uring agree", Proof::Connections, &["uring"]),
    ("what a server refuses is counted", Proof::Connections, &["refusals"]),
    ("a server that is killed leaves every query its fate", Proof::Connections, &["killed"]),
    ("descriptors and ports that run out give a result", Proof::Connections, &["descriptors", "ports"]),
    ("idle connections stay open", Proof::Connections, &["idle"]),
    ("a server that never reads hangs no player", Proof::Connections, &["deaf"]),
    ("one controller holds many players", Proof::Hosts, &["scale"]),
    ("a fault anywhere leaves nothing behind, and the run goes on", Proof::Hosts, &["faults"]),
    ("every setting comes back wherever its change was killed", Proof::Hosts, &["tuning"]),
];

/// A single test, so that parts that wait for their turn keep no thread from the other tests. Its name makes it the first.
#[test]
fn a_part_whose_programs_need_a_core_each_holds() {
    let mut failures = Vec::new();
    for (claim, proof, parts) in IN_TURN {
        let began = Instant::now();
        for part in parts {
            // A part that failed leaves nothing behind.
            let outcome = prove_part(proof, part, Size::Small, Path::new(env!("CARGO_BIN_EXE_kqps")));
            failures.extend(outcome.err().map(|error| format!("{claim} ({part}): {error:#}")));
        }
        println!("{claim}: {:.1} s", began.elapsed().as_secs_f64());
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
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
