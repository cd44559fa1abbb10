//! The server of these tests. It keeps what it receives, over UDP and TCP, and answers in one way.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::Duration;

use kqps_faults::scripted::{Asked, Scripted};

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

/// A running server.
pub(super) struct Peer {
    server: Scripted,
    heard: Arc<Mutex<Vec<Query>>>,
}

impl Answer {
    /// The reply to a query of this number.
    fn to(self, number: usize, message: &[u8]) -> Option<Vec<u8>> {
        let mut reply = message.to_vec();
        if let Some(flags) = reply.get_mut(2..4) {
            flags[0] |= 0x80;
            if self == Self::Rcodes {
                flags[1] = (number % 12) as u8;
            }
        }
        if self == Self::Late {
            sleep(Duration::from_millis(5));
        }
        let is_answered = match self {
            Self::None => false,
            Self::EverySecond => number.is_multiple_of(2),
            Self::Echo | Self::Rcodes | Self::Late => true,
        };
        is_answered.then_some(reply)
    }
}

impl Peer {
    /// A server at this address, at a port of its own.
    pub(super) fn at(address: IpAddr, answer: Answer) -> Self {
        let heard = Arc::<Mutex<Vec<Query>>>::default();
        let keeps = heard.clone();
        let take = move |asked: &Asked<'_>| -> Vec<Vec<u8>> {
            let number = {
                let mut heard = keeps.lock().unwrap();
                heard.push(Query { from: asked.from, message: asked.query.to_vec() });
                heard.len()
            };
            answer.to(number, asked.query).into_iter().collect()
        };
        Self { server: Scripted::start(address, take).unwrap(), heard }
    }

    pub(super) fn port(&self) -> u16 {
        self.server.address().port()
    }

    /// How many queries arrived.
    pub(super) fn count(&self) -> usize {
        self.heard.lock().unwrap().len()
    }

    /// Ends it, and returns what arrived.
    pub(super) fn end(self) -> Vec<Query> {
        drop(self.server);
        std::mem::take(&mut *self.heard.lock().unwrap())
    }
}
