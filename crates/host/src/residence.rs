//! How long queries over UDP stay in this host: from the moment at which the kernel gets a query from an interface until
//! it hands the reply to it.
//!
//! Both moments are times of one clock of this host. Queries on connections are not measured: a packet of TCP has parts
//! of queries or several of them, and the IDs of encrypted ones cannot be read.

mod datagram;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod pairs;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

use kqps_kernel::clock;
use kqps_kernel::tap::{Sample, Tap, TapCounts, TapSettings, Tapped};
use kqps_observation::ResidenceFacts;
use serde::{Deserialize, Serialize};

use crate::subject_cores;
use datagram::datagrams;
use pairs::Pairs;

/// The most queries a second that are stamped. The reading thread takes about 2 µs for each packet, so a fifth of a core.
const STAMPED_MOST_QPS: f64 = 50_000.0;

/// The bytes of a frame that hold all headers and the longest question: those of Ethernet with a tag (18), of IP with
/// options or extensions (60), of UDP (8) and of DNS (12), and a name of 255 bytes with type and class.
const SNAP_BYTES: u32 = 18 + 60 + 8 + 12 + 255 + 4;

/// The interval at which a watch looks for its end.
const LOOK_NS: u64 = 20_000_000;

/// The most by which the distance of two clocks may seem to change because they are read one after the other.
const READ_WITHIN_NS: u64 = 1_000_000;

/// Whose packets are stamped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stamped {
    /// The addresses of the subject.
    pub servers: Vec<SocketAddr>,
    /// The number of queries of which one is stamped, rounded up to a power of two.
    pub one_in: u32,
}

impl Stamped {
    /// All queries to these addresses, or at a high rate a part of them.
    pub fn new(servers: &[SocketAddr], rate_qps: f64) -> Self {
        let one_in = (rate_qps / STAMPED_MOST_QPS).ceil().max(1.0);
        let one_in = u32::try_from(one_in as u64).unwrap_or(u32::MAX);
        Self { servers: servers.to_vec(), one_in: Sample::one_in(one_in).number() }
    }
}

/// A running watch of the packets that pass an interface. Dropping it ends it.
#[derive(Debug)]
pub struct ResidenceWatch {
    device: String,
    sample: Sample,
    is_over: Arc<AtomicBool>,
    reader: Option<JoinHandle<io::Result<(Pairs, TapCounts)>>>,
    /// The distance of the wall clock from the monotonic clock when it began.
    offset_ns: i64,
}

impl ResidenceWatch {
    /// Begins to stamp packets at an interface of the calling thread's network namespace. A thread that keeps off the
    /// cores in `cpus`, if there are others, reads them. Requires `CAP_NET_RAW` and `CAP_BPF`.
    pub fn begin(device: &str, stamped: &Stamped, cpus: &[u32]) -> io::Result<Self> {
        let sample = Sample::one_in(stamped.one_in);
        let mut ports: Vec<u16> = stamped.servers.iter().map(SocketAddr::port).collect();
        ports.sort_unstable();
        ports.dedup();
        let settings = TapSettings { interface: device.to_owned(), ports, sample, snap_bytes: SNAP_BYTES };
        let tap = Tap::open(&settings)?;
        let is_over = Arc::new(AtomicBool::new(false));
        let (over, cpus) = (Arc::clone(&is_over), cpus.to_vec());
        let pairs = Pairs::new(stamped.servers.clone(), sample);
        let reader = Builder::new().name("residence".into()).spawn(move || {
            subject_cores::leave(&cpus);
            read(tap, pairs, &over)
        })?;
        let offset_ns = clock::realtime_offset_ns();
        Ok(Self { device: device.to_owned(), sample, is_over, reader: Some(reader), offset_ns })
    }

    /// Ends the watch. An error is the reason why there is no residence, as a sentence without its full stop.
    pub fn end(mut self) -> Result<ResidenceFacts, String> {
        self.is_over.store(true, Ordering::Release);
        let taken = self.reader.take().map(JoinHandle::join);
        let Some(Ok(taken)) = taken else { return Err("the thread that read the packets failed".into()) };
        let (pairs, counts) = taken.map_err(|error| format!("reading the packets: {error}"))?;
        if was_set(self.offset_ns, clock::realtime_offset_ns()) {
            return Err("the host's wall clock, which stamps packets, was set meanwhile".into());
        }
        let facts = pairs.facts();
        Ok(ResidenceFacts {
            device: self.device.clone(),
            one_in: self.sample.number(),
            dropped: counts.dropped,
            ..facts
        })
    }
}

impl Drop for ResidenceWatch {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

/// Reads packets until the watch is over, and then the last ones.
fn read(mut tap: Tap, mut pairs: Pairs, is_over: &AtomicBool) -> io::Result<(Pairs, TapCounts)> {
    let mut take = |packet: &Tapped<'_>| {
        for datagram in datagrams(packet) {
            pairs.take(&datagram, packet.is_outgoing, packet.stamped_ns);
        }
    };
    let mut read = 0;
    while !is_over.load(Ordering::Acquire) {
        let is_ready = tap.wait(LOOK_NS)?;
        let taken = tap.drain(&mut take);
        read += taken;
        if is_ready && taken == 0 {
            // The interface is down, which the socket reports again and again.
            clock::sleep_until_ns(clock::now_ns() + LOOK_NS);
        }
    }
    let counts = tap.finish(read, &mut take)?;
    Ok((pairs, counts))
}

/// Whether the wall clock was set between two readings of its distance from the monotonic clock. Both clocks are slewed
/// alike (`clock_gettime(2)`).
fn was_set(before_ns: i64, after_ns: i64) -> bool {
    after_ns.abs_diff(before_ns) > READ_WITHIN_NS
}

#[cfg(test)]
mod tests;
