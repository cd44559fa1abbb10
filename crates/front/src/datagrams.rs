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

use super::FrontSettings;
use super::ids::{IDS_MOST, Ids};

/// The space for the queries of a batch, in bytes.
const QUERIES_BYTES: usize = 256 * 1024;

/// The number of queries after which a socket is replaced, if its port must change. The kernel picks the new port at
/// random (net/ipv4/udp.c, `udp_lib_get_port`).
const QUERIES_OF_PORT: u32 = 1024;

/// One of the sockets. It is connected to the back end, so the kernel delivers only packets from there.
pub(super) struct Socket {
    pub(super) socket: UdpSocket,
    pub(super) ids: Ids,
    pub(super) is_readable: bool,
    token: Token,
    /// Queries that were sent from its port.
    sent: u32,
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
    /// The address, and the size of buffers, of new sockets; `None` if ports stay.
    renewed: Option<(SocketAddr, usize)>,
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
    /// Opens as many sockets as the settings say, for batches of that size. `token` returns the token of each socket.
    pub(super) fn open(
        mut address: SocketAddr,
        settings: &FrontSettings,
        registry: &Registry,
        token: impl Fn(usize) -> Token,
    ) -> io::Result<Self> {
        // An IPv6 socket accepts IPv6 only, but an IPv4 address may be written as an IPv6 one (RFC 4291, section
        // 2.5.5.2).
        if let IpAddr::V4(ip) = address.ip().to_canonical() {
            address.set_ip(ip.into());
        }
        let buffer_bytes = settings.buffer_bytes;
        let sockets = (0..settings.sockets)
            .map(|number| -> io::Result<Socket> {
                let token = token(number);
                let socket = registered(address, buffer_bytes, registry, token)?;
                Ok(Socket { socket, ids: Ids::new(), is_readable: false, token, sent: 0 })
            })
            .collect::<io::Result<_>>()?;
        let mut batch = Runs::new(settings.batch, QUERIES_BYTES);
        batch.turn_to(address.into(), None);
        let renewed = settings.cautious.then_some((address, buffer_bytes));
        Ok(Self { sockets, current: 0, batch, queued: 0, queued_ns: 0, longest: Longest::ANY, renewed })
    }

    /// Replaces sockets whose ports served long enough and on which no query is outstanding. A socket stays if the
    /// system has no other.
    pub(super) fn renew(&mut self, registry: &Registry) {
        let Some((address, buffer_bytes)) = self.renewed else { return };
        let filled = (self.queued > 0).then_some(self.current);
        for (number, socket) in self.sockets.iter_mut().enumerate() {
            if socket.sent < QUERIES_OF_PORT || socket.ids.used() > 0 || Some(number) == filled {
                continue;
            }
            socket.sent = 0;
            if let Ok(renewed) = registered(address, buffer_bytes, registry, socket.token) {
                (socket.socket, socket.is_readable) = (renewed, false);
            }
        }
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
        self.sockets[self.current].sent += 1;
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
        let (current, count) = (self.current, self.sockets.len());
        let mut others = (1..=count).map(|step| (current + step) % count);
        // A socket that is due for another port rests, so that its queries end.
        let rests = |number: usize| self.renewed.is_some() && self.sockets[number].sent >= QUERIES_OF_PORT;
        self.current = others.find(|&number| !rests(number)).unwrap_or((current + 1) % count);
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

/// A socket that is connected to the address, with its token at the poller.
fn registered(
    address: SocketAddr,
    buffer_bytes: usize,
    registry: &Registry,
    token: Token,
) -> io::Result<UdpSocket> {
    let socket = connected(address, buffer_bytes)?;
    registry.register(&mut SourceFd(&socket.as_raw_fd()), token, Interest::READABLE)?;
    Ok(socket)
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
