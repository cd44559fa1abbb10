//! Replies to clients that sent datagrams. They are collected during a turn, and sent in few calls from the
//! socket at which each query arrived.

use kqps_kernel::{Address, LocalAddress};
use kqps_server::counts::Counts;
use kqps_server::runs::{Longest, Runs};
use kqps_server::sockets::Endpoint;

use super::parsed_query::ParsedQuery;
use super::reply;

/// The maximum number of waiting replies, and of their bytes: one of the longest and many others.
const REPLIES: usize = 1024;
const REPLIES_BYTES: usize = 256 * 1024;

pub(super) struct ReplyQueue {
    endpoint: Endpoint,
    runs: Runs,
    longest: Longest,
    /// The number of waiting replies, and the number at which they are sent.
    waiting: usize,
    batch: usize,
}

/// The destination of a reply, and the address from which it is sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Receiver {
    pub(super) to: Address,
    pub(super) from: Option<LocalAddress>,
}

impl ReplyQueue {
    /// With segments, replies of equal length to one client leave as one message.
    pub(super) fn new(endpoint: Endpoint, with_segments: bool, batch: usize) -> Self {
        let longest = if with_segments { Longest::ANY } else { Longest::ONE };
        Self { endpoint, runs: Runs::new(REPLIES, REPLIES_BYTES), longest, waiting: 0, batch }
    }

    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Queues a back end's reply for the client, with the client's ID and question, truncated if the client does
    /// not accept its length.
    #[inline]
    pub(super) fn hand_on(
        &mut self,
        receiver: Receiver,
        query: &[u8],
        asked: ParsedQuery,
        message: &[u8],
        counts: &mut Counts,
    ) {
        let room = self.room(receiver, message.len(), counts);
        room[..message.len()].copy_from_slice(message);
        let bytes = reply::make_clients(query, asked, &receiver.to, &mut room[..message.len()]);
        self.keep(bytes, counts);
    }

    /// Queues a reply with an rcode from the front itself.
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

    /// Sends the waiting replies.
    #[inline]
    pub(super) fn send(&mut self, counts: &mut Counts) {
        self.waiting = 0;
        self.runs.send(&self.endpoint.sender, &mut self.longest, |outcome| counts.took(outcome));
    }
}
