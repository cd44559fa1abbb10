//! Back ends for another server of this process: it asks, and gets what becomes of each query. Links, health, deadlines
//! and second tries are those of the front. One thread uses a value, and waits in it.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use kqps_kernel::batch::{RecvBatch, SEGMENTED_BYTES};
use kqps_kernel::clock::now_ns;
use kqps_server::connections::frame::FRAME_BYTES;
use kqps_server::report::BackEndReports;
use kqps_server::sockets::WorkerSockets;
use mio::{Events, Poll, Waker};

use super::clients::TcpClients;
use super::dispatcher::Dispatcher;
use super::own_addresses::OwnAddresses;
use super::policy::{BackEnd, Policy};
use super::token::{Source, source, token};
use super::{FrontSettings, answers};

pub use answers::{Answers, Outcome};

/// Events per call.
const EVENTS: usize = 256;

/// Messages per call from a back end's socket.
const REPLIES: usize = 32;

/// How often due work is looked for while queries are outstanding, in nanoseconds.
const TICK_NS: u64 = 10_000_000;

/// The back ends of one thread.
pub struct Upstream {
    poll: Poll,
    events: Events,
    dispatcher: Dispatcher,
    replies: RecvBatch,
    input: Box<[u8]>,
    look_ns: u64,
}

impl Upstream {
    /// Opens sockets to the back ends of the settings. Settings about clients have no effect.
    pub fn new(settings: &Arc<FrontSettings>) -> io::Result<Self> {
        let poll = Poll::new()?;
        let clients = TcpClients::new(Vec::new(), settings.limits, poll.registry())?;
        let registry = poll.registry().try_clone()?;
        let mut dispatcher = Dispatcher::new(settings.clone(), Vec::new(), clients, registry)?;
        dispatcher.now_ns = now_ns();
        dispatcher.adopt(Arc::new(settings.policy.clone()))?;
        Ok(Self {
            poll,
            events: Events::with_capacity(EVENTS),
            dispatcher,
            replies: RecvBatch::new(REPLIES, SEGMENTED_BYTES),
            input: vec![0; 2 * FRAME_BYTES].into(),
            look_ns: 0,
        })
    }

    /// A waker that ends [`Self::wait`] from another thread.
    pub fn waker(&self) -> io::Result<Waker> {
        Waker::new(self.poll.registry(), token(Source::Waker, 0, 0))
    }

    /// Waits until a back end sent something, something is due, or another thread wakes this one; not at all unless
    /// `may_wait`. Then reads from back ends.
    pub fn wait(&mut self, may_wait: bool) -> io::Result<()> {
        let patience = if may_wait { self.patience() } else { Duration::ZERO };
        match self.poll.poll(&mut self.events, Some(patience)) {
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
            Err(_) => self.events.clear(),
            Ok(()) => {}
        }
        self.dispatcher.now_ns = now_ns();
        for event in &self.events {
            match source(event.token()) {
                (Source::Stream, back_end, link) => self.dispatcher.note_stream(back_end, link, event),
                (Source::Datagrams, back_end, socket) => self.dispatcher.note_datagrams(back_end, socket),
                (Source::Waker | Source::Endpoint | Source::Client, ..) => {}
            }
        }
        self.dispatcher.hear_back_ends(&mut self.input, &mut self.replies);
        Ok(())
    }

    /// How long to wait before something is due.
    fn patience(&self) -> Duration {
        if self.dispatcher.has_more() {
            return Duration::ZERO;
        }
        let left_ns = self.look_ns.saturating_sub(self.dispatcher.now_ns);
        // Polling has a resolution of 1 ms. Rounded down, it would return too early, again and again.
        Duration::from_nanos(if left_ns == 0 { 0 } else { left_ns.saturating_add(1_000_000) })
    }

    /// Sends a query, which is a whole message, to a back end of this rule of the policy. `number` comes back with its
    /// outcome.
    #[inline]
    pub fn ask(&mut self, number: u32, rule: usize, query: &[u8]) {
        self.dispatcher.ask(number, rule, query);
    }

    /// Sends the waiting queries, and does what is due. Call it at the end of every turn.
    pub fn end_turn(&mut self) {
        let dispatcher = &mut self.dispatcher;
        let now_ns = dispatcher.now_ns;
        dispatcher.flush(now_ns);
        if dispatcher.has_trouble() {
            dispatcher.mend();
            self.look_ns = 0;
        }
        if dispatcher.looks_soon() {
            self.look_ns = 0;
        }
        if now_ns >= self.look_ns {
            dispatcher.look();
            dispatcher.flush(now_ns);
            self.look_ns = dispatcher.due_ns();
        }
        if dispatcher.queries.len() > 0 {
            self.look_ns = self.look_ns.min(now_ns + TICK_NS);
        }
    }

    /// The outcomes since they were last exchanged. They are exchanged for `answers`, which must be empty.
    pub fn exchange(&mut self, answers: &mut Answers) {
        std::mem::swap(&mut self.dispatcher.answers, answers);
    }

    /// The time of this turn ([`kqps_kernel::clock::now_ns`]).
    pub fn now_ns(&self) -> u64 {
        self.dispatcher.now_ns
    }

    /// 16 unpredictable bits.
    #[inline]
    pub fn random(&mut self) -> u16 {
        self.dispatcher.random.word()
    }

    /// The counts of all back ends so far.
    pub fn reports(&self) -> BackEndReports {
        self.dispatcher.reports()
    }

    /// Drops all queries, without waiting for any back end.
    pub fn stop(&mut self) {
        self.dispatcher.stop();
    }
}

/// The back end of a policy at which queries of a server with these sockets would come back to itself, if there is one.
pub fn own<'p>(workers: &[WorkerSockets], tcp: bool, policy: &'p Policy) -> io::Result<Option<&'p BackEnd>> {
    let own = OwnAddresses::from_workers(workers, tcp)?;
    Ok(policy.back_ends.iter().find(|back_end| own.is_at(&back_end.target)))
}
