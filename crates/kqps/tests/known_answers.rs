//! Proofs whose answer is known beforehand, in their small form: those of `cargo xtask prove` that need the
//! host to themselves, one after the other. The others are in `together`.

mod planted;

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::Result;
use kqps_proofs::prove::{Proof, Size, prove, prove_part};

/// The lock of the proof that has the host to itself.
static TURN: Mutex<()> = Mutex::new(());

fn alone(proof: Proof) -> Result<()> {
    // A proof that failed says nothing about the next one.
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    prove(proof, Size::Small, Path::new(env!("CARGO_BIN_EXE_kqps")))
}

#[test]
fn a_frozen_subject_shows_in_the_quantiles() -> Result<()> {
    alone(Proof::Freeze)
}

#[test]
fn a_constant_delay_moves_the_median_by_just_that() -> Result<()> {
    alone(Proof::Delay)
}

#[test]
fn latencies_over_connections_are_those_that_are_known() -> Result<()> {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    for part in ["freeze", "delay"] {
        prove_part(Proof::Connections, part, Size::Small, Path::new(env!("CARGO_BIN_EXE_kqps")))?;
    }
    Ok(())
}

/// Parts of proofs whose programs need a core each: on a host of two cores a second one beside them withholds CPU time
/// from both.
const IN_TURN: [(&str, Proof, &[&str]); 20] = [
    ("accounts agree with a server whose replies have faults", Proof::Connections, &["replies"]),
    ("accounts agree with a server that ends connections", Proof::Connections, &["ends"]),
    ("accounts agree if queries wait for streams and datagrams are lost", Proof::Connections, &["streams"]),
    ("accounts of a player by io_uring agree", Proof::Connections, &["uring"]),
    ("what a server refuses is counted", Proof::Connections, &["refusals"]),
    ("a server that is killed leaves every query its fate", Proof::Connections, &["killed"]),
    ("descriptors and ports that run out give a result", Proof::Connections, &["descriptors", "ports"]),
    ("idle connections stay open", Proof::Connections, &["idle"]),
    ("a server that never reads hangs no player", Proof::Connections, &["deaf"]),
    ("a course is due by its integral, and resperf finds a capacity", Proof::Courses, &["ramp", "resperf"]),
    (
        "classes of clients have fates of their own",
        Proof::Scenario,
        &["apart", "together", "attack", "breaking", "standstill"],
    ),
    ("attackers do what a server counts", Proof::Scenario, &["attackers"]),
    ("events are done when the answers say so", Proof::Scenario, &["events"]),
    ("a reload loses what a relay saw lost", Proof::Scenario, &["reload"]),
    ("answers of an Internet in a box leave when they should", Proof::Internet, &["delays"]),
    (
        "a resolver by the book finds every name, also in the tree of its capture",
        Proof::Internet,
        &["book", "captured"],
    ),
    ("Unbound finds every name of the box, which counts all its queries", Proof::Internet, &["resolver"]),
    ("one controller holds many players", Proof::Hosts, &["scale"]),
    ("a fault anywhere leaves nothing behind, and the run goes on", Proof::Hosts, &["faults"]),
    ("every setting comes back wherever its change was killed", Proof::Hosts, &["tuning"]),
];

#[test]
fn parts_whose_programs_need_a_core_each_hold() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
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

/// The workflow of docs/ci.md, with a server that answers half as much from a certain commit on.
#[test]
fn the_documented_workflow_fails_the_commit_that_made_the_server_slower() -> Result<()> {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    prove_part(Proof::History, "recipe", Size::Small, Path::new(env!("CARGO_BIN_EXE_kqps")))
}

/// A part of the proof of several hosts.
fn of_hosts(part: &str) -> Result<()> {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    prove_part(Proof::Hosts, part, Size::Small, Path::new(env!("CARGO_BIN_EXE_kqps")))
}

#[test]
fn clocks_of_other_hosts_are_known_to_the_stated_uncertainty() -> Result<()> {
    of_hosts("clocks")
}

#[test]
fn two_players_on_hosts_of_their_own_send_what_the_server_receives() -> Result<()> {
    of_hosts("ssh")
}

#[test]
fn time_in_the_servers_host_is_the_servers_own_beyond_a_slow_wire() -> Result<()> {
    of_hosts("residence")
}

#[test]
fn two_players_follow_one_course() -> Result<()> {
    of_hosts("courses")
}

#[test]
fn accounts_of_connections_past_the_kernel_agree_with_a_server_that_makes_faults() -> Result<()> {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    prove_part(Proof::Connections, "past-kernel", Size::Small, Path::new(env!("CARGO_BIN_EXE_kqps")))
}

#[test]
fn a_replay_is_as_it_was_captured() -> Result<()> {
    alone(Proof::Replay)
}

#[test]
fn a_starved_player_gives_no_rate() -> Result<()> {
    alone(Proof::Starved)
}

#[test]
fn every_loss_is_placed_where_it_was_made() -> Result<()> {
    alone(Proof::Ledger)
}

#[test]
fn a_flood_costs_an_authoritative_server_little() -> Result<()> {
    alone(Proof::Overload)
}

#[test]
fn a_front_gives_every_query_one_end() -> Result<()> {
    alone(Proof::Front)
}

#[test]
fn a_cache_keeps_no_forged_answer_and_gives_every_query_a_fate() -> Result<()> {
    alone(Proof::Cache)
}

#[test]
fn a_core_that_stands_still_is_witnessed() -> Result<()> {
    alone(Proof::Gauge)
}

#[test]
fn what_the_host_does_meanwhile_is_seen() -> Result<()> {
    alone(Proof::Disturbed)
}

#[test]
fn a_search_of_a_fresh_server_gives_a_figure() -> Result<()> {
    alone(Proof::Reproduce)
}

#[test]
fn a_planted_lock_is_named_with_its_share_and_no_other_one_is() -> Result<()> {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    planted::a_planted_lock_is_named_with_its_share_and_no_other_one_is()
}
