//! `epoll`: one wait returns the connections that are ready, one write hands a burst to the kernel, and one read takes
//! all replies that have arrived on a connection.

use std::io;
use std::net::SocketAddr;

use kqps_kernel::epoll::{Epoll, Interest, Ready};
use kqps_kernel::tcp_client::{TcpClient, TcpRead};

use super::kernel::{self, Origin};
use super::layer::{Broken, Buffers, Layer, Rest};
use super::places::{Places, Sockets};
use crate::connections::Ending;
use crate::plan::{BURST_MOST, Close};
use crate::state::ThreadState;
use crate::thread::{PlayerThread, TICK_NS};

/// Descriptors that one look returns at most.
const EVENTS: usize = 256;

/// Reads of one connection in one look: together more than its receive buffer holds (`tcp_rmem`, usually 6 MiB). The
/// limit applies if reads have no time of arrival.
const READS_MOST: u32 = 256;

type EpollThread<'a, L> = PlayerThread<'a, Places<L, EpollSockets>>;

fn play<L: Layer>(thread: &mut EpollThread<'_, L>) -> io::Result<()> {
    let mut burst = Vec::with_capacity(BURST_MOST);
    let mut next_tick_ns = 0;
    thread.open_kept()?;
    if !thread.begin()? {
        return Ok(());
    }
    let mut received = false;
    loop {
        let (now_ns, more) = thread.turn();
        if !more {
            break;
        }
        let sent = thread.send_due(&mut burst)?;
        // A single wait a turn: it returns at once if there is something to read.
        let most_ns = if sent && !thread.sends_first() { 0 } else { thread.rest_ns(next_tick_ns, received) };
        received = receive(thread, &mut next_tick_ns, now_ns, most_ns)?;
    }
    thread.drain_with(
        |thread, now_ns| receive(thread, &mut next_tick_ns, now_ns, 0),
        |thread, most_ns| {
            EpollSockets::look(&mut thread.wire, &mut thread.state, most_ns.min(TICK_NS)).map(drop)
        },
        |_| (),
    )
}

/// Looks at the connections, for `most_ns` at most, and settles queries by time at each tick. Every connection that was
/// ready at `now_ns` has then been read.
fn receive<L: Layer>(
    thread: &mut EpollThread<'_, L>,
    next_tick_ns: &mut u64,
    now_ns: u64,
    most_ns: u64,
) -> io::Result<bool> {
    let received = EpollSockets::look(&mut thread.wire, &mut thread.state, most_ns)?;
    thread.tick(next_tick_ns, now_ns, now_ns)?;
    Ok(received)
}

/// Sockets in a set that the kernel watches.
pub(super) struct EpollSockets {
    epoll: Epoll,
    ready: Vec<Ready>,
    /// The size of sockets' buffers; `None` if the kernel sizes them.
    buffer_bytes: Option<usize>,
}

impl Sockets for EpollSockets {
    const IO: &'static str = "epoll";

    type Socket = TcpClient;

    type Means = Option<usize>;

    fn new(buffer_bytes: Option<usize>, _: usize) -> io::Result<Self> {
        Ok(Self { epoll: Epoll::new(EVENTS)?, ready: Vec::with_capacity(EVENTS), buffer_bytes })
    }

    fn connect(
        &mut self,
        from: Origin,
        (to, _): (SocketAddr, usize),
        flow: usize,
    ) -> io::Result<Option<TcpClient>> {
        let socket = kernel::open(from, to, self.buffer_bytes, TcpClient::begin)?;
        let Some(socket) = socket else { return Ok(None) };
        self.epoll.watch(&socket, flow as u64, Interest::Both)?;
        Ok(Some(socket))
    }

    fn retransmitted(&self, socket: &TcpClient) -> u64 {
        kernel::retransmitted(socket)
    }

    fn has_lost_syn(&self, socket: &TcpClient, took_ns: u64) -> bool {
        kernel::has_lost_syn(socket, took_ns)
    }

    fn acknowledged_bytes(&self, socket: &TcpClient) -> u64 {
        kernel::acknowledged_bytes(socket)
    }

    #[inline]
    fn write(&mut self, socket: &mut TcpClient, bytes: &mut Vec<u8>) -> io::Result<usize> {
        let mut written = 0;
        while !bytes.is_empty() {
            let taken = socket.write(bytes)?;
            if taken == 0 {
                break;
            }
            written += taken;
            drop(bytes.drain(..taken));
        }
        Ok(written)
    }

