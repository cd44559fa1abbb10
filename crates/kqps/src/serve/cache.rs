//! `kqps serve cache`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{ArgGroup, ValueEnum};
use kqps_cache::{Settings, Stale};
use kqps_front::policy::Target;
use kqps_front::{Checks, FrontSettings, Overload};
use kqps_message::{edns, name, query, rtype};
use kqps_resolve::{CacheServer, CacheSettings, Sharing, Stub, Upstreams};

use super::auth::parse_payload;
use super::connections::Connections;
use super::options::Serving;
use super::tls::TlsArgs;
use crate::exit::bad_input;
use crate::value::{parse_buffer_size, parse_duration, parse_share, parse_size, parse_timeout, parse_within};

const EXAMPLES: &str = "\
Examples:
  kqps serve cache --forward 127.0.0.1:5301
  kqps serve cache --forward 192.0.2.1 --forward 192.0.2.2 --stale 1h
  kqps serve cache --stub bench.test=127.0.0.1:5301 --cache split --threads 4
  kqps serve cache --forward 127.0.0.1:5301 --listen tls://127.0.0.1:8853";

/// The TTL of records in a stale answer, in seconds (RFC 8767, section 5).
const STALE_TTL_S: u32 = 30;

/// How servers are checked, and when a silent one is down. A check is a question for the root's SOA record.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
const CHECKS_IN_A_ROW: u32 = 2;
const SILENCE: Duration = Duration::from_secs(1);

/// Queries of one call to a server.
const BATCH: usize = 64;

/// The least memory, in bytes.
const MEMORY_LEAST: u64 = 1 << 20;

/// Answer from a cache, and ask other name servers for the rest: a caching forwarder
///
/// It takes the answers of those servers as they are, and validates nothing.
#[derive(clap::Args)]
#[command(
    after_help = EXAMPLES,
    group(ArgGroup::new("servers").args(["forward", "stub"]).required(true).multiple(true)),
    mut_arg("processes", |processes| processes.hide(true)),
    mut_arg("threads", |threads| threads.help("Worker threads"))
)]
#[allow(clippy::doc_markdown)] // the comments are the help text
pub(super) struct Args {
    /// Ask this server about all names but those of --stub (repeatable)
    ///
    /// It finds the answer: a resolver, or a server that has all zones. It is asked by UDP, and by TCP if an answer is
    /// truncated or may be forged.
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = parse_server, help_heading = "Servers")]
    forward: Vec<SocketAddr>,

    /// Ask this server, which has the zone, about names of the zone (repeatable)
    #[arg(long, value_name = "ZONE=ADDR[:PORT]", help_heading = "Servers")]
    stub: Vec<StubArgument>,

    /// How long a client waits for an answer that is not in the cache
    ///
    /// If there are several servers for the name, the first has half of this time to answer, and another one the rest.
    /// If there is one, it has all of the time, and is sent the question again after half of it.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = parse_timeout,
          help_heading = "Servers")]
    timeout: Duration,

    /// Sockets of each thread that asks, to each server; each gets another port now and then
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = parse_within::<u32>(1..=256),
          help_heading = "Servers")]
    upstream_sockets: u32,

    /// Size of the receive buffer, and of the send buffer, of each socket to a server
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = parse_buffer_size,
          help_heading = "Servers")]
    upstream_buffer: u64,

    /// Questions of each resolver that are under way at most
    #[arg(long, value_name = "N", default_value_t = 16_384, value_parser = parse_within::<u32>(1..=65_000),
          help_heading = "Servers")]
    outstanding: u32,

    /// Clients that wait for each resolver at most; others get no answer
    #[arg(long, value_name = "N", default_value_t = 65_536, value_parser = parse_within::<u32>(1..=10_000_000),
          help_heading = "Servers")]
    waiting: u32,

    /// How the workers share caches
    #[arg(long, value_enum, default_value = "shared", help_heading = "Cache")]
    cache: Cache,

    /// The memory of all caches together
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = parse_memory, help_heading = "Cache")]
    memory: u64,

    /// Keep answers for at least this long, also those with a TTL of 0
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = parse_ttl, help_heading = "Cache")]
    min_ttl: u32,

    /// Keep answers for this long at most
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = parse_ttl, help_heading = "Cache")]
    max_ttl: u32,

    /// Keep negative answers for this long at most
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = parse_ttl, help_heading = "Cache")]
    max_negative_ttl: u32,

    /// Answer SERVFAIL for this long after a question failed, 1s to 5m; longer if its answers stay of no use
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = parse_failure_ttl,
          help_heading = "Cache")]
    failure_ttl: u32,

    /// Answer with records whose TTL ran out up to this long ago, if no server answers, or not within 1.8 s
    #[arg(long, value_name = "DURATION", value_parser = parse_ttl, help_heading = "Cache")]
    stale: Option<u32>,

    /// Ask anew when a client asks while this share of a TTL or less, or its last second, is left; 0 for never
    #[arg(long, value_name = "SHARE", default_value = "10%", value_parser = parse_share, help_heading = "Cache")]
    prefetch: f64,

    /// The longest reply by UDP to a query with EDNS, 512 to 4096 bytes (default: 1232)
    #[arg(long, value_name = "SIZE", value_parser = parse_payload, help_heading = "Answers")]
    payload: Option<u16>,

    #[command(flatten, next_help_heading = "Connections")]
    connections: Connections,

    /// Accept no connections by TCP
    #[arg(long, conflicts_with = "tcp_per_client", help_heading = "Connections")]
    no_tcp: bool,

    /// Offer the counts at this Unix socket, for `kqps serve status PATH`
    #[arg(long, value_name = "PATH", help_heading = "Counts")]
    status: Option<PathBuf>,

    #[command(flatten)]
    pub(super) tls: TlsArgs,

    #[command(flatten)]
    pub(super) serving: Serving,
}

