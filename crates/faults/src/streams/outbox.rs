//! The bytes that a connection has to write, in order, each with the time before which it must not leave.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write as _};
use std::net::TcpStream;

use kqps_kernel::clock;

/// The step of the server after bytes are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// The server closes its direction.
    Fin,
    /// The server resets the connection.
    Reset,
}

/// Bytes that leave together.
struct Piece {
    bytes: Vec<u8>,
    written: usize,
    due_ns: u64,
    then: Option<Then>,
    /// The number of the query that they answer, if their time is noted.
    query: Option<usize>,
}

/// A reply that left, with the times just before and just after the call that wrote its last byte.
pub(super) struct SentReply {
    pub(super) query: usize,
    pub(super) before_ns: u64,
    pub(super) after_ns: u64,
}

/// The result of a round of writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// All that is due has left.
    All,
    /// The kernel has no room.
    NoRoom,
    /// The peer has gone.
    Gone,
    /// The connection must be reset.
    Reset,
}

/// The bytes that a connection has to write.
#[derive(Default)]
pub(super) struct Outbox {
    pieces: VecDeque<Piece>,
}

impl Outbox {
    /// When the first bytes may leave; `None` if nothing waits.
    pub(super) fn due_ns(&self) -> Option<u64> {
        self.pieces.front().map(|piece| piece.due_ns)
    }

    /// Adds bytes that may leave at once, with those before them.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        match self.pieces.back_mut() {
            Some(last) if last.due_ns == 0 && last.then.is_none() && last.query.is_none() => {
                last.bytes.extend_from_slice(bytes);
            }
            _ => self.push_apart(bytes.to_vec(), 0, None),
        }
    }

    /// Adds bytes that leave by a call of their own, at this time at the earliest.
    pub(super) fn push_apart(&mut self, bytes: Vec<u8>, due_ns: u64, then: Option<Then>) {
        self.pieces.push_back(Piece { bytes, written: 0, due_ns, then, query: None });
    }

    /// Adds the reply to a query whose times are noted.
    pub(super) fn push_noted(&mut self, bytes: Vec<u8>, due_ns: u64, query: usize) {
        self.pieces.push_back(Piece { bytes, written: 0, due_ns, then: None, query: Some(query) });
    }

    /// Drops all bytes.
    pub(super) fn clear(&mut self) {
        self.pieces.clear();
    }

    /// Writes what is due. Calls `left` for each noted reply.
    pub(super) fn write(
        &mut self,
        mut socket: &TcpStream,
        now_ns: u64,
        mut left: impl FnMut(SentReply),
    ) -> Written {
        while let Some(piece) = self.pieces.front_mut() {
            if piece.due_ns > now_ns {
                break;
            }
            while piece.written < piece.bytes.len() {
                let before_ns = clock::now_ns();
                match socket.write(&piece.bytes[piece.written..]) {
                    Ok(bytes) => piece.written += bytes,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Written::NoRoom,
                    Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                    Err(_) => return Written::Gone,
                }
                if let Some(query) = piece.query.filter(|_| piece.written == piece.bytes.len()) {
                    left(SentReply { query, before_ns, after_ns: clock::now_ns() });
                }
            }
            let then = piece.then;
            self.pieces.pop_front();
            match then {
                Some(Then::Reset) => return Written::Reset,
                Some(Then::Fin) if close_direction(socket).is_err() => return Written::Gone,
                Some(Then::Fin) | None => {}
            }
        }
        Written::All
    }
}

fn close_direction(socket: &TcpStream) -> io::Result<()> {
    socket.shutdown(std::net::Shutdown::Write)
}
