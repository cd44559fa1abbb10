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
use super::token::{Source, token};

/// The space for the queries of a batch, in bytes.
const QUERIES_BYTES: usize = 256 * 1024;

/// The number of queries, and the time in nanoseconds, after which a socket is replaced if its port must change. The
/// kernel picks the new port at random (net/ipv4/udp.c, `udp_lib_get_port`).
const QUERIES_OF_PORT: u32 = 1024;
const TIME_OF_PORT_NS: u64 = 10_000_000_000;

/// The space for a query that is sent again, in bytes.
const AGAIN_BYTES: usize = 1024;

/// A socket. It is connected to the back end, so the kernel delivers only packets from there.
pub(super) struct Socket {
    pub(super) socket: UdpSocket,
    pub(super) ids: Ids,
    pub(super) is_readable: bool,
    /// Queries that were sent from its port, and when it was first seen, in nanoseconds.
    sent: u32,
    since_ns: Option<u64>,
    /// Whether it gets no more queries, and only waits for its last answers.
    rests: bool,
}

/// The sockets to one back end, and the batch that is being filled.
pub(super) struct Datagrams {
    /// The number of the back end, for tokens.
    number: usize,
    pub(super) sockets: Vec<Socket>,
    /// The number of sockets that get queries. As many others may rest.
    wanted: usize,
    /// The index of the socket that sends the batch.
    current: usize,
    batch: Runs,
    /// For a query that is sent again.
    again: Runs,
    queued: usize,
    queued_ns: u64,
    longest: Longest,
    /// The address, and the size of buffers, of new sockets; `None` if ports stay.
    renewed: Option<(SocketAddr, usize)>,
    /// Whether a socket has sent as many queries as it may since sockets were last renewed.
    is_spent: bool,
}

/// The outcome of sending a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Flushed {
    /// The number of queries that the kernel refused.
    pub(super) refused: u64,
    /// Whether no program listens at the address any more.
    pub(super) no_listener: bool,
}

impl Socket {
    fn new(socket: UdpSocket, ids: Ids) -> Self {
        Self { socket, ids, is_readable: false, sent: 0, since_ns: None, rests: false }
    }
}

impl Datagrams {
    /// Opens as many sockets to the back end with this number as the settings say, for batches of that size.
    pub(super) fn open(
        number: usize,
        mut address: SocketAddr,
        settings: &FrontSettings,
        registry: &Registry,
    ) -> io::Result<Self> {
        // An IPv6 socket accepts IPv6 only, but an IPv4 address may be written as an IPv6 one (RFC 4291, section
        // 2.5.5.2).
        if let IpAddr::V4(ip) = address.ip().to_canonical() {
            address.set_ip(ip.into());
        }
        let (buffer_bytes, wanted) = (settings.buffer_bytes, settings.sockets);
        let open = |index| -> io::Result<Socket> {
            let token = token(Source::Datagrams, number, index);
            Ok(Socket::new(registered(address, buffer_bytes, registry, token)?, Ids::new()))
        };
        let sockets = (0..wanted).map(open).collect::<io::Result<_>>()?;
        let [mut batch, mut again] =
            [(settings.batch, QUERIES_BYTES), (1, AGAIN_BYTES)].map(|(count, bytes)| Runs::new(count, bytes));
        batch.turn_to(address.into(), None);
        again.turn_to(address.into(), None);
        let renewed = settings.cautious.then_some((address, buffer_bytes));
        let (longest, is_spent) = (Longest::ANY, false);
        let (queued, queued_ns, current) = (0, 0, 0);
        Ok(Self {
            number,
            sockets,
            wanted,
            current,
            batch,
            again,
            queued,
            queued_ns,
            longest,
            renewed,
            is_spent,
        })
    }

    /// Lets sockets rest whose ports served for long enough, and opens others in their place at once. A socket that
    /// rests is closed when it has no outstanding query and a new one needs its place. Ports stay while the system has
    /// no other socket, or as many rest as get queries.
    pub(super) fn renew(&mut self, registry: &Registry, now_ns: u64) {
        self.is_spent = false;
        let Some((address, buffer_bytes)) = self.renewed else { return };
        let filled = (self.queued > 0).then_some(self.current);
        for (index, socket) in self.sockets.iter_mut().enumerate() {
            let since_ns = *socket.since_ns.get_or_insert(now_ns);
            let is_old = socket.sent > 0 && now_ns.saturating_sub(since_ns) >= TIME_OF_PORT_NS;
            socket.rests |= (is_old || socket.sent >= QUERIES_OF_PORT) && Some(index) != filled;
        }
        self.open_others(address, buffer_bytes, registry);
        if filled.is_none() && self.sockets[self.current].rests {
            let active = self.sockets.iter().position(|socket| !socket.rests);
            self.current = active.unwrap_or(self.current);
        }
    }

    /// Opens sockets until as many as are wanted get queries.
    fn open_others(&mut self, address: SocketAddr, buffer_bytes: usize, registry: &Registry) {
        let active = self.sockets.iter().filter(|socket| !socket.rests).count();
        for _ in active..self.wanted {
            let is_done = |socket: &Socket| socket.rests && socket.ids.used() == 0;
            let index = self.sockets.iter().position(is_done).unwrap_or(self.sockets.len());
            if index == 2 * self.wanted {
                return;
            }
            let token = token(Source::Datagrams, self.number, index);
            let Ok(fresh) = registered(address, buffer_bytes, registry, token) else { return };
            if index == self.sockets.len() {
                self.sockets.push(Socket::new(fresh, Ids::new()));
            } else {
                let before = self.sockets.swap_remove(index);
                self.sockets.push(Socket::new(fresh, before.ids));
                let last = self.sockets.len() - 1;
                self.sockets.swap(index, last);
            }
        }
    }

