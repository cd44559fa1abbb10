//! The flags of the player that do not set the load. `kqps load` and `kqps find` share them.

mod plan;
mod queries;
mod recorded;

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use kqps_dataset::Check;
use kqps_observation::trial::Transport;
use kqps_player::{Io, Sources};

use super::allowed::Allowed;
use super::capture::CaptureArgs;
use super::dnsperf::parse_buffer;
use super::subject::Choice;
use super::target::{Family, parse_transport};
use super::wire::WireFlags;
use crate::value::{
    List, PORTS, parse_count, parse_duration, parse_list, parse_timeout_seconds, parse_within,
};

pub(crate) use plan::{LANES, check_clients, check_plan};
pub(crate) use queries::{Queries, Reading, may_be_capture, open_dataset, query_file};

/// The scheduling priority of the player's threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Priority {
    Auto,
    Usual,
}

/// The player's flags. The comments are the help text, which has no markup.
#[derive(clap::Args)]
#[allow(clippy::doc_markdown)]
#[allow(clippy::struct_excessive_bools)] // each is a flag of its own
pub(crate) struct PlayerArgs {
    /// Send to ADDR[:PORT], or to a URL such as tcp://[::1]:53, https://dns.example/dns-query or quic://dns.example
    ///
    /// Sockets take turns over several targets, which are all IPv4 or all IPv6. Each socket takes replies from its own
    /// target only.
    #[arg(value_name = "TARGET")]
    pub(crate) targets: Vec<String>,

    /// Send to this address or name, as with dnsperf
    #[arg(short = 's', long = "server", value_name = "ADDR", help_heading = "Target")]
    servers: Vec<String>,

    /// The port of targets that have none of their own (default: 53; over TLS and QUIC 853, over HTTPS 443)
    ///
    /// A bare number after a target is its port, too.
    #[arg(short = 'p', long, value_name = "PORT", value_parser = parse_within::<u16>(PORTS), help_heading = "Target")]
    port: Option<u16>,

