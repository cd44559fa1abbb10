//! Not there yet.

/// run
#[derive(clap::Args, Default)]
pub(crate) struct Args {}

pub(crate) fn run(_args: Args) -> anyhow::Result<std::process::ExitCode> {
    anyhow::bail!("run is not there yet")
}
