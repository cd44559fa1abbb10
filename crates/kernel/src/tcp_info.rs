//! The kernel's counts of a TCP connection (tcp(7), `TCP_INFO`).

use std::io;
use std::mem::size_of;
use std::os::fd::AsRawFd as _;

use crate::sys::{OptionValue, get_option};
use crate::tcp_client::TcpClient;

/// The kernel's counts of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpInfo {
    /// Segments that this side sent again, its SYN among them (`tcpi_total_retrans`).
    pub retransmitted: u32,
    /// Bytes that the peer acknowledged, with one for the SYN (`tcpi_bytes_acked`).
    pub acknowledged_bytes: u64,
}

/// The beginning of `struct tcp_info` (include/uapi/linux/tcp.h), up to the last field that is used.
#[repr(C)]
#[derive(Clone, Copy)]
struct RawInfo {
    _states: [u8; 8],
    _gauges: [u32; 23],
    total_retrans: u32,
    _pacing_rates: [u64; 2],
    bytes_acked: u64,
}

const _: () = assert!(size_of::<RawInfo>() == 128);

// SAFETY: integers without padding between them.
unsafe impl OptionValue for RawInfo {}

impl TcpClient {
    /// The counts of this connection, also after it has ended.
    pub fn info(&self) -> io::Result<TcpInfo> {
        let info: RawInfo = get_option(self.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO)?;
        Ok(TcpInfo { retransmitted: info.total_retrans, acknowledged_bytes: info.bytes_acked })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use super::*;
    use crate::epoll::{Epoll, Interest};
    use crate::tcp_client::TcpRead;

    fn wait_for(client: &TcpClient, interest: Interest) {
        let mut set = Epoll::new(1).unwrap();
        set.watch(client, 7, interest).unwrap();
        assert_eq!(set.wait_for(Some(10_000_000_000)).unwrap().count(), 1);
    }

    fn acknowledged(client: &TcpClient) -> u64 {
        client.info().unwrap().acknowledged_bytes
    }

    #[test]
    fn a_peer_acknowledges_what_it_received_and_nothing_after_its_end() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpClient::connect(listener.local_addr().unwrap(), None).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        wait_for(&client, Interest::Both);
        assert_eq!(client.info().unwrap(), TcpInfo { retransmitted: 0, acknowledged_bytes: 1 });
        assert_eq!(client.write(b"abc").unwrap(), 3);
        let mut buffer = [0; 8];
        peer.read_exact(&mut buffer[..3]).unwrap();
        peer.write_all(b"d").unwrap();
        wait_for(&client, Interest::Read);
        assert!(matches!(client.read(&mut buffer).unwrap(), TcpRead::Bytes { bytes: 1, .. }));
        assert_eq!(acknowledged(&client), 4);
        drop(peer);
        wait_for(&client, Interest::Read);
        assert_eq!(client.write(b"efg").unwrap(), 3);
        assert_eq!(client.read(&mut buffer).unwrap(), TcpRead::End);
        assert_eq!(acknowledged(&client), 4);
    }
}
