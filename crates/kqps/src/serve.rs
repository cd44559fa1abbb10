//! Not there yet.

/// serve
#[derive(clap::Args, Default)]
pub(crate) struct Args {}

pub(crate) fn run(_args: Args) -> anyhow::Result<std::process::ExitCode> {
    anyhow::bail!("serve is not there yet")
}
