//! What every loop shares besides the deck: when a thread rests, when it stops, and how it drains.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use kqps_kernel::address::Address;
use kqps_kernel::batch::SendBatch;
use kqps_kernel::interrupts::Interrupts;
use kqps_kernel::poll::PollSet;
use kqps_kernel::udp::UdpSocket;

use super::Wait;
use super::look::messages_most;
use crate::deck::{Deck, Due};
use crate::plan::Plan;
use crate::precedence::Precedence;

/// A thread without work looks at its stop flag at least this often.
const NAP_LONGEST_NS: u64 = 5_000_000;

/// Naps of a closed loop that waits for replies to come together, at least and at most.
const NAP_NS: u64 = 5_000;
const NAP_MOST_NS: u64 = 200_000;

/// After so many naps without a reply a closed loop waits for the next one instead.
const NAPS_MOST: u32 = 4;

/// How often the kernel is asked again when it has no room for a packet, and how long is waited before.
pub(super) const SEND_TRIES: u32 = 20;
const SEND_NAP_NS: u64 = 50_000;

/// A thread that has more to send than it can looks after replies and its stop flag at least this often.
const STRETCH_NS: u64 = 200_000;

/// A thread's surroundings during a trial.
pub struct Stage<'a> {
    pub(crate) deck: Deck<'a>,
    pub(super) sockets: &'a [UdpSocket],
    /// Whom each socket asks, and has replies from.
    pub(super) targets: Box<[Address]>,
    pub(super) burst_most: usize,
    /// Sockets that fell back from segmentation to single sends.
    pub(crate) fallbacks: u32,
    /// Whether the trial was begun, not called off.
    pub(crate) begun: bool,
    /// When the first burst of this turn left.
    stretch_since_ns: Option<u64>,
    drain_ns: u64,
    has_own_core: bool,
    stays_awake: bool,
    signals: Signals<'a>,
    readable: PollSet,
    /// Messages that a socket's buffer can hold at most.
    pub(super) messages_most: usize,
    naps: u32,
    /// How an open loop's thread waits.
    pub(crate) wait: Option<Wait>,
    pub(crate) precedence: Precedence,
}

/// How a thread and its crew tell each other where they are.
#[derive(Clone, Copy)]
pub struct Signals<'a> {
    /// Tells that the thread is ready, and waits to be told the common start; none when the trial is called off.
    pub(crate) ready: &'a dyn Fn() -> Option<u64>,
    /// Ends the trial early, or at once.
    pub(crate) stop: &'a Interrupts,
    /// Set when another thread failed: the trial is to end at once, and nobody asks what became of it.
    pub(crate) broken: &'a AtomicBool,
    /// Tells that the last query was sent.
    pub(crate) all_sent: &'a dyn Fn(),
}

impl<'a> Stage<'a> {
    /// `targets` are those of the sockets, in their order. Fails when the process has no descriptors left.
    pub(crate) fn new(
        plan: &Plan,
        sockets: &'a [UdpSocket],
        targets: Box<[Address]>,
        deck: Deck<'a>,
        signals: Signals<'a>,
    ) -> io::Result<Self> {
        Ok(Self {
            deck,
            sockets,
            targets,
            burst_most: plan.burst,
            fallbacks: 0,
            begun: false,
            stretch_since_ns: None,
            drain_ns: plan.drain.as_nanos() as u64,
            has_own_core: plan.has_own_cores(),
            stays_awake: plan.stays_awake(),
            signals,
            readable: PollSet::new(sockets),
            messages_most: messages_most(sockets)?,
            naps: 0,
            wait: if plan.is_open() { Some(Wait::asleep()?) } else { None },
            precedence: Precedence::default(),
        })
    }

