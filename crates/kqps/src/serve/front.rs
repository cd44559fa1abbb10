//! `kqps serve front`.

mod file;
mod reload;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;
use clap::builder::PossibleValuesParser;
use kqps_front::policy::{BackEnd, Choice, Target};
use kqps_front::{Checks, Front, FrontSettings, Policy};
use kqps_message::{query, rtype};

use super::connections::Connections;
use super::options::Serving;
use crate::exit::bad_input;
use crate::value::{
    SOME, parse_buffer_size, parse_duration, parse_listen, parse_some_time, parse_timeout, parse_within,
};
use reload::PolicyFile;

/// Default policy for the choice among several back ends.
const CHOICE: Choice = Choice::LeastOutstanding;

const EXAMPLES: &str = "\
Examples:
  kqps serve front --backend udp://127.0.0.1:5301 --status /run/front.sock
  kqps serve front --backend tcp://127.0.0.1:5301 --backend unix:b.sock,weight=2
  kqps serve front --config front.toml --threads 4 --metrics 127.0.0.1:9153
  kqps serve status /run/front.sock";

/// Help for flags that mean less for a front than for other servers.
const LISTEN: &str = "Listen here: ADDR:PORT, or udp://ADDR[:PORT] for datagrams alone (repeatable)";
const LISTEN_LONG: &str = "\
Listen here: ADDR:PORT, or udp://ADDR[:PORT] for datagrams alone (repeatable)

At an address without a scheme a front takes datagrams, and connections by TCP unless --no-tcp says otherwise. It takes \
no connections at addresses of their own, in TLS or over QUIC. Port 0 picks a free port; that of udp:// is 53 if it is \
left out.";
const LISTENERS: &str = "Which TCP sockets accept connections, which the workers serve (default: shared)";

const IO: &str = "Receive and send datagrams by mmsg (the default), segment or uring";

