//! Datagrams to a back end: one call sends a batch from one of several sockets, and one call receives many
//! replies. Each batch uses another socket, so that replies arrive at many ports, and queries of equal length can
//! leave as one segmented message.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use kqps_kernel::batch::RecvBatch;
use kqps_kernel::{UdpOptions, UdpSocket, Wait};
use kqps_server::runs::{Longest, Runs};
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use std::os::fd::AsRawFd as _;

use super::ids::{IDS_MOST, Ids};

/// The space for the queries of a batch, in bytes.
const QUERIES_BYTES: usize = 256 * 1024;

/// One of the sockets. It is connected to the back end, so the kernel delivers only packets from there.
pub(super) struct Socket {
    pub(super) socket: UdpSocket,
    pub(super) ids: Ids,
    pub(super) is_readable: bool,
}

/// The sockets to one back end, and the batch that is being filled.
pub(super) struct Datagrams {
    pub(super) sockets: Vec<Socket>,
    /// The index of the socket that sends the batch.
    current: usize,
    batch: Runs,
    queued: usize,
    queued_ns: u64,
    longest: Longest,
}

/// The outcome of sending a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Flushed {
    /// The number of queries that the kernel refused.
    pub(super) refused: u64,
    /// Whether no program listens at the address any more.
    pub(super) no_listener: bool,
}

impl Datagrams {
    /// Opens this number of sockets, at least 1, for batches of at most `batch` queries. `token` returns the token
    /// of each socket.
    pub(super) fn open(
        mut address: SocketAddr,
        sockets: usize,
        batch: usize,
        buffer_bytes: usize,
        registry: &Registry,
        token: impl Fn(usize) -> Token,
    ) -> io::Result<Self> {
        // An IPv6 socket accepts IPv6 only, but an IPv4 address may be written as an IPv6 one (RFC 4291, section
        // 2.5.5.2).
        if let IpAddr::V4(ip) = address.ip().to_canonical() {
            address.set_ip(ip.into());
        }
        let sockets = (0..sockets)
            .map(|number| -> io::Result<Socket> {
                let socket = connected(address, buffer_bytes)?;
                registry.register(&mut SourceFd(&socket.as_raw_fd()), token(number), Interest::READABLE)?;
                Ok(Socket { socket, ids: Ids::new(), is_readable: false })
            })
            .collect::<io::Result<_>>()?;
        let mut batch = Runs::new(batch, QUERIES_BYTES);
        batch.turn_to(address.into(), None);
        Ok(Self { sockets, current: 0, batch, queued: 0, queued_ns: 0, longest: Longest::ANY })
    }

    /// The socket whose batch is being filled, if it takes another query of this length.
    #[inline]
    pub(super) fn current(&self, bytes: usize) -> Option<usize> {
        let takes = self.sockets[self.current].ids.used() < IDS_MOST && self.batch.has_room(bytes);
        takes.then_some(self.current)
    }

    /// Adds a query with this ID to the batch. Returns the size of the batch. Call it only if [`Self::current`]
    /// returned a socket.
    #[inline]
    pub(super) fn push(&mut self, query: &[u8], id: u16, now_ns: u64) -> usize {
        if self.queued == 0 {
            self.queued_ns = now_ns;
        }
        self.queued += 1;
        let room = &mut self.batch.room()[..query.len()];
        room.copy_from_slice(query);
        room[..2].copy_from_slice(&id.to_be_bytes());
        self.batch.keep(query.len());
        self.queued
    }

    /// When the first query that is not flushed was queued, in nanoseconds.
    pub(super) fn waits_since_ns(&self) -> Option<u64> {
        (self.queued > 0).then_some(self.queued_ns)
    }

    /// Sends the batch, and turns to the next socket.
    pub(super) fn flush(&mut self) -> Flushed {
        let mut flushed = Flushed::default();
        if self.queued == 0 {
            return flushed;
        }
        self.queued = 0;
        let socket = &self.sockets[self.current].socket;
        self.batch.send(socket, &mut self.longest, |outcome| {
            if let Err(error) = outcome {
                flushed.refused += 1;
                flushed.no_listener |= error.kind() == ErrorKind::ConnectionRefused;
            }
        });
        self.current = (self.current + 1) % self.sockets.len();
        flushed
    }

    /// Receives messages from a socket into `replies`. Returns how many. An error says that no program listens at
    /// the address any more.
    pub(super) fn recv(&mut self, number: usize, replies: &mut RecvBatch) -> io::Result<usize> {
        let socket = &mut self.sockets[number];
        let received = replies.recv(&socket.socket, Wait::No);
        socket.is_readable = received.as_ref().is_ok_and(|&count| count == replies.capacity());
        received
    }

    /// Frees all IDs.
    pub(super) fn reset(&mut self) {
        for socket in &mut self.sockets {
            socket.ids = Ids::new();
        }
    }
}

fn connected(address: SocketAddr, buffer_bytes: usize) -> io::Result<UdpSocket> {
    let any = match address {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    let options = UdpOptions {
        recv_buffer: Some(buffer_bytes),
        send_buffer: Some(buffer_bytes),
        gro: true,
        ..UdpOptions::default()
    };
    // Not every kernel supports generic receive offload for UDP.
    let socket = UdpSocket::bind(any, &options)
        .or_else(|_| UdpSocket::bind(any, &UdpOptions { gro: false, ..options }))?;
    socket.connect(address)?;
    Ok(socket)
}
