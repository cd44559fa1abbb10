//! A zone whose serial changes, and an independent asker: it asks for the serial every millisecond, and notes each answered
//! serial with its time.

use std::fmt::Write as _;
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use kqps_ask::Server;
use kqps_faults::thread::Background;
use kqps_kernel::clock;
use kqps_kernel::poll::PollSet;
use kqps_message::{Header, query, question, record, rtype};

/// The zone of the good queries.
pub(super) const ORIGIN: &str = "example.test.";

/// The interval between two queries, nanoseconds.
const EVERY_NS: u64 = 1_000_000;

/// The longest wait for a reply to a single query.
const PATIENCE: Duration = Duration::from_secs(2);

/// The five numbers at the end of an SOA record, of which the serial is the first (RFC 1035, section 3.3.13).
const SOA_NUMBERS: usize = 20;

/// A serial that was answered, and when, on the monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answered {
    pub(super) at_ns: u64,
    pub(super) serial: u32,
}

/// Writes a zone with this serial and so many names, which good queries ask for.
pub(super) fn write_zone(path: &Path, serial: u32, names: u32) -> Result<()> {
    let mut text = format!(
        "$ORIGIN {ORIGIN}\n$TTL 60\n@ SOA ns1 host {serial} 3600 600 86400 60\n@ NS ns1\nns1 A 192.0.2.1\n"
    );
    for name in 0..names {
        writeln!(text, "n{name:06} A 192.0.2.2")?;
    }
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// The serial that a server answers now. An error if it answers none.
pub(super) fn serial_now(server: SocketAddr) -> Result<u32> {
    let reply = Server::over_udp(server).ask(&soa_query()?, PATIENCE);
    serial_of(&reply.with_context(|| format!("the SOA of {server}"))?).context("a reply has no SOA")
}

/// Asks a server every millisecond until it is stopped. Then it returns what was answered, in order.
pub(super) fn ask_on(server: SocketAddr) -> Result<Background<Vec<Answered>>> {
    let socket = UdpSocket::bind((server.ip(), 0))?;
    socket.connect(server)?;
    socket.set_nonblocking(true)?;
    let query = soa_query()?;
    Background::start(("the asker", "asker"), None, move |stop| ask_until(&socket, &query, stop))
}

fn ask_until(socket: &UdpSocket, query: &[u8], stop: &AtomicBool) -> Result<Vec<Answered>> {
    clock::set_timer_slack_ns(1)?;
    let (mut answered, mut buffer) = (Vec::new(), [0; 512]);
    let (mut due_ns, mut set) = (clock::now_ns(), PollSet::new([socket]));
    while !stop.load(Ordering::Relaxed) {
        socket.send(query)?;
        due_ns = (due_ns + EVERY_NS).max(clock::now_ns());
        // Replies to earlier queries count, too: a server that stood still answers many at a time.
        while let Some(left_ns) = due_ns.checked_sub(clock::now_ns()).filter(|left_ns| *left_ns > 0) {
            // A socket's own timeout would be rounded up to a tick of the kernel, 4 ms as a rule.
            if !set.wait(left_ns)? {
                continue;
            }
            let Ok(bytes) = socket.recv(&mut buffer) else { continue };
            let serial = serial_of(&buffer[..bytes]).context("a reply has no SOA")?;
            answered.push(Answered { at_ns: clock::now_ns(), serial });
        }
    }
    Ok(answered)
}

fn soa_query() -> Result<Vec<u8>> {
    let mut message = Vec::new();
    query::write(&mut message, ORIGIN.as_bytes(), rtype::SOA, None)?;
    Ok(message)
}

fn serial_of(reply: &[u8]) -> Option<u32> {
    Header::from_bytes(reply).filter(|header| header.is_reply() && header.answers() > 0)?;
    let record = record::read(reply, question::end(reply)?)?;
    let numbers = record.data.len().checked_sub(SOA_NUMBERS).filter(|_| record.rtype == rtype::SOA)?;
    Some(u32::from_be_bytes(*record.data[numbers..].first_chunk()?))
}

/// When the second serial was answered first. An error unless the first one was answered before, and never again.
pub(super) fn changed_ns(answered: &[Answered], (first, second): (u32, u32)) -> Result<u64> {
    let at =
        answered.iter().position(|one| one.serial == second).context("the new serial was never answered")?;
    ensure!(at > 0, "the old serial was never answered");
    let (before, after) = answered.split_at(at);
    let is_whole =
        before.iter().all(|one| one.serial == first) && after.iter().all(|one| one.serial == second);
    ensure!(is_whole, "the serial did not change once from {first} to {second}");
    Ok(answered[at].at_ns)
}

/// The longest time without an answer: when it began, and how long it lasted, nanoseconds.
pub(super) fn longest_silence(answered: &[Answered]) -> Option<(u64, u64)> {
    let gaps = answered.windows(2).map(|two| (two[0].at_ns, two[1].at_ns - two[0].at_ns));
    gaps.max_by_key(|(_, lasts_ns)| *lasts_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(pairs: &[(u64, u32)]) -> Vec<Answered> {
        pairs.iter().map(|&(at_ns, serial)| Answered { at_ns, serial }).collect()
    }

    #[test]
    fn a_serial_changes_once() {
        let once = answered(&[(1, 7), (2, 7), (9, 8), (10, 8)]);
        assert_eq!(changed_ns(&once, (7, 8)).unwrap(), 9);
        assert_eq!(longest_silence(&once), Some((2, 7)));
        for wrong in [&[(1, 7), (2, 7)][..], &[(1, 8)], &[(1, 7), (2, 8), (3, 7)], &[(1, 6), (2, 8)]] {
            assert!(changed_ns(&answered(wrong), (7, 8)).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn the_serial_is_read_from_a_reply() {
        let mut reply = soa_query().unwrap();
        (reply[2], reply[7]) = (0x84, 1);
        reply.extend_from_slice(b"\xc0\x0c\0\x06\0\x01\0\0\0\x3c\0\x16\0\0\0\0\0\x2a");
        reply.extend_from_slice(&[0; 16]);
        assert_eq!(serial_of(&reply), Some(42));
        reply[7] = 0;
        assert_eq!(serial_of(&reply), None);
    }
}
