//! The server of these tests. It keeps what it receives, over UDP and TCP, and answers in one way.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, sleep};
use std::time::Duration;

/// How queries are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Each with itself, as a reply.
    Echo,
    /// Each second one.
    EverySecond,
    /// None.
    None,
    /// With rcodes from 0 to 11, in turn.
    Rcodes,
    /// Each after 5 ms.
    Late,
}

/// A query that arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Query {
    pub(super) from: SocketAddr,
    pub(super) message: Vec<u8>,
}

struct Shared {
    answer: Answer,
    heard: Mutex<Vec<Query>>,
    is_over: AtomicBool,
}

/// A running server.
pub(super) struct Peer {
    shared: Arc<Shared>,
    port: u16,
    threads: Vec<JoinHandle<()>>,
}

impl Shared {
    /// Keeps a query, and returns the reply to it.
    fn take(&self, from: SocketAddr, message: &[u8]) -> Option<Vec<u8>> {
        let number = {
            let mut heard = self.heard.lock().unwrap();
            heard.push(Query { from, message: message.to_vec() });
            heard.len()
        };
        let mut reply = message.to_vec();
        if let Some(flags) = reply.get_mut(2..4) {
            flags[0] |= 0x80;
            if self.answer == Answer::Rcodes {
                flags[1] = (number % 12) as u8;
            }
        }
        if self.answer == Answer::Late {
            sleep(Duration::from_millis(5));
        }
        let is_answered = match self.answer {
            Answer::None => false,
            Answer::EverySecond => number.is_multiple_of(2),
            Answer::Echo | Answer::Rcodes | Answer::Late => true,
        };
        is_answered.then_some(reply)
    }

    fn is_over(&self) -> bool {
        self.is_over.load(SeqCst)
    }
}

impl Peer {
    /// A server at this address, at a port of its own.
    pub(super) fn at(address: IpAddr, answer: Answer) -> Self {
        // The kernel may give the port of the one to another program's other.
        let (udp, tcp) = (0..100)
            .find_map(|_| {
                let udp = UdpSocket::bind((address, 0)).unwrap();
                let tcp = TcpListener::bind(udp.local_addr().unwrap()).ok()?;
                Some((udp, tcp))
            })
            .expect("a port that is free for both");
        let port = udp.local_addr().unwrap().port();
        let shared = Arc::new(Shared { answer, heard: Mutex::default(), is_over: AtomicBool::new(false) });
        let by_udp = {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || datagrams(&udp, &shared))
        };
        let by_tcp = {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || connections(&tcp, &shared))
        };
        Self { shared, port, threads: vec![by_udp, by_tcp] }
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// How many queries arrived.
    pub(super) fn count(&self) -> usize {
        self.shared.heard.lock().unwrap().len()
    }

    /// Ends it, and returns what arrived.
    pub(super) fn end(self) -> Vec<Query> {
        self.shared.is_over.store(true, SeqCst);
        for thread in self.threads {
            thread.join().unwrap();
        }
        std::mem::take(&mut *self.shared.heard.lock().unwrap())
    }
}

/// The time after which a thread looks whether it is over.
const LOOK_EVERY: Duration = Duration::from_millis(5);

fn is_nothing(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

fn datagrams(socket: &UdpSocket, shared: &Shared) {
    socket.set_read_timeout(Some(LOOK_EVERY)).unwrap();
    let mut buffer = [0; 4096];
    loop {
        match socket.recv_from(&mut buffer) {
            Ok((bytes, from)) => {
                if let Some(reply) = shared.take(from, &buffer[..bytes]) {
                    socket.send_to(&reply, from).unwrap();
                }
            }
            Err(error) if is_nothing(error.kind()) && shared.is_over() => return,
            Err(error) if is_nothing(error.kind()) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

fn connections(listener: &TcpListener, shared: &Arc<Shared>) {
    listener.set_nonblocking(true).unwrap();
    let mut threads = Vec::new();
    while !shared.is_over() {
        match listener.accept() {
            Ok((stream, from)) => {
                let shared = Arc::clone(shared);
                threads.push(std::thread::spawn(move || connection(stream, from, &shared)));
            }
            Err(error) if is_nothing(error.kind()) => sleep(Duration::from_millis(1)),
            Err(error) => panic!("{error}"),
        }
    }
    for thread in threads {
        thread.join().unwrap();
    }
}

fn connection(mut stream: TcpStream, from: SocketAddr, shared: &Shared) {
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(LOOK_EVERY)).unwrap();
    let (mut kept, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return,
            Ok(bytes) => kept.extend_from_slice(&buffer[..bytes]),
            Err(error) if is_nothing(error.kind()) && !shared.is_over() => continue,
            Err(_) => return,
        }
        while let Some(length) = kept.first_chunk().map(|length| usize::from(u16::from_be_bytes(*length))) {
            let Some(message) = kept.get(2..2 + length).map(<[u8]>::to_vec) else { break };
            drop(kept.drain(..2 + length));
            if let Some(reply) = shared.take(from, &message) {
                let reply = [&(reply.len() as u16).to_be_bytes(), &reply[..]].concat();
                if stream.write_all(&reply).is_err() {
                    return;
                }
            }
        }
    }
}
