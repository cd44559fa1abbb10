//! A player that gets a small part of a core measures itself. It must say so and give no rate.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use anyhow::{Context as _, Result, anyhow, bail};
use kqps_kernel::affinity;

use super::{Bench, QUERIES};
use crate::child::{Running, pinned};
use crate::kqps::finish;

/// The niceness that leaves the player about 5 % of a core beside one busy thread (weights 56 and 1024,
/// sched(7)). It takes no privilege, as a control group would.
const NICENESS: &str = "13";

/// The exit status of a figure that is refused.
const REFUSED: i32 = 3;

/// Plays at a rate that a whole core would reach easily, on a core that another thread keeps busy.
pub(super) fn prove(bench: &Bench) -> Result<()> {
    let (_echo, address) = bench.kqps.echo("mmsg")?;
    let file = bench.queries(QUERIES)?;
    let spinner = Spinner::start(bench.kqps.player_cpu)?;

    let cpu = bench.kqps.player_cpu.to_string();
    let mut command = pinned(&cpu, "nice");
    command.args(["-n", NICENESS]).arg(&bench.kqps.program);
    command.args(["load", &address.to_string(), "--json", "--cpus", &cpu, "--queries"]).arg(&file);
    command.args(["-Q", "100k", "-l", bench.choose("2s", "10s")]);
    let played = finish(Running::start(&mut command)?)?;
    spinner.stop()?;

    let trial = played.trial.context("kqps load printed no record")?;
    trial.accounts.check()?;
    eprintln!(
        "starved: {:.1} s of CPU, warnings {:?}, status {:?}",
        played.cpu_s, played.warnings, played.code
    );
    if !played.warnings.iter().any(|code| code == "player-limited") {
        bail!("a starved player is not called player-limited, but: {:?}", played.warnings);
    }
    if played.code != Some(REFUSED) {
        bail!(
            "a starved player's figure is to be refused (status {REFUSED}), and the status is {:?}",
            played.code
        );
    }
    Ok(())
}

/// A thread that keeps a core busy.
struct Spinner {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<std::io::Result<()>>,
}

impl Spinner {
    fn start(cpu: u32) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let spin = move || {
            affinity::pin_thread(cpu)?;
            while !told.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
            Ok(())
        };
        let thread = std::thread::Builder::new().name("spinner".into()).spawn(spin)?;
        Ok(Self { stop, thread })
    }

    fn stop(self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow!("the spinner panicked"))?.context("cannot pin the spinner")
    }
}
