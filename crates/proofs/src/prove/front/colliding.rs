//! Many clients whose queries have the same few IDs, each with names of its own: every reply must be to a
//! question that its own socket asked, with the ID of that question. Meanwhile one back end sends replies
//! with wrong IDs, and another one with wrong questions.

use std::collections::VecDeque;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};

use super::super::Bench;
use super::honest::{question, socket_to};
use super::servers::{Front, urls};
use kqps_faults::back_end::{BackEnd, Fault, Transport};

/// Replies to check, in the small form and in the whole one.
const REPLIES: (u64, u64) = (200_000, 10_000_000);

const IDS: usize = 8;

/// Clients, each with a socket of its own, over all threads; and the number of threads.
const CLIENTS: usize = 64;
const THREADS: usize = 2;

/// A query without a reply after this time is given up. The front makes no client wait that long.
const PATIENCE: Duration = Duration::from_secs(3);

/// How long each back end is well, and how long it misbehaves, in turn.
const SPELL: Duration = Duration::from_millis(300);

/// Questions that were given up, but whose late reply is still correct.
const REMEMBERED: usize = 64;

/// A client, with its question for each ID.
struct Client {
    number: usize,
    socket: UdpSocket,
    asked: u64,
    open: [Option<(Vec<u8>, Instant)>; IDS],
    given_up: VecDeque<Vec<u8>>,
}

#[derive(Default)]
struct Counts {
    replies: AtomicU64,
    servfail: AtomicU64,
    given_up: AtomicU64,
}

pub(super) fn prove(bench: &Bench) -> Result<()> {
    let wanted = bench.choose(REPLIES.0, REPLIES.1);
    let transports = [Transport::Udp, Transport::Tcp, Transport::Unix, Transport::Udp, Transport::Tcp];
    let start = |(number, transport)| {
        BackEnd::start(transport, bench.folder.path(), &format!("colliding-{number}"), number as u64)
    };
    let back_ends = transports.into_iter().enumerate().map(start).collect::<Result<Vec<_>>>()?;
    let front = Front::start(bench, "colliding", &urls(&back_ends), &[])?;
    front.is_ready(back_ends.len())?;
    let (counts, stop) = (Counts::default(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let (address, counts, stop) = (front.address, &counts, &stop);
        let asking: Vec<_> = (0..THREADS)
            .map(|thread| (thread..CLIENTS).step_by(THREADS))
            .map(|numbers| scope.spawn(move || ask(address, numbers, wanted, counts, stop)))
            .collect();
        while asking.iter().any(|thread| !thread.is_finished()) {
            // The last two misbehave in turn, so that back ends of each kind always answer.
            for (back_end, fault) in back_ends[3..].iter().zip([Fault::WrongIds, Fault::WrongQuestions]) {
                back_end.set(fault);
                std::thread::sleep(SPELL);
                back_end.set(Fault::None);
            }
        }
        asking.into_iter().try_for_each(|thread| thread.join().map_err(|_| anyhow!("a client panicked"))?)
    })?;
    let reported = front.stop()?;
    let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let (replies, servfail, given_up) =
        (count(&counts.replies), count(&counts.servfail), count(&counts.given_up));
    let strange: u64 = reported.back_ends.values().map(|at| at.unsolicited + at.mismatched).sum();
    eprintln!(
        "{replies} replies, each to its own client; {servfail} of them SERVFAIL, {given_up} queries without one; {strange} wrong ones of back ends went nowhere"
    );
    ensure!(replies >= wanted && strange > 0, "the back ends never misbehaved");
    ensure!(servfail + given_up <= replies / 100, "{servfail} queries were refused, and {given_up} given up");
    Ok(())
}

/// Asks as these clients until there are enough replies, or another thread found a wrong one.
fn ask(
    address: SocketAddr,
    numbers: impl Iterator<Item = usize>,
    wanted: u64,
    counts: &Counts,
    stop: &AtomicBool,
) -> Result<()> {
    let mut clients = numbers.map(|number| Client::new(number, address)).collect::<Result<Vec<_>>>()?;
    let mut buffer = [0; 4096];
    while counts.replies.load(Ordering::Relaxed) < wanted && !stop.load(Ordering::Relaxed) {
        let mut heard = 0;
        for client in &mut clients {
            client.ask(counts)?;
        }
        for client in &mut clients {
            heard += client.hear(&mut buffer, counts).inspect_err(|_| stop.store(true, Ordering::Relaxed))?;
        }
        if heard == 0 {
            std::thread::yield_now();
        }
    }
    Ok(())
}

impl Client {
    fn new(number: usize, address: SocketAddr) -> Result<Self> {
        let socket = socket_to(address)?;
        socket.set_nonblocking(true)?;
        Ok(Self { number, socket, asked: 0, open: Default::default(), given_up: VecDeque::new() })
    }

    /// Asks with every free ID, for a name that was never asked for.
    fn ask(&mut self, counts: &Counts) -> Result<()> {
        for id in 0..IDS {
            if let Some((query, _)) = self.open[id].take_if(|(_, since)| since.elapsed() > PATIENCE) {
                counts.given_up.fetch_add(1, Ordering::Relaxed);
                self.given_up.push_front(query);
                self.given_up.truncate(REMEMBERED);
            }
            if self.open[id].is_some() {
                continue;
            }
            let query = question(&format!("n{}.client{}.test", self.asked, self.number), id as u16)?;
            self.asked += 1;
            // A query that finds a full buffer counts as lost.
            let _ = self.socket.send(&query);
            self.open[id] = Some((query, Instant::now()));
        }
        Ok(())
    }

    /// Receives all replies that are there. Each must be to a question of this client.
    fn hear(&mut self, buffer: &mut [u8], counts: &Counts) -> Result<u64> {
        let mut heard = 0;
        while let Ok(bytes) = self.socket.recv(buffer) {
            let reply = &buffer[..bytes];
            ensure!(bytes > 12 && reply[2] & 0x80 != 0, "client {} got {reply:?}", self.number);
            let is_to = |query: &Vec<u8>| {
                reply.len() >= query.len()
                    && reply[..2] == query[..2]
                    && reply[12..query.len()] == query[12..]
            };
            let id = usize::from(u16::from_be_bytes([reply[0], reply[1]]));
            let open = self.open.get_mut(id).and_then(|open| open.take_if(|(query, _)| is_to(query)));
            if open.is_none() {
                let known = self.given_up.iter().any(is_to);
                ensure!(known, "client {} got the reply to what it did not ask: {reply:?}", self.number);
                continue;
            }
            heard += 1;
            counts.servfail.fetch_add(u64::from(reply[3] & 0x0f != 0), Ordering::Relaxed);
        }
        counts.replies.fetch_add(heard, Ordering::Relaxed);
        Ok(heard)
    }
}
