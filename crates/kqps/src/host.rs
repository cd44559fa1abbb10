//! Not there yet.

/// host
#[derive(clap::Args, Default)]
pub(crate) struct Args {}

pub(crate) fn run(_args: Args) -> anyhow::Result<std::process::ExitCode> {
    anyhow::bail!("host is not there yet")
}