/// How the workers share caches.
#[derive(Clone, Copy, ValueEnum)]
enum Cache {
    /// All workers have one
    Shared,
    /// Each worker has its own, with a part of the memory
    Split,
}

/// A value of `--stub`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct StubArgument {
    zone: Vec<u8>,
    server: SocketAddr,
}

impl Args {
    pub(super) fn service(&self) -> anyhow::Result<CacheServer> {
        self.serving.check_no_tcp(self.no_tcp)?;
        self.serving.check_connected(self.connections.given(), self.no_tcp, "")?;
        self.serving.check_of_datagrams("--payload", self.payload.is_some())?;
        if self.serving.has_io_in_vain() {
            return Err(bad_input(
                "--io is about datagrams of clients, and this cache takes connections alone; its sockets to other servers \
                 use segments where the kernel can, whatever --io says: leave it out, or add --listen ADDR:PORT or \
                 udp://ADDR[:PORT]",
            ));
        }
        if self.min_ttl > self.max_ttl {
            return Err(bad_input("--min-ttl is longer than --max-ttl"));
        }
        let stub = |argument: &StubArgument| {
            let StubArgument { zone, server } = argument.clone();
            Stub { zone, servers: vec![server] }
        };
        let stubs: Vec<Stub> = self.stub.iter().map(stub).collect();
        let Upstreams { policy, zones } = Upstreams::new(&self.forward, &stubs);
        let limits = self.connections.limits();
        let outstanding = self.outstanding as usize;
        Ok(CacheServer {
            settings: CacheSettings {
                kept: self.kept(),
                sharing: match self.cache {
                    Cache::Shared => Sharing::Shared,
                    Cache::Split => Sharing::Split,
                },
                upstream: FrontSettings {
                    policy,
                    checks: checks()?,
                    batch: BATCH,
                    flush: Duration::ZERO,
                    coalesce: Duration::ZERO,
                    timeout: self.timeout,
                    connections: 1,
                    sockets: self.upstream_sockets as usize,
                    outstanding,
                    back_end_outstanding: outstanding,
                    overload: Overload::Newest,
                    buffer_bytes: usize::try_from(self.upstream_buffer)?,
                    tcp: false,
                    limits,
                    cautious: true,
                    status: self.status.clone(),
                    metrics: None,
                },
                zones,
                payload_bytes: self.payload.unwrap_or(edns::UDP_PAYLOAD_BYTES),
                waiting: self.waiting as usize,
                tcp: !self.no_tcp,
                limits,
            },
        })
    }

    fn kept(&self) -> Settings {
        Settings {
            memory_bytes: self.memory,
            ttl: self.min_ttl..=self.max_ttl,
            negative_ttl_most: self.max_negative_ttl,
            failure_s: self.failure_ttl,
            stale: self.stale.map(|most_s| Stale { most_s, answer_ttl_s: STALE_TTL_S }),
            prefetch_share: Some(self.prefetch).filter(|share| *share > 0.0),
        }
    }
}

