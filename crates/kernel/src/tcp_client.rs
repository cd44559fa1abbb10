//! TCP connections of a client, without waiting: connecting, reading with the kernel's timestamps, writing, closing.

use std::io;
use std::mem::{size_of, zeroed};
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

use rustix::io::ioctl_fionbio;
use socket2::{Domain, Protocol, Socket, Type};

use crate::buffers;
use crate::cmsg::{self, Control};
use crate::headers;
use crate::sys::{check_size, is_not_now, set_option};

/// A connection that is being made, or was made.
#[derive(Debug)]
pub struct TcpClient {
    socket: Socket,
}

/// The result of one read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpRead {
    /// Nothing has arrived.
    Nothing,
    /// The peer closed its direction.
    End,
    /// This many bytes. `arrived_ns` is when the kernel received the last of them, nanoseconds of `CLOCK_REALTIME`.
    Bytes {
        /// The number of bytes, above 0.
        bytes: usize,
        /// The time of arrival, if the kernel returned it.
        arrived_ns: Option<u64>,
    },
}

impl TcpClient {
    /// Begins to connect to `to`, from the address `from` if it is given. The kernel then chooses a port that is free
    /// for this peer (`IP_BIND_ADDRESS_NO_PORT`). What is written leaves at once (`TCP_NODELAY`).
    ///
    /// # Errors
    ///
    /// If the connection failed already: no port or no descriptor is left, the peer is this host and refuses, or no
    /// route leads there.
    pub fn connect(to: SocketAddr, from: Option<IpAddr>) -> io::Result<Self> {
        let client = Self::bound(to, from)?;
        client.begin(to)?;
        Ok(client)
    }

    /// A socket for a peer, before it connects, with the address `from` if it is given.
    ///
    /// # Errors
    ///
    /// If no descriptor is left, or, with [`io::ErrorKind::InvalidInput`], if this host does not have the address.
    pub fn bound(to: SocketAddr, from: Option<IpAddr>) -> io::Result<Self> {
        let client = Self::unbound(to)?;
        if let Some(from) = from {
            set_option(client.as_raw_fd(), libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)?;
            client.socket.bind(&SocketAddr::new(from, 0).into()).map_err(not_of_this_host)?;
        }
        Ok(client)
    }

    /// A socket for a peer, before it connects, with this address and port. The address may be the unspecified one.
    /// Returns `None` if the pair is in use. A connection in `TIME_WAIT` does not count (`SO_REUSEADDR`). If it was to
    /// the same peer, and both sides had not agreed on timestamps (RFC 6191), connecting fails with
    /// [`io::ErrorKind::AddrNotAvailable`], as it does if another connection to the peer has the pair.
    ///
    /// # Errors
    ///
    /// As of [`Self::bound`].
    pub fn bound_at(to: SocketAddr, from: SocketAddr) -> io::Result<Option<Self>> {
        let client = Self::unbound(to)?;
        client.socket.set_reuse_address(true)?;
        if from.is_ipv6() {
            client.socket.set_only_v6(true)?;
        }
        match client.socket.bind(&from.into()) {
            Ok(()) => Ok(Some(client)),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => Ok(None),
            Err(error) => Err(not_of_this_host(error)),
        }
    }

    /// A socket for a peer, before it has an address.
    fn unbound(to: SocketAddr) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_tcp_nodelay(true)?;
        set_option(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
        Ok(Self { socket })
    }

    /// Sets the size of both buffers, as far as the kernel permits it. Before a connection is made it decides the window
    /// that the peer gets (tcp(7)). Without it the kernel sizes the buffers by what they hold.
    pub fn set_buffers(&self, bytes: usize) -> io::Result<()> {
        buffers::set_receive(self, bytes)?;
        buffers::set_send(self, bytes)
    }

    /// A sentence for each buffer that is smaller than `asked_bytes`, with the reason.
    pub fn short_buffers(&self, asked_bytes: usize) -> Vec<String> {
        buffers::short(self, asked_bytes)
    }

    /// Begins to connect to `to`, and makes the socket non-blocking for that.
    ///
    /// # Errors
    ///
    /// As of [`Self::connect`].
    pub fn begin(&self, to: SocketAddr) -> io::Result<()> {
        // A single call, where reading and setting the flags are two.
        ioctl_fionbio(self, true)?;
        match self.socket.connect(&to.into()) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
            _ => Ok(()),
        }
    }

    /// The outcome of connecting, once the socket is writable.
    pub fn outcome(&self) -> io::Result<()> {
        self.socket.take_error()?.map_or(Ok(()), Err)
    }

    /// Reads what has arrived, as much as fits.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<TcpRead> {
        let mut control = Control::EMPTY;
        let mut slice = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        // SAFETY: a header of zeros is valid: it points to nothing.
        let mut header: libc::msghdr = unsafe { zeroed() };
        header.msg_iov = &raw mut slice;
        header.msg_iovlen = 1;
        header.msg_control = (&raw mut control).cast();
        headers::set_control_bytes(&mut header, size_of::<Control>());
        // SAFETY: everything that the header points to is live, exclusively ours, and of the length given.
        let returned = unsafe { headers::receive(self.as_raw_fd(), &raw mut header, libc::MSG_DONTWAIT) };
        match check_size(returned) {
            Ok(0) => Ok(TcpRead::End),
            Ok(bytes) => {
                let arrived_ns = cmsg::read(&control.0[..headers::control_bytes(&header)]).arrived_ns;
                Ok(TcpRead::Bytes { bytes, arrived_ns })
            }
            Err(error) if is_not_now(&error) => Ok(TcpRead::Nothing),
            Err(error) => Err(error),
        }
    }

    /// Writes as much as the socket has room for. Returns the number of bytes; 0 if there is no room.
    pub fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self.socket.send_with_flags(bytes, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT) {
            Ok(taken) => Ok(taken),
            Err(error) if is_not_now(&error) => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Reads no more than what has arrived: reading then finds the end.
    pub(crate) fn end_reading(&self) {
        // It fails if the connection has ended, and then there is nothing to do.
        let _ = self.socket.shutdown(Shutdown::Read);
    }

    /// Makes closing reset the connection (RST), so that it leaves no socket in `TIME_WAIT`.
    pub fn close_by_reset(&self) -> io::Result<()> {
        self.socket.set_linger(Some(Duration::ZERO))
    }
}

