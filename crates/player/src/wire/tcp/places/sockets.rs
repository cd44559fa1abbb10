//! Work that each I/O model does in a way of its own: how connections begin and end, and how they are watched, read and
//! written. The places are compiled for each model, so that none pays for another.

use std::io;
use std::net::SocketAddr;
use std::ops::Range;

use super::Places;
use crate::connections::ConnectionCounts;
use crate::plan::{Close, Plan};
use crate::state::ThreadState;
use crate::thread::PlayerThread;
use crate::wire::tcp::kernel::Origin;
use crate::wire::tcp::layer::Layer;
use crate::wire::tcp::ports::Ports;
use crate::wire::xdp::PastCounts;

/// The sockets of a thread's connections, by one I/O model.
pub(crate) trait Sockets: Sized {
    /// The name of the I/O model in records.
    const IO: &'static str;

    /// A connection's handle of its socket.
    type Socket;

    /// The means that were opened for the thread before the trial.
    type Means;

    /// No sockets yet, for this many places.
    fn new(means: Self::Means, places: usize) -> io::Result<Self>;

    /// The pairs from which all connections of these flows come; `None` if the kernel can choose ports.
    fn ports(&self, plan: &Plan, flows: Range<usize>) -> Option<Ports> {
        let _ = (plan, flows);
        None
    }

    /// Begins to connect a place to its target, whose number follows its address. `None` if the pair is in use.
    fn connect(
        &mut self,
        from: Origin,
        to: (SocketAddr, usize),
        flow: usize,
    ) -> io::Result<Option<Self::Socket>>;

    /// Segments of a connection that were sent again, unless [`Self::finish`] counts those of all.
    fn retransmitted(&self, socket: &Self::Socket) -> u64;

    /// Whether the SYN of an attempt that took this long was sent again.
    fn has_lost_syn(&self, socket: &Self::Socket, took_ns: u64) -> bool;

    /// Bytes that the peer acknowledged, with one for the SYN.
    fn acknowledged_bytes(&self, socket: &Self::Socket) -> u64;

    /// Hands bytes to the connection, and takes those that it took out of the vector. Returns their number. An error
    /// ends the connection.
    fn write(&mut self, socket: &mut Self::Socket, bytes: &mut Vec<u8>) -> io::Result<usize>;

    /// How many bytes that were handed to the connection it may not have written.
    fn unsent(&self, socket: &Self::Socket) -> usize;

    /// Notes whether bytes of a place wait for room.
    fn await_room(&mut self, socket: &Self::Socket, flow: usize, awaits: bool) -> io::Result<()>;

    /// Writes the last bytes of a connection, if no others wait before them.
    fn write_last(&mut self, socket: &Self::Socket, bytes: &[u8]);

    /// Whether closing in this way now overtakes nothing that the connection was just handed.
    fn may_close(&self, socket: &Self::Socket, how: Close) -> bool;

    /// Makes closing reset the connection.
    fn close_by_reset(&self, socket: &mut Self::Socket) -> io::Result<()>;

    /// Closes a connection.
    fn end(&mut self, socket: Self::Socket);

    /// Ends the thread's part, with the connections that are left. Adds what only the sockets know to the counts.
    fn finish(
        &mut self,
        left: Vec<Self::Socket>,
        counts: &mut ConnectionCounts,
    ) -> io::Result<Option<PastCounts>> {
        let _ = counts;
        drop(left);
        Ok(None)
    }

    /// Reads what has arrived at a place, unless looks return it.
    fn read<L: Layer>(
        places: &mut Places<L, Self>,
        state: &mut ThreadState<'_>,
        flow: usize,
        now_ns: u64,
    ) -> io::Result<()>;

    /// Looks at the connections, and waits for `most_ns` at most until something happens at one of them. Returns
    /// whether a reply came, or a connection was made or ended.
    fn look<L: Layer>(
        places: &mut Places<L, Self>,
        state: &mut ThreadState<'_>,
        most_ns: u64,
    ) -> io::Result<bool>;

    /// Plays a thread's part from the start to the end of the drain.
    fn play<L: Layer>(thread: &mut PlayerThread<'_, Places<L, Self>>) -> io::Result<()>;
}