    /// Gets ready, and waits for the common start; false when the trial is called off. Call it when all memory is there: what
    /// takes time after it shows as lag.
    pub(super) fn begin(&mut self) -> io::Result<bool> {
        if self.has_own_core {
            self.precedence = Precedence::ask();
        }
        if let Some(wait) = self.wait.as_mut().filter(|_| self.stays_awake) {
            wait.stay_awake_at_last()?;
        }
        if let Some(start_ns) = (self.signals.ready)() {
            self.deck.begin(start_ns);
            self.begun = true;
        }
        Ok(self.begun)
    }

    /// The time now, and whether there is still something to send. Call it once a turn.
    #[inline]
    pub(super) fn turn(&mut self) -> (u64, bool) {
        let now_ns = self.deck.now_ns();
        if self.signals.stop.is_asked() || self.is_broken() {
            self.deck.stop(now_ns);
        }
        self.precedence.keep(now_ns);
        self.stretch_since_ns = None;
        (now_ns, !self.deck.is_played(now_ns))
    }

    #[inline]
    fn is_broken(&self) -> bool {
        self.signals.broken.load(Relaxed)
    }

    /// Whether what is due leaves before replies are heard, which have their times of arrival from the kernel. Not in a
    /// closed loop, where replies make room. What fell due while an open loop's window was full is given up by this, before a
    /// reply makes room.
    #[inline]
    pub(super) fn sends_first(&self) -> bool {
        self.deck.is_open()
    }

    /// Takes the next burst that is to leave in this turn; the number of its socket, if there is one. After a while there
    /// is none, however much is due, and after one burst of a closed loop, whose replies are to be heard first.
    #[inline]
    pub(super) fn next_burst(&mut self, burst: &mut Vec<Due>) -> Option<usize> {
        let now_ns = self.deck.now_ns();
        let first = self.stretch_since_ns.is_none();
        let since_ns = *self.stretch_since_ns.get_or_insert(now_ns);
        let more = first || (self.deck.is_open() && now_ns - since_ns < STRETCH_NS);
        if !more || !self.deck.is_due(now_ns, self.burst_most) {
            return None;
        }
        let socket = self.deck.deal(now_ns, self.burst_most, burst);
        (!burst.is_empty()).then_some(socket)
    }

    /// Writes the queries of a burst, each as a message of its own.
    #[inline]
    pub(super) fn write_queries(&self, socket: usize, burst: &[Due], queries: &mut SendBatch) {
        queries.clear();
        for due in burst {
            let query = queries.add(&self.targets[socket], usize::from(due.bytes), None);
            write_query(&self.deck, due, query);
        }
    }

    /// Rests until there is likely something to do: until a burst is due, or replies have come together. Not in the
    /// middle of a round of looks. `heard` says whether a reply came in this turn.
    pub(super) fn rest(&mut self, now_ns: u64, heard: bool) -> io::Result<()> {
        if self.deck.is_looking() {
            return Ok(());
        }
        if self.deck.is_held_back() {
            return self.readable.wait(NAP_LONGEST_NS.min(self.deck.nap_most_ns())).map(drop);
        }
        if let (Some(wait), Some(leaves)) = (&mut self.wait, self.deck.leaves_ns(self.burst_most)) {
            wait.withheld.runs_first = self.precedence.runs_first();
            return wait.until(&mut self.deck, leaves, self.burst_most, now_ns + NAP_LONGEST_NS);
        }
        self.naps = if heard { 0 } else { self.naps + 1 };
        match self.deck.refill_ns(self.burst_most) {
            // Replies are left to come together: looking at every one costs both sides more than it brings.
            Some(refill_ns) if self.naps < NAPS_MOST => {
                self.deck.sleep_until_ns(now_ns + refill_ns.clamp(NAP_NS, NAP_MOST_NS));
            }
            _ => {
                self.readable.wait(NAP_LONGEST_NS)?;
            }
        }
        Ok(())
    }