    /// Addresses that a name stands for: inet, inet6 or any
    #[arg(
        short = 'f',
        long,
        value_name = "FAMILY",
        hide_possible_values = true,
        default_value = "any",
        help_heading = "Target"
    )]
    family: Family,

    /// The transport: udp (the default), tcp, tls (dot), https (doh) or quic (doq); a URL names it as well
    #[arg(short = 'm', long, value_name = "TRANSPORT", value_parser = parse_transport, help_heading = "Target")]
    mode: Option<Transport>,

    /// Read queries from this file, a line each: `name type` (default: stdin), or a capture: pcap, pcapng or dnstap
    ///
    /// The name - is standard input, too. After the type may follow, in any order: E (EDNS), D (EDNS and DO), AD, a client
    /// subnet such as 192.0.2.0/24, the expected rcode, and = with the digest of the expected answer. A capture may be
    /// compressed by gzip or zstd (docs/CAPTURES.md).
    #[arg(short = 'd', long, value_name = "FILE", help_heading = "Queries")]
    pub(crate) queries: Option<PathBuf>,

    /// Check replies for: rcode, answers or off (default: all that the file has)
    ///
    /// With answers it is the rcode and the digest of the answer.
    #[arg(long, value_name = "WHAT", help_heading = "Queries")]
    check: Option<Check>,

    /// Read a binary file: messages, each after its length in 16 bits
    #[arg(short = 'B', long, help_heading = "Queries")]
    binary: bool,

    /// Skip lines that are no query, and count them
    #[arg(long, help_heading = "Queries")]
    skip_bad: bool,

    /// Add EDNS to every query
    #[arg(short = 'e', long, help_heading = "Queries")]
    edns: bool,

    /// Set the DO bit (implies EDNS)
    #[arg(short = 'D', long, help_heading = "Queries")]
    dnssec: bool,

    #[command(flatten)]
    pub(crate) capture: CaptureArgs,

    /// Sockets of all threads together, or connections (default: 32 sockets or 8 connections for each thread)
    ///
    /// With --queries-per-connection 0 or 1 the default is as many connections as -q, or 256 for each thread.
    #[arg(short = 'c', long, visible_alias = "connections", value_name = "N", value_parser = parse_count, help_heading = "Sockets and threads")]
    sockets: Option<u64>,

    /// Sending threads (default: as many as --cpus, or 1)
    #[arg(short = 'T', long, value_name = "N", value_parser = parse_count, help_heading = "Sockets and threads")]
    threads: Option<u64>,

    /// Count a reply that takes longer than this as late (default: 1s; of kqps find on this host 250ms)
    ///
    /// 100 µs at least. On one host a reply that takes longer is most likely lost, and a search waits for it after each
    /// trial that loses.
    #[arg(short = 't', long, value_name = "DURATION", value_parser = parse_timeout_seconds, help_heading = "Times")]
    timeout: Option<Duration>,

    /// Listen for this long after the last query (default: until all have a fate, the timeout at most)
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, help_heading = "Times")]
    drain: Option<Duration>,

    /// Give up a query that is due for longer than this
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "10ms", help_heading = "Times")]
    lag: Duration,

    #[command(flatten)]
    wire: WireFlags,

    /// Let a query that is due wait for others (default: 20us or 10us)
    ///
    /// This saves CPU time and adds lag. The default is 10 µs if each thread has a core of its own. With more than 20 µs
    /// no thread stays awake before it must send, even there.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, help_heading = "Times")]
    coalesce: Option<Duration>,

    /// Size of each socket's receive and send buffers (default: 4MiB; over TCP the kernel sizes them)
    ///
    /// A bare number counts KiB, as with dnsperf.
    #[arg(short = 'b', long, value_name = "SIZE", value_parser = parse_buffer, help_heading = "Sockets and threads")]
    buffer: Option<u64>,

    /// Send from this address, or from those of a prefix in turn
    ///
    /// Such as 127.1.0.0/16.
    #[arg(short = 'a', long, value_name = "ADDR[/PREFIX]", help_heading = "Sockets and threads")]
    local: Option<Sources>,

    /// Send from this port, and from those after it; 0 is any port
    #[arg(short = 'x', long, value_name = "PORT", value_parser = parse_within::<u16>(0..=65_535), help_heading = "Sockets and threads")]
    local_port: Option<u16>,

    /// Send and receive by: auto, plain, mmsg, gso, uring or xdp; on connections auto, epoll, uring or xdp
    ///
    /// Over QUIC there is one way, and a capture is replayed over UDP by mmsg or xdp. With xdp packets bypass the
    /// kernel's network stack (AF_XDP), to targets on other hosts or at the other end of a veth pair; each thread needs a
    /// queue of the device, and kqps the rights of docs/HOSTS.md. A capture then goes by one transport, which the target
    /// names: udp://ADDR.
    #[arg(long, value_name = "HOW", default_value = "auto", help_heading = "Sockets and threads")]
    io: Io,

    /// With --io xdp, send by this device (default: the one to which the route leads)
    ///
    /// The route to the targets must lead to this device, or to a VLAN on it (ip route get ADDR shows it): the name
    /// guards against playing by another one, and changes no route.
    #[arg(long, value_name = "NAME", help_heading = "Sockets and threads")]
    device: Option<String>,

    /// Pin the threads to these cores, in turn
    #[arg(long, value_name = "LIST", value_parser = parse_list, help_heading = "Sockets and threads")]
    cpus: Option<List>,

    /// Run the threads before all others: auto or usual
    ///
    /// With auto they do so if each has a core of its own (--cpus, none of them in --subject-cpus) and the host permits
    /// it. Meanwhile no core enters a deep sleep state, and a thread stays awake before it must send, unless --coalesce is
    /// more than 20 µs. With usual they run like any other thread.
    #[arg(
        long,
        value_name = "WHICH",
        hide_possible_values = true,
        default_value = "auto",
        help_heading = "Sockets and threads"
    )]
    priority: Priority,

    /// Queries that leave in one burst at most, 1 to 64
    #[arg(long, value_name = "N", value_parser = parse_count, default_value = "32", help_heading = "Sockets and threads")]
    burst: u64,

    /// Watch this process, with its children: auto, none, or a PID
    ///
    /// Their CPU time, memory and drops are measured. With auto kqps finds the process on this host that has the
    /// target's socket.
    #[arg(
        long,
        visible_alias = "subject-pid",
        value_name = "auto|none|PID",
        default_value = "auto",
        help_heading = "Subject"
    )]
    subject: Choice,

    /// How many workers the subject has
    ///
    /// It lets kqps show how evenly they share the work. The echo that `kqps find` compares the subject with gets as
    /// many.
    #[arg(long, value_name = "N", value_parser = parse_within::<u32>(1..=1024), help_heading = "Subject")]
    pub(crate) subject_workers: Option<u32>,

    /// The cores that the subject runs on (default: as watched)
    ///
    /// A watched subject's cores are those that its threads are pinned to.
    #[arg(long, value_name = "LIST", value_parser = parse_list, help_heading = "Subject")]
    subject_cpus: Option<List>,

    /// Allow targets on other hosts: ADDR or ADDR/PREFIX (repeatable)
    #[arg(long, value_name = "ADDR[/PREFIX]", help_heading = "Target")]
    allow_target: Vec<Allowed>,
}
