//! Free ports on the address that a subject listens on.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::ops::RangeInclusive;

/// Below the ephemeral ports of Linux (32768 and above by default), so that no player takes a port between the
/// check and the subject's start.
const PORTS: RangeInclusive<u16> = 10_240..=32_767;

/// The most ports of one subject.
pub const MANY: u16 = 1024;

const TRIES: u32 = 50;

/// Calls `open` with free ports, chosen at random, until one succeeds.
pub fn open<T>(address: IpAddr, open: impl Fn(SocketAddr) -> io::Result<T>) -> io::Result<T> {
    let mut last = io::Error::from(io::ErrorKind::AddrInUse);
    for _ in 0..TRIES {
        match open(SocketAddr::new(address, fastrand::u16(PORTS))) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => last = error,
            opened => return opened,
        }
    }
    Err(last)
}

/// The first of `count` consecutive ports, at most [`MANY`], that were free for UDP and TCP a moment ago,
/// chosen at random. Nothing reserves them for the subject, which opens them itself; a subject that loses the
/// race does not become ready. A process that another thread starts meanwhile also holds the sockets of this
/// check until it executes its program. Use [`open`] for sockets of this process.
pub fn free(address: IpAddr, count: u16) -> io::Result<SocketAddr> {
    let mut last = io::Error::from(io::ErrorKind::AddrInUse);
    for _ in 0..TRIES {
        let first = fastrand::u16(*PORTS.start()..=PORTS.end() - count.min(MANY));
        match (first..first + count).try_for_each(|port| look(SocketAddr::new(address, port))) {
            Ok(()) => return Ok(SocketAddr::new(address, first)),
            // An address of another host or namespace cannot be checked from here.
            Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => {
                return Ok(SocketAddr::new(address, first));
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn look(address: SocketAddr) -> io::Result<()> {
    UdpSocket::bind(address).and_then(|_| TcpListener::bind(address)).map(drop)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn ports_in_a_row_are_free() {
        // On an address of the test's own: elsewhere, another test may take a port between the two checks.
        let address = IpAddr::from([127, 0, 53, 1]);
        let first = free(address, 8).unwrap();
        assert_eq!(first.ip(), address);
        for port in first.port()..first.port() + 8 {
            wait_until_bound(SocketAddr::new(address, port));
        }
    }

    /// Waits for a process that another test started during the check, and that holds the port until it
    /// executes its program.
    fn wait_until_bound(address: SocketAddr) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while let Err(error) = UdpSocket::bind(address) {
            assert!(Instant::now() < deadline, "{address}: {error}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn what_is_open_is_passed_over() {
        let (address, taken) = (IpAddr::from([127, 0, 53, 2]), Cell::new(0));
        let third = open(address, |address| {
            taken.set(taken.get() + 1);
            if taken.get() < 3 { Err(io::ErrorKind::AddrInUse.into()) } else { UdpSocket::bind(address) }
        });
        assert!(PORTS.contains(&third.unwrap().local_addr().unwrap().port()));
        assert_eq!(taken.get(), 3);
        let refused = open(address, |_| -> io::Result<()> { Err(io::ErrorKind::PermissionDenied.into()) });
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        let in_use = open(address, |_| -> io::Result<()> { Err(io::ErrorKind::AddrInUse.into()) });
        assert_eq!(in_use.unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn an_address_of_elsewhere_gets_ports_too() {
        // Reserved for documentation (RFC 5737), so that no host has it.
        assert!(free(IpAddr::from([192, 0, 2, 1]), 1).is_ok());
    }
}