/// Pass queries to name servers in batches, and return their answers
#[derive(clap::Args)]
#[command(
    after_help = EXAMPLES,
    mut_arg("listen", |listen| listen.help(LISTEN).long_help(LISTEN_LONG)),
    mut_arg("listeners", |listeners| listeners.help(LISTENERS).long_help(LISTENERS)),
    mut_arg("io", |io| io.hide_possible_values(true).help(IO).long_help(IO)),
    mut_arg("device", |device| device.hide(true)),
    mut_arg("processes", |processes| processes.hide(true)),
    mut_arg("threads", |threads| threads.help("Worker threads"))
)]
#[allow(clippy::doc_markdown)] // the comments are the help text
pub(super) struct Args {
    /// A server that answers: `udp://ADDR[:PORT]`, `tcp://ADDR[:PORT]` or `unix:PATH` (repeatable)
    #[arg(
        long,
        value_name = "[NAME=]URL[,weight=N]",
        required_unless_present = "config",
        help_heading = "Back ends"
    )]
    backend: Vec<BackEndArgument>,

    /// How a back end is chosen among several (default: least-outstanding)
    #[arg(long, value_name = "POLICY", value_parser = PossibleValuesParser::new(Choice::NAMES),
          help_heading = "Back ends")]
    policy: Option<String>,

    /// Try a query that is answered SERVFAIL once more, on another back end
    ///
    /// If a zone is broken on all back ends, this doubles its load.
    #[arg(long, help_heading = "Back ends")]
    retry_servfail: bool,

    /// Read back ends, policy and rules from this TOML file, and again at SIGHUP
    #[arg(long, value_name = "FILE", conflicts_with_all = ["backend", "policy", "retry_servfail"], help_heading = "Back ends")]
    config: Option<PathBuf>,

    /// Connections of each worker to each back end that is reached by connections
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse_within::<u32>(1..=256),
          help_heading = "Back ends")]
    backend_connections: u32,

    /// Sockets of each worker to each back end that is reached by datagrams
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = parse_within::<u32>(1..=256),
          help_heading = "Back ends")]
    backend_sockets: u32,

    /// Size of the receive buffer, and of the send buffer, of each socket to a back end
    ///
    /// The kernel doubles it for its own data about each packet: `ss -m` shows the doubled size.
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = parse_buffer_size, help_heading = "Back ends")]
    backend_buffer: u64,

    /// Queries handed to a back end in one call at most, and replies to clients
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = parse_within::<u32>(1..=1024),
          help_heading = "Batches")]
    batch: u32,

    /// How long the first query of a batch waits for more while others keep coming in, up to 1s
    #[arg(long, value_name = "DURATION", default_value = "200us", value_parser = parse_flush, help_heading = "Batches")]
    flush: Duration,

    /// Poll for queries this often while two or more come in that time; 0s polls at once
    ///
    /// This saves wake-ups. A worker polls every --flush if that is shorter, and at once if fewer queries come in.
    #[arg(long, value_name = "DURATION", default_value = "200us", value_parser = parse_coalesce, help_heading = "Batches")]
    coalesce: Duration,

    /// How long a client waits for an answer
    ///
    /// With several back ends, the first has half of this time to answer, and another one the rest.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = parse_timeout,
          help_heading = "Outstanding queries")]
    timeout: Duration,

    /// Outstanding queries of each worker at most, including checks
    #[arg(long, value_name = "N", default_value_t = 16_384, value_parser = parse_within::<u32>(1..=65_000),
          help_heading = "Outstanding queries")]
    outstanding: u32,

    /// Outstanding queries of each worker at one back end at most; beyond that others are chosen
    #[arg(long, value_name = "N", default_value_t = 8192, value_parser = parse_within::<u32>(1..=65_000),
          help_heading = "Outstanding queries")]
    backend_outstanding: u32,

    /// The query that gets no answer if more come in than may be outstanding
    #[arg(long, value_enum, default_value = "newest", help_heading = "Outstanding queries")]
    overload: Overload,

    /// Check back ends with this question, which any reply but SERVFAIL answers
    #[arg(long, value_name = "NAME[/TYPE]", default_value = "./SOA", value_parser = parse_check, help_heading = "Checks")]
    check: Check,

    /// How often each back end is checked
    ///
    /// Every 50 ms while it answers SERVFAIL, or while no back end takes queries.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = parse_some_time, help_heading = "Checks")]
    check_interval: Duration,

    /// Checks in a row that fail before a back end is down
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = parse_within::<u32>(SOME),
          help_heading = "Checks")]
    fall: u32,

    /// Checks in a row that pass before a back end is up again
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = parse_within::<u32>(SOME),
          help_heading = "Checks")]
    rise: u32,

    /// A back end that has queries and answers nothing for this long is down
    #[arg(long, value_name = "DURATION", default_value = "400ms", value_parser = parse_some_time, help_heading = "Checks")]
    silence: Duration,

    #[command(flatten, next_help_heading = "Connections of clients")]
    connections: Connections,

    /// Take queries by UDP only
    #[arg(long, conflicts_with_all = ["tcp_idle", "tcp_connections", "tcp_per_client"],
          help_heading = "Connections of clients")]
    no_tcp: bool,

    /// Offer the counts at this Unix socket, for `kqps serve status PATH`
    #[arg(long, value_name = "PATH", help_heading = "Counts")]
    status: Option<PathBuf>,

    /// Offer the counts to Prometheus, at /metrics of this address
    #[arg(long, value_name = "ADDR:PORT", value_parser = parse_listen, help_heading = "Counts")]
    metrics: Option<SocketAddr>,

    #[command(flatten)]
    pub(super) serving: Serving,
}

/// The query that gets no answer if too many are under way.
#[derive(Clone, Copy, ValueEnum)]
enum Overload {
    /// The query that has just come in
    Newest,
    /// The query that has waited longest
    Oldest,
}

/// The query that checks a back end, in wire format.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Check(Vec<u8>);

/// A value of `--backend`.
#[derive(Clone)]
struct BackEndArgument {
    name: Option<String>,
    target: Target,
    weight: u32,
}

impl Args {
    pub(super) fn service(&self) -> anyhow::Result<Front> {
        self.serving.check_connected(self.connections.given(), self.no_tcp, "")?;
        let source = PolicyFile { path: self.config.clone(), json: self.serving.json };
        Ok(Front { settings: self.settings()?, source: Box::new(source) })
    }

    fn settings(&self) -> anyhow::Result<FrontSettings> {
        let policy = match &self.config {
            Some(path) => file::read(path).map_err(bad_input)?,
            None => self.policy()?,
        };
        Ok(FrontSettings {
            policy,
            checks: Checks {
                query: self.check.0.clone(),
                interval: self.check_interval,
                fall: self.fall,
                rise: self.rise,
                silence: self.silence,
            },
            batch: self.batch as usize,
            flush: self.flush,
            coalesce: self.coalesce,
            timeout: self.timeout,
            connections: self.backend_connections as usize,
            sockets: self.backend_sockets as usize,
            outstanding: self.outstanding as usize,
            back_end_outstanding: self.backend_outstanding as usize,
            overload: match self.overload {
                Overload::Newest => kqps_front::Overload::Newest,
                Overload::Oldest => kqps_front::Overload::Oldest,
            },
            buffer_bytes: usize::try_from(self.backend_buffer)?,
            tcp: !self.no_tcp,
            limits: self.connections.limits(),
            cautious: false,
            status: self.status.clone(),
            metrics: self.metrics,
        })
    }

