//! The relay's loop: it receives queries, decides and counts faults, and sends replies. One thread does it
//! all, so that the counts need no lock and all events have one order.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use kqps_kernel::{Address, RecvBatch, UdpOptions, UdpSocket, Wait, clock, poll};

use super::RelaySettings;
use super::counts::Counts;
use super::fault::Fault;
use super::flow::{Flow, Held, Stray};
use super::outbox::Outbox;
use super::waiting::{Queue, Waiting};
use super::wire;
use super::witness::Witness;

/// The requested size of each socket's buffers: half a second of 150,000 small packets a second, as the
/// kernel counts them.
const BUFFER_BYTES: usize = 64 << 20;
/// The longest DNS message that passes.
const MESSAGE_BYTES: usize = 4096;
/// The most packets in one call.
const BATCH: usize = 64;
/// The longest time that a reply waits for the next one.
const HELD_NS: u64 = 2_000_000;
/// Shorter sleeps are less precise than spinning.
const SPIN_NS: u64 = 150_000;
/// The longest sleep, so that the loop notices a stop.
const SLEEP_NS: u64 = 10_000_000;
/// The most batches after a stop.
const LAST_TURNS: usize = 10_000;

/// The state of the loop.
pub(super) struct Engine {
    settings: RelaySettings,
    subject: Option<Address>,
    front: Outbox,
    /// Sends the replies that must come from a wrong port.
    elsewhere: Outbox,
    inbox: RecvBatch,
    /// The offset from the monotonic clock to the clock of the kernel's time stamps.
    realtime_offset_ns: i64,
    flows: Vec<Flow>,
    last_flow: usize,
    held: usize,
    waiting: Queue,
    random: fastrand::Rng,
    counts: Counts,
    /// The query or reply in work.
    reply: Vec<u8>,
    /// The number of that query, counted over all flows.
    query: u32,
}

impl Engine {
    pub(super) fn new(settings: RelaySettings) -> io::Result<Self> {
        let elsewhere = SocketAddr::new(settings.listen.ip(), 0);
        let mut front = Outbox::new(bind(settings.listen)?);
        front.witness = settings.witness.then(Witness::default);
        Ok(Self {
            subject: settings.subject.map(Address::from),
            front,
            elsewhere: Outbox::new(bind(elsewhere)?),
            inbox: RecvBatch::new(BATCH, MESSAGE_BYTES),
            realtime_offset_ns: clock::realtime_offset_ns(),
            flows: Vec::new(),
            last_flow: 0,
            held: 0,
            waiting: Queue::default(),
            random: fastrand::Rng::with_seed(settings.seed),
            counts: Counts::default(),
            reply: Vec::with_capacity(MESSAGE_BYTES),
            query: 0,
            settings,
        })
    }

