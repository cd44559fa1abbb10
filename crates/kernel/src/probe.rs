//! Capabilities that work on this host, and why the others do not. Each one is tried with the rights of this process,
//! on loopback or in private networks. The trials change nothing on the host.

use std::io;

use rustix::net::sockopt::set_socket_recv_buffer_size_force;

use crate::address::Address;
use crate::batch::{RecvBatch, SEGMENTED_BYTES, SendBatch};
use crate::namespace::NetNs;
use crate::namespace::veth::{self, End, VethSettings};
use crate::perf::{Event, Sampler, Scope, Source, numbers_threads_as_events, ring_bytes};
use crate::tracepoint::Counters;
use crate::udp::{Peer, UdpOptions, UdpSocket, Wait};
use crate::uring_send::SendRing;
pub use crate::xdp::devices::{Device, XdpFeatures, devices};
use crate::{affinity, limits, namespace, steer, tap, tracefs, uring, xdp};

/// A feature that a host may offer or lack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capability {
    /// The name of the capability: `gso`, `uring`, …
    pub name: &'static str,
    /// The purpose of the capability, in a few words.
    pub purpose: &'static str,
    /// `Ok` if the capability works, else the reason why not.
    pub outcome: Result<(), String>,
}

type Trial = fn() -> io::Result<()>;

const TRIALS: [(&str, &str, Trial); 20] = [
    ("recvmmsg", "many datagrams in one call", batch),
    ("gso", "equal datagrams sent as one message", segments_out),
    ("gro", "equal datagrams received as one message", segments_in),
    ("timestamps", "arrival times taken by the kernel", timestamps),
    ("pktinfo", "replies of wildcard sockets from the address asked", pktinfo),
    ("buffer-force", "socket buffers beyond net.core.rmem_max", buffer_force),
    ("pinning", "threads pinned to cores", pinning),
    ("ipv6", "sockets on ::1", ipv6),
    ("reuseport-cbpf", "flows steered to the worker on their core", reuseport_program),
    ("incoming-cpu", "a worker's socket preferred on its core", incoming_cpu),
    ("uring", "io_uring with multishot receive and provided buffers", rings),
    ("af-xdp", "sockets that bypass the network stack", xdp::trial::round_trip),
    ("netns", "private networks", private_network),
    ("veth", "a link between two private networks", veth_pair),
    ("drop-reasons", "the kernel's reasons for dropping packets", drop_reasons),
    (
        "packet-stamps",
        "residence: times of packets at an interface (CAP_NET_RAW, CAP_BPF)",
        tap::try_on_loopback,
    ),
    (
        "thread-samples",
        "profiles: samples of a subject's threads, with the kernel's functions",
        thread_samples,
    ),
    (
        "core-samples",
        "profiles: samples of all that runs on a core, interrupts too (CAP_PERFMON)",
        core_samples,
    ),
    ("lock-events", "profiles: waits for locks, for I/O and for a core (CAP_PERFMON, tracefs)", lock_events),
    ("kernel-symbols", "profiles: names of the kernel's functions (CAP_SYSLOG)", kernel_symbols),
];

/// Tries all capabilities.
pub fn probe() -> Vec<Capability> {
    let tried = |trial: Trial| trial().map_err(|error| error.to_string());
    TRIALS.iter().map(|&(name, purpose, trial)| Capability { name, purpose, outcome: tried(trial) }).collect()
}

/// Tries one capability by name. Returns the reason if it does not work or does not exist.
pub fn probe_one(name: &str) -> Result<(), String> {
    match TRIALS.iter().find(|trial| trial.0 == name) {
        Some(trial) => trial.2().map_err(|error| error.to_string()),
        None => Err(format!("no capability is called `{name}`")),
    }
}

fn bind(options: UdpOptions) -> io::Result<UdpSocket> {
    UdpSocket::bind(([127, 0, 0, 1], 0).into(), &options)
}

fn batch() -> io::Result<()> {
    RecvBatch::new(2, 64).recv(&bind(UdpOptions::default())?, Wait::No).map(drop)
}

