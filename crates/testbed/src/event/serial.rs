//! The serial of a zone as a server answers it, asked again and again.

use std::time::{Duration, Instant};

use kqps_ask::{AskError, Connection};
use kqps_message::NameError;

use super::exchange::Target;
use super::message::{answered_serial, soa_query};

/// The interval between two queries for a serial.
pub const EVERY: Duration = Duration::from_millis(5);

/// The answer of a server to the query for a zone's SOA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The serial.
    Serial(u32),
    /// A reply without an SOA.
    Other,
    /// No reply.
    None,
}

/// A query for the SOA of a zone. Over connections one is kept as long as it lasts.
pub(super) struct SerialQuery<'a> {
    target: &'a Target<'a>,
    query: Vec<u8>,
    connection: Option<Connection>,
}

impl<'a> SerialQuery<'a> {
    pub(super) fn new(target: &'a Target<'a>, zone: &str) -> Result<Self, NameError> {
        Ok(Self { target, query: soa_query(zone)?, connection: None })
    }

    /// Forgets earlier queries: no reply to them counts from now on.
    pub(super) fn forget(&mut self) {
        self.connection = None;
    }

    /// Asks once, and waits as long as the target's patience lasts, or this long at most. Over UDP a reply to an earlier
    /// query counts, too.
    pub(super) fn ask(&mut self, within: Duration) -> Answer {
        let began = Instant::now();
        let patience = self.target.patience();
        if self.connection.is_none() {
            self.connection = self.target.connect(patience.min(within)).ok();
        }
        let Some(connection) = &mut self.connection else { return Answer::None };
        match connection.ask(&self.query, patience.min(within.saturating_sub(began.elapsed()))) {
            Ok(reply) => answered_serial(&reply).map_or(Answer::Other, Answer::Serial),
            // A socket of datagrams keeps waiting for late replies.
            Err(AskError::TimedOut) if self.target.is_udp() => Answer::None,
            Err(_) => {
                self.connection = None;
                Answer::None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use kqps_observation::trial::Transport;

    use super::super::message::tests::{reply, soa};
    use super::*;
    use crate::path::LaidPath;

    #[test]
    fn a_reply_to_a_query_that_was_forgotten_does_not_count() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let target = Target::new(server.local_addr().unwrap(), Transport::Udp, &LaidPath::Loopback).unwrap();
        let mut serial = SerialQuery::new(&target, "example.").unwrap();
        let within = Duration::from_millis(1);
        // The reply to the first query comes when the query was given up.
        let answer_late = || {
            let mut query = [0; 64];
            let (_, client) = server.recv_from(&mut query).unwrap();
            let mut answer = reply(&[soa(7)]);
            answer[..2].copy_from_slice(&query[..2]);
            server.send_to(&answer, client).unwrap();
        };
        assert_eq!(serial.ask(within), Answer::None);
        answer_late();
        assert_eq!(serial.ask(Duration::from_secs(20)), Answer::Serial(7));
        answer_late();
        serial.forget();
        assert_eq!(serial.ask(within), Answer::None);
    }
}
