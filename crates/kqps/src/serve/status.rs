//! `kqps serve status`.

use std::io::{self, ErrorKind, Read as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use kqps_server::Report;

use super::words;
use crate::print;

/// How long a front may take to send its counts.
const PATIENCE: Duration = Duration::from_secs(5);

const EXAMPLES: &str = "\
Examples:
  kqps serve status /run/front.sock
  kqps serve status /run/front.sock --json";

/// Print the counts of a front or a cache so far
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The server's Unix socket, as given to its --status
    #[arg(value_name = "PATH")]
    socket: PathBuf,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let asked = || format!("asking the front at {}", self.socket.display());
        let text = self.ask().map_err(explained).with_context(asked)?;
        let report: Report = serde_json::from_str(&text)
            .map_err(|_| anyhow!("it does not answer as a front"))
            .with_context(asked)?;
        words::counts(&mut print::Out, self.json, &report)?;
        Ok(ExitCode::SUCCESS)
    }
    fn ask(&self) -> io::Result<String> {
        let mut stream = UnixStream::connect(&self.socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    }
}

/// An error with the likely cause of a failed request.
fn explained(error: io::Error) -> anyhow::Error {
    match error.kind() {
        ErrorKind::NotFound => {
            anyhow!("there is no such file; a front that is started with --status creates it")
        }
        ErrorKind::ConnectionRefused => anyhow!("nothing listens there"),
        ErrorKind::WouldBlock | ErrorKind::InvalidData => anyhow!("it does not answer as a front"),
        _ => error.into(),
    }
}
