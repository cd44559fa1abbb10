//! A name server that a proof plays, over UDP and TCP at one port.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Result;
use kqps_message::HEADER_BYTES;

use super::message::{asked, empty};

/// How long a thread waits for input before it looks whether it must stop.
const LOOK: Duration = Duration::from_millis(20);

/// How a question arrived.
#[derive(Clone, Copy)]
pub(super) enum By<'s> {
    /// As a datagram from this address to this socket.
    Udp(&'s UdpSocket, SocketAddr),
    /// On a connection.
    Tcp,
}

/// A function that makes the server's replies to a question; it may send more by itself before.
type Say = dyn Fn(&[u8], By<'_>) -> Vec<Vec<u8>> + Send + Sync;

/// The server. Dropping it stops it.
pub(super) struct Upstream {
    pub(super) address: SocketAddr,
    asked: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// State that its threads share.
#[derive(Clone)]
struct Shared {
    say: Arc<Say>,
    asked: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

impl Upstream {
    /// Starts a server on a free port. It answers checks, which ask for the root, by itself.
    pub(super) fn start(say: impl Fn(&[u8], By<'_>) -> Vec<Vec<u8>> + Send + Sync + 'static) -> Result<Self> {
        let (udp, tcp) = loop {
            let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
            // The port may be taken for TCP.
            if let Ok(tcp) = TcpListener::bind(udp.local_addr()?) {
                break (udp, tcp);
            }
        };
        let address = udp.local_addr()?;
        udp.set_read_timeout(Some(LOOK))?;
        tcp.set_nonblocking(true)?;
        let (asked, stop) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let shared = Shared { say: Arc::new(say), asked: asked.clone(), stop: stop.clone() };
        let of_tcp = shared.clone();
        let threads = vec![
            std::thread::spawn(move || shared.serve_datagrams(&udp)),
            std::thread::spawn(move || of_tcp.accept(&tcp)),
        ];
        Ok(Self { address, asked, stop, threads })
    }

    /// The number of questions so far, without checks.
    pub(super) fn asked(&self) -> u64 {
        self.asked.load(Relaxed)
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            // A panic has printed its reason already.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn serve_datagrams(&self, socket: &UdpSocket) {
        let mut buffer = [0; 4096];
        while !self.stop.load(Relaxed) {
            let Ok((bytes, from)) = socket.recv_from(&mut buffer) else { continue };
            for reply in self.replies(&buffer[..bytes], By::Udp(socket, from)) {
                let _ = socket.send_to(&reply, from);
            }
        }
    }

    fn accept(&self, listener: &TcpListener) {
        let mut threads = Vec::new();
        while !self.stop.load(Relaxed) {
            match listener.accept() {
                Ok((stream, _)) => {
                    let shared = self.clone();
                    threads.push(std::thread::spawn(move || shared.serve_stream(stream)));
                }
                Err(_) => std::thread::sleep(LOOK),
            }
        }
        for thread in threads {
            let _ = thread.join();
        }
    }

    fn serve_stream(&self, mut stream: TcpStream) {
        let is_set = stream.set_nonblocking(false).and_then(|()| stream.set_read_timeout(Some(LOOK)));
        let (mut input, mut buffer) = (Vec::new(), [0; 4096]);
        while is_set.is_ok() && !self.stop.load(Relaxed) {
            match stream.read(&mut buffer) {
                Ok(0) => return,
                Ok(bytes) => input.extend_from_slice(&buffer[..bytes]),
                Err(_) => continue,
            }
            while let Some(&[high, low]) = input.first_chunk() {
                let end = 2 + usize::from(u16::from_be_bytes([high, low]));
                if input.len() < end {
                    break;
                }
                let rest = input.split_off(end);
                for reply in self.replies(&input[2..], By::Tcp) {
                    let framed = [&(reply.len() as u16).to_be_bytes(), &reply[..]].concat();
                    let _ = stream.write_all(&framed);
                }
                input = rest;
            }
        }
    }

    fn replies(&self, query: &[u8], by: By<'_>) -> Vec<Vec<u8>> {
        if query.len() < HEADER_BYTES {
            return Vec::new();
        }
        if asked(query) == [0] {
            return vec![empty(query, 0)];
        }
        self.asked.fetch_add(1, Relaxed);
        (self.say)(query, by)
    }
}
