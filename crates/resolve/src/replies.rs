//! Replies to datagrams that come later. They are collected during a turn and sent by few calls, from a socket with the
//! address that the query was sent to.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use kqps_kernel::{Address, LocalAddress, UdpSocket};
use kqps_server::counts::{Counts, Rcodes};
use kqps_server::runs::{Longest, Runs};
use kqps_server::sockets::Endpoint;

/// The maximum number of waiting replies, and of their bytes: one of the longest and many others.
const REPLIES: usize = 1024;
const REPLIES_BYTES: usize = 256 * 1024;

/// The replies of one resolver.
pub(crate) struct Replies {
    queues: Vec<Queue>,
    /// The index of the queue, by worker and endpoint.
    of: Vec<Vec<usize>>,
    pub(crate) counts: Counts,
    pub(crate) rcodes: Rcodes,
}

/// The replies from one address.
struct Queue {
    address: SocketAddr,
    socket: Arc<UdpSocket>,
    runs: Runs,
    longest: Longest,
    waiting: usize,
}

impl Replies {
    /// Replies to the queries of workers with these endpoints. If several have one address, those of the worker `own`
    /// are used. With segments, replies of equal length to one client leave as one message.
    pub(crate) fn new(workers: &[Vec<Endpoint>], own: usize, with_segments: bool) -> io::Result<Self> {
        let mut queues: Vec<Queue> = Vec::new();
        let mut add = |endpoint: &Endpoint| -> io::Result<usize> {
            let address = endpoint.receiver.local_addr()?;
            if let Some(known) = queues.iter().position(|queue| queue.address == address) {
                return Ok(known);
            }
            let longest = if with_segments { Longest::ANY } else { Longest::ONE };
            let (socket, runs) = (endpoint.sender.clone(), Runs::new(REPLIES, REPLIES_BYTES));
            queues.push(Queue { address, socket, runs, longest, waiting: 0 });
            Ok(queues.len() - 1)
        };
        for endpoint in workers.get(own).into_iter().flatten() {
            add(endpoint)?;
        }
        let mut of = Vec::with_capacity(workers.len());
        for endpoints in workers {
            of.push(endpoints.iter().map(&mut add).collect::<io::Result<Vec<usize>>>()?);
        }
        Ok(Self { queues, of, counts: Counts::default(), rcodes: Rcodes::default() })
    }

    /// Queues a reply to a query that this worker got at this endpoint.
    pub(crate) fn push(
        &mut self,
        (worker, endpoint): (usize, usize),
        to: Address,
        from: Option<LocalAddress>,
        reply: &[u8],
    ) {
        let Self { queues, of, counts, rcodes } = self;
        let queue = &mut queues[of[worker][endpoint]];
        if queue.waiting == REPLIES || !queue.runs.has_room(reply.len()) {
            queue.send(counts);
        }
        queue.runs.turn_to(to, from);
        queue.runs.room()[..reply.len()].copy_from_slice(reply);
        queue.runs.keep(reply.len());
        queue.waiting += 1;
        rcodes.add_of(reply);
    }

    /// Sends the waiting replies.
    pub(crate) fn send(&mut self) {
        let Self { queues, counts, .. } = self;
        queues.iter_mut().filter(|queue| queue.waiting > 0).for_each(|queue| queue.send(counts));
    }
}

impl Queue {
    fn send(&mut self, counts: &mut Counts) {
        self.waiting = 0;
        self.runs.send(&self.socket, &mut self.longest, |outcome| counts.took(outcome));
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket as Plain;
    use std::time::Duration;

    use kqps_kernel::UdpOptions;

    use super::*;

    fn endpoint(address: SocketAddr) -> Endpoint {
        let options = UdpOptions { reuse_port: true, ..UdpOptions::default() };
        let socket = Arc::new(UdpSocket::bind(address, &options).unwrap());
        Endpoint { receiver: socket.clone(), sender: socket }
    }

    #[test]
    fn replies_leave_from_the_address_that_was_asked() {
        let free: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let first = endpoint(free);
        let shared = first.receiver.local_addr().unwrap();
        let other = endpoint(free);
        let apart = other.receiver.local_addr().unwrap();
        let workers = [vec![first], vec![endpoint(shared), other]];
        let mut replies = Replies::new(&workers, 1, false).unwrap();
        assert_eq!(replies.queues.len(), 2);
        assert!(Arc::ptr_eq(&replies.queues[0].socket, &workers[1][0].sender), "its own socket");
        let client = Plain::bind(free).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let to = Address::from(client.local_addr().unwrap());
        let reply = |id| [0, id, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        replies.push((0, 0), to, None, &reply(1));
        replies.push((1, 1), to, None, &reply(2));
        replies.push((1, 0), to, None, &reply(3));
        replies.send();
        assert_eq!(replies.counts.answered, 3);
        let mut seen: Vec<_> = (0..3)
            .map(|_| {
                let mut buffer = [0; 64];
                let (bytes, from) = client.recv_from(&mut buffer).unwrap();
                (buffer[1], from, bytes)
            })
            .collect();
        seen.sort();
        assert_eq!(seen, [(1, shared, 12), (2, apart, 12), (3, shared, 12)]);
    }
}