    fn policy(&self) -> anyhow::Result<Policy> {
        let choice = self.policy.as_deref().map_or(Ok(CHOICE), str::parse).map_err(bad_input)?;
        let mut back_ends: Vec<BackEnd> = Vec::new();
        for argument in &self.backend {
            let BackEndArgument { name, target, weight } = argument.clone();
            let name = name.unwrap_or_else(|| target.to_string());
            if back_ends.iter().any(|other| other.name == name) {
                return Err(bad_input(format!("--backend: there are two of the name {name}")));
            }
            back_ends.push(BackEnd { name, target, weight });
        }
        Ok(Policy { back_ends, choice, rules: Vec::new(), retry_servfail: self.retry_servfail })
    }
}

impl FromStr for BackEndArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (text, weight) = match text.rsplit_once(",weight=") {
            Some((text, weight)) => (text, parse_weight(weight)?),
            None => (text, 1),
        };
        // A name has no colon. In a URL a colon stands before any equals sign.
        let (name, url) = match text.split_once('=') {
            Some((name, url)) if !name.contains(':') => (Some(name), url),
            _ => (None, text),
        };
        if name.is_some_and(str::is_empty) {
            return Err("a name is missing before the equals sign".to_owned());
        }
        Ok(Self { name: name.map(str::to_owned), target: url.parse()?, weight })
    }
}

fn parse_weight(text: &str) -> Result<u32, String> {
    let weight = text.parse().ok().filter(|weight| (1..=file::WEIGHT_MOST).contains(weight));
    weight.ok_or_else(|| format!("`{text}` is no weight: expected 1 to {}", file::WEIGHT_MOST))
}

fn parse_flush(text: &str) -> Result<Duration, String> {
    at_most(text, Duration::from_secs(1), "expected 1s at most, such as 200us")
}

/// Parses the interval of `--coalesce`. A longer one would block queries.
fn parse_coalesce(text: &str) -> Result<Duration, String> {
    at_most(text, Duration::from_millis(10), "expected 10ms at most, such as 200us")
}

fn at_most(text: &str, most: Duration, expected: &str) -> Result<Duration, String> {
    let time = parse_duration(text)?;
    if time > most { Err(expected.to_owned()) } else { Ok(time) }
}

/// Parses `NAME[/TYPE]` into a query. RD is not set, since the query is for the back end itself.
fn parse_check(text: &str) -> Result<Check, String> {
    let (name, qtype) = text.rsplit_once('/').unwrap_or((text, "SOA"));
    let qtype = rtype::parse(qtype.as_bytes()).ok_or_else(|| format!("`{qtype}` is no type"))?;
    let mut message = Vec::new();
    query::write(&mut message, name.as_bytes(), qtype, None).map_err(|error| error.to_string())?;
    message[2] = 0;
    Ok(Check(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_back_end_is_a_url_with_a_name_and_a_weight() {
        let read = |text: &str| {
            let BackEndArgument { name, target, weight } = text.parse()?;
            Ok::<_, String>((name, target.to_string(), weight))
        };
        assert_eq!(read("udp://127.0.0.1:5301"), Ok((None, "udp://127.0.0.1:5301".to_owned(), 1)));
        let named = Ok((Some("nsd".to_owned()), "tcp://[::1]:53".to_owned(), 3));
        assert_eq!(read("nsd=tcp://[::1]:53,weight=3"), named);
        assert_eq!(read("unix:/run/a=b"), Ok((None, "unix:/run/a=b".to_owned(), 1)));
        assert!(read("=udp://127.0.0.1").unwrap_err().contains("a name is missing"));
        assert!(read("udp://127.0.0.1,weight=0").unwrap_err().contains("is no weight"));
        assert!(read("127.0.0.1").unwrap_err().contains("expected udp://"));
    }

    #[test]
    fn a_check_is_a_question() {
        let soa = b"\0\0\0\0\0\x01\0\0\0\0\0\0\x04test\0\0\x06\0\x01".to_vec();
        assert_eq!(parse_check("test"), Ok(Check(soa.clone())));
        assert_eq!(parse_check("test./soa"), Ok(Check(soa)));
        assert_eq!(parse_check("./A").unwrap().0[12..], *b"\0\0\x01\0\x01");
        assert!(parse_check("test/NOTYPE").is_err());
        assert!(parse_check("a..b").is_err());
    }
}