/// How servers are checked. The question has RD only for forwarders, which may refuse it without.
fn checks() -> anyhow::Result<Checks> {
    let mut message = Vec::new();
    query::write(&mut message, b".", rtype::SOA, None)?;
    message[2] = 0;
    Ok(Checks {
        query: message,
        interval: CHECK_INTERVAL,
        fall: CHECKS_IN_A_ROW,
        rise: CHECKS_IN_A_ROW,
        silence: SILENCE,
    })
}

impl FromStr for StubArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || format!("`{text}`: expected ZONE=ADDR[:PORT], such as bench.test=127.0.0.1:5301");
        let (zone_text, server) = text.rsplit_once('=').ok_or_else(expected)?;
        let mut zone = Vec::new();
        name::encode(zone_text.as_bytes(), &mut zone).map_err(|error| format!("`{zone_text}`: {error}"))?;
        Ok(Self { zone, server: parse_server(server)? })
    }
}

/// Parses the address of a server, by default with the port of DNS.
fn parse_server(text: &str) -> Result<SocketAddr, String> {
    let plain = text.strip_prefix("udp://").unwrap_or(text);
    match format!("udp://{plain}").parse() {
        Ok(Target::Udp(address)) => Ok(address),
        _ => Err(format!("`{text}` is no address: expected ADDR[:PORT], such as 192.0.2.1 or [::1]:5301")),
    }
}

fn parse_memory(text: &str) -> Result<u64, String> {
    match parse_size(text)? {
        bytes if bytes < MEMORY_LEAST => Err("expected 1MiB at least".to_owned()),
        bytes => Ok(bytes),
    }
}

/// Parses a TTL: whole seconds, up to 2³¹ - 1 (RFC 2181, section 8).
fn parse_ttl(text: &str) -> Result<u32, String> {
    let time = parse_duration(text)?;
    let ttl_s = u32::try_from(time.as_secs()).ok().filter(|ttl_s| i32::try_from(*ttl_s).is_ok());
    ttl_s
        .filter(|_| time.subsec_nanos() == 0)
        .ok_or_else(|| "expected whole seconds, such as 30s, 5m or 24h".to_owned())
}

/// Parses how long a failure is remembered (RFC 9520, section 3.2).
fn parse_failure_ttl(text: &str) -> Result<u32, String> {
    let ttl_s = parse_ttl(text)?;
    if (1..=300).contains(&ttl_s) { Ok(ttl_s) } else { Err("expected 1s to 5m".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_an_address_with_or_without_a_port() {
        for (text, expected) in [
            ("192.0.2.1", "192.0.2.1:53"),
            ("udp://192.0.2.1:5301", "192.0.2.1:5301"),
            ("::1", "[::1]:53"),
            ("[::1]:5301", "[::1]:5301"),
        ] {
            assert_eq!(parse_server(text), Ok(expected.parse().unwrap()), "{text}");
        }
        for text in ["localhost", "tcp://192.0.2.1", "192.0.2.1:0", ""] {
            assert!(parse_server(text).unwrap_err().contains("is no address"), "{text}");
        }
    }

    #[test]
    fn a_stub_is_a_zone_and_a_server() {
        let stub: StubArgument = "Bench.test.=127.0.0.1:5301".parse().unwrap();
        assert_eq!((&stub.zone[..], stub.server.port()), (&b"\x05Bench\x04test\0"[..], 5301));
        assert_eq!(".=192.0.2.1".parse::<StubArgument>().unwrap().zone, [0]);
        for (text, why) in [
            ("bench.test", "expected ZONE=ADDR"),
            ("a..b=127.0.0.1", "a label is empty"),
            ("bench.test=here", "is no address"),
            ("=127.0.0.1", "the name is empty"),
        ] {
            assert!(text.parse::<StubArgument>().unwrap_err().contains(why), "{text}");
        }
    }

    #[test]
    fn ttls_are_whole_seconds() {
        assert_eq!(
            (parse_ttl("0s"), parse_ttl("24h"), parse_failure_ttl("5m")),
            (Ok(0), Ok(86_400), Ok(300))
        );
        assert!(parse_ttl("1500ms").is_err() && parse_ttl("1000000h").is_err());
        assert!(parse_failure_ttl("0s").is_err() && parse_failure_ttl("301s").is_err());
        assert!(parse_memory("1000").is_err());
    }
}
