//! `kqps host guard`: waits for the end of the process that holds host settings, and undoes them. kqps starts it.

use std::path::PathBuf;
use std::process::ExitCode;

use kqps_kernel::signal::Signals;
use kqps_tuning::guard::{READY, stand};
use kqps_tuning::{Journal, Owner, Real};

/// Undo the settings of a process when it ends
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The folder of the journal
    #[arg(long, value_name = "DIR")]
    journal: PathBuf,
    /// The number of the process
    #[arg(long, value_name = "PID")]
    pid: u32,
    /// When the process started, ticks since boot
    #[arg(long, value_name = "TICKS")]
    started: u64,
    /// The namespace of its number
    #[arg(long, value_name = "NUMBER")]
    namespace: u64,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    // They are blocked and never read: a signal that ends all processes of a session must not end this one first.
    let _signals = Signals::take(true)?;
    let journal = Journal::at(&args.journal)?;
    let owner = Owner { pid: args.pid, started: args.started, namespace: args.namespace };
    println!("{READY}");
    stand(&Real::host(), &journal, owner, std::io::stdin())?;
    Ok(ExitCode::SUCCESS)
}
