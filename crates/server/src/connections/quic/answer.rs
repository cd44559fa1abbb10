//! Answers the queries of connections as a service does, and counts them.

use std::net::IpAddr;

use kqps_quic::server::{Reply, Responder};

use super::admission::Admissions;
use crate::answer::{Answer, Answered, Client, Query};
use crate::connections::counts::TcpReport;
use crate::connections::frame::MESSAGE_BYTES;
use crate::connections::padding::{has_padding, pad};
use crate::counts::Counts;

/// A service's answers, and the counts of queries.
pub(super) struct QuicAnswer<A> {
    answer: A,
    counts: Counts,
    /// Queries that got, or began to get, a reply of many messages.
    transfers: u64,
    message: Box<[u8]>,
}

impl<A: Answer> QuicAnswer<A> {
    pub(super) fn new(answer: A) -> Self {
        Self { answer, counts: Counts::default(), transfers: 0, message: vec![0; MESSAGE_BYTES].into() }
    }

    /// The counts of the queries and of these connections.
    pub(super) fn report(&self, admissions: &Admissions) -> TcpReport {
        TcpReport {
            transfers: self.transfers,
            response_rcodes: self.answer.response_rcodes(),
            handshakes: admissions.handshakes(),
            ..admissions.counts.report(&self.counts)
        }
    }
}

impl<A: Answer> Responder for QuicAnswer<A> {
    type Many = A::Many;

    fn answer(&mut self, query: &[u8], client: IpAddr, reply: &mut Vec<u8>) -> Reply<A::Many> {
        let Self { answer, counts, transfers, message } = self;
        let bytes = query.len();
        counts.received += 1;
        message[..bytes].copy_from_slice(query);
        match answer.answer(Query { buffer: message, bytes, client: Client::Tcp(client) }) {
            Answered::One(bytes) => {
                counts.answered += 1;
                let bytes = if has_padding(query) { pad(message, bytes) } else { bytes };
                reply.extend_from_slice(&message[..bytes]);
                Reply::One
            }
            Answered::Many(many) => {
                *transfers += 1;
                Reply::Many(many)
            }
            Answered::None(cause) => {
                counts.drop(cause);
                Reply::None
            }
        }
    }

    fn next(&mut self, many: &mut A::Many, message: &mut Vec<u8>) -> bool {
        let bytes = self.answer.next(many, &mut self.message);
        message.extend_from_slice(&self.message[..bytes.unwrap_or(0)]);
        bytes.is_some()
    }
}
