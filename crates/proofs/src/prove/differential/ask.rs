//! Asking a server: over UDP, with many queries outstanding and retries for lost ones, and over TCP, with
//! several queries on a connection.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use kqps_ask::{AskError, Server};

use super::query::{Query, Transport};

/// For each round, the most outstanding UDP queries, and how long each waits for its reply. As many replies
/// fit into a socket's buffer. The last round asks the remaining queries one by one: NSD 4.6 loses queries
/// that it receives in one call with some that it drops.
const ROUNDS: [(usize, Duration); 3] =
    [(48, Duration::from_millis(150)), (48, Duration::from_millis(500)), (1, Duration::from_millis(40))];

/// How long to wait for a datagram before the next look at the queries whose time is over.
const UDP_STEP: Duration = Duration::from_millis(10);

/// Queries on a TCP connection, all sent before the first reply is read.
const PIPELINE: usize = 12;

/// How long to wait on a TCP connection. A server that will not answer mostly closes it sooner.
const TCP_PATIENCE: Duration = Duration::from_millis(500);

/// The queries of one call, their replies so far, and the server.
struct Round<'q> {
    server: SocketAddr,
    queries: &'q [Query],
    replies: Vec<Option<Vec<u8>>>,
}

/// Asks a server, and returns the reply to each query, or `None`. The IDs of the queries must differ.
pub(super) fn ask(server: SocketAddr, queries: &[Query]) -> Result<Vec<Option<Vec<u8>>>> {
    let mut round = Round { server, queries, replies: vec![None; queries.len()] };
    for (window, patience) in ROUNDS {
        let open = round.open(Transport::Udp);
        round.udp(&open, window, patience).context("asking over UDP")?;
    }
    for many in round.open(Transport::Tcp).chunks(PIPELINE) {
        round.tcp(many).context("asking over TCP")?;
    }
    // A query that ended its connection took others with it, so each of the rest gets a connection of its
    // own.
    for one in round.open(Transport::Tcp) {
        round.tcp(&[one]).context("asking over TCP")?;
    }
    Ok(round.replies)
}

impl Round<'_> {
    /// The indices of queries without a reply.
    fn open(&self, transport: Transport) -> Vec<usize> {
        let is_open =
            |place: &usize| self.queries[*place].transport == transport && self.replies[*place].is_none();
        (0..self.queries.len()).filter(is_open).collect()
    }

    fn udp(&mut self, places: &[usize], window: usize, patience: Duration) -> Result<(), AskError> {
        let mut socket = Server::over_udp(self.server).connect(patience)?;
        let mut to_send = places.iter().copied();
        let mut sent: VecDeque<(usize, Instant)> = VecDeque::new();
        loop {
            while sent.len() < window
                && let Some(place) = to_send.next()
            {
                socket.send(&[&self.queries[place].bytes])?;
                sent.push_back((place, Instant::now()));
            }
            if sent.is_empty() {
                return Ok(());
            }
            match socket.receive(UDP_STEP) {
                Ok(reply) => self.take(&reply, Transport::Udp),
                Err(AskError::TimedOut) => (),
                Err(error) => return Err(error),
            }
            sent.retain(|(place, since)| self.replies[*place].is_none() && since.elapsed() < patience);
        }
    }

    fn tcp(&mut self, places: &[usize]) -> Result<(), AskError> {
        let mut connection = Server::over_tcp(self.server).connect(TCP_PATIENCE)?;
        let queries: Vec<&[u8]> = places.iter().map(|place| &*self.queries[*place].bytes).collect();
        // A server may close the connection at any time, which the reader below notices.
        let _ = connection.send(&queries);
        while places.iter().any(|place| self.replies[*place].is_none())
            && let Ok(reply) = connection.receive(TCP_PATIENCE)
        {
            self.take(&reply, Transport::Tcp);
        }
        Ok(())
    }

    /// Keeps a reply to the query with its ID. Every other message is ignored.
    fn take(&mut self, reply: &[u8], transport: Transport) {
        let (Some(first), [high, low, ..]) = (self.queries.first(), reply) else { return };
        let id = u16::from_be_bytes([*high, *low]);
        let place = usize::from(id.wrapping_sub(Query::id(first.index)));
        let is_asked = self.queries.get(place).is_some_and(|query| query.transport == transport);
        if is_asked && self.replies[place].is_none() {
            self.replies[place] = Some(reply.to_vec());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{Shutdown, TcpListener, UdpSocket};

    use super::super::query::Question;
    use super::*;

    fn query(index: u64, transport: Transport, last: u8) -> Query {
        let id = Query::id(index).to_be_bytes();
        let question = Question { qname: vec![0], qtype: 1, qclass: 1 };
        let bytes = [&id[..], &[last]].concat();
        Query { index, transport, bytes, words: String::new(), question }
    }

    #[test]
    fn what_is_lost_once_is_asked_again_and_what_is_never_answered_is_none() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        let queries: Vec<_> =
            (70_000..70_100).map(|index| query(index, Transport::Udp, index as u8)).collect();
        let replies = std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut seen = Vec::new();
                let mut buffer = [0; 16];
                loop {
                    let (length, from) = server.recv_from(&mut buffer).unwrap();
                    let query = buffer[..length].to_vec();
                    if query == b"end" {
                        return;
                    }
                    // Every third is lost at first, and every tenth always.
                    let (is_new, number) = (!seen.contains(&query), query[2]);
                    seen.push(query.clone());
                    if number % 10 != 0 && !(is_new && number % 3 == 0) {
                        server.send_to(&query, from).unwrap();
                    }
                }
            });
            let replies = ask(address, &queries).unwrap();
            UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"end", address).unwrap();
            replies
        });
        for (query, reply) in queries.iter().zip(replies) {
            assert_eq!(reply, (query.bytes[2] % 10 != 0).then(|| query.bytes.clone()));
        }
    }

    #[test]
    fn a_query_that_ends_its_connection_takes_no_reply_from_others() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        let queries: Vec<_> =
            (0..8).map(|index| query(index, Transport::Tcp, u8::from(index == 3))).collect();
        let replies = std::thread::scope(|scope| {
            // The first connection has all of them. Each other connection has a query without a reply: the
            // bad one and those after it.
            scope.spawn(|| {
                for _ in 0..6 {
                    let (mut stream, _) = server.accept().unwrap();
                    let mut frame = [0; 5];
                    while stream.read_exact(&mut frame).is_ok() && frame[4] == 0 {
                        stream.write_all(&frame).unwrap();
                    }
                    stream.shutdown(Shutdown::Write).unwrap();
                    // With unread bytes the end would be a reset, and lose replies.
                    stream.read_to_end(&mut Vec::new()).unwrap();
                }
            });
            ask(address, &queries).unwrap()
        });
        for (index, reply) in replies.iter().enumerate() {
            assert_eq!(reply.is_some(), index != 3, "{index}");
        }
    }
}
