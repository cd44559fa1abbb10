//! `kqps serve echo`.

use std::time::Duration;

use kqps_server::Echo;

use super::connections::Connections;
use super::options::Serving;
use super::tls::TlsArgs;
use crate::exit::bad_input;
use crate::value::{parse_duration, parse_within};

/// The longest work for a query. More would block the worker.
const WORK_MOST: Duration = Duration::from_millis(10);

const EXAMPLES: &str = "\
Examples:
  kqps serve echo --listen 127.0.0.1:5300 --listen '[::1]:5300' --io uring
  kqps serve echo --listen quic://127.0.0.1:8853 --cert-type rsa
  kqps serve echo --sockets reuseport --threads 2 --cpus 2,3 --steer cpu
  kqps serve echo --work 2us --for 10m";

/// Return every query as its own reply: the ceiling of an I/O model
///
/// A datagram longer than 4096 bytes gets no reply (counted as query-too-long). Nor does a query that came in fragments: its
/// reply would not fit into one packet of the link (counted as send-failed-EMSGSIZE).
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) serving: Serving,

    /// Accept TCP connections as well
    #[arg(long, help_heading = "Connections")]
    tcp: bool,

    #[command(flatten, next_help_heading = "Connections")]
    connections: Connections,

    #[command(flatten)]
    pub(super) tls: TlsArgs,

    /// Keep the core busy for this long for every query, up to 10ms
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = parse_work, help_heading = "Work")]
    work: Duration,

    /// Do this many rounds of arithmetic for every query, up to 10M: work that takes longer on a slower core
    #[arg(long, value_name = "COUNT", default_value = "0", value_parser = parse_within::<u64>(0..=10_000_000), hide = true)]
    rounds: u64,

    /// Hold a lock of all threads of a process for this long for every query, up to 10ms
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = parse_work, hide = true)]
    lock: Duration,
}

impl Args {
    pub(super) fn service(&self) -> anyhow::Result<Echo> {
        if self.tcp && !self.serving.has_plain() {
            let why = "it needs --listen ADDR:PORT, without a scheme";
            return Err(bad_input(format!("--tcp is about connections beside datagrams: {why}")));
        }
        let has_connections = self.serving.accepts(self.tcp);
        if let Some(flag) = self.connections.given().filter(|_| !has_connections) {
            return Err(bad_input(format!(
                "{flag} is about connections: it needs --tcp, or {}",
                Serving::CONNECTED
            )));
        }
        let connections = has_connections.then(|| self.connections.limits());
        let (work_ns, lock_ns) = (self.work.as_nanos() as u64, self.lock.as_nanos() as u64);
        Ok(Echo { work_ns, rounds: self.rounds, lock_ns, connections, tcp: self.tcp })
    }
}

fn parse_work(text: &str) -> Result<Duration, String> {
    let work = parse_duration(text)?;
    if work > WORK_MOST { Err("expected 10ms at most, such as 500ns or 20us".into()) } else { Ok(work) }
}
