//! The kernel's own reasons for its drops: in a trial that counts them, each injected drop has its reason,
//! and their number is that of the socket's or the filter's counter.

use anyhow::{Context as _, Result, ensure};
use kqps_kernel::probe;
use kqps_observation::Trial;
use kqps_skips::Capability;

use super::injection::{Injection, Way};
use super::network::Network;
use super::{LOST_LEAST, words};
use crate::prove::{Bench, QUERIES};

/// The injections, with the kernel's names for their drops.
const REASONS: [(Injection, &str); 2] =
    [(Injection::SubjectBuffer, "SOCKET_RCVBUFF"), (Injection::FilterIn, "NETFILTER_DROP")];

/// How often a trial is made. The kernel counts the drops of the whole host, so other programs may add to a
/// count. The trial is then made again.
const ATTEMPTS: u64 = 10;

pub(super) fn prove(bench: &Bench) -> Result<()> {
    if let Err(reason) = probe::probe_one("drop-reasons") {
        return bench.leave_out(Capability::DropReasons, format!("drop reasons: {reason}"));
    }
    for (injection, reason) in REASONS {
        let dropped = one(bench, injection, reason).with_context(|| format!("{injection:?}, {reason}"))?;
        eprintln!("{injection:?}: {dropped} times {reason}");
    }
    Ok(())
}

/// Plays until no other program has dropped packets for the same reason. Returns the number of drops.
fn one(bench: &Bench, injection: Injection, reason: &str) -> Result<u64> {
    let queries = bench.queries(QUERIES / 2)?;
    let mut counts = Vec::new();
    for seed in 1..=ATTEMPTS {
        let network = Network::lay()?;
        let way = Way { seed, drop_reasons: true };
        let (trial, truth) = injection.play(bench, &network, &queries, way)?;
        let counted = counted(&trial, injection, truth, reason).with_context(|| words(&trial))?;
        if counted == truth {
            return Ok(truth);
        }
        counts.push((truth, counted));
    }
    anyhow::bail!("dropped, and counted: {counts:?}")
}

/// The trial's count for a reason. An error if it is less than the number of injected drops.
fn counted(trial: &Trial, injection: Injection, truth: u64, reason: &str) -> Result<u64> {
    trial.accounts.check()?;
    ensure!(truth >= LOST_LEAST, "only {truth} were dropped, which proves nothing");
    ensure!(trial.disturbed, "the record does not say that the trial was disturbed");
    if injection == Injection::SubjectBuffer {
        let subject = trial.subject.as_ref().context("the subject was not watched")?;
        let network = subject.network.as_ref().context("the subject's namespace was not read")?;
        ensure!(subject.socket_drops == Some(truth), "its socket counted {:?}", subject.socket_drops);
        ensure!(network.udp4.rcvbuf_errors == truth, "UDP counted {}", network.udp4.rcvbuf_errors);
    }
    let reasons = trial.hosts.first.drop_reasons.as_ref().context("no reasons were counted")?;
    let counted = reasons.get(reason).copied().unwrap_or(0);
    ensure!(
        counted >= truth,
        "{truth} were dropped, and the kernel gives this reason for {counted}: {reasons:?}"
    );
    Ok(counted)
}
