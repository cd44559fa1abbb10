//! Not there yet.

/// gen
#[derive(clap::Args, Default)]
pub(crate) struct Args {}

pub(crate) fn run(_args: Args) -> anyhow::Result<std::process::ExitCode> {
    anyhow::bail!("gen is not there yet")
}
