//! The capture that all players replay: queries at even times, in Ethernet frames with times in microseconds, which all
//! of them can read. The name of each query has its number, so that the receiver knows when it was due.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::net::SocketAddrV4;
use std::path::Path;

use anyhow::{Context as _, Result};
use kqps_stack::{Ends, udp};

use super::client;
use crate::numbered;

/// Queries of many clients at one rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Traffic {
    /// A divisor of a million, so that each query is due at a whole microsecond.
    pub(super) rate_qps: u32,
    pub(super) queries: u32,
    pub(super) clients: u32,
}

/// A query that the receiver saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReceivedQuery {
    /// Its number in the capture.
    pub(super) number: u32,
    /// Nanoseconds since the first query came.
    pub(super) at_ns: u64,
}

/// When the first query comes, seconds since 1970: the beginning of 2026.
const BEGIN_S: u64 = 1_767_225_600;

const SECOND_NS: u64 = 1_000_000_000;

impl Traffic {
    /// When a query is due, nanoseconds after the first one.
    fn due_ns(&self, number: u32) -> u64 {
        u64::from(number) * (1_000_000 / u64::from(self.rate_qps)) * 1000
    }

    /// Writes the capture. Frames go to the device with this hardware address.
    pub(super) fn write(&self, path: &Path, device: [u8; 6], server: SocketAddrV4) -> Result<()> {
        let write = || -> io::Result<()> {
            let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
            // Version 2.4 with microseconds, the snap length of tcpdump, and Ethernet.
            for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 1 << 18, 1] {
                out.write_all(&word.to_le_bytes())?;
            }
            let mut random = fastrand::Rng::with_seed(1);
            let mut frame = Vec::with_capacity(128);
            for number in 0..self.queries {
                let from = SocketAddrV4::new(client(random.u32(..self.clients)), random.u16(1024..61_000));
                write_frame(&mut frame, device, (from, server), number);
                let at_us = self.due_ns(number) / 1000;
                let (seconds, rest_us) = (BEGIN_S + at_us / 1_000_000, at_us % 1_000_000);
                let bytes = frame.len() as u64;
                for word in [seconds, rest_us, bytes, bytes] {
                    out.write_all(&word.to_le_bytes()[..4])?;
                }
                out.write_all(&frame)?;
            }
            out.flush()
        };
        write().with_context(|| format!("cannot write {}", path.display()))
    }

    /// How late each query came compared with the one that was least late, in microseconds and ascending, and by what
    /// share the worst whole second differs from the rate.
    pub(super) fn compare(&self, seen: &[ReceivedQuery]) -> (Vec<u64>, f64) {
        let offset_ns = |one: &ReceivedQuery| one.at_ns as i64 - self.due_ns(one.number) as i64;
        let least_ns = seen.iter().map(offset_ns).min().unwrap_or(0);
        let mut late: Vec<u64> = seen.iter().map(|one| (offset_ns(one) - least_ns) as u64 / 1000).collect();
        late.sort_unstable();
        let whole = (u64::from(self.queries) / u64::from(self.rate_qps)) as usize;
        let mut bins = vec![0_u64; whole];
        for one in seen {
            if let Some(bin) = bins.get_mut((one.at_ns / SECOND_NS) as usize) {
                *bin += 1;
            }
        }
        let rate = f64::from(self.rate_qps);
        let worst = bins.iter().map(|count| (*count as f64 / rate - 1.0).abs()).fold(0.0, f64::max);
        (late, worst)
    }
}

/// The value at a quantile of ascending values, 0 to 1; 0 without values.
pub(super) fn quantile(ascending: &[u64], quantile: f64) -> u64 {
    let at = (ascending.len() as f64 * quantile) as usize;
    ascending.get(at.min(ascending.len().saturating_sub(1))).copied().unwrap_or(0)
}

/// Writes a frame with a query.
fn write_frame(frame: &mut Vec<u8>, device: [u8; 6], (from, to): (SocketAddrV4, SocketAddrV4), number: u32) {
    // A locally administered address.
    let path = kqps_stack::Path { source_mac: [2, 0, 0, 0, 0, 1], target_mac: device, vlan: None };
    let ends = Ends { path, from: from.into(), to: to.into() };
    let message = numbered::message(number);
    frame.clear();
    frame.resize(udp::header_bytes(&ends), 0);
    frame.extend_from_slice(&message);
    udp::write(frame, &ends, message.len());
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const SERVER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(198, 18, 0, 2), 53);

    #[test]
    fn a_frame_has_a_right_header_and_its_number() {
        let mut frame = Vec::new();
        let from = SocketAddrV4::new(client(4_999), 2_000);
        write_frame(&mut frame, [2, 0x6b, 198, 18, 0, 2], (from, SERVER), 1_234_567);
        assert!(kqps_stack::parse(&frame).unwrap().verify());
        assert_eq!(numbered::number_of(&frame[42..]), Some(1_234_567));
        assert_eq!(frame.len(), 14 + 20 + 8 + 40);
        assert_eq!(client(4_999), Ipv4Addr::new(198, 19, 19, 250));
    }

    #[test]
    fn a_file_has_a_record_for_each_query() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x.pcap");
        let traffic = Traffic { rate_qps: 100_000, queries: 5, clients: 3 };
        traffic.write(&file, [2; 6], SERVER).unwrap();
        let bytes = std::fs::read(file).unwrap();
        assert_eq!(bytes.len(), 24 + 5 * (16 + 82));
        let of_last = &bytes[24 + 4 * 98..][..8];
        assert_eq!(of_last[..4], (BEGIN_S as u32).to_le_bytes());
        assert_eq!(of_last[4..], 40_u32.to_le_bytes());
    }

    #[test]
    fn lateness_counts_from_the_least_late_query_and_bins_are_whole() {
        let traffic = Traffic { rate_qps: 2, queries: 5, clients: 1 };
        let seen = |number, at_ms: u64| ReceivedQuery { number, at_ns: at_ms * 1_000_000 };
        // The first came 3 ms late, so the others count from the second.
        let arrived = [seen(0, 0), seen(1, 497), seen(2, 1_000), seen(3, 1_500), seen(4, 2_001)];
        let (late, worst) = traffic.compare(&arrived);
        assert_eq!(late, [0, 3_000, 3_000, 3_000, 4_000]);
        assert!(worst.abs() < 1e-9, "{worst}");
        let (_, worst) = traffic.compare(&arrived[..3]);
        assert!((worst - 0.5).abs() < 1e-9, "{worst}");
        assert_eq!((quantile(&late, 0.5), quantile(&late, 1.0), quantile(&[], 0.5)), (3_000, 4_000, 0));
    }
}