    #[inline]
    fn unsent(&self, _: &TcpClient) -> usize {
        0
    }

    fn await_room(&mut self, socket: &TcpClient, flow: usize, awaits: bool) -> io::Result<()> {
        let interest = if awaits { Interest::Both } else { Interest::Read };
        self.epoll.change(socket, flow as u64, interest)
    }

    fn write_last(&mut self, socket: &TcpClient, bytes: &[u8]) {
        // A peer that takes them no more misses nothing that it needs.
        let _ = socket.write(bytes);
    }

    #[inline]
    fn may_close(&self, _: &TcpClient, _: Close) -> bool {
        true
    }

    fn close_by_reset(&self, socket: &mut TcpClient) -> io::Result<()> {
        socket.close_by_reset()
    }

    fn end(&mut self, socket: TcpClient) {
        drop(socket);
    }

    /// Reads all that has arrived by `now_ns`. Of a flood what arrives later is left, so that other connections have
    /// their turn.
    fn read<L: Layer>(
        places: &mut Places<L, Self>,
        state: &mut ThreadState<'_>,
        flow: usize,
        now_ns: u64,
    ) -> io::Result<()> {
        let mut reads = 0;
        let rest = loop {
            reads += 1;
            let (mut hearing, _, buffers) = places.split(flow, now_ns);
            let broken = hearing.broken();
            let Some(socket) = hearing.socket() else { return Ok(()) };
            let mut is_late = false;
            let (rest, is_full) = match buffers.fill(hearing.kept(), socket) {
                Ok(TcpRead::Nothing) => (Ok(Rest::Nothing), false),
                Ok(TcpRead::End) => (Ok(Rest::End), false),
                Ok(TcpRead::Bytes { bytes, arrived_ns }) => {
                    let Buffers { bytes: all, room } = buffers;
                    let is_full = bytes == all.len();
                    let at_ns = state.clock.arrival_ns(arrived_ns, now_ns);
                    is_late = arrived_ns.is_some() && at_ns > now_ns;
                    (hearing.hear(state, (&mut all[..bytes], room), at_ns), is_full)
                }
                Err(error) => (Err(Broken::Socket(Ending::of_error(&error))), false),
            };
            match rest {
                Ok(Rest::Nothing) if is_full && (broken.is_some() || (!is_late && reads < READS_MOST)) => {}
                // A write found that it has ended, and nothing more is there.
                Ok(Rest::Nothing) if broken.is_some() => break Ok(Rest::End),
                rest => break rest,
            }
        };
        places.go_on(state, flow, rest, now_ns)
    }

    fn look<L: Layer>(
        places: &mut Places<L, Self>,
        state: &mut ThreadState<'_>,
        mut most_ns: u64,
    ) -> io::Result<bool> {
        let mut happened = false;
        let mut rounds_left = 1 + places.len() / EVENTS;
        loop {
            rounds_left -= 1;
            let Self { epoll, ready, .. } = &mut places.sockets;
            ready.clear();
            ready.extend(epoll.wait_for(Some(most_ns))?);
            let count = ready.len();
            let now_ns = state.now_ns();
            for index in 0..count {
                happened = true;
                let ready = places.sockets.ready[index];
                handle(places, state, ready, now_ns)?;
            }
            if count < EVENTS || rounds_left == 0 {
                return Ok(happened);
            }
            most_ns = 0;
        }
    }

    fn play<L: Layer>(thread: &mut EpollThread<'_, L>) -> io::Result<()> {
        play(thread)
    }
}

#[inline]
fn handle<L: Layer>(
    places: &mut Places<L, EpollSockets>,
    state: &mut ThreadState<'_>,
    ready: Ready,
    now_ns: u64,
) -> io::Result<()> {
    let flow = ready.key as usize;
    let Some(connection) = places.connection(flow) else { return Ok(()) };
    if connection.connected_ns.is_none() {
        // An attempt that failed is readable as well.
        let outcome = if ready.readable { connection.socket.outcome() } else { Ok(()) };
        let is_over = ready.writable || outcome.is_err();
        if !is_over || !places.connected(state, flow, outcome, now_ns) {
            return Ok(());
        }
    }
    if ready.writable {
        places.write_on(state, flow, now_ns)?;
    }
    if ready.readable {
        EpollSockets::read(places, state, flow, now_ns)?;
    }
    Ok(())
}