    /// The address that players send to.
    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.front.socket.local_addr()
    }

    /// Relays until `stop` is set. Returns the counts, and the witness's times if the settings ask for them.
    pub(super) fn run(mut self, stop: &AtomicBool) -> io::Result<(Counts, Witness)> {
        clock::set_timer_slack_ns(1)?;
        let mut last_look_ns = clock::now_ns();
        loop {
            // A pause at the end counts, too: it may have delayed replies.
            let now_ns = clock::now_ns();
            self.counts.longest_away_us = self.counts.longest_away_us.max((now_ns - last_look_ns) / 1000);
            last_look_ns = now_ns;
            if stop.load(Ordering::Relaxed) {
                break;
            }
            if self.turn()? == 0 && !self.settings.spin {
                self.rest()?;
            }
        }
        // Queries sent before the stop still count, unless a player goes on without end.
        for _ in 0..LAST_TURNS {
            if self.turn()? == 0 {
                break;
            }
        }
        self.counts.pending = (self.waiting.len() + self.held) as u64;
        self.counts.unanswered = self.flows.iter().map(Flow::unanswered).sum();
        self.counts.repeated_ids = self.flows.iter().map(|flow| flow.repeated).sum();
        self.counts.clashes = self.flows.iter().map(|flow| flow.clashes).sum();
        self.counts.send_failed = self.outboxes().map(|outbox| outbox.failed).sum();
        self.counts.socket_drops = self.outboxes().map(Outbox::drops).sum::<io::Result<u64>>()?;
        Ok((self.counts, self.front.witness.unwrap_or_default()))
    }

    /// Makes one round of the loop. Returns the number of packets that it moved.
    fn turn(&mut self) -> io::Result<usize> {
        let moved = self.take_queries()? + self.take_replies()? + self.release();
        self.front.flush();
        self.elsewhere.flush();
        for flow in &mut self.flows {
            flow.back.as_mut().map(Outbox::flush);
        }
        Ok(moved)
    }

    fn take_queries(&mut self) -> io::Result<usize> {
        let received = self.inbox.recv(&self.front.socket, Wait::No)?;
        let now_ns = clock::now_ns();
        let realtime_ns = (now_ns as i64 + self.realtime_offset_ns) as u64;
        for index in 0..received {
            let query = self.inbox.message(index);
            let waited_ns = query.arrived_ns.map_or(0, |arrived_ns| realtime_ns.saturating_sub(arrived_ns));
            self.counts.longest_wait_us = self.counts.longest_wait_us.max(waited_ns / 1000);
            if !wire::is_query(query.bytes) {
                self.counts.not_queries += 1;
                continue;
            }
            let from = query.from;
            self.reply.clear();
            self.reply.extend_from_slice(query.bytes);
            let flow = self.flow_of(from)?;
            self.take_query(flow, now_ns);
        }
        Ok(received)
    }

    /// Decides the fault of the query in `self.reply`, and passes the query on or answers it.
    fn take_query(&mut self, flow: usize, now_ns: u64) {
        let fault = self.settings.plan.draw(&mut self.random);
        let place = &mut self.flows[flow];
        self.query = u32::try_from(self.counts.queries).expect("a relay takes fewer than 2³² queries");
        self.counts.queries += 1;
        place.asked(wire::id(&self.reply), self.query, fault);
        if fault == Some(Fault::DropQuery) {
            self.counts.add(fault);
        } else if let (Some(back), Some(subject)) = (&mut place.back, &self.subject) {
            back.push(subject, self.query, &self.reply);
        } else {
            wire::answer(&mut self.reply);
            self.deliver(flow, fault, now_ns);
        }
    }

    fn take_replies(&mut self) -> io::Result<usize> {
        let mut sum = 0;
        for flow in 0..self.flows.len() {
            let Some(back) = &self.flows[flow].back else { continue };
            let received = self.inbox.recv(&back.socket, Wait::No)?;
            let now_ns = clock::now_ns();
            for index in 0..received {
                let reply = self.inbox.message(index);
                let decided = match reply.bytes.len() {
                    wire::HEADER.. => self.flows[flow].answered(wire::id(reply.bytes)),
                    _ => Err(Stray),
                };
                let Ok((query, fault)) = decided else {
                    self.counts.stray_replies += 1;
                    continue;
                };
                self.query = query;
                self.reply.clear();
                self.reply.extend_from_slice(reply.bytes);
                self.deliver(flow, fault, now_ns);
            }
            sum += received;
        }
        Ok(sum)
    }

    /// Sends the reply in `self.reply` as its fault demands, and counts the fault.
    fn deliver(&mut self, flow: usize, fault: Option<Fault>, now_ns: u64) {
        self.counts.add(fault);
        match fault {
            Some(Fault::WrongId) => wire::set_id(&mut self.reply, self.flows[flow].make_up_id()),
            Some(fault) => wire::spoil(&mut self.reply, fault),
            None => {}
        }
        let settings = &self.settings;
        match fault {
            Some(Fault::DropQuery | Fault::DropReply) => {}
            Some(Fault::WrongPort) => self.elsewhere.push(&self.flows[flow].client, self.query, &self.reply),
            Some(Fault::Delay) => self.wait(flow, now_ns + settings.fault_delay_us * 1000),
            Some(Fault::Late) => self.wait(flow, now_ns + settings.late_us * 1000),
            Some(Fault::Reorder) if self.flows[flow].held.is_none() => self.hold(flow, now_ns),
            _ if settings.delay_us > 0 => self.wait(flow, now_ns + settings.delay_us * 1000),
            Some(Fault::Duplicate) => {
                self.front.push(&self.flows[flow].client, self.query, &self.reply);
                self.send(flow);
            }
            _ => self.send(flow),
        }
    }

    /// Sends the reply now, and after it the one that waited for it.
    fn send(&mut self, flow: usize) {
        let flow = &mut self.flows[flow];
        self.front.push(&flow.client, self.query, &self.reply);
        if let Some(held) = flow.held.take() {
            self.front.push(&flow.client, held.query, &held.bytes);
            self.held -= 1;
        }
    }

    fn wait(&mut self, flow: usize, due_ns: u64) {
        self.waiting.push(due_ns, Waiting { flow, query: self.query, bytes: self.reply.as_slice().into() });
    }

    fn hold(&mut self, flow: usize, now_ns: u64) {
        let (query, bytes) = (self.query, self.reply.as_slice().into());
        self.flows[flow].held = Some(Held { query, bytes, until_ns: now_ns + HELD_NS });
        self.held += 1;
    }

    /// Sends the replies that are due.
    fn release(&mut self) -> usize {
        let now_ns = clock::now_ns();
        let mut released = 0;
        while let Some(reply) = self.waiting.pop_due(now_ns) {
            self.front.push(&self.flows[reply.flow].client, reply.query, &reply.bytes);
            released += 1;
        }
        if self.held > 0 {
            for flow in &mut self.flows {
                if let Some(held) = flow.held.take_if(|held| held.until_ns <= now_ns) {
                    self.front.push(&flow.client, held.query, &held.bytes);
                    self.held -= 1;
                    released += 1;
                }
            }
        }
        released
    }

    /// Sleeps until there may be something to do.
    fn rest(&self) -> io::Result<()> {
        let now_ns = clock::now_ns();
        let held_until_ns = self.flows.iter().filter_map(|flow| Some(flow.held.as_ref()?.until_ns)).min();
        let due_ns = [self.waiting.next_due_ns(), held_until_ns].into_iter().flatten().min();
        let sleep_ns =
            due_ns.map_or(SLEEP_NS, |due_ns| due_ns.saturating_sub(now_ns + SPIN_NS)).min(SLEEP_NS);
        if sleep_ns > 0 {
            let sockets: Vec<&UdpSocket> = self.outboxes().map(|outbox| &outbox.socket).collect();
            poll::wait_any(&sockets, sleep_ns)?;
        }
        Ok(())
    }

    /// The flow of a player's socket. A socket that is not known yet gets a new one.
    #[inline]
    fn flow_of(&mut self, client: Address) -> io::Result<usize> {
        if self.flows.get(self.last_flow).is_none_or(|flow| flow.client != client) {
            self.last_flow = match self.flows.iter().position(|flow| flow.client == client) {
                Some(known) => known,
                None => self.add_flow(client)?,
            };
        }
        Ok(self.last_flow)
    }

    fn add_flow(&mut self, client: Address) -> io::Result<usize> {
        let local = SocketAddr::new(self.settings.listen.ip(), 0);
        let back = self.settings.subject.map(|_| bind(local).map(Outbox::new)).transpose()?;
        self.flows.push(Flow::new(client, back));
        Ok(self.flows.len() - 1)
    }

    fn outboxes(&self) -> impl Iterator<Item = &Outbox> {
        let backs = self.flows.iter().filter_map(|flow| flow.back.as_ref());
        [&self.front, &self.elsewhere].into_iter().chain(backs)
    }
}

fn bind(address: SocketAddr) -> io::Result<UdpSocket> {
    let options = UdpOptions { recv_buffer: Some(BUFFER_BYTES), timestamps: true, ..UdpOptions::default() };
    UdpSocket::bind(address, &options)
}
