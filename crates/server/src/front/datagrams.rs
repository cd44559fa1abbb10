//! Datagrams to a back end: a batch leaves in one call from one of several sockets, and what comes back is taken
//! likewise. Each batch takes another socket, so that replies have many ports to come to, and equal queries can
//! leave as one segmented message.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use kqps_kernel::batch::RecvBatch;
use kqps_kernel::{UdpOptions, UdpSocket, Wait};
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use std::os::fd::AsRawFd as _;

use super::ids::{IDS_MOST, Ids};
use crate::runs::{Longest, Runs};

/// Room for the queries of a batch, bytes.
const QUERIES_BYTES: usize = 256 * 1024;

/// One of the sockets, connected to the back end: the kernel hands over what comes from there and nothing else.
pub(super) struct Socket {
    pub(super) socket: UdpSocket,
    pub(super) ids: Ids,
    pub(super) is_readable: bool,
}

/// The sockets to one back end, and the batch that is being filled.
pub(super) struct Datagrams {
    pub(super) sockets: Vec<Socket>,
    /// Whose batch it is.
    current: usize,
    batch: Runs,
    queued: usize,
    queued_ns: u64,
    longest: Longest,
}

/// What the kernel said of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Flushed {
    /// Queries that it refused.
    pub(super) refused: u64,
    /// Whether nobody listens there any more.
    pub(super) nobody: bool,
}

impl Datagrams {
    /// Opens so many sockets, at least 1, for batches of at most `batch` queries; `token` makes the token of each.
    pub(super) fn open(
        mut address: SocketAddr,
        sockets: usize,
        batch: usize,
        buffer_bytes: usize,
        registry: &Registry,
        token: impl Fn(usize) -> Token,
    ) -> io::Result<Self> {
        // A socket of IPv6 takes IPv6 only; an IPv4 address may be written so (RFC 4291, section 2.5.5.2).
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

    /// The socket whose batch is being filled, if it takes one more query of this length.
    #[inline]
    pub(super) fn current(&self, bytes: usize) -> Option<usize> {
        let takes = self.sockets[self.current].ids.used() < IDS_MOST && self.batch.has_room(bytes);
        takes.then_some(self.current)
    }

    /// Puts a query with this ID into the batch; how many stand in it. To be called where [`Self::current`] gave a
    /// socket.
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

    /// When the first query that is not flushed came.
    pub(super) fn waits_since_ns(&self) -> Option<u64> {
        (self.queued > 0).then_some(self.queued_ns)
    }

    /// Hands the batch to the kernel, and turns to the next socket.
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
                flushed.nobody |= error.kind() == ErrorKind::ConnectionRefused;
            }
        });
        self.current = (self.current + 1) % self.sockets.len();
        flushed
    }

    /// Takes what has come to a socket into `replies`; how many messages that is. An error says that nobody
    /// listens there any more.
    pub(super) fn recv(&mut self, number: usize, replies: &mut RecvBatch) -> io::Result<usize> {
        let socket = &mut self.sockets[number];
        let received = replies.recv(&socket.socket, Wait::No);
        socket.is_readable = received.as_ref().is_ok_and(|&count| count == replies.capacity());
        received
    }

    /// Forgets all that was under way.
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
    // Not every kernel gathers what comes in.
    let socket = UdpSocket::bind(any, &options)
        .or_else(|_| UdpSocket::bind(any, &UdpOptions { gro: false, ..options }))?;
    socket.connect(address)?;
    Ok(socket)
}
