//! Answers that come later: where a query came in, and the mailbox by which another thread hands an answer to the
//! thread that serves the query's connection.

use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::ops::Range;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Mutex, PoisonError};

use kqps_kernel::LocalAddress;
use kqps_quic::server::QueryKey;

use crate::counts::Cause;

/// Where a query came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A socket for datagrams.
    Datagrams {
        /// The index of the endpoint in its worker.
        endpoint: usize,
        /// The address to which the query was sent, if the reply must name it.
        local: Option<LocalAddress>,
    },
    /// A connection by TCP, in TLS, by HTTPS, or on a Unix socket.
    Connection(Place),
    /// A stream of a connection over QUIC.
    Stream {
        /// The index of the socket in its thread.
        place: usize,
        /// The connection and the stream.
        key: QueryKey,
        /// Whether the reply must be padded.
        is_padded: bool,
    },
}

impl Default for Origin {
    fn default() -> Self {
        Self::Datagrams { endpoint: 0, local: None }
    }
}

/// A query of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The slot of the connection, and the number of connections that had it before.
    pub(crate) slot: u32,
    pub(crate) turn: u32,
    /// The query's number among those of its connection.
    pub(crate) number: u64,
    /// Whether the reply must be padded.
    pub(crate) is_padded: bool,
}

/// Takes answers for the connections of one thread, and wakes the thread.
#[derive(Debug)]
pub struct Mailbox {
    letters: Mutex<Letters>,
    /// Has one byte whenever letters wait.
    news: PipeReader,
    notify: PipeWriter,
}

/// Answers that wait in a mailbox, or were taken from one.
#[derive(Debug, Default)]
pub(crate) struct Letters {
    bytes: Vec<u8>,
    each: Vec<(Origin, Result<Range<usize>, Cause>)>,
}

impl Letters {
    /// The answers, each with the origin of its query: a message, or why there is none.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Origin, Result<&[u8], Cause>)> {
        self.each.iter().map(|(origin, answer)| {
            let answer = answer.as_ref().map(|range| &self.bytes[range.clone()]);
            (*origin, answer.map_err(|cause| *cause))
        })
    }

    /// Removes all answers, and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.each.clear();
    }
}

impl Mailbox {
    /// An empty mailbox. Fails if the process has no free file descriptor.
    pub fn new() -> io::Result<Self> {
        let (news, notify) = io::pipe()?;
        Ok(Self { letters: Mutex::default(), news, notify })
    }

    /// Hands over the answer to the query of this origin: a message, or why there is none.
    pub fn post(&self, origin: Origin, answer: Result<&[u8], Cause>) {
        let mut letters = self.letters.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = letters.each.is_empty();
        let start = letters.bytes.len();
        let kept = answer.map(|message| {
            letters.bytes.extend_from_slice(message);
            start..start + message.len()
        });
        letters.each.push((origin, kept));
        drop(letters);
        if is_first {
            // The pipe holds one byte at most, so there is room. While the server stops, nothing reads it.
            let _ = (&self.notify).write_all(b"l");
        }
    }

    /// Exchanges the answers that wait for `letters`, which must be empty. Does not wait if there are none.
    pub(crate) fn take(&self, letters: &mut Letters) -> io::Result<()> {
        let mut waiting = self.letters.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.each.is_empty() {
            return Ok(());
        }
        std::mem::swap(&mut *waiting, letters);
        drop(waiting);
        (&self.news).read_exact(&mut [0])
    }
}

/// The descriptor that is readable while answers wait.
impl AsRawFd for Mailbox {
    fn as_raw_fd(&self) -> RawFd {
        self.news.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use kqps_kernel::poll::PollSet;

    use super::*;

    #[test]
    fn answers_arrive_in_order_and_ring_once() {
        let mailbox = Mailbox::new().unwrap();
        let mut set = PollSet::new([&mailbox]);
        let mut letters = Letters::default();
        mailbox.take(&mut letters).unwrap();
        assert!(!set.wait(0).unwrap(), "it is empty");
        let origin = |endpoint| Origin::Datagrams { endpoint, local: None };
        for round in 0..2 {
            mailbox.post(origin(round), Ok(b"one"));
            mailbox.post(origin(7), Err(Cause::Stopped));
            mailbox.post(origin(8), Ok(b"two"));
            assert!(set.wait(0).unwrap());
            mailbox.take(&mut letters).unwrap();
            assert!(!set.wait(0).unwrap());
            let taken: Vec<_> = letters.iter().collect();
            let expected = [
                (origin(round), Ok(&b"one"[..])),
                (origin(7), Err(Cause::Stopped)),
                (origin(8), Ok(&b"two"[..])),
            ];
            assert_eq!(taken, expected);
            letters.clear();
        }
    }
}
