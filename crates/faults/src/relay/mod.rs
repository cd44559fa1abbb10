//! A UDP relay between a player and its subject that makes faults, and counts them to the last packet.
//!
//! Every query gets one fault at most, drawn from a seed, so that its fate in the player's accounts is
//! certain: [`Counts::expected`] has the accounts that the player must report. Without a subject the relay
//! answers by itself, as an echo would. It must not lose packets itself, so its buffers are large, and it
//! counts what its sockets drop nevertheless.
//!
//! One fault needs care: a reply with a wrong ID must neither match another open query nor look like a second
//! reply to an answered one. The relay sees every ID of every socket of the player. It makes up an ID that
//! the socket has not used yet and will use last. If a socket goes through all its IDs, the two clash. The
//! relay counts clashes, and its counts are then not exact. A proof therefore keeps below 60,000 queries a
//! socket.

mod counts;
mod engine;
mod fault;
mod flow;
mod outbox;
mod waiting;
mod wire;
mod witness;

#[cfg(test)]
mod tests;

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};

pub use counts::Counts;
pub use fault::{Fault, Plan, Share};
pub use wire::answer;
pub use witness::{Handed, Witness};

use crate::thread::Background;
use engine::Engine;

/// The settings of a relay.
#[derive(Clone, Debug)]
pub struct RelaySettings {
    /// The address that it receives queries at; port 0 stands for any free one.
    pub listen: SocketAddr,
    /// The server that it passes queries on to; `None` if it answers them itself.
    pub subject: Option<SocketAddr>,
    /// The faults and their shares.
    pub plan: Plan,
    /// The seed of the random choice of faults.
    pub seed: u64,
    /// Delay of every reply, microseconds.
    pub delay_us: u64,
    /// Delay of a reply with [`Fault::Delay`], microseconds: less than the player's timeout.
    pub fault_delay_us: u64,
    /// Delay of a reply with [`Fault::Late`], microseconds: more than the player's timeout, less than its
    /// drain.
    pub late_us: u64,
    /// The core that it is pinned to; `None` for any.
    pub cpu: Option<u32>,
    /// Whether it spins instead of sleeping, so that it answers without the delay of waking up.
    pub spin: bool,
    /// Whether it notes the time of each reply.
    pub witness: bool,
}

impl Default for RelaySettings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            subject: None,
            plan: Plan::default(),
            seed: 1,
            delay_us: 0,
            fault_delay_us: 2_000,
            late_us: 750_000,
            cpu: None,
            spin: false,
            witness: false,
        }
    }
}

/// A relay that runs in a thread of its own. Dropping it stops it.
pub struct Relay {
    address: SocketAddr,
    thread: Background<(Counts, Witness)>,
}

impl Relay {
    /// Opens its sockets, and starts relaying. An error if it cannot open them.
    pub fn start(settings: RelaySettings) -> Result<Self> {
        let cpu = settings.cpu;
        let engine = Engine::new(settings).context("the relay cannot open its sockets")?;
        let address = engine.address()?;
        let thread = Background::start(("the relay", "relay"), cpu, move |stop| Ok(engine.run(stop)?))?;
        Ok(Self { address, thread })
    }

    /// The address that players send to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops it, and returns its counts. An error if it failed meanwhile.
    pub fn stop(self) -> Result<Counts> {
        self.stop_with_witness().map(|(counts, _)| counts)
    }

    /// Stops it, and returns its counts and the times of replies. Without [`RelaySettings::witness`] there are no
    /// times.
    pub fn stop_with_witness(self) -> Result<(Counts, Witness)> {
        self.thread.stop()
    }
}

/// The options of `cargo xtask relay`.
#[derive(clap::Args)]
pub struct Options {
    /// The address to receive queries at
    #[arg(long, default_value = "127.0.0.1:5354")]
    listen: SocketAddr,
    /// The server to pass them on to; without it the relay answers by itself
    #[arg(long)]
    subject: Option<SocketAddr>,
    /// NAME=SHARE: the share of queries with this fault, 0 to 1; `every` stands for all faults (repeatable)
    #[arg(long, value_name = "NAME=SHARE")]
    fault: Vec<Share>,
    /// The seed of the random choice of faults
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Delay every reply by this many microseconds
    #[arg(long, default_value_t = 0)]
    delay_us: u64,
    /// Delay a reply with the fault `late` by this many microseconds
    #[arg(long, default_value_t = 750_000)]
    late_us: u64,
    /// The core to pin to
    #[arg(long)]
    cpu: Option<u32>,
    /// Never sleep
    #[arg(long)]
    spin: bool,
    /// Stop after this many seconds; a signal stops it too
    #[arg(long = "for", default_value_t = 60.0, value_name = "SECONDS")]
    seconds: f64,
}

/// Relays until a signal comes or the time is up. Prints one line of JSON when it is ready, and one with the
/// counts at the end.
pub fn run(options: &Options) -> Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let relay = Relay::start(RelaySettings {
        listen: options.listen,
        subject: options.subject,
        plan: Plan::from_shares(&options.fault)?,
        seed: options.seed,
        delay_us: options.delay_us,
        late_us: options.late_us,
        cpu: options.cpu,
        spin: options.spin,
        ..RelaySettings::default()
    })?;
    print_line(&json!({"kind": "ready", "addresses": [relay.address()]}))?;
    let end = Instant::now() + Duration::from_secs_f64(options.seconds);
    while !stop.load(Ordering::Relaxed) && Instant::now() < end && relay.thread.is_at_work() {
        std::thread::sleep(Duration::from_millis(10));
    }
    let counts = relay.stop()?;
    print_line(&json!({
        "kind": "relay",
        "counts": counts,
        "expected": counts.expected(),
        "expected_wrong_causes": counts.expected_wrong_causes(),
        "doubt": counts.doubt(),
    }))
}

#[allow(clippy::disallowed_methods)] // no part of kqps itself
fn print_line(line: &serde_json::Value) -> Result<()> {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{line}")?;
    Ok(output.flush()?)
}
