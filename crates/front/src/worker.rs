//! The loop of one worker. Each turn reads first from back ends and then from clients. It sends a batch as soon as
//! it is full, and the rest as soon as no more queries arrive. At its end it sends all replies in few calls.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use kqps_kernel::batch::{RecvBatch, SEGMENTED_BYTES};
use kqps_kernel::clock::now_ns;
use kqps_kernel::poll::FOREVER_NS;
use kqps_server::connections::frame::FRAME_BYTES;
use kqps_server::model::Model;
use kqps_server::report::Counted;
use kqps_server::sockets::{Endpoint, ListeningSocket};
use kqps_server::worker::StopFlag;
use mio::{Events, Poll};

use super::FrontSettings;
use super::clients::TcpClients;
use super::coalescer::Coalescer;
use super::dispatcher::Dispatcher;
use super::intake::Intake;
use super::reply_queue::ReplyQueue;
use super::shared::WorkerLink;
use super::token::{Source, source};

/// Events per call.
const EVENTS: usize = 256;

/// Messages per call from a back end's socket.
const REPLIES: usize = 32;

/// How often due work is looked for while queries are outstanding, in nanoseconds.
const TICK_NS: u64 = 10_000_000;

/// How long to wait for connections to open at the start, in nanoseconds.
const OPENING_NS: u64 = 500_000_000;

/// How often counts are reported while there is work, in nanoseconds.
const REPORT_NS: u64 = 100_000_000;

pub(super) struct FrontWorker {
    poll: Poll,
    dispatcher: Dispatcher,
    link: WorkerLink,
    stop: StopFlag,
    intake: Intake,
    coalescer: Coalescer,
    replies: RecvBatch,
    input: Box<[u8]>,
    look_ns: u64,
    report_ns: u64,
}

impl FrontWorker {
    /// Sets the worker up. Call it on the thread that runs the worker.
    pub(super) fn new(
        settings: &Arc<FrontSettings>,
        endpoints: Vec<Endpoint>,
        listeners: Vec<ListeningSocket>,
        model: Model,
        poll: Poll,
        link: WorkerLink,
        stop: StopFlag,
    ) -> io::Result<Self> {
        let intake = Intake::new(model, &endpoints, poll.registry())?;
        let clients = TcpClients::new(listeners, settings.limits, poll.registry())?;
        let queue = |endpoint| ReplyQueue::new(endpoint, model.takes_segments(), settings.batch);
        let reply_queues = endpoints.into_iter().map(queue).collect();
        let mut dispatcher =
            Dispatcher::new(settings.clone(), reply_queues, clients, poll.registry().try_clone()?)?;
        dispatcher.now_ns = now_ns();
        dispatcher.adopt(Arc::new(settings.policy.clone()))?;
        let coalescer = Coalescer::new(settings.coalesce, settings.flush)?;
        let replies = RecvBatch::new(REPLIES, SEGMENTED_BYTES);
        let input = vec![0; 2 * FRAME_BYTES].into();
        Ok(Self { poll, dispatcher, link, stop, intake, coalescer, replies, input, look_ns: 0, report_ns: 0 })
    }

