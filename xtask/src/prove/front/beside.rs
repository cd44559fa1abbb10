//! Honest clients beside hostile ones: one that asks question after question and is always answered, and a load whose
//! every query has its fate.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};

use super::super::Bench;
use super::honest::{Client, Heard};
use super::house::{Front, failures};
use crate::kqps::finish;

/// How often an honest client asks again, and how long it waits each time: datagrams may be lost where many come.
pub(super) const TRIES: usize = 5;
pub(super) const TRY: Duration = Duration::from_secs(1);

/// Of the load's queries no more than this share may fail while back ends are well.
const FAILED_MOST: f64 = 0.01;

/// An honest query by a transport is answered.
pub(super) fn honest(client: &mut Client, number: usize) -> Result<()> {
    for attempt in 0..TRIES {
        match client.ask(&format!("honest{number}-{attempt}"), TRY)? {
            Heard::Rcode(0) => return Ok(()),
            Heard::Rcode(rcode) => return Err(anyhow!("an honest query had rcode {rcode}")),
            Heard::Nothing => {}
        }
    }
    Err(anyhow!("an honest query had no answer"))
}

/// Does something while an honest client asks by both transports, again and again.
pub(super) fn beside_a_client<T>(front: &Front, hostile: impl FnOnce() -> Result<T>) -> Result<T> {
    let stop = AtomicBool::new(false);
    let (done, answers) = std::thread::scope(|scope| {
        let asking = scope.spawn(|| ask_until(front.address, &stop));
        let done = hostile();
        stop.store(true, Ordering::Relaxed);
        (done, asking.join())
    });
    let answers = answers.map_err(|_| anyhow!("the honest client panicked"))?.context("beside them")?;
    ensure!(answers > 0, "the honest client had no answer");
    done
}

/// Asks honestly by both transports until told to stop; how many answers there were.
fn ask_until(address: SocketAddr, stop: &AtomicBool) -> Result<usize> {
    let (mut udp, mut tcp, mut count) = (Client::udp(address)?, Client::tcp(address)?, 0);
    while !stop.load(Ordering::Relaxed) {
        honest(&mut udp, count).context("by UDP")?;
        honest(&mut tcp, count).context("by TCP")?;
        count += 2;
    }
    Ok(count)
}

/// What many honest clients ask.
pub(super) struct Load<'a> {
    pub(super) bench: &'a Bench,
    pub(super) queries: PathBuf,
    pub(super) rate_qps: f64,
}

impl Load<'_> {
    /// Does something while they ask for so many seconds, and what they met with.
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
        // What went wrong first is what is told.
        let done = done?;
        let played = played?.measured()?;
        Ok((done, Harm { failed: failures(&played)?, sent: played.accounts.sent }))
    }
}

/// How many of a load's queries failed, and of how many.
pub(super) struct Harm {
    failed: u64,
    sent: u64,
}

impl Harm {
    /// Nobody would notice it.
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
