//! A server that ends all connections and refuses others for a while. What reached it agrees with its counts, and what
//! did not reach it is lost by `refused`.

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use kqps_faults::streams::{Refusal, ServerSettings};
use kqps_kernel::namespace;
use kqps_skips::{Capability, skip};

use super::super::Bench;
use super::bounded::{self, as_a_server_sees, count, merge, sums};
use super::network;
use super::wire::{Kind, Wired};
use crate::child::Running;
use crate::program::finish;

/// Kept connections of the player.
const CONNECTIONS: usize = 16;

/// Refuses once in each trial, for longer than the player's first pauses.
pub(super) fn prove(bench: &Bench) -> Result<()> {
    for kind in Kind::ALL {
        over(bench, &Wired::new(bench, kind)?)?;
    }
    Ok(())
}

fn over(bench: &Bench, wired: &Wired) -> Result<()> {
    let queries = bench.choose(10_000, 100_000);
    let network = network::private();
    let is_quic = wired.kind == Kind::Quic;
    if let Err(reason) = &network {
        skip(Capability::Networks, format!("the kernel's own count of refused attempts: {reason}"));
    }
    let network = network.ok();
    let refusal = Refusal {
        after_queries: u64::from(queries) / 4,
        connections: CONNECTIONS,
        lasts: Duration::from_millis(200),
    };
    let settings = ServerSettings { refusal: Some(refusal), ..wired.server(bench) };
    let server = network::serve(network.as_ref(), settings)?;
    let connections = CONNECTIONS.to_string();
    // In a closed loop all queries may be outstanding when the connections end, and then none asks for another one.
    let rate = ["-q", "16k", "-Q", "20k"];
    let flags = ["-c", &connections, "-n", "1", "-t", "2s", "--lag", "1m", "--check", "answers"];
    let flags = [&flags[..], &rate].concat();
    let flags = wired.flags(&flags);
    let file = bench.queries_with_answers(queries)?;
    let mut command = bounded::command(bench, &[], server.address(), &file, &flags);
    if let Some(network) = &network {
        namespace::enter(&mut command, network)?;
    }
    let trial = finish(Running::start(&mut command)?)?.measured()?;
    let counts = server.stop()?;
    let seen = sums(&trial)?;
    if let Some(doubt) = counts.doubt() {
        bail!("the server's counts are in doubt: {doubt}");
    }
    let truth = counts.expected();
    let (refused, lost) = (count(&seen.failed, "refused"), trial.accounts.sent - counts.queries);
    ensure!(refused > 0, "no attempt was refused: {seen:?}");
    let mut lost_causes = as_a_server_sees(&trial.lost_causes);
    let mut closed = as_a_server_sees(&seen.closed);
    let (mut lost_known, mut closed_known) = (truth.lost.clone(), truth.closed.clone());
    // Over QUIC the close overtakes replies that no acknowledgement has confirmed.
    let overtaken = truth.accounts.correct.saturating_sub(trial.accounts.correct);
    ensure!(
        overtaken <= counts.unacknowledged,
        "correct: {:?}, {truth:?}, and {} replies were on their way",
        trial.accounts,
        counts.unacknowledged
    );
    if lost + overtaken > 0 {
        *lost_known.entry("refused".to_owned()).or_default() += lost + overtaken;
    }
    // When the server closes a connection with unread queries, its kernel resets it, and the server cannot know that. Over
    // QUIC it cannot know whether its close arrived before the kernel's refusal, nor which queries were on their way.
    let by_quic: &[&str] = &["idle", "quic-close", "refused"];
    for counts in [&mut lost_causes, &mut lost_known] {
        merge(counts, if is_quic { by_quic } else { &["refused", "reset"] }, "unread");
    }
    for counts in [&mut closed, &mut closed_known] {
        merge(counts, if is_quic { by_quic } else { &["idle", "reset"] }, "ended");
    }
    ensure!(
        lost_causes == lost_known,
        "lost: {:?} of {}, and the server read {} and counted {:?}",
        trial.lost_causes,
        trial.accounts.sent,
        counts.queries,
        truth.lost
    );
    ensure!(
        seen.attempts - refused == counts.connections && seen.failed.len() == 1 && closed == closed_known,
        "the server accepted {} and closed {:?}: {seen:?}",
        counts.connections,
        truth.closed
    );
    ensure!(
        trial.accounts.correct + overtaken == truth.accounts.correct,
        "correct: {:?}, {truth:?}",
        trial.accounts
    );
    // The kernel counts attempts of TCP.
    if let Some(network) = network.as_ref().filter(|_| !is_quic) {
        let by_kernel = network::attempt_fails(network)?;
        ensure!(by_kernel == refused, "{refused} attempts were refused, and the kernel counted {by_kernel}");
    }
    let name = wired.kind.name();
    eprintln!(
        "{name}: {refused} attempts refused, {lost} queries did not reach the server, {} agree",
        counts.queries - overtaken
    );
    Ok(())
}
