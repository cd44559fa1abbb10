//! `kqps serve status`.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use kqps_server::Report;

use super::words;

/// How long a front may take to tell.
const PATIENCE: Duration = Duration::from_secs(5);

/// Tell what a front has counted so far
#[derive(clap::Args)]
pub(super) struct Args {
    /// The Unix socket that it was given by --status
    #[arg(value_name = "PATH")]
    socket: PathBuf,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let asked = || format!("asking the front at {}", self.socket.display());
        let mut text = String::new();
        let mut stream = UnixStream::connect(&self.socket).with_context(asked)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.read_to_string(&mut text).with_context(asked)?;
        let mut out = io::stdout();
        if self.json {
            out.write_all(text.as_bytes())?;
        } else {
            let report: Report = serde_json::from_str(&text).with_context(asked)?;
            words::counts(&mut out, false, &report)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
