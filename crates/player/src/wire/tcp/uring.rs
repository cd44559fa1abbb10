//! `io_uring`: connects, sends and receives are operations of one ring. One call submits all that a turn queued, and
//! completes what is ready. A multishot receive on each connection fills buffers that were provided in advance, and a
//! connection has one send at a time, with the bytes of a burst, or of all that came since the send before.

use std::io;
use std::net::SocketAddr;

use kqps_kernel::tcp_client::TcpClient;
use kqps_kernel::uring::Buffer;
use kqps_kernel::uring::stream::{Stream, StreamCompletion, StreamRing};

use super::kernel::{self, Origin};
use super::layer::{Broken, Layer, Rest};
use super::places::{Places, Sockets};
use crate::connections::Ending;
use crate::plan::{BURST_MOST, Close};
use crate::state::ThreadState;
use crate::thread::{PlayerThread, TICK_NS};
use crate::wire::over_connections::Pause;

/// Provided buffers of a thread, and the bytes of each. If they run out, bytes wait in the sockets' buffers.
const BUFFERS: u16 = 512;
const BUFFER_BYTES: usize = 1 << 14;

/// Connections whose receives the kernel completes in one look, at least, each in its turn. `IO_LOCAL_TW_DEFAULT_MAX`
/// of Linux 6.13 and later is 20; earlier kernels have no limit.
const CONNECTIONS_AT_A_TIME: usize = 16;

/// How often a tick begins its rounds again because a connection had more to read. A round reads some MiB, and all
/// rounds together more than receive buffers hold, so that the limit applies only if the wall clock was set back.
const REPEATS_MOST: u32 = 256;

type UringThread<'a, L> = PlayerThread<'a, Places<L, UringSockets>>;

fn play<L: Layer>(thread: &mut UringThread<'_, L>) -> io::Result<()> {
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
        let most_ns = if sent && !thread.sends_first() { 0 } else { rest(thread, next_tick_ns, received)? };
        let reads_all = now_ns >= next_tick_ns;
        received = receive(thread, now_ns, most_ns, reads_all)?;
        thread.tick(&mut next_tick_ns, now_ns, now_ns)?;
    }
    thread.drain_with(
        |thread, now_ns| {
            let received = receive(thread, now_ns, 0, true)?;
            thread.tick(&mut next_tick_ns, now_ns, now_ns)?;
            Ok(received)
        },
        |thread, most_ns| {
            UringSockets::look(&mut thread.wire, &mut thread.state, most_ns.min(TICK_NS)).map(drop)
        },
        |_| (),
    )
}

/// Looks at the connections, for `most_ns` at most. Returns whether something happened. One look does not return
/// everything, since the kernel completes a limited number of receives at a time, and each into as many buffers as are
/// free. With `reads_all` this looks until everything that arrived by `now_ns` has been read.
fn receive<L: Layer>(
    thread: &mut UringThread<'_, L>,
    now_ns: u64,
    most_ns: u64,
    reads_all: bool,
) -> io::Result<bool> {
    thread.wire.sockets.reads_until_ns = now_ns;
    let received = UringSockets::look(&mut thread.wire, &mut thread.state, most_ns)?;
    if !reads_all {
        return Ok(received);
    }
    // In so many rounds every connection that was ready has had its turn.
    let rounds = 1 + thread.wire.len() / CONNECTIONS_AT_A_TIME;
    let (mut rounds_left, mut repeats_left) = (rounds, REPEATS_MOST);
    let mut is_there_more = received;
    while is_there_more && rounds_left > 0 {
        rounds_left -= 1;
        is_there_more = UringSockets::look(&mut thread.wire, &mut thread.state, 0)?;
        if thread.wire.sockets.has_unread() && repeats_left > 0 {
            repeats_left -= 1;
            (is_there_more, rounds_left) = (true, rounds);
        }
    }
    Ok(received)
}

