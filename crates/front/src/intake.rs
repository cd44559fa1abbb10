//! Receiving clients' datagrams: by calls that return many, with or without segments, or by multishot receives of
//! `io_uring`. Each kind fills its own buffers, from which the dispatcher copies what it keeps.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use kqps_kernel::batch::{RecvBatch, SEGMENTED_BYTES, Wait};
use kqps_kernel::uring::{Buffer, Completion, Ring};
use kqps_kernel::{Address, LocalAddress};
use kqps_server::answer::QUERY_BYTES;
use kqps_server::counts::Cause;
use kqps_server::model::Model;
use kqps_server::sockets::Endpoint;
use mio::unix::SourceFd;
use mio::{Interest, Registry};

use super::dispatcher::Dispatcher;
use super::queries::Client;
use super::short;
use super::token::{Source, token};

/// Room for one datagram: one byte more than the longest query, so that a longer query is recognised.
const DATAGRAM_BYTES: usize = QUERY_BYTES + 1;

/// Datagrams per call, and messages of many segments per call.
const DATAGRAMS: usize = 64;
const SEGMENTED: usize = 8;

/// The number of buffers of a ring.
const BUFFERS: u16 = 512;

/// Completions handled before back ends have their turn.
const COMPLETIONS: usize = 256;

pub(super) enum Intake {
    Calls(Calls),
    Ring(Box<Armed>),
}

/// `recvmmsg` on each socket that is readable.
pub(super) struct Calls {
    batch: RecvBatch,
    /// Endpoints that may have more datagrams.
    more: Vec<bool>,
}

/// A ring with a multishot receive on each socket.
pub(super) struct Armed {
    ring: Ring,
    /// The eventfd that becomes readable when operations can complete.
    _bell: OwnedFd,
    has_more: bool,
}

impl Intake {
    /// Registers the endpoints with the poller.
    pub(super) fn new(model: Model, endpoints: &[Endpoint], registry: &Registry) -> io::Result<Self> {
        if model == Model::Uring {
            let mut ring = Ring::new(BUFFERS, DATAGRAM_BYTES)?;
            for (endpoint, key) in endpoints.iter().zip(0..) {
                ring.receive(&endpoint.receiver, key)?;
            }
            ring.watch_wake(&endpoints[0].receiver)?;
            let token = token(Source::Endpoint, 0, 0);
            let bell = ring.bell()?;
            registry.register(&mut SourceFd(&bell.as_raw_fd()), token, Interest::READABLE)?;
            return Ok(Self::Ring(Box::new(Armed { ring, _bell: bell, has_more: true })));
        }
        for (number, endpoint) in endpoints.iter().enumerate() {
            let receiver = endpoint.receiver.as_raw_fd();
            let token = token(Source::Endpoint, 0, number);
            registry.register(&mut SourceFd(&receiver), token, Interest::READABLE)?;
        }
        let batch = if model.takes_segments() {
            RecvBatch::new(SEGMENTED, SEGMENTED_BYTES)
        } else {
            RecvBatch::new(DATAGRAMS, DATAGRAM_BYTES)
        };
        Ok(Self::Calls(Calls { batch, more: vec![true; endpoints.len()] }))
    }

    /// Notes that something arrived at this endpoint.
    pub(super) fn note(&mut self, endpoint: usize) {
        match self {
            Self::Calls(calls) => calls.more[endpoint] = true,
            Self::Ring(armed) => armed.has_more = true,
        }
    }

    /// Whether there may be datagrams that were not received.
    pub(super) fn has_more(&self) -> bool {
        match self {
            Self::Calls(calls) => calls.more.contains(&true),
            Self::Ring(armed) => armed.has_more,
        }
    }

    /// Receives by one call for each endpoint, or by one look at the ring.
    pub(super) fn take(&mut self, dispatcher: &mut Dispatcher) -> io::Result<()> {
        match self {
            Self::Calls(calls) => calls.take(dispatcher),
            Self::Ring(armed) => armed.take(dispatcher),
        }
    }

    /// Ends the receives of a ring, and handles what it has received by then. Other kinds leave unread datagrams in
    /// the sockets, where they count for nothing.
    pub(super) fn stop(&mut self, dispatcher: &mut Dispatcher) -> io::Result<()> {
        match self {
            Self::Calls(_) => Ok(()),
            Self::Ring(armed) => armed.stop(dispatcher),
        }
    }
}

impl Calls {
    fn take(&mut self, dispatcher: &mut Dispatcher) -> io::Result<()> {
        for number in 0..self.more.len() {
            if !self.more[number] {
                continue;
            }
            let receiver = dispatcher.reply_queues[number].endpoint().receiver.clone();
            let count = self.batch.recv(&receiver, Wait::No)?;
            self.more[number] = count == self.batch.capacity();
            for index in 0..count {
                let message = self.batch.message(index);
                if message.bytes.is_empty() {
                    hand_over(dispatcher, number, message.from, message.to, &[]);
                }
                for query in message.bytes.chunks(message.segment_bytes) {
                    hand_over(dispatcher, number, message.from, message.to, query);
                }
            }
        }
        Ok(())
    }
}

impl Armed {
    fn take(&mut self, dispatcher: &mut Dispatcher) -> io::Result<()> {
        if !self.has_more {
            return Ok(());
        }
        self.ring.submit_and_look()?;
        for _ in 0..COMPLETIONS {
            let Some(completion) = self.ring.completion() else {
                self.has_more = false;
                break;
            };
            match completion {
                Completion::Received { key, buffer, armed } => {
                    self.hand_over(dispatcher, key, buffer);
                    if !armed {
                        self.receive(dispatcher, key)?;
                    }
                }
                // The kernel found no free buffer; there are some now.
                Completion::Unarmed(key, None) => self.receive(dispatcher, key)?,
                Completion::Unarmed(_, Some(error)) => return Err(error),
                Completion::Woken | Completion::Sent(..) => {}
            }
        }
        // Submits new receives to the kernel; some may complete at once.
        self.ring.submit_and_look()
    }

    fn stop(&mut self, dispatcher: &mut Dispatcher) -> io::Result<()> {
        self.ring.stop_receiving()?;
        while let Some(completion) = self.ring.completion() {
            if let Completion::Received { key, buffer, .. } = completion {
                self.hand_over(dispatcher, key, buffer);
            }
        }
        Ok(())
    }

    fn hand_over(&mut self, dispatcher: &mut Dispatcher, key: u32, buffer: Buffer) {
        let to = self.ring.asked(&buffer);
        let (place, bytes, from) = self.ring.slot(&buffer);
        hand_over(dispatcher, key as usize, from, to, &place[..bytes]);
        self.ring.give_back(buffer);
    }

    fn receive(&mut self, dispatcher: &Dispatcher, key: u32) -> io::Result<()> {
        self.has_more = true;
        self.ring.receive(&dispatcher.reply_queues[key as usize].endpoint().receiver, key)
    }
}

#[inline]
fn hand_over(
    dispatcher: &mut Dispatcher,
    endpoint: usize,
    from: Address,
    to: Option<LocalAddress>,
    query: &[u8],
) {
    dispatcher.counts.received += 1;
    if from.port() == 0 {
        return dispatcher.counts.drop(Cause::PortZero);
    }
    dispatcher.take(Client::Udp { endpoint: short(endpoint), to: from, from: to }, query);
}
