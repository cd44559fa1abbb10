//! `kqps serve echo`.

use kqps_server::{Echo, Service};

use super::options::Serving;

/// Good queries that get no reply.
const SILENCE: &str = "A query longer than 4096 bytes gets no reply (counted as query-too-long), nor does one that is \
                       longer than its link takes at once and came in fragments: replies leave whole or not at all \
                       (counted as send-failed-EMSGSIZE).";

/// Return every query as its own reply: the ceiling of an I/O model
#[derive(clap::Args)]
#[command(after_help = SILENCE)]
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