/// How long to wait for something to read, nanoseconds. Submits what is queued and sleeps first, if that is better.
fn rest<L: Layer>(thread: &mut UringThread<'_, L>, next_tick_ns: u64, received: bool) -> io::Result<u64> {
    match thread.pause(next_tick_ns, received) {
        Pause::WaitFor(most_ns) => Ok(most_ns),
        Pause::SleepUntil(at_ns) => {
            if thread.wire.sockets.ring.has_queued() {
                UringSockets::look(&mut thread.wire, &mut thread.state, 0)?;
            }
            thread.state.clock.sleep_until_ns(at_ns);
            Ok(0)
        }
    }
}

/// Sockets in a ring.
pub(super) struct UringSockets {
    ring: StreamRing,
    /// The size of sockets' buffers; `None` if the kernel sizes them.
    buffer_bytes: Option<usize>,
    /// How often queued operations were submitted by a look.
    looks: u64,
    /// The time until which arrived bytes are read before queries are settled by time, nanoseconds since the start.
    reads_until_ns: u64,
    /// Whether a receive filled its buffer with such bytes, so that the socket may hold more of them.
    was_full: bool,
}

impl UringSockets {
    /// Whether the last look may have left bytes that arrived in time.
    fn has_unread(&mut self) -> bool {
        let has_starved = self.ring.has_starved();
        std::mem::take(&mut self.was_full) || has_starved
    }
}

/// A socket of the ring.
pub(super) struct UringSocket {
    stream: Stream,
    /// The looks before its last send was queued.
    queued_after: u64,
}

impl Sockets for UringSockets {
    const IO: &'static str = "uring";

    type Socket = UringSocket;

    type Means = Option<usize>;

    fn new(buffer_bytes: Option<usize>, _: usize) -> io::Result<Self> {
        let ring = StreamRing::new(BUFFERS, BUFFER_BYTES)?;
        Ok(Self { ring, buffer_bytes, looks: 0, reads_until_ns: 0, was_full: false })
    }

    /// The ring connects.
    fn connect(
        &mut self,
        from: Origin,
        (to, _): (SocketAddr, usize),
        flow: usize,
    ) -> io::Result<Option<UringSocket>> {
        let socket = kernel::open(from, to, self.buffer_bytes, |_, _| Ok(()))?;
        let Some(socket) = socket else { return Ok(None) };
        let stream = self.ring.connect(socket, to, flow as u32)?;
        Ok(Some(UringSocket { stream, queued_after: self.looks }))
    }

    fn retransmitted(&self, socket: &UringSocket) -> u64 {
        kernel::retransmitted(self.client(socket))
    }

    fn has_lost_syn(&self, socket: &UringSocket, took_ns: u64) -> bool {
        kernel::has_lost_syn(self.client(socket), took_ns)
    }

    fn acknowledged_bytes(&self, socket: &UringSocket) -> u64 {
        kernel::acknowledged_bytes(self.client(socket))
    }

    #[inline]
    fn write(&mut self, socket: &mut UringSocket, bytes: &mut Vec<u8>) -> io::Result<usize> {
        let count = bytes.len();
        if count == 0 || !self.ring.send(&socket.stream, bytes)? {
            return Ok(0);
        }
        socket.queued_after = self.looks;
        Ok(count)
    }

    #[inline]
    fn unsent(&self, socket: &UringSocket) -> usize {
        self.ring.unsent(&socket.stream)
    }

    #[inline]
    fn await_room(&mut self, _: &UringSocket, _: usize, _: bool) -> io::Result<()> {
        Ok(())
    }

    fn write_last(&mut self, socket: &UringSocket, bytes: &[u8]) {
        if self.unsent(socket) == 0 {
            // A peer that takes them no more misses nothing that it needs.
            let _ = self.client(socket).write(bytes);
        }
    }

    /// The look after a send was queued submits it, and the kernel then takes what it has room for.
    #[inline]
    fn may_close(&self, socket: &UringSocket, _: Close) -> bool {
        self.unsent(socket) == 0 || socket.queued_after < self.looks
    }

    fn close_by_reset(&self, socket: &mut UringSocket) -> io::Result<()> {
        self.client(socket).close_by_reset()
    }