    /// Whether a socket has sent as many queries as it may, so that sockets are due for renewal.
    #[inline]
    pub(super) fn is_spent(&self) -> bool {
        self.is_spent
    }

    /// Sends a query again from this socket. A query that the kernel refuses times out.
    pub(super) fn repeat(&mut self, index: usize, query: &[u8]) {
        let Some(socket) = self.sockets.get(index).filter(|_| self.again.has_room(query.len())) else {
            return;
        };
        self.again.room()[..query.len()].copy_from_slice(query);
        self.again.keep(query.len());
        self.again.send(&socket.socket, &mut self.longest, |_| {});
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
        let socket = &mut self.sockets[self.current];
        socket.sent = socket.sent.saturating_add(1);
        self.is_spent |= socket.sent == QUERIES_OF_PORT && self.renewed.is_some();
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
        let is_spent = |socket: &Socket| self.renewed.is_some() && socket.sent >= QUERIES_OF_PORT;
        let rests = |number: usize| self.sockets[number].rests || is_spent(&self.sockets[number]);
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kqps_server::connections::Limits;
    use mio::Poll;

    use super::*;
    use crate::Overload;
    use crate::health::Checks;
    use crate::ids::RandomIds;
    use crate::policy::{Choice, Policy};

    const BATCH: usize = 64;

    fn settings() -> FrontSettings {
        let second = Duration::from_secs(1);
        let policy = Policy {
            back_ends: Vec::new(),
            choice: Choice::Random,
            rules: Vec::new(),
            retry_servfail: false,
        };
        FrontSettings {
            policy,
            checks: Checks { query: Vec::new(), interval: second, fall: 1, rise: 1, silence: second },
            batch: BATCH,
            flush: Duration::ZERO,
            coalesce: Duration::ZERO,
            timeout: second,
            connections: 1,
            sockets: 2,
            outstanding: 10,
            back_end_outstanding: 10,
            overload: Overload::Newest,
            buffer_bytes: 4096,
            tcp: false,
            limits: Limits { idle: second, connections: 1, per_client: 1 },
            cautious: true,
            status: None,
            metrics: None,
        }
    }

    fn ports(datagrams: &Datagrams) -> Vec<u16> {
        let port = |socket: &Socket| socket.socket.local_addr().unwrap().port();
        datagrams.sockets.iter().map(port).collect()
    }

    /// Sends as many queries as two ports take.
    fn spend(datagrams: &mut Datagrams) {
        for number in 1..=2 * QUERIES_OF_PORT as usize {
            datagrams.push(&[0; 12], 7, 0);
            if number % BATCH == 0 {
                datagrams.flush();
            }
        }
    }

    #[test]
    fn ports_change_while_queries_are_outstanding() {
        let back_end = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let poll = Poll::new().unwrap();
        let address = back_end.local_addr().unwrap();
        let mut datagrams = Datagrams::open(0, address, &settings(), poll.registry()).unwrap();
        let mut random = RandomIds::new().unwrap();
        let first = ports(&datagrams);
        let ids = [0, 1].map(|index| datagrams.sockets[index].ids.give(index as u16, &mut random));
        spend(&mut datagrams);
        assert!(datagrams.is_spent());
        datagrams.renew(poll.registry(), 1);
        let second = ports(&datagrams);
        // The first ports still wait for their answers.
        assert!(second.len() == 4 && second[..2] == first[..] && !datagrams.is_spent());
        assert!(second[2..].iter().all(|port| !first.contains(port)), "{second:?}");
        for (index, id) in ids.into_iter().enumerate() {
            datagrams.sockets[index].ids.free(id);
        }
        spend(&mut datagrams);
        assert!(datagrams.sockets[2].sent == QUERIES_OF_PORT && datagrams.sockets[3].sent == QUERIES_OF_PORT);
        datagrams.renew(poll.registry(), 2);
        let third = ports(&datagrams);
        assert!(third.len() == 4 && third[2..] == second[2..], "{third:?}");
        assert!(datagrams.sockets[..2].iter().all(|socket| !socket.rests && socket.sent == 0));
    }

    #[test]
    fn ports_change_after_a_time() {
        let back_end = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let poll = Poll::new().unwrap();
        let address = back_end.local_addr().unwrap();
        let mut datagrams = Datagrams::open(0, address, &settings(), poll.registry()).unwrap();
        datagrams.renew(poll.registry(), 1);
        datagrams.push(&[0; 12], 7, 1);
        datagrams.flush();
        let before = ports(&datagrams);
        datagrams.renew(poll.registry(), TIME_OF_PORT_NS);
        assert_eq!(ports(&datagrams), before);
        datagrams.renew(poll.registry(), TIME_OF_PORT_NS + 1);
        // It has no outstanding query, so another takes its place. The second socket sent nothing.
        assert!(datagrams.sockets[0].sent == 0 && ports(&datagrams)[1] == before[1]);
    }

    #[test]
    fn a_query_is_sent_again_from_its_port() {
        let back_end = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        back_end.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let poll = Poll::new().unwrap();
        let address = back_end.local_addr().unwrap();
        let mut datagrams = Datagrams::open(0, address, &settings(), poll.registry()).unwrap();
        datagrams.push(&[1; 12], 0x0101, 0);
        datagrams.flush();
        // A batch of another socket is being filled.
        datagrams.push(&[2; 12], 0x0202, 0);
        datagrams.repeat(0, &[1; 12]);
        let mut buffer = [0; 64];
        let seen = [0; 2].map(|_| back_end.recv_from(&mut buffer).unwrap());
        assert!(seen[0] == seen[1] && seen[0].0 == 12 && buffer[0] == 1, "{seen:?}");
    }
}
