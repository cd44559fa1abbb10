//! A socket that counts first datagrams of QUIC, and answers each with a version that no client knows.

use std::collections::BTreeSet;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use kqps_kernel::udp::{self, UdpOptions};

use crate::thread::Background;

/// How long the thread waits for a datagram before it looks whether it must stop.
const LOOK: Duration = Duration::from_millis(5);

/// More than what clients have on the way.
const BUFFER_BYTES: usize = 64 << 20;

/// The beginning of a Version Negotiation packet, as far as a client that takes no notice must know it (RFC 9000, section
/// 17.2.1).
const OTHER_VERSION: [u8; 5] = [0xff, 0, 0, 0, 0];

/// Counts of datagrams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DatagramCounts {
    /// Datagrams that arrived.
    pub received: u64,
    /// Datagrams that begin with an Initial of QUIC's version 1 (RFC 9000, section 17.2.2).
    pub initials: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The ports that they came from.
    pub ports: BTreeSet<u16>,
    /// Answers that left.
    pub answered: u64,
    /// Datagrams that found no room. Unless 0, the counts are not exact.
    pub overflowed: u64,
}

/// A thread that counts datagrams. Dropping it stops it.
pub struct CountingDatagrams {
    address: SocketAddr,
    thread: Background<DatagramCounts>,
}

impl CountingDatagrams {
    /// A socket at a free port of the loopback address. An error if there is none.
    pub fn start() -> Result<Self> {
        let options = UdpOptions { recv_buffer: Some(BUFFER_BYTES), ..UdpOptions::default() };
        let bound = udp::UdpSocket::bind(SocketAddr::from(([127, 0, 0, 1], 0)), &options)?;
        let socket = UdpSocket::from(bound.as_fd().try_clone_to_owned()?);
        socket.set_read_timeout(Some(LOOK))?;
        let address = socket.local_addr()?;
        let count = move |stop: &AtomicBool| {
            let counts = count(&socket, stop);
            Ok(DatagramCounts { overflowed: bound.drops()?, ..counts })
        };
        Ok(Self { address, thread: Background::start(("the socket that counts", "counting"), None, count)? })
    }

    /// The address that clients send to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends it when it has read all that arrived, and returns the counts.
    pub fn stop(self) -> Result<DatagramCounts> {
        self.thread.stop()
    }
}

fn count(socket: &UdpSocket, stop: &AtomicBool) -> DatagramCounts {
    let (mut buffer, mut counts) = ([0; 2048], DatagramCounts::default());
    loop {
        let is_stopped = stop.load(Ordering::Relaxed);
        match socket.recv_from(&mut buffer) {
            Ok((bytes, from)) => {
                counts.received += 1;
                counts.bytes += bytes as u64;
                let is_initial = matches!(buffer[..bytes], [0xc0..=0xcf, 0, 0, 0, 1, ..]);
                counts.initials += u64::from(is_initial);
                counts.ports.insert(from.port());
                counts.answered += u64::from(socket.send_to(&OTHER_VERSION, from).is_ok());
            }
            Err(_) if is_stopped => return counts,
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_are_counted_and_answered() {
        let server = CountingDatagrams::start().unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        for bytes in [&[0xc3, 0, 0, 0, 1, 8][..], &[0x40, 1]] {
            socket.send_to(bytes, server.address()).unwrap();
            assert_eq!(socket.recv(&mut [0; 16]).unwrap(), OTHER_VERSION.len());
        }
        let ports = [socket.local_addr().unwrap().port()].into();
        let wanted = DatagramCounts { received: 2, initials: 1, bytes: 8, ports, answered: 2, overflowed: 0 };
        assert_eq!(server.stop().unwrap(), wanted);
    }
}