    fn end(&mut self, socket: UringSocket) {
        // If the ring takes no operations any more, the next look says so.
        let _ = self.ring.end(socket.stream);
    }

    fn read<L: Layer>(_: &mut Places<L, Self>, _: &mut ThreadState<'_>, _: usize, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn look<L: Layer>(
        places: &mut Places<L, Self>,
        state: &mut ThreadState<'_>,
        most_ns: u64,
    ) -> io::Result<bool> {
        // A wait would end with the sends that it submits.
        if most_ns == 0 || places.sockets.ring.has_queued() {
            let submitted_ns = state.now_ns();
            places.sockets.ring.submit_and_look()?;
            places.sockets.looks += 1;
            let happened = complete(places, state, Some(submitted_ns))?;
            if happened || most_ns == 0 {
                return Ok(happened);
            }
        }
        places.sockets.ring.submit_and_wait_for(most_ns)?;
        places.sockets.looks += 1;
        complete(places, state, None)
    }

    fn play<L: Layer>(thread: &mut UringThread<'_, L>) -> io::Result<()> {
        play(thread)
    }
}

impl UringSockets {
    /// The kernel's socket of a connection.
    #[inline]
    fn client<'s>(&'s self, socket: &'s UringSocket) -> &'s TcpClient {
        self.ring.client(&socket.stream)
    }
}

/// Handles what is complete. `submitted_ns` is when what was just submitted began, and sends that were complete at once
/// count from then. Returns whether more than sends were complete.
fn complete<L: Layer>(
    places: &mut Places<L, UringSockets>,
    state: &mut ThreadState<'_>,
    submitted_ns: Option<u64>,
) -> io::Result<bool> {
    let now_ns = state.now_ns();
    let mut happened = false;
    while let Some(completion) = places.sockets.ring.completion()? {
        happened |= !matches!(completion, StreamCompletion::Sent { .. });
        match completion {
            StreamCompletion::Connected { key, outcome } => {
                let flow = key as usize;
                if places.connected(state, flow, outcome, now_ns) {
                    places.write_on(state, flow, now_ns)?;
                }
            }
            StreamCompletion::Received { key, buffer } => {
                received(places, state, key as usize, buffer, now_ns)?;
            }
            StreamCompletion::Ended { key, outcome } => {
                let broken = |error| Broken::Socket(Ending::of_error(&error));
                let rest = outcome.map(|()| Rest::End).map_err(broken);
                places.go_on(state, key as usize, rest, now_ns)?;
            }
            StreamCompletion::Sent { key, outcome: Ok(left) } => {
                let flow = key as usize;
                places.written(flow, left, submitted_ns.unwrap_or(now_ns));
                if left == 0 {
                    places.flush(state, flow, now_ns)?;
                    places.close_if_spent(state, flow, now_ns)?;
                }
            }
            StreamCompletion::Sent { key, outcome: Err(error) } => {
                if let Some(connection) = places.connection(key as usize) {
                    connection.broke(&error);
                }
            }
        }
    }
    Ok(happened)
}

/// Takes bytes that arrived at a place.
#[inline]
fn received<L: Layer>(
    places: &mut Places<L, UringSockets>,
    state: &mut ThreadState<'_>,
    flow: usize,
    buffer: Buffer,
    now_ns: u64,
) -> io::Result<()> {
    let (mut hearing, sockets, buffers) = places.split(flow, now_ns);
    let (bytes, arrived_ns) = sockets.ring.bytes(&buffer);
    let at_ns = state.clock.arrival_ns(arrived_ns, now_ns);
    if bytes.len() >= BUFFER_BYTES {
        sockets.was_full |= at_ns <= sockets.reads_until_ns;
    }
    let kept = hearing.kept();
    let joined = if kept.is_empty() { (bytes, &mut buffers.room) } else { buffers.join(kept, bytes) };
    let rest = hearing.hear(state, joined, at_ns);
    sockets.ring.give_back(buffer);
    places.go_on(state, flow, rest, now_ns)
}
