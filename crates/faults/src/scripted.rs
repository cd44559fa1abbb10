//! A server that replies as the caller's function says, by UDP and by TCP at one port (RFC 7766, section 8).

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, panicking, sleep};
use std::time::Duration;

/// How long a thread waits for input before it looks whether it must stop.
const LOOK: Duration = Duration::from_millis(5);

/// Attempts to find a port that is free for both: the kernel may give the port of the one to another program's other.
const TRIES: u32 = 100;

/// A message that came.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'s> {
    /// Its bytes, without the length of TCP.
    pub query: &'s [u8],
    /// The sender.
    pub from: SocketAddr,
    /// The server's own socket, if it came by UDP.
    pub socket: Option<&'s UdpSocket>,
}

/// Returns the messages that answer one.
type Say = dyn Fn(&Asked<'_>) -> Vec<Vec<u8>> + Send + Sync;

/// A running server. Dropping it stops it, after it has read what came; it panics then if the function did.
pub struct Scripted {
    address: SocketAddr,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    say: Box<Say>,
    /// Whether it closes a connection after its reply.
    closes: AtomicBool,
    stop: AtomicBool,
}

impl Scripted {
    /// A server at a free port of an address of this host. An error if there is none.
    pub fn start(
        host: IpAddr,
        say: impl Fn(&Asked<'_>) -> Vec<Vec<u8>> + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let say: Box<Say> = Box::new(say);
        for _ in 0..TRIES {
            let udp = UdpSocket::bind((host, 0))?;
            if let Ok(tcp) = TcpListener::bind(udp.local_addr()?) {
                return Self::on(udp, tcp, say);
            }
        }
        Err(ErrorKind::AddrInUse.into())
    }

    /// A server at this address. An error if another program has it.
    pub fn at(
        address: SocketAddr,
        say: impl Fn(&Asked<'_>) -> Vec<Vec<u8>> + Send + Sync + 'static,
    ) -> io::Result<Self> {
        Self::on(UdpSocket::bind(address)?, TcpListener::bind(address)?, Box::new(say))
    }

    fn on(udp: UdpSocket, tcp: TcpListener, say: Box<Say>) -> io::Result<Self> {
        let address = udp.local_addr()?;
        udp.set_read_timeout(Some(LOOK))?;
        tcp.set_nonblocking(true)?;
        let shared = Arc::new(Shared { say, closes: AtomicBool::new(false), stop: AtomicBool::new(false) });
        let (of_udp, of_tcp) = (Arc::clone(&shared), Arc::clone(&shared));
        let threads = vec![
            std::thread::spawn(move || of_udp.serve_datagrams(&udp)),
            std::thread::spawn(move || of_tcp.accept(&tcp)),
        ];
        Ok(Self { address, shared, threads })
    }

    /// The address that clients send to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Has it close each connection after a reply.
    pub fn close_after_replies(&self) {
        self.shared.closes.store(true, Ordering::Relaxed);
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        let panics = self.threads.drain(..).filter_map(|thread| thread.join().err()).count();
        assert!(panics == 0 || panicking(), "the server's function panicked");
    }
}

impl Shared {
    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn serve_datagrams(&self, socket: &UdpSocket) {
        let mut buffer = [0; 4096];
        loop {
            match socket.recv_from(&mut buffer) {
                Ok((bytes, from)) => {
                    let asked = Asked { query: &buffer[..bytes], from, socket: Some(socket) };
                    for reply in (self.say)(&asked) {
                        // A client that has gone needs no reply.
                        let _ = socket.send_to(&reply, from);
                    }
                }
                Err(_) if self.is_stopped() => return,
                Err(_) => {}
            }
        }
    }

    fn accept(&self, listener: &TcpListener) {
        std::thread::scope(|scope| {
            while !self.is_stopped() {
                match listener.accept() {
                    Ok((stream, from)) => {
                        // A connection that fails is over.
                        scope.spawn(move || drop(self.serve_stream(stream, from)));
                    }
                    Err(_) => sleep(LOOK),
                }
            }
        });
    }

    fn serve_stream(&self, mut stream: TcpStream, from: SocketAddr) -> io::Result<()> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(LOOK))?;
        let (mut input, mut buffer) = (Vec::new(), [0; 4096]);
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(bytes) => input.extend_from_slice(&buffer[..bytes]),
                Err(_) if !self.is_stopped() => continue,
                Err(error) => return Err(error),
            }
            while let Some(length) =
                input.first_chunk().map(|length| usize::from(u16::from_be_bytes(*length)))
            {
                let Some(query) = input.get(2..2 + length) else { break };
                for reply in (self.say)(&Asked { query, from, socket: None }) {
                    let [.., high, low] = reply.len().to_be_bytes();
                    stream.write_all(&[&[high, low][..], &reply].concat())?;
                }
                if self.closes.load(Ordering::Relaxed) {
                    return Ok(());
                }
                input.drain(..2 + length);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn it_says_by_both_ways_what_the_function_returns() {
        let server = Scripted::start(Ipv4Addr::LOCALHOST.into(), |asked| {
            let way = if asked.socket.is_some() { b'u' } else { b't' };
            vec![vec![way], asked.query.to_vec()]
        })
        .unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        udp.send_to(b"one", server.address()).unwrap();
        let mut buffer = [0; 16];
        for wanted in [&b"u"[..], b"one"] {
            let bytes = udp.recv(&mut buffer).unwrap();
            assert_eq!(&buffer[..bytes], wanted);
        }
        let mut tcp = TcpStream::connect(server.address()).unwrap();
        server.close_after_replies();
        tcp.write_all(b"\0\x03two").unwrap();
        let mut said = Vec::new();
        tcp.read_to_end(&mut said).unwrap();
        assert_eq!(said, b"\0\x01t\0\x03two");
    }

    #[test]
    #[should_panic(expected = "the server's function panicked")]
    fn a_function_that_panics_is_not_overheard() {
        let server = Scripted::start(Ipv4Addr::LOCALHOST.into(), |_| panic!("no reply")).unwrap();
        UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"one", server.address()).unwrap();
        while !server.threads[0].is_finished() {
            sleep(LOOK);
        }
    }
}