/// Sends two segments of 40 bytes in one message. Returns the length and segment length of the first message
/// that arrived.
fn two_segments(options: UdpOptions) -> io::Result<(usize, usize)> {
    let (from, to) = (bind(UdpOptions::default())?, bind(options)?);
    let mut sent = SendBatch::new(1, 80);
    sent.add(&Address::from(to.local_addr()?), 80, Some(40));
    sent.send(&from, 0)?;
    let mut received = RecvBatch::new(1, SEGMENTED_BYTES);
    if to.wait_readable(1_000_000_000)? && received.recv(&to, Wait::No)? == 1 {
        let message = received.message(0);
        return Ok((message.bytes.len(), message.segment_bytes));
    }
    Err(io::Error::other("a datagram over loopback did not arrive within 1 s"))
}

fn segments_out() -> io::Result<()> {
    match two_segments(UdpOptions::default())? {
        (40, 40) => Ok(()),
        other => Err(io::Error::other(format!("two segments of 40 bytes arrived as {other:?}"))),
    }
}

fn segments_in() -> io::Result<()> {
    match two_segments(UdpOptions { gro: true, ..UdpOptions::default() })? {
        (80, 40) => Ok(()),
        other => Err(io::Error::other(format!("two segments of 40 bytes arrived as {other:?}"))),
    }
}

fn one_datagram(options: UdpOptions) -> io::Result<RecvBatch> {
    let to = bind(options)?;
    let peer = Peer { address: to.local_addr()?.into(), asked: None };
    bind(UdpOptions::default())?.send(b"x", &peer)?;
    let mut received = RecvBatch::new(1, 64);
    if to.wait_readable(1_000_000_000)? && received.recv(&to, Wait::No)? == 1 {
        return Ok(received);
    }
    Err(io::Error::other("a datagram over loopback did not arrive within 1 s"))
}

fn timestamps() -> io::Result<()> {
    let received = one_datagram(UdpOptions { timestamps: true, ..UdpOptions::default() })?;
    received.message(0).arrived_ns.map(drop).ok_or_else(|| io::Error::other("a datagram had no timestamp"))
}

fn pktinfo() -> io::Result<()> {
    let received = one_datagram(UdpOptions { pktinfo: true, ..UdpOptions::default() })?;
    received.message(0).to.map(drop).ok_or_else(|| io::Error::other("a datagram had no address"))
}

fn buffer_force() -> io::Result<()> {
    Ok(set_socket_recv_buffer_size_force(&bind(UdpOptions::default())?, 1 << 20)?)
}

fn pinning() -> io::Result<()> {
    let pin = || affinity::pin_thread(affinity::allowed()?[0]);
    in_a_thread(pin)
}

fn ipv6() -> io::Result<()> {
    UdpSocket::bind("[::1]:0".parse().expect("an address"), &UdpOptions::default()).map(drop)
}

fn reuseport_program() -> io::Result<()> {
    steer::by_cpu(&bind(UdpOptions { reuse_port: true, ..UdpOptions::default() })?, &[], 1)
}

fn incoming_cpu() -> io::Result<()> {
    steer::incoming_cpu(&bind(UdpOptions::default())?, affinity::allowed()?[0])
}

fn rings() -> io::Result<()> {
    in_a_thread(ring)
}

fn ring() -> io::Result<()> {
    let socket = bind(UdpOptions::default())?;
    let peer = Peer { address: socket.local_addr()?.into(), asked: None };
    socket.send(b"x", &peer)?;
    let mut ring = uring::Ring::new(2, 64)?;
    ring.receive(&socket, 0)?;
    ring.submit_and_wait()?;
    match ring.completion() {
        Some(uring::Completion::Received { .. }) => SendRing::new(2).map(drop),
        Some(uring::Completion::Unarmed(_, Some(error))) => Err(error),
        other => Err(io::Error::other(format!("a multishot receive ended with {other:?}"))),
    }
}

fn private_network() -> io::Result<()> {
    in_a_thread(namespace::enter_new_network)
}

fn veth_pair() -> io::Result<()> {
    let (one, other) = (NetNs::new()?, NetNs::new()?);
    let end = |namespace, last| End { namespace, address: [198, 18, 0, last].into() };
    veth::join(end(&one, 1), end(&other, 2), &VethSettings::default())
}

fn drop_reasons() -> io::Result<()> {
    let of = |what: &'static str| move |error| io::Error::other(format!("{what}: {error}"));
    let event = tracefs::event_id("skb/kfree_skb").map_err(of("the kernel's trace events"))?;
    let filters = ["reason == 2".to_string()];
    let counters = Counters::begin(event, &affinity::allowed()?[..1], &filters);
    counters.and_then(|counters| counters.counts()).map_err(of("a counter for one reason")).map(drop)
}

