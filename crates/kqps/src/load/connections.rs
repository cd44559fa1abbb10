//! The transport of a load, and the flags of its connections.

use std::time::Duration;

use clap::ValueEnum;
use kqps_observation::trial::Transport;
use kqps_player::plan::{CONNECTIONS_MOST, OUTSTANDING_MOST};
use kqps_player::{Close, Io, QuicPlan, TcpPlan, TlsPlan};
use kqps_quic::Congestion;

use crate::exit::bad_input;
use crate::value::{parse_timeout, parse_within};

/// Connections of each thread, if the flags do not say how many.
const CONNECTIONS_PER_THREAD: u64 = 8;

/// Connections of each thread of an open loop with one query to each connection, or none, if the flags do not say how
/// many. A place is free again once its query was answered, or its connection made.
const ALONE_PER_THREAD: u64 = 256;

/// Parses what carries the queries, as `-m` and the scheme of a URL name it.
pub(super) fn parse_transport(text: &str) -> Result<Transport, String> {
    match text {
        // dnsperf names these by the protocol above them.
        "dot" => Ok(Transport::Tls),
        "doh" => Ok(Transport::Https),
        "doq" => Ok(Transport::Quic),
        _ => Transport::of_word(text).ok_or_else(|| "expected udp, tcp, tls, https or quic".into()),
    }
}

/// Refuses an I/O model that is not for a transport.
pub(super) fn check_io(io: Io, transport: Transport) -> anyhow::Result<()> {
    let offered = Io::over(transport);
    if io == Io::Auto || offered.contains(&io) {
        return Ok(());
    }
    let is_for = Transport::ALL.into_iter().filter(|one| Io::over(*one).contains(&io));
    let is_for: Vec<&str> = is_for.map(Transport::word).collect();
    let offered: Vec<&str> = offered.iter().map(|io| io.name()).collect();
    let (io, is_for, over) = (io.name(), is_for.join(", "), transport.word());
    Err(bad_input(if offered.is_empty() {
        format!("--io {io} is for {is_for}; leave it out with {over}")
    } else {
        format!("--io {io} is for {is_for}; over {over} it is one of {}", offered.join(", "))
    }))
}

/// Connections at once of `threads` threads, if each has one query or none, and the flags do not say how many.
pub(super) fn usual_alone(threads: u64) -> u64 {
    threads.saturating_mul(ALONE_PER_THREAD)
}

/// How connections are closed, as typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CloseArg {
    Fin,
    Rst,
}

/// The flags of connections. The comments are the help text.
#[derive(clap::Args)]
#[allow(clippy::doc_markdown)] // the comments are the help text
#[command(next_help_heading = "Connections")]
pub(crate) struct ConnectionArgs {
    /// Close each connection after this many queries, or once it is made: 0 (default: keep it)
    ///
    /// Kept connections are opened before the load begins. With this flag a connection is opened when a query needs it,
    /// and its making is part of that query's latency. With 0 the load is connections and no queries: one is opened
    /// whenever a query would be due, and closed once it is made, over TLS and QUIC after the handshake. -Q is then
    /// connections a second, -q how many are being made at once, and -n how often each line of the query file stands
    /// for one. At most -c are open at once. With 0 and 1 these are, by default, as many as -q, or 256 for each thread.
    #[arg(long, value_name = "N", value_parser = parse_within::<u32>(0..=1_000_000_000))]
    queries_per_connection: Option<u32>,

    /// Have at most this many queries outstanding on a connection (default: 65536)
    #[arg(long, value_name = "N", value_parser = parse_within::<u32>(1..=65_536))]
    outstanding_per_connection: Option<u32>,

    /// Close connections with: fin (the default) or rst
    ///
    /// With rst no port stays in TIME_WAIT, and the server does other work than for clients that close normally.
    #[arg(long, value_name = "HOW", hide_possible_values = true)]
    close: Option<CloseArg>,

    /// Give up a connection that is not made after this time (default: the timeout)
    #[arg(long, value_name = "DURATION", value_parser = parse_timeout)]
    connect_timeout: Option<Duration>,
}

impl ConnectionArgs {
    /// Connections at once of `threads` threads, if the flags do not say how many. `window` is how many queries may be
    /// outstanding.
    pub(super) fn usual_count(&self, threads: u64, window: Option<u64>) -> u64 {
        match window {
            _ if !self.have_one_query() => threads.saturating_mul(CONNECTIONS_PER_THREAD),
            Some(window) => window.clamp(1, CONNECTIONS_MOST as u64),
            None => usual_alone(threads),
        }
    }

    /// Whether each connection has one query, or stands for one.
    pub(super) fn have_one_query(&self) -> bool {
        self.queries_per_connection.is_some_and(|queries| queries <= 1)
    }

    /// The plan of `connections` connections with these flags, where a reply may take `timeout`.
    pub(super) fn plan(&self, connections: usize, timeout: Duration) -> TcpPlan {
        TcpPlan {
            io: Io::Auto,
            connections,
            queries_per_connection: self.queries_per_connection,
            outstanding: self.outstanding_per_connection.unwrap_or(OUTSTANDING_MOST),
            close: match self.close {
                Some(CloseArg::Rst) => Close::Rst,
                Some(CloseArg::Fin) | None => Close::Fin,
            },
            connect_timeout: self.connect_timeout.unwrap_or(timeout),
            buffer_bytes: None,
            tls: None,
            device: None,
            local_port: None,
        }
    }

    /// The plan of `connections` connections over QUIC with these flags, where a reply may take `timeout`. All else is
    /// usual.
    pub(super) fn plan_quic(
        &self,
        connections: usize,
        timeout: Duration,
        tls: TlsPlan,
    ) -> anyhow::Result<QuicPlan> {
        if self.close.is_some() {
            return Err(bad_input("--close is about TCP: QUIC closes connections in one way"));
        }
        let TcpPlan { connections, queries_per_connection, outstanding, connect_timeout, .. } =
            self.plan(connections, timeout);
        Ok(QuicPlan {
            connections,
            queries_per_connection,
            outstanding,
            connect_timeout,
            buffer_bytes: None,
            tls,
            congestion: Congestion::default(),
        })
    }

    /// Refuses flags of connections that are used as they were captured.
    pub(super) fn check_as_captured(&self) -> anyhow::Result<()> {
        if self.queries_per_connection.is_some() {
            return Err(bad_input(
                "--queries-per-connection: connections of a capture are used as they were then; give the target as \
                 tcp://ADDR to use them otherwise",
            ));
        }
        Ok(())
    }

    /// Refuses flags of connections if there are none.
    pub(super) fn check_none_is_given(&self) -> anyhow::Result<()> {
        let given = [
            (self.queries_per_connection.is_some(), "--queries-per-connection"),
            (self.outstanding_per_connection.is_some(), "--outstanding-per-connection"),
            (self.close.is_some(), "--close"),
            (self.connect_timeout.is_some(), "--connect-timeout"),
        ];
        match given.into_iter().find(|(is_given, _)| *is_given) {
            Some((_, flag)) => {
                Err(bad_input(format!("{flag}: UDP has no connections; play over tcp (-m tcp)")))
            }
            None => Ok(()),
        }
    }
}