    /// Serves until it is stopped.
    pub(super) fn run(mut self) -> io::Result<Counted> {
        let mut events = Events::with_capacity(EVENTS);
        self.open(&mut events)?;
        self.stop.report_ready()?;
        while !self.stop.is_set() {
            let patience = self.patience();
            if !patience.is_zero() {
                self.coalescer.wait(self.dispatcher.now_ns);
            }
            match self.poll.poll(&mut events, Some(patience)) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                Err(_) => events.clear(),
                Ok(()) => {}
            }
            self.dispatcher.now_ns = now_ns();
            self.note(&events);
            self.intake.take(&mut self.dispatcher)?;
            self.dispatcher.accept();
            self.dispatcher.hear_clients(&mut self.input);
            self.finish();
            self.coalescer.count(self.dispatcher.counts.received, self.dispatcher.now_ns);
        }
        self.intake.stop(&mut self.dispatcher)?;
        self.dispatcher.stop();
        Ok(counted(&self.dispatcher))
    }

    /// Opens connections to back ends. Waits until each is open or has failed, at most [`OPENING_NS`].
    fn open(&mut self, events: &mut Events) -> io::Result<()> {
        let end_ns = now_ns() + OPENING_NS;
        self.dispatcher.look();
        while self.dispatcher.is_opening() && self.dispatcher.now_ns < end_ns && !self.stop.is_set() {
            match self.poll.poll(events, Some(Duration::from_nanos(TICK_NS))) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                Err(_) => events.clear(),
                Ok(()) => {}
            }
            self.dispatcher.now_ns = now_ns();
            self.note(events);
            self.dispatcher.look();
        }
        Ok(())
    }

    /// How long to wait for events before something is due.
    fn patience(&self) -> Duration {
        let now_ns = self.dispatcher.now_ns;
        let due_ns = if self.intake.has_more() || self.dispatcher.has_more() {
            now_ns
        } else {
            self.look_ns.min(self.dispatcher.clients.due_ns(now_ns).unwrap_or(FOREVER_NS))
        };
        let left_ns = due_ns.saturating_sub(now_ns);
        // Polling has a resolution of 1 ms. Rounded down, it would return too early, again and again.
        Duration::from_nanos(if left_ns == 0 { 0 } else { left_ns + 1_000_000 })
    }

    /// Handles events: those of back ends at once, those of clients later in the turn.
    fn note(&mut self, events: &Events) {
        for event in events {
            let (kind, high, low) = source(event.token());
            match kind {
                Source::Waker => self.look_ns = 0,
                Source::Endpoint => self.intake.note(low),
                Source::Client => self.dispatcher.clients.note(low, event),
                Source::Stream => self.dispatcher.note_stream(high, low, event),
                Source::Datagrams => self.dispatcher.note_datagrams(high, low),
            }
        }
        self.dispatcher.hear_back_ends(&mut self.input, &mut self.replies);
    }

    /// Sends the waiting queries and replies, and handles all that is due.
    fn finish(&mut self) {
        let now_ns = self.dispatcher.now_ns;
        let is_dry = !self.intake.has_more() && self.dispatcher.clients.ready() == 0;
        let flush_ns = self.dispatcher.settings.flush.as_nanos() as u64;
        self.dispatcher.flush(if is_dry { now_ns } else { now_ns.saturating_sub(flush_ns) });
        if self.dispatcher.has_trouble() {
            self.dispatcher.mend();
            self.look_ns = 0;
        }
        if self.dispatcher.looks_soon() {
            self.look_ns = 0;
        }
        self.dispatcher.clients.look(now_ns);
        if now_ns >= self.look_ns {
            if let Some(policy) = self.link.policy() {
                self.link.adopted(self.dispatcher.adopt(policy));
            }
            self.dispatcher.look();
            self.dispatcher.flush(now_ns);
            self.look_ns = self.dispatcher.due_ns();
        }
        if self.dispatcher.queries.len() > 0 {
            // Due work is also looked for soon after queries that arrive when no others are outstanding.
            self.look_ns = self.look_ns.min(now_ns + TICK_NS);
        }
        self.dispatcher.send_replies();
        if now_ns >= self.report_ns {
            self.report_ns = now_ns + REPORT_NS;
            self.link.store(|| counted(&self.dispatcher));
        } else {
            // Counts that are not reported in this turn are reported soon, even if nothing else happens.
            self.look_ns = self.look_ns.min(self.report_ns);
        }
    }
}

fn counted(dispatcher: &Dispatcher) -> Counted {
    Counted {
        xdp: None,
        counts: dispatcher.counts.clone(),
        response_rcodes: dispatcher.rcodes.report(),
        tcp: dispatcher.settings.tcp.then(|| dispatcher.clients.report()),
        back_ends: dispatcher.reports(),
    }
}
