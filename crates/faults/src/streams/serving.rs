//! The loop of a server on connections. What a round does differs by the wire.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use kqps_kernel::clock;

use super::counts::Counts;
use super::shared::{SLEEP_NS, Shared};
use crate::relay::Witness;

/// How long the server waits for its connections to end after it was stopped, nanoseconds.
const LAST_NS: u64 = 2_000_000_000;

/// How long it waits if it drops datagrams, nanoseconds: some that say that the player ended a connection are among
/// them.
const LAST_DROPPED_NS: u64 = 300_000_000;

/// A server whose rounds the loop makes.
pub(super) trait Serving {
    /// The address that players connect to.
    fn address(&self) -> SocketAddr;

    fn shared(&mut self) -> &mut Shared;

    /// Makes one round of the loop. Returns whether something may still wait to be read, although all connections have
    /// ended.
    fn turn(&mut self) -> Result<bool>;

    /// Connections that have not ended.
    fn live(&self) -> usize;

    /// Does what each round needs after the server was stopped.
    fn hear_again(&mut self, _now_ns: u64) -> Result<()> {
        Ok(())
    }

    /// Completes the counts.
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Serves until `stop` is set and all connections have ended. Returns the counts, and the times of replies if the
/// settings ask for them.
pub(super) fn serve(server: &mut dyn Serving, stop: &AtomicBool) -> Result<(Counts, Witness)> {
    clock::set_timer_slack_ns(1)?;
    let drops = server.shared().settings.disorder.drop_every > 0;
    let last_most_ns = if drops { LAST_DROPPED_NS } else { LAST_NS };
    let (mut last_look_ns, mut stopped_ns) = (clock::now_ns(), None);
    loop {
        let may_read_more = server.turn()?;
        let now_ns = clock::now_ns();
        let counts = &mut server.shared().counts;
        let away_us = (now_ns - last_look_ns).saturating_sub(SLEEP_NS) / 1000;
        counts.longest_away_us = counts.longest_away_us.max(away_us);
        last_look_ns = now_ns;
        if stop.load(Ordering::Relaxed) {
            let since_ns = *stopped_ns.get_or_insert(now_ns);
            server.hear_again(now_ns)?;
            if (server.live() == 0 && !may_read_more) || now_ns - since_ns > last_most_ns {
                break;
            }
        }
    }
    server.finish()?;
    let left = server.live() as u64;
    let shared = server.shared();
    shared.counts.left = left;
    Ok((std::mem::take(&mut shared.counts), std::mem::take(&mut shared.witness)))
}
