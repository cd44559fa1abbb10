//! `kqps serve echo`.

use kqps_server::{Echo, Service};

use super::options::Serving;

/// Return every query as its own reply: the ceiling of an I/O model
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) serving: Serving,

    /// Spin for this long for every query, up to 10 ms
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=10_000_000))]
    work_ns: u64,
}

impl Args {
    pub(super) fn service(&self) -> Service {
        Service::Echo(Echo { work_ns: self.work_ns })
    }
}
