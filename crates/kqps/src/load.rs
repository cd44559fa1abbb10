//! Not there yet.

/// load
#[derive(clap::Args, Default)]
pub(crate) struct Args {}

pub(crate) fn run(_args: Args) -> anyhow::Result<std::process::ExitCode> {
    anyhow::bail!("load is not there yet")
}