/// The error of binding to an address. If this host does not have the address, its kind is another than that of a
/// connect which finds no free port (both are `EADDRNOTAVAIL`), and that of a connect which cannot start from the
/// address (`EINVAL`).
fn not_of_this_host(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::AddrNotAvailable {
        return io::Error::new(io::ErrorKind::InvalidInput, "the source address is not one of this host's");
    }
    error
}

impl AsRawFd for TcpClient {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

impl AsFd for TcpClient {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use super::*;
    use crate::epoll::{Epoll, Interest};

    /// Waits until the client's socket is ready for `interest`.
    fn ready(client: &TcpClient, interest: Interest) {
        let mut set = Epoll::new(1).unwrap();
        set.watch(client, 7, interest).unwrap();
        let keys: Vec<u64> = set.wait_for(Some(10_000_000_000)).unwrap().map(|ready| ready.key).collect();
        assert_eq!(keys, [7]);
    }

    #[test]
    fn bytes_go_both_ways_and_arrive_with_their_time() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let from = "127.0.0.9".parse().unwrap();
        let client = TcpClient::connect(listener.local_addr().unwrap(), Some(from)).unwrap();
        let (mut peer, address) = listener.accept().unwrap();
        assert_eq!(address.ip(), from);
        ready(&client, Interest::Both);
        client.outcome().unwrap();
        let mut buffer = [0; 16];
        assert_eq!(client.read(&mut buffer).unwrap(), TcpRead::Nothing);
        assert_eq!(client.write(b"abc").unwrap(), 3);
        peer.read_exact(&mut buffer[..3]).unwrap();
        // The kernel begins to take times shortly after the first socket asked for them.
        let since = std::time::Instant::now();
        loop {
            peer.write_all(b"defg").unwrap();
            ready(&client, Interest::Read);
            let read = client.read(&mut buffer).unwrap();
            let TcpRead::Bytes { bytes: 4, arrived_ns } = read else { panic!("{read:?}") };
            if arrived_ns.is_some() {
                break;
            }
            assert!(since.elapsed() < Duration::from_secs(10), "no time of arrival");
        }
        drop(peer);
        ready(&client, Interest::Read);
        assert_eq!(client.read(&mut buffer).unwrap(), TcpRead::End);
    }

    #[test]
    fn a_refused_connection_is_an_error() {
        // 127.0.0.2: no test listens there.
        let listener = TcpListener::bind("127.0.0.2:0").unwrap();
        let to = listener.local_addr().unwrap();
        drop(listener);
        let error = match TcpClient::connect(to, None) {
            Ok(client) => {
                ready(&client, Interest::Both);
                client.outcome().unwrap_err()
            }
            Err(error) => error,
        };
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn an_address_of_another_host_is_invalid_and_no_lack_of_ports() {
        // An address for documents (RFC 5737).
        let (to, from) = (SocketAddr::from(([127, 0, 0, 1], 53)), [192, 0, 2, 1]);
        let of_kernel = TcpClient::connect(to, Some(from.into())).unwrap_err();
        let of_pair = TcpClient::bound_at(to, SocketAddr::from((from, 40_000))).unwrap_err();
        assert_eq!([of_kernel.kind(), of_pair.kind()], [io::ErrorKind::InvalidInput; 2]);
    }

    /// Begins to connect from a pair; `None` if the pair is in use.
    fn connect_from(to: SocketAddr, from: SocketAddr) -> io::Result<Option<TcpClient>> {
        let Some(client) = TcpClient::bound_at(to, from)? else { return Ok(None) };
        match client.begin(to) {
            Ok(()) => Ok(Some(client)),
            Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => Ok(None),
            Err(error) => Err(error),
        }
    }

    #[test]
    fn a_pair_is_used_once_at_a_time_and_again_at_once() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        // 127.0.54.2: no other test uses it.
        let taken = TcpListener::bind("127.0.54.2:0").unwrap();
        let from = taken.local_addr().unwrap();
        assert!(connect_from(to, from).unwrap().is_none(), "a server listens there");
        drop(taken);
        for _ in 0..3 {
            let client = connect_from(to, from).unwrap().expect("it is free");
            let (mut peer, address) = listener.accept().unwrap();
            assert_eq!(address, from);
            ready(&client, Interest::Both);
            client.outcome().unwrap();
            assert!(connect_from(to, from).unwrap().is_none(), "it is in use");
            // The side that closes first has the pair in TIME_WAIT.
            drop(client);
            assert_eq!(peer.read(&mut [0]).unwrap(), 0);
        }
    }

    #[test]
    fn a_reset_reaches_the_peer() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpClient::connect(listener.local_addr().unwrap(), None).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        ready(&client, Interest::Both);
        client.close_by_reset().unwrap();
        drop(client);
        assert_eq!(peer.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    }
}