    /// Everything was sent: tells the crew, then listens through `hear` until every query is settled or the
    /// drain is over, looks at every socket once more, and settles the rest.
    pub(super) fn drain(
        &mut self,
        mut hear: impl FnMut(&mut Self, u64) -> io::Result<bool>,
    ) -> io::Result<()> {
        let played_ns = self.deck.now_ns();
        self.deck.played(played_ns);
        (self.signals.all_sent)();
        let end_ns = played_ns + self.drain_ns;
        loop {
            let now_ns = self.deck.now_ns();
            hear(self, now_ns)?;
            let is_over = now_ns >= end_ns || self.deck.is_settled();
            if is_over || self.signals.stop.is_urgent() || self.is_broken() {
                break;
            }
            self.readable.wait((end_ns - now_ns).min(NAP_LONGEST_NS))?;
        }
        self.deck.look_for_the_last_time();
        hear(self, self.deck.now_ns())?;
        self.deck.end();
        Ok(())
    }

    /// Waits a little for room in a socket's send buffer.
    pub(super) fn wait_for_room(&self) {
        self.deck.sleep_until_ns(self.deck.now_ns() + SEND_NAP_NS);
    }

    /// Sends through `send`, which says how many messages the kernel took of those that are left; asks again
    /// for a while when it has no room. Each message is booked with the time at which the kernel took it up, by
    /// [`taken_up_ns`], or with the error that it was refused with in the end.
    #[inline]
    pub(super) fn send_all(
        &mut self,
        socket: usize,
        messages: usize,
        mut send: impl FnMut(&UdpSocket, usize) -> io::Result<usize>,
        mut book: impl FnMut(&mut Deck<'a>, usize, Result<u64, i32>),
    ) {
        let (mut first, mut tries) = (0, 0);
        let mut began_ns = self.deck.now_ns();
        self.deck.tally.send_began(began_ns);
        while first < messages {
            let errno = match send(&self.sockets[socket], first) {
                Ok(0) if tries < SEND_TRIES => {
                    tries += 1;
                    self.wait_for_room();
                    began_ns = self.deck.now_ns();
                    continue;
                }
                Ok(0) => WOULD_BLOCK,
                Ok(taken) => {
                    self.deck.tally.messages_sent += taken as u64;
                    let call_ns = began_ns..self.deck.now_ns();
                    for message in 0..taken {
                        let at_ns = taken_up_ns(&call_ns, message, taken);
                        book(&mut self.deck, first + message, Ok(at_ns));
                    }
                    began_ns = call_ns.end;
                    first += taken;
                    continue;
                }
                Err(error) => error.raw_os_error().unwrap_or(0),
            };
            book(&mut self.deck, first, Err(errno));
            began_ns = self.deck.now_ns();
            first += 1;
        }
    }
}

/// When the kernel took up a message of those that one call handed over: it takes one after the other, the first as
/// the call begins.
#[inline]
pub(super) fn taken_up_ns(call_ns: &Range<u64>, message: usize, messages: usize) -> u64 {
    call_ns.start + (call_ns.end - call_ns.start) * message as u64 / messages as u64
}

/// `EAGAIN`.
pub(super) const WOULD_BLOCK: i32 = 11;

/// Copies a query into a buffer of its length, with its ID.
#[inline]
pub(super) fn write_query(deck: &Deck<'_>, due: &Due, buffer: &mut [u8]) {
    buffer.copy_from_slice(deck.query(due.query).message);
    buffer[..2].copy_from_slice(&due.id.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::Duration;

    use kqps_kernel::udp::UdpOptions;

    use super::*;

    use crate::deck::tests::Desk;
    use crate::plan::{AWAKE_COALESCE_MOST, Arrivals, Io, LoadPlan, Stop};

    #[test]
    fn messages_of_one_call_are_taken_up_one_after_another() {
        let at = |messages| (0..messages).map(move |message| taken_up_ns(&(1000..1600), message, messages));
        assert_eq!(at(1).collect::<Vec<_>>(), [1000]);
        assert_eq!(at(3).collect::<Vec<_>>(), [1000, 1200, 1400]);
    }

    fn plan(target: SocketAddr) -> Plan {
        Plan {
            targets: vec![target],
            load: LoadPlan::Closed { outstanding: 1 },
            stop: Stop { after: None, passes: Some(1) },
            timeout: Duration::from_secs(1),
            drain: Duration::from_secs(1),
            lag_allowed: Duration::from_secs(1),
            coalesce: Duration::ZERO,
            burst: 32,
            sockets: 1,
            threads: 1,
            cpus: Vec::new(),
            own_cores: false,
            io: Io::Plain,
            buffer_bytes: None,
            local: None,
            local_port: None,
            seed: 1,
            subject_pids: Vec::new(),
            subject_unknown: None,
            subject_cpus: Vec::new(),
            drop_reasons: false,
        }
    }

    #[test]
    fn a_thread_stays_awake_only_to_be_in_time() {
        let closed = plan(SocketAddr::from(([127, 0, 0, 1], 53)));
        let load = LoadPlan::Open { rate_qps: 1.0, arrivals: Arrivals::Even, window: None };
        let open = Plan { load, own_cores: true, cpus: vec![0], ..closed.clone() };
        assert!(open.stays_awake());
        for sleeps in [
            closed,
            Plan { own_cores: false, ..open.clone() },
            Plan { cpus: Vec::new(), ..open.clone() },
            Plan { load: LoadPlan::Closed { outstanding: 1 }, ..open.clone() },
            Plan { coalesce: AWAKE_COALESCE_MOST + Duration::from_nanos(1), ..open.clone() },
        ] {
            assert!(!sleeps.stays_awake(), "{sleeps:?}");
        }
        assert!(Plan { coalesce: AWAKE_COALESCE_MOST, ..open }.stays_awake());
    }

    /// What became of three messages, where the kernel answers as `send` does.
    fn outcomes(mut send: impl FnMut(usize) -> io::Result<usize>) -> Vec<Result<(), i32>> {
        let (desk, stop, broken) = (Desk::new(), Interrupts::default(), AtomicBool::new(false));
        let socket = UdpSocket::bind(([127, 0, 0, 1], 0).into(), &UdpOptions::default()).unwrap();
        let plan = plan(socket.local_addr().unwrap());
        let signals = Signals { ready: &|| None, stop: &stop, broken: &broken, all_sent: &|| () };
        let (deck, sockets) = (desk.deck(1, 16, u64::MAX, Arrivals::Even), [socket]);
        let mut stage = Stage::new(&plan, &sockets, Box::default(), deck, signals).unwrap();
        let mut outcomes = Vec::new();
        let book = |_: &mut Deck<'_>, message, outcome: Result<u64, i32>| {
            assert_eq!(message, outcomes.len());
            outcomes.push(outcome.map(|_| ()));
        };
        stage.send_all(0, 3, |_, first| send(first), book);
        outcomes
    }

    #[test]
    fn a_full_buffer_is_tried_again_until_there_is_room() {
        let mut calls = 0;
        let told = outcomes(|first| {
            calls += 1;
            // Room for one, then none for a while, then for all.
            Ok(match calls {
                1 => 1,
                2..=10 => 0,
                _ => 3 - first,
            })
        });
        assert_eq!((told, calls), (vec![Ok(()); 3], 11));
    }

    #[test]
    fn what_is_refused_in_the_end_does_not_stop_the_rest() {
        let refused = |errno| Err(io::Error::from_raw_os_error(errno));
        assert_eq!(outcomes(|first| if first == 1 { refused(1) } else { Ok(1) }), [Ok(()), Err(1), Ok(())]);
        let mut calls = 0;
        let told = outcomes(|_| {
            calls += 1;
            Ok(0)
        });
        assert_eq!((told, calls), (vec![Err(WOULD_BLOCK); 3], SEND_TRIES + 3));
    }
}
