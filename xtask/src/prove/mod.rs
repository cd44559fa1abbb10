//! x
/// o
#[derive(clap::Args)]
pub struct Options {}
/// r
pub fn run(_o: &Options) -> anyhow::Result<()> {
    Ok(())
}
