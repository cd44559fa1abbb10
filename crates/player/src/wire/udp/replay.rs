//! A replay, in batches: one `sendmmsg` sends a burst of queries of many clients, each from its client's address, and
//! `recvmmsg` reads replies with the address to which each came. The sockets are not bound to an address. A client has
//! one address and one port for the whole trial, and a reply counts only if it came to both.

use std::io;

use kqps_kernel::address::{Address, LocalAddress};
use kqps_kernel::batch::{Received, RecvBatch, SendBatch};
use kqps_kernel::errno::EMSGSIZE;
use kqps_kernel::udp::{DATAGRAM_BYTES, UdpSocket};
use kqps_message::header;

use super::askers::Askers;
use super::polling::unsettled;
use super::receive::receive_each;
use super::thread::UdpThread;
use crate::books::Due;
use crate::plan::BURST_MOST;
use crate::replay::crowd::Crowd;
use crate::sources::Sources;

/// The clients of a thread's sockets.
pub(super) struct Clients<'a> {
    crowd: &'a Crowd,
    /// The addresses that clients are mapped to; `None` if the kernel chooses.
    sources: Option<Sources>,
    targets: Box<[Address]>,
    /// Flows of each socket, a power of two. The number of a client's address selects one.
    together: usize,
    askers: Askers,
}

impl<'a> Clients<'a> {
    /// Clients that ask these targets by `flows` flows, each with room for this many queries at first.
    pub(super) fn new(
        (crowd, sources): (&'a Crowd, Option<Sources>),
        targets: Box<[Address]>,
        (flows, together): (usize, usize),
        slots: usize,
    ) -> Self {
        Self { crowd, sources, targets, together, askers: Askers::new(flows, slots) }
    }

    /// The target of a client. It asks the same one for the whole trial.
    #[inline]
    fn target(&self, client: u32) -> &Address {
        &self.targets[client as usize % self.targets.len()]
    }

    /// Writes each query of a burst as a message from the address of its client.
    #[inline]
    fn write_queries(&mut self, thread: &UdpThread<'_>, burst: &[Due], queries: &mut SendBatch) {
        queries.clear();
        for (due, origin) in burst.iter().zip(thread.state.books.origins()) {
            let address = self.sources.zip(self.crowd.address(origin.client));
            let from =
                address.map(|(sources, number)| LocalAddress { ip: sources.of_number(number), interface: 0 });
            let to = self.target(origin.client);
            let query = queries.add_from(to, from.as_ref(), usize::from(due.bytes), None);
            thread.state.supply.write(due.query, due.due_ns, due.key, query);
            self.askers.note(origin, due.key, thread.state.books.slots_of(origin.flow));
        }
    }

    /// The flow of a reply that arrived at a socket; `None` if it came to another address than its client's, or from
    /// another one than its target's.
    #[inline]
    fn flow_of(&self, socket: usize, reply: &Received<'_>) -> Option<usize> {
        let address = match self.sources {
            Some(sources) => Some(sources.number_of(reply.to?.ip)?),
            None => None,
        };
        let table = address.map_or(0, |address| address as usize & (self.together - 1));
        let flow = socket * self.together + table;
        let client = self.askers.client_of(flow, header::id(reply.bytes)?);
        let is_theirs = self.crowd.address(client) == address && reply.from == *self.target(client);
        is_theirs.then_some(flow)
    }
}

pub(super) fn play(thread: &mut UdpThread<'_>, mut clients: Clients<'_>) -> io::Result<()> {
    let mut replies = RecvBatch::new(BURST_MOST, DATAGRAM_BYTES);
    let mut queries = SendBatch::new(BURST_MOST, BURST_MOST * DATAGRAM_BYTES);
    let mut burst = Vec::with_capacity(BURST_MOST);
    if !thread.begin()? {
        return Ok(());
    }
    loop {
        let (now_ns, more) = thread.turn();
        let sent_first = thread.sends_first() && send_due(thread, &mut clients, &mut queries, &mut burst);
        let received = receive(thread, &clients, &mut replies, now_ns)?;
        if !more {
            break;
        }
        if !send_due(thread, &mut clients, &mut queries, &mut burst) && !sent_first {
            thread.rest(now_ns, received)?;
        }
    }
    thread.drain(|thread, now_ns| receive(thread, &clients, &mut replies, now_ns))
}

/// Sends the due queries. Returns whether it sent any.
#[inline]
fn send_due(
    thread: &mut UdpThread<'_>,
    clients: &mut Clients<'_>,
    queries: &mut SendBatch,
    burst: &mut Vec<Due>,
) -> bool {
    let mut sent = false;
    while let Some((flow, now_ns)) = thread.take_burst(burst) {
        let socket = flow / clients.together;
        if unsettled(&thread.state.books, socket, clients.together) as usize == burst.len() {
            thread.wire.polling.was_idle(socket, now_ns);
        }
        clients.write_queries(thread, burst, queries);
        thread.send_all(
            socket,
            burst.len(),
            |socket, first| send(socket, queries, first),
            |thread, message, outcome| {
                let flow = thread.state.books.origins()[message].flow;
                let query = &burst[message..=message];
                match outcome {
                    Ok(now_ns) => {
                        thread.wire.polling.sent(socket, now_ns);
                        thread.state.sent(flow, now_ns, query);
                    }
                    Err(errno) => thread.refused(flow, errno, query),
                }
            },
        );
        sent = true;
    }
    sent
}

/// Sends the queries of a burst from `first` on. A socket that forbids fragments allows them once a query is longer
/// than the way takes.
#[inline]
fn send(socket: &UdpSocket, queries: &mut SendBatch, first: usize) -> io::Result<usize> {
    match queries.send(socket, first) {
        Err(error) if error.raw_os_error() == Some(EMSGSIZE) => {
            socket.may_fragment()?;
            queries.send(socket, first)
        }
        sent => sent,
    }
}

/// Reads what has arrived on the sockets that are due for a look. Returns whether anything did.
#[inline]
fn receive(
    thread: &mut UdpThread<'_>,
    clients: &Clients<'_>,
    batch: &mut RecvBatch,
    now_ns: u64,
) -> io::Result<bool> {
    receive_each(thread, batch, now_ns, |state, (socket, _), reply, at_ns| {
        match clients.flow_of(socket, reply) {
            Some(flow) => state.books.arrived(flow, reply.bytes, at_ns),
            None => state.books.answers_nothing(1),
        }
    })
}
