//! Answers the queries of connections as a service does, and counts them.

use std::net::IpAddr;

use kqps_quic::server::{QueryKey, Reply, Responder};

use super::admission::Admissions;
use crate::answer::{Answer, Answered, Client, Query};
use crate::connections::counts::{TcpReport, add_counts};
use crate::connections::frame::MESSAGE_BYTES;
use crate::connections::padding::{has_padding, pad};
use crate::counts::{Cause, Counts, Rcodes};
use crate::later::Origin;

/// A service's answers, and the counts of queries.
pub(super) struct QuicAnswer<A> {
    pub(super) answer: A,
    counts: Counts,
    /// The index of the socket whose connections have their turn.
    pub(super) place: usize,
    /// Queries whose answers came later or whose clients left before, and are counted.
    settled: u64,
    /// Replies that came later.
    rcodes: Rcodes,
    /// Queries that got, or began to get, a reply of many messages.
    transfers: u64,
    message: Box<[u8]>,
}

impl<A: Answer> QuicAnswer<A> {
    pub(super) fn new(answer: A) -> Self {
        Self {
            answer,
            counts: Counts::default(),
            place: 0,
            settled: 0,
            rcodes: Rcodes::default(),
            transfers: 0,
            message: vec![0; MESSAGE_BYTES].into(),
        }
    }

    /// The message that leaves for an answer that came later; `None` if there is none.
    pub(super) fn later(&mut self, answer: Result<&[u8], Cause>, is_padded: bool) -> Option<&[u8]> {
        let reply = answer.ok()?;
        let message = &mut self.message;
        message[..reply.len()].copy_from_slice(reply);
        let bytes = if is_padded { pad(message, reply.len()) } else { reply.len() };
        Some(&message[..bytes])
    }

    /// Counts an answer that came later. `is_taken` says whether its stream was open.
    pub(super) fn settle(&mut self, answer: Result<&[u8], Cause>, is_taken: bool) {
        self.settled += 1;
        match answer {
            Ok(reply) if is_taken => {
                self.counts.answered += 1;
                self.rcodes.add_of(reply);
            }
            Ok(_) => self.counts.drop(Cause::ClientGone),
            Err(cause) => self.counts.drop(cause),
        }
    }

    /// Counts the queries that wait for an answer, since the server stops.
    pub(super) fn stop(&mut self) {
        let waiting = self.counts.later() - self.settled;
        self.counts.drop_many(Cause::Stopped, waiting);
    }

    /// The counts of the queries and of these connections.
    pub(super) fn report(&self, admissions: &Admissions) -> TcpReport {
        let mut response_rcodes = self.answer.response_rcodes();
        add_counts(&mut response_rcodes, self.rcodes.report());
        TcpReport {
            transfers: self.transfers,
            response_rcodes,
            handshakes: admissions.handshakes(),
            ..admissions.counts.report(&self.counts)
        }
    }
}

impl<A: Answer> Responder for QuicAnswer<A> {
    type Many = A::Many;

    fn answer(&mut self, query: &[u8], client: IpAddr, key: QueryKey, reply: &mut Vec<u8>) -> Reply<A::Many> {
        let Self { answer, counts, transfers, message, place, .. } = self;
        let (bytes, is_padded) = (query.len(), has_padding(query));
        counts.received += 1;
        message[..bytes].copy_from_slice(query);
        let origin = Origin::Stream { place: *place, key, is_padded };
        match answer.answer(Query { buffer: message, bytes, client: Client::Tcp(client), origin }) {
            Answered::One(bytes) => {
                counts.answered += 1;
                let bytes = if is_padded { pad(message, bytes) } else { bytes };
                reply.extend_from_slice(&message[..bytes]);
                Reply::One
            }
            Answered::Many(many) => {
                *transfers += 1;
                Reply::Many(many)
            }
            Answered::Later => {
                counts.drop(Cause::Later);
                Reply::Later
            }
            Answered::None(cause) => {
                counts.drop(cause);
                Reply::None
            }
        }
    }

    fn gone(&mut self, queries: u64) {
        self.settled += queries;
        self.counts.drop_many(Cause::ClientGone, queries);
    }

    fn next(&mut self, many: &mut A::Many, message: &mut Vec<u8>) -> bool {
        let bytes = self.answer.next(many, &mut self.message);
        message.extend_from_slice(&self.message[..bytes.unwrap_or(0)]);
        bytes.is_some()
    }
}