/// Samples as a profile does, with rings of the same size.
fn sampled(scope: Scope<'_>, sources: &[Source], needs: &str) -> io::Result<Sampler> {
    // A profile raises the limit, too. If there are too few files, the kernel says so.
    let _ = limits::raise_open_files();
    let event = |&source: &Source| Event { source, has_stack: true, has_arguments: false };
    let events: Vec<Event> = sources.iter().map(event).collect();
    let rings = match scope {
        Scope::Cores(cpus) => cpus.len(),
        Scope::Threads(tids) => tids.len(),
    };
    let begun = Sampler::begin(scope, &events, ring_bytes(rings));
    begun.map_err(|error| io::Error::other(format!("{error}; it needs {needs}")))
}

const CLOCK: Source = Source::CpuClock { period_ns: 1_000_000 };

fn thread_samples() -> io::Result<()> {
    let needs = "CAP_PERFMON, or kernel.perf_event_paranoid of 1 or less";
    sampled(Scope::Threads(&[affinity::thread_id()]), &[CLOCK], needs).map(drop)
}

fn core_samples() -> io::Result<()> {
    let needs = "CAP_PERFMON, or kernel.perf_event_paranoid of 0 or less";
    sampled(Scope::Cores(&affinity::allowed()?), &[CLOCK], needs).map(drop)
}

fn lock_events() -> io::Result<()> {
    let names = ["lock/contention_begin", "lock/contention_end", "sched/sched_switch", "sched/sched_wakeup"];
    if !numbers_threads_as_events() {
        return Err(io::Error::other(
            "the kernel's events number threads otherwise than this PID namespace does",
        ));
    }
    let mut events = Vec::new();
    for name in names {
        let id = tracefs::event_id(name);
        let id = id.map_err(|error| io::Error::other(format!("the kernel's trace event {name}: {error}")))?;
        events.push(Source::Tracepoint { id });
    }
    // All samplers of a profile at once, since they share the memory that the kernel locks.
    let (cores, needs) = (affinity::allowed()?, "CAP_PERFMON, and CAP_IPC_LOCK or a greater RLIMIT_MEMLOCK");
    let (of_cores, of_all) = events.split_at(3);
    let _clock = sampled(Scope::Cores(&cores), &[CLOCK], needs)?;
    let _events = sampled(Scope::Cores(&cores), of_cores, needs)?;
    sampled(Scope::Cores(&cores), of_all, needs).map(drop)
}

fn kernel_symbols() -> io::Result<()> {
    use std::io::BufRead as _;
    let file = io::BufReader::new(std::fs::File::open("/proc/kallsyms")?);
    // Without the right, the kernel shows every address as 0.
    let is_hidden = |line: io::Result<String>| line.map(|line| line.starts_with("0000000000000000 "));
    for is_hidden in file.lines().take(32).map(is_hidden) {
        if !is_hidden? {
            return Ok(());
        }
    }
    let needs = "CAP_SYSLOG, or kernel.kptr_restrict of 0 with kernel.perf_event_paranoid of 1 or less";
    Err(io::Error::other(format!("the addresses in /proc/kallsyms are hidden; it needs {needs}")))
}

/// Runs a trial on a thread of its own, which keeps its effects from this thread. Rings need that too: a
/// closed ring may interrupt a later wait of the thread that made it.
fn in_a_thread(trial: fn() -> io::Result<()>) -> io::Result<()> {
    std::thread::spawn(trial).join().unwrap_or_else(|_| Err(io::Error::other("the trial panicked")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_works_or_has_a_reason() {
        let capabilities = probe();
        for Capability { name, outcome, .. } in &capabilities {
            println!("{name}: {outcome:?}");
            assert_ne!(outcome, &Err(String::new()), "{name}");
            assert_eq!(probe_one(name).is_ok(), outcome.is_ok(), "{name}");
        }
        // Every Linux that kqps supports has these.
        for name in ["recvmmsg", "timestamps", "pktinfo"] {
            assert!(
                capabilities.iter().any(|capability| capability.name == name && capability.outcome.is_ok())
            );
        }
        assert!(probe_one("teleport").is_err());
    }
}
