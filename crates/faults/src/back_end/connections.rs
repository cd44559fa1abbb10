//! Queries by connections.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use fastrand::Rng;
use socket2::{SockAddr, Socket, Type};

use super::fault::{self, Fault, SLOW};
use super::{LOOK, Shared};

/// Bytes of the length before a message.
const LENGTH: usize = 2;

/// A client that reads nothing for this long is disconnected.
const WRITE_WITHIN: Duration = Duration::from_secs(1);

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 128;

/// A listener for connections over TCP, or at a Unix socket.
pub(super) struct Door {
    address: SockAddr,
    listener: Option<Socket>,
}

impl Door {
    pub(super) fn open(address: impl Into<SockAddr>) -> io::Result<Self> {
        let mut door = Self { address: address.into(), listener: None };
        door.set_open(true)?;
        Ok(door)
    }

    /// Opens or closes it; no effect if it is so already.
    fn set_open(&mut self, is_open: bool) -> io::Result<()> {
        if !is_open {
            self.listener = None;
        } else if self.listener.is_none() {
            let listener = Socket::new(self.address.domain(), Type::STREAM, None)?;
            match self.address.as_pathname().map(std::fs::remove_file) {
                Some(Err(error)) if error.kind() != ErrorKind::NotFound => return Err(error),
                Some(_) => {}
                None => listener.set_reuse_address(true)?,
            }
            listener.bind(&self.address)?;
            listener.listen(BACKLOG)?;
            listener.set_nonblocking(true)?;
            self.listener = Some(listener);
        }
        Ok(())
    }

    /// The next waiting connection, or `None`. Its reads and writes time out soon.
    fn accept(&self) -> io::Result<Option<Socket>> {
        let Some(listener) = &self.listener else { return Ok(None) };
        let (stream, _) = listener.accept()?;
        if self.address.is_ipv4() {
            stream.set_tcp_nodelay(true)?;
        }
        stream.set_read_timeout(Some(LOOK))?;
        stream.set_write_timeout(Some(WRITE_WITHIN))?;
        Ok(Some(stream))
    }
}

/// Accepts connections until it is stopped, and serves each in a thread of its own.
pub(super) fn serve(mut door: Door, shared: &Shared, seed: u64) {
    let mut rng = Rng::with_seed(seed);
    std::thread::scope(|scope| {
        while !shared.is_stopped() {
            // If it cannot be opened now, the next round tries again.
            let _ = door.set_open(shared.fault() != Fault::Refusing);
            match door.accept() {
                Ok(Some(stream)) => {
                    let rng = rng.fork();
                    scope.spawn(move || Conversation::new(stream, rng).hold(shared));
                }
                // No client waits, or the client has gone.
                Ok(None) | Err(_) => std::thread::sleep(LOOK),
            }
        }
    });
}

struct Conversation {
    stream: Socket,
    rng: Rng,
    input: Vec<u8>,
    output: Vec<u8>,
    late: VecDeque<(Instant, Vec<u8>)>,
}

impl Conversation {
    fn new(stream: Socket, rng: Rng) -> Self {
        Self { stream, rng, input: Vec::new(), output: Vec::new(), late: VecDeque::new() }
    }

    /// Answers until either side ends the connection.
    fn hold(mut self, shared: &Shared) {
        while !shared.is_stopped() {
            let fault = shared.fault();
            match fault {
                Fault::Refusing => return,
                Fault::HalfOpen => std::thread::sleep(LOOK),
                _ if self.turn(fault, shared).unwrap_or(true) => return,
                _ => {}
            }
        }
    }

    /// Reads the queries that have come and answers them. Returns whether the connection is over.
    fn turn(&mut self, fault: Fault, shared: &Shared) -> io::Result<bool> {
        let mut buffer = [0; 16_384];
        match self.stream.read(&mut buffer) {
            Ok(0) => return Ok(true),
            Ok(bytes) => self.input.extend_from_slice(&buffer[..bytes]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => return Err(error),
        }
        let (mut used, mut right, mut spoiled, mut is_over) = (0, 0, 0, false);
        while let Some(query) = first(&self.input[used..]) {
            used += LENGTH + query.len();
            shared.received.fetch_add(1, Ordering::Relaxed);
            if is_over {
                continue;
            }
            let reply = fault::reply(query, fault, &mut self.rng);
            // The length before a reply is that of the whole reply, even if the fault cuts it.
            let whole = if fault.is_right() { reply.len() } else { query.len() + 16 };
            if fault == Fault::Slow {
                self.late.push_back((Instant::now() + SLOW, reply));
                continue;
            }
            if fault != Fault::Garbage {
                let [.., high, low] = whole.to_be_bytes();
                self.output.extend_from_slice(&[high, low]);
            }
            self.output.extend_from_slice(&reply);
            right += u64::from(fault.is_right());
            spoiled += u64::from(!fault.is_right());
            is_over = matches!(fault, Fault::MidFrame | Fault::Closing);
        }
        self.input.drain(..used);
        while let Some((_, reply)) = self.late.pop_front_if(|(due, _)| *due <= Instant::now()) {
            let [.., high, low] = reply.len().to_be_bytes();
            self.output.extend_from_slice(&[high, low]);
            self.output.extend_from_slice(&reply);
            right += 1;
        }
        // Count before sending, so that a client that sees a reply finds it counted.
        shared.count(right, spoiled);
        self.stream.write_all(&self.output)?;
        self.output.clear();
        Ok(is_over)
    }
}

/// The first message of these bytes, without its length; `None` if it is not complete.
fn first(bytes: &[u8]) -> Option<&[u8]> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.get(..usize::from(u16::from_be_bytes(*length)))
}
