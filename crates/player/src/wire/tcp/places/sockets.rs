//! What the I/O models do in ways of their own: how the sockets of connections are connected, watched, read and
//! written. The places are compiled for each model, so that none pays for another.

use std::io;
use std::net::SocketAddr;

use kqps_kernel::tcp_client::TcpClient;

use super::Places;
use crate::state::ThreadState;
use crate::thread::PlayerThread;
use crate::wire::tcp::layer::Layer;

/// The sockets of a thread's connections, by one I/O model.
pub(crate) trait Sockets: Sized {
    /// The name of the I/O model in records.
    const IO: &'static str;

    /// What a connection has of its socket.
    type Socket;

    /// No sockets yet.
    fn new() -> io::Result<Self>;

    /// Begins to connect a socket that has an address, unless [`Self::watch`] does it.
    fn begin(socket: &TcpClient, to: SocketAddr) -> io::Result<()>;

    /// Takes the socket of a place, which then connects.
    fn watch(&mut self, socket: TcpClient, to: SocketAddr, flow: usize) -> io::Result<Self::Socket>;

    /// The socket of a connection.
    fn client<'s>(&'s self, socket: &'s Self::Socket) -> &'s TcpClient;

    /// Hands bytes to the kernel, and takes those that it took out of the vector. Returns their number. An error ends
    /// the connection.
    fn write(&mut self, socket: &mut Self::Socket, bytes: &mut Vec<u8>) -> io::Result<usize>;

    /// How many bytes that were handed to the kernel it may not have written.
    fn unsent(&self, socket: &Self::Socket) -> usize;

    /// Notes whether bytes of a place wait for the kernel.
    fn await_room(&mut self, socket: &Self::Socket, flow: usize, awaits: bool) -> io::Result<()>;

    /// Writes the last bytes of a connection, if no others wait before them.
    fn write_last(&self, socket: &Self::Socket, bytes: &[u8]);

    /// Whether closing now overtakes nothing that the kernel was just handed.
    fn may_close(&self, socket: &Self::Socket) -> bool;

    /// Closes a socket.
    fn end(&mut self, socket: Self::Socket);

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
