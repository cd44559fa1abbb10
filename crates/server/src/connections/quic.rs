//! DNS over QUIC (RFC 9250): one endpoint for each address of a worker, all in one thread. Datagrams come in and go out
//! in segments (`UDP_GRO`, `UDP_SEGMENT`). A client that would exceed a limit of connections is refused.

mod admission;
mod answer;
mod outgoing;
mod report;

use std::io;
use std::os::fd::{AsRawFd as _, RawFd};
use std::sync::Arc;

use kqps_kernel::batch::{RecvBatch, SEGMENTED_BYTES, Wait};
use kqps_kernel::poll::{FOREVER_NS, PollSet};
use kqps_kernel::{UdpSocket, clock};
use kqps_quic::{Congestion, SEGMENTS_MOST, Server};

use super::Limits;
use super::counts::End;
use crate::answer::Answer;
use crate::later::{Letters, Mailbox, Origin};
use crate::sockets::QuicSocket;
use crate::worker::StopFlag;
use admission::Admissions;
use answer::QuicAnswer;
use outgoing::Outgoing;

pub use report::QuicReport;

/// Messages that one call receives.
const MESSAGES: usize = 16;

/// Calls that read one socket before its connections have their turn.
const READS_MOST: usize = 16;

/// An address, and the connections there.
struct Place<A: Answer> {
    socket: Arc<UdpSocket>,
    server: Server<QuicAnswer<A>>,
}

/// The connections of one thread, and what they share.
pub(super) struct QuicLoop<A: Answer> {
    places: Vec<Place<A>>,
    answer: QuicAnswer<A>,
    admissions: Admissions,
    /// Brings answers that come later, if any do.
    mailbox: Option<Arc<Mailbox>>,
    letters: Letters,
    received: RecvBatch,
    outgoing: Outgoing,
    /// Datagrams that arrived.
    datagrams: u64,
}

impl<A: Answer> QuicLoop<A> {
    pub(super) fn new(sockets: Vec<QuicSocket>, limits: Limits, answer: A) -> Self {
        let place = |QuicSocket { socket, acceptor, number }: QuicSocket| {
            let server = Server::numbered(&acceptor, limits.idle, Congestion::default(), number);
            Place { socket, server }
        };
        Self {
            places: sockets.into_iter().map(place).collect(),
            mailbox: answer.mailbox(),
            letters: Letters::default(),
            answer: QuicAnswer::new(answer),
            admissions: Admissions::new(limits),
            received: RecvBatch::new(MESSAGES, SEGMENTED_BYTES),
            outgoing: Outgoing::new(),
            datagrams: 0,
        }
    }

    /// Serves until it is stopped.
    pub(super) fn serve(&mut self, stop: &StopFlag) -> io::Result<()> {
        let sockets = self.places.iter().map(|place| place.socket.as_raw_fd());
        let mailbox = self.mailbox.iter().map(std::os::fd::AsRawFd::as_raw_fd);
        let descriptors: Vec<RawFd> = sockets.chain(mailbox).collect();
        let mut set = PollSet::new(&descriptors);
        while !stop.is_set() {
            let due_ns = self.places.iter().filter_map(|place| place.server.next_ns()).min();
            set.wait(due_ns.map_or(FOREVER_NS, |due_ns| due_ns.saturating_sub(clock::now_ns())))?;
            self.deliver()?;
            for place in 0..self.places.len() {
                if set.is_ready(place) {
                    self.receive(place)?;
                }
                self.turn(place);
            }
            self.answer.answer.end_turn();
        }
        Ok(())
    }

    /// Hands answers that came later to the streams of their queries.
    fn deliver(&mut self) -> io::Result<()> {
        let Self { places, answer, mailbox, letters, .. } = self;
        let Some(mailbox) = mailbox else { return Ok(()) };
        mailbox.take(letters)?;
        for (origin, reply) in letters.iter() {
            let Origin::Stream { place, key, is_padded } = origin else { continue };
            let outcome = places[place].server.reply_later(key, answer.later(reply, is_padded));
            // A query whose client has left was counted then.
            if let Some(is_taken) = outcome {
                answer.settle(reply, is_taken);
            }
        }
        letters.clear();
        Ok(())
    }

    /// Takes the datagrams that have arrived at a socket; of a flood only a part.
    fn receive(&mut self, place: usize) -> io::Result<()> {
        let Self { places, admissions, received, outgoing, datagrams, .. } = self;
        let Place { socket, server } = &mut places[place];
        for _ in 0..READS_MOST {
            let messages = received.recv(socket, Wait::No)?;
            let now_ns = clock::now_ns();
            for index in 0..messages {
                let message = received.message(index);
                let Some(from) = message.from.to_socket_addr() else { continue };
                let to = message.to.map(|local| local.ip);
                for datagram in message.bytes.chunks(message.segment_bytes) {
                    *datagrams += 1;
                    let admit = |client| admissions.admit(client);
                    let response = server.datagram((from, to), datagram, now_ns, &mut outgoing.bytes, admit);
                    if let Some(transmission) = response {
                        outgoing.add(socket, &transmission);
                    }
                }
            }
            if messages < received.capacity() {
                break;
            }
        }
        Ok(())
    }

    /// Gives each connection that can go on its turn, and sends what they wrote.
    fn turn(&mut self, place: usize) {
        let Self { places, answer, admissions, outgoing, .. } = self;
        let Place { socket, server } = &mut places[place];
        let now_ns = clock::now_ns();
        answer.place = place;
        server.expire(now_ns);
        while let Some(slot) = server.next_ready() {
            server.work(slot, now_ns, answer, |event| admissions.note(&event));
            while let Some(transmission) = server.transmit(slot, SEGMENTS_MOST, &mut outgoing.bytes, now_ns) {
                outgoing.add(socket, &transmission);
            }
            server.rest(slot);
        }
        server.failed(|event| admissions.note(&event));
        outgoing.send(socket);
    }

    /// Closes all connections, and returns the counts.
    pub(super) fn close(mut self) -> io::Result<QuicReport> {
        let now_ns = clock::now_ns();
        self.answer.stop();
        let mut socket_drops = 0;
        for Place { socket, server } in &mut self.places {
            for (slot, client) in server.close(now_ns) {
                self.admissions.end(client, End::Stopped);
                while let Some(transmission) =
                    server.transmit(slot, SEGMENTS_MOST, &mut self.outgoing.bytes, now_ns)
                {
                    self.outgoing.add(socket, &transmission);
                }
            }
            self.outgoing.send(socket);
            socket_drops += socket.drops()?;
        }
        Ok(QuicReport {
            counts: self.answer.report(&self.admissions),
            datagrams_received: self.datagrams,
            datagrams_sent: self.outgoing.sent(),
            send_failures: self.outgoing.failures(),
            socket_drops,
        })
    }
}
