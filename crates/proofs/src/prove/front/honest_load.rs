//! Honest clients beside hostile ones: a client that asks one question after the other and always gets its
//! answer, and a load whose every query is accounted for.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, anyhow, ensure};
use kqps_faults::thread::Background;

use super::super::Bench;
use super::honest::{AskResult, Client};
use super::servers::{Front, failures};
use crate::program::finish;

/// How often an honest client asks again, and how long it waits each time, since datagrams may be lost in a
/// flood.
const TRIES: usize = 5;
pub(super) const TRY: Duration = Duration::from_secs(1);

/// The share of the load's queries that may fail while the back ends are well.
const FAILED_MOST: f64 = 0.01;

/// Asserts that an honest query by a client's transport is answered.
pub(super) fn honest(client: &mut Client, number: usize) -> Result<()> {
    for attempt in 0..TRIES {
        match client.ask(&format!("honest{number}-{attempt}"), TRY)? {
            AskResult::Rcode(0) => return Ok(()),
            AskResult::Rcode(rcode) => return Err(anyhow!("an honest query had rcode {rcode}")),
            AskResult::Nothing => {}
        }
    }
    Err(anyhow!("an honest query had no answer"))
}

/// Runs `hostile` while two honest clients ask again and again, one by each transport. Neither waits for the
/// other: a connection without queries is an idle one, which a front may close.
pub(super) fn beside_clients<T>(front: &Front, hostile: impl FnOnce() -> Result<T>) -> Result<T> {
    let begin = |what: &'static str, client: Client| {
        Background::start((what, "honest"), None, move |stop| ask_until(client, stop))
    };
    let asking = [
        begin("an honest client by UDP", Client::udp(front.address)?)?,
        begin("an honest client by TCP", Client::tcp(front.address)?)?,
    ];
    let done = hostile();
    asking.into_iter().try_for_each(Background::stop)?;
    done
}

/// Asks honestly until `stop` is set, and once at least.
fn ask_until(mut client: Client, stop: &AtomicBool) -> Result<()> {
    let mut count = 0;
    loop {
        honest(&mut client, count)?;
        count += 1;
        if stop.load(Ordering::Relaxed) {
            return Ok(());
        }
    }
}

/// The queries of many honest clients.
pub(super) struct HonestLoad<'a> {
    pub(super) bench: &'a Bench,
    pub(super) queries: PathBuf,
    pub(super) rate_qps: f64,
}

impl HonestLoad<'_> {
    /// Runs `hostile` while they ask for `load_s` seconds. Returns its result and the load's failures.
    pub(super) fn beside<T>(
        &self,
        front: &Front,
        load_s: u64,
        hostile: impl FnOnce() -> Result<T>,
    ) -> Result<(T, Harm)> {
        let (rate, duration) = (format!("{:.0}", self.rate_qps), format!("{load_s}s"));
        // Longer than the front lets any client wait.
        let flags = ["-T", "1", "-c", "8", "-Q", &rate, "-l", &duration, "-t", "3s", "--check", "answers"];
        let player = self.bench.kqps.start_load(front.address, &self.queries, &flags)?;
        let done = hostile();
        let played = finish(player);
        // The error that came first is the one to report.
        let done = done?;
        let played = played?.measured()?;
        Ok((done, Harm { failed: failures(&played)?, sent: played.accounts.sent }))
    }
}

/// The number of failed queries of a load, and the number of all.
pub(super) struct Harm {
    failed: u64,
    sent: u64,
}

impl Harm {
    /// An error if more queries failed than users would accept.
    pub(super) fn is_small(&self) -> Result<()> {
        ensure!(self.failed as f64 <= FAILED_MOST * self.sent as f64, "{self}");
        Ok(())
    }
}

impl fmt::Display for Harm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "of {} honest queries beside that {} failed", self.sent, self.failed)
    }
}
