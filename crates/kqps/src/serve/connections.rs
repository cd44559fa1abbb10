//! Flags about a server's connections with its clients. Each server chooses their heading in its help.

use std::time::Duration;

use kqps_server::connections::Limits;

use crate::value::{SOME, parse_some_time, parse_within};

/// Default time that a connection may make no progress.
const IDLE: Duration = Duration::from_secs(10);

/// Default number of connections at one time, and of those of one client.
const CONNECTIONS: u32 = 4096;
const PER_CLIENT: u32 = 1024;

#[derive(clap::Args)]
pub(super) struct Connections {
    /// Close a connection that makes no progress for this long (default: 10s)
    #[arg(long, value_name = "DURATION", value_parser = parse_some_time)]
    tcp_idle: Option<Duration>,

    /// Connections of each process, or worker of a front, at one time (default: 4096)
    ///
    /// A further one replaces an idle one; over QUIC it is refused.
    #[arg(long, value_name = "N", value_parser = parse_within::<u32>(SOME))]
    tcp_connections: Option<u32>,

    /// Connections of one client to each thread that serves them; more are closed (default: 1024)
    ///
    /// One thread of each process serves connections, with --listeners reuseport one for each worker, and in a front
    /// each worker.
    #[arg(long, value_name = "N", value_parser = parse_within::<u32>(SOME))]
    tcp_per_client: Option<u32>,
}

impl Connections {
    pub(super) fn limits(&self) -> Limits {
        Limits {
            idle: self.tcp_idle.unwrap_or(IDLE),
            connections: self.tcp_connections.unwrap_or(CONNECTIONS) as usize,
            per_client: self.tcp_per_client.unwrap_or(PER_CLIENT) as usize,
        }
    }

    /// The first of these flags that the user gave.
    pub(super) fn given(&self) -> Option<&'static str> {
        let given = [
            ("--tcp-idle", self.tcp_idle.is_some()),
            ("--tcp-connections", self.tcp_connections.is_some()),
            ("--tcp-per-client", self.tcp_per_client.is_some()),
        ];
        given.into_iter().find_map(|(flag, is_given)| is_given.then_some(flag))
    }
}
