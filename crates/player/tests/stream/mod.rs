//! Common parts of the tests over streams of bytes: a server, and messages after their length.

use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A server that runs `serve` for each connection, in a thread of its own.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) accepted: Arc<AtomicU64>,
}

impl Server {
    /// A server that accepts at this address, in the network of the calling thread.
    pub(crate) fn at(
        address: impl ToSocketAddrs,
        serve: impl Fn(u64, TcpStream) + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let (address, accepted) = (listener.local_addr().unwrap(), Arc::new(AtomicU64::new(0)));
        let (serve, count) = (Arc::new(serve), Arc::clone(&accepted));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                stream.set_nodelay(true).unwrap();
                let (number, serve) = (count.fetch_add(1, Relaxed), Arc::clone(&serve));
                std::thread::spawn(move || serve(number, stream));
            }
        });
        Self { address, accepted }
    }
}

/// Reads a query with its length; `None` at the end of the connection.
pub(crate) fn query(stream: &mut impl Read) -> Option<Vec<u8>> {
    let mut length = [0; 2];
    stream.read_exact(&mut length).ok()?;
    let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut message).ok()?;
    Some(message)
}

/// The reply to a query, after its length: NOERROR without records.
pub(crate) fn reply(mut message: Vec<u8>) -> Vec<u8> {
    message[2] |= 0x80;
    let mut framed = (message.len() as u16).to_be_bytes().to_vec();
    framed.append(&mut message);
    framed
}
