//! Replies to clients that sent datagrams: gathered over a turn, and sent in few calls from the socket that each
//! query came in by.

use kqps_kernel::{Address, LocalAddress};

use super::asked::Asked;
use super::reply;
use crate::counts::Counts;
use crate::runs::{Longest, Runs};
use crate::sockets::Endpoint;

/// Replies that wait at most, and the bytes that they may take together: one of the longest and many others.
const REPLIES: usize = 1024;
const REPLIES_BYTES: usize = 256 * 1024;

/// The replies of one endpoint.
pub(super) struct Post {
    endpoint: Endpoint,
    runs: Runs,
    longest: Longest,
    /// Replies that wait, and how many of them are sent at once.
    waiting: usize,
    batch: usize,
}

/// Where a reply goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Receiver {
    pub(super) to: Address,
    pub(super) from: Option<LocalAddress>,
}

impl Post {
    /// With segments, equal replies to one client leave as one message.
    pub(super) fn new(endpoint: Endpoint, with_segments: bool, batch: usize) -> Self {
        let longest = if with_segments { Longest::ANY } else { Longest::ONE };
        Self { endpoint, runs: Runs::new(REPLIES, REPLIES_BYTES), longest, waiting: 0, batch }
    }

    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Hands a back end's reply on to whoever asked, with the ID and the question that came from there, and no
    /// longer than the client takes it.
    #[inline]
    pub(super) fn hand_on(
        &mut self,
        receiver: Receiver,
        query: &[u8],
        asked: Asked,
        message: &[u8],
        counts: &mut Counts,
    ) {
        let room = self.room(receiver, message.len(), counts);
        room[..message.len()].copy_from_slice(message);
        let bytes = reply::make_clients(query, asked, &receiver.to, &mut room[..message.len()]);
        self.keep(bytes, counts);
    }

    /// Tells a client an rcode of the front's own.
    pub(super) fn refuse(&mut self, receiver: Receiver, query: &[u8], rcode: u16, counts: &mut Counts) {
        let room = self.room(receiver, query.len(), counts);
        let bytes = reply::refuse(query, rcode, room);
        self.keep(bytes, counts);
    }

    #[inline]
    fn room(&mut self, receiver: Receiver, bytes: usize, counts: &mut Counts) -> &mut [u8] {
        if !self.runs.has_room(bytes) {
            self.send(counts);
        }
        self.runs.turn_to(receiver.to, receiver.from);
        self.runs.room()
    }

    #[inline]
    fn keep(&mut self, bytes: usize, counts: &mut Counts) {
        self.runs.keep(bytes);
        self.waiting += 1;
        if self.waiting >= self.batch {
            self.send(counts);
        }
    }

    /// Sends what waits.
    #[inline]
    pub(super) fn send(&mut self, counts: &mut Counts) {
        self.waiting = 0;
        self.runs.send(&self.endpoint.sender, &mut self.longest, |outcome| counts.took(outcome));
    }
}
