//! `kqps agent`: works for a kqps on another host, which sends its jobs on standard input.

mod keys;

use std::ffi::OsString;
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use kqps_fleet::Identity;
use kqps_remote::agent::{Agent, stand_guard};
use kqps_testbed::subject::{stand_for_group, stand_for_suspended};

use crate::exit::bad_input;

const EXAMPLES: &str = "\
Examples:
  kqps agent --authorized-keys ci.pub >>~/.ssh/authorized_keys
  kqps agent --authorized-keys ci.pub | sudo tee -a /root/.ssh/authorized_keys";

/// Work for kqps on another host, which starts this agent over ssh or in another way
///
/// `kqps run --hosts` starts it on each host of its file, by the command that the file names. The agent listens on no
/// port: jobs come on standard input, and results go to standard output, a line each. It starts name servers, and it
/// plays loads at the targets of the hosts' file alone. When standard input ends, or nothing came for 3 s, it
/// ends all that it started, puts back the settings that it changed, and removes its files.
// The comments are the help text, which has no markup.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
#[allow(clippy::doc_markdown)]
pub(crate) struct Args {
    /// Print lines for authorized_keys by which these public keys start an agent and nothing else
    ///
    /// Run this on the host of the agent, and add the lines to the file of the user that shall run it. The agent starts
    /// the name servers that its controller names, so a program with such a key can start any program as that user.
    #[arg(long, value_name = "KEYFILE")]
    authorized_keys: Option<PathBuf>,

    /// Wait for the end of the agent with this folder, and remove what it left
    #[arg(long, hide = true, value_name = "FOLDER", conflicts_with = "authorized_keys")]
    guard: Option<PathBuf>,

    /// Wait for the end of standard input, and kill the process group with this leader
    #[arg(long, hide = true, value_name = "PID", conflicts_with_all = ["authorized_keys", "guard"])]
    guard_group: Option<u32>,

    /// Read processes until the end of standard input, and resume them
    #[arg(long, hide = true, conflicts_with_all = ["authorized_keys", "guard", "guard_group"])]
    guard_suspended: bool,
}

impl Args {
    /// Whether this process is to be a guard, which signals must not end.
    pub(crate) fn is_guard(&self) -> bool {
        self.guard.is_some() || self.guard_group.is_some() || self.guard_suspended
    }
}

/// Whether these words start a guard. It blocks signals before it reads its options, since a signal that ends all
/// processes of a session must not end it first.
pub(crate) fn is_called_as_guard(mut words: impl Iterator<Item = OsString>) -> bool {
    let is_agent = words.nth(1).is_some_and(|word| word == "agent");
    is_agent && words.next().is_some_and(|word| word.to_string_lossy().starts_with("--guard"))
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(leader) = args.guard_group {
        stand_for_group(leader).context("the process group to guard")?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.guard_suspended {
        stand_for_suspended().context("the processes to resume")?;
        return Ok(ExitCode::SUCCESS);
    }
    let kqps = std::env::current_exe().context("the path of this program is not known")?;
    if let Some(file) = &args.authorized_keys {
        return authorize(file, &kqps);
    }
    if let Some(folder) = &args.guard {
        stand_guard(folder).with_context(|| folder.display().to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    if io::stdin().is_terminal() {
        return Err(bad_input(
            "an agent gets its jobs from another kqps on standard input, and here that is a terminal; kqps run --hosts \
             starts agents",
        ));
    }
    let ours = Identity::of_this_program()?;
    let mut agent = Agent::new(&kqps)?;
    let permission = agent.permission();
    kqps_fleet::serve(&mut agent, &ours, |hello| permission.grant(hello.role, &hello.targets))?;
    Ok(ExitCode::SUCCESS)
}

fn authorize(file: &Path, kqps: &Path) -> anyhow::Result<ExitCode> {
    let name = file.display().to_string();
    let text =
        std::fs::read_to_string(file).map_err(|error| bad_input(format!("cannot read {name}: {error}")))?;
    for line in keys::lines(&name, &text, kqps).map_err(bad_input)? {
        println!("{line}");
    }
    Ok(ExitCode::SUCCESS)
}
