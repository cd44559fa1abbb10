//! A sending thread, as all loops use it: its state and its sockets, when it sleeps, when it stops, and how it drains.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use kqps_kernel::address::Address;
use kqps_kernel::batch::SendBatch;
use kqps_kernel::interrupts::Interrupts;
use kqps_kernel::poll::PollSet;
use kqps_kernel::udp::UdpSocket;

use super::look::messages_most;
use super::polling::Polling;
use crate::books::Due;
use crate::plan::Plan;
use crate::state::ThreadState;
use crate::wait::Wait;
use crate::wait::precedence::Precedence;

/// The longest time between two checks of the stop flag by a thread without work.
const NAP_LONGEST_NS: u64 = 5_000_000;

/// The shortest and the longest nap of a closed loop that waits for several replies.
const NAP_NS: u64 = 5_000;
const NAP_MOST_NS: u64 = 200_000;

/// After this many naps without a reply, a closed loop waits for the next reply instead.
const NAPS_MOST: u32 = 4;

/// How often a send is tried again when the kernel has no room for a packet, and the pause before each try.
pub(super) const SEND_TRIES: u32 = 20;
const SEND_NAP_NS: u64 = 50_000;

/// How long an overloaded thread sends before it reads replies and checks its stop flag.
const STRETCH_NS: u64 = 200_000;

/// A thread of a trial that sends and receives over UDP.
pub struct PlayerThread<'a> {
    pub(crate) state: ThreadState<'a>,
    pub(super) polling: Polling,
    pub(super) sockets: &'a [UdpSocket],
    /// The target of each socket, from which its replies must come.
    pub(super) targets: Box<[Address]>,
    pub(super) burst_most: usize,
    /// Sockets that fell back from segmentation to single sends.
    pub(crate) fallbacks: u32,
    /// Whether the trial began and was not called off.
    pub(crate) begun: bool,
    /// When the first burst of this turn left.
    stretch_since_ns: Option<u64>,
    drain_ns: u64,
    has_own_core: bool,
    stays_awake: bool,
    signals: Signals<'a>,
    readable: PollSet,
    /// The most messages that a socket's buffer can hold.
    pub(super) messages_most: usize,
    naps: u32,
    /// How an open loop's thread waits; `None` in a closed loop.
    pub(crate) wait: Option<Wait>,
    pub(crate) precedence: Precedence,
}

/// The signals between a thread and the main thread of the trial.
#[derive(Clone, Copy)]
pub struct Signals<'a> {
    /// Reports that the thread is ready, and waits for the common start; `None` if the trial is called off.
    pub(crate) ready: &'a dyn Fn() -> Option<u64>,
    /// Ends the trial early, or at once.
    pub(crate) stop: &'a Interrupts,
    /// Set when another thread failed. The trial ends at once, and its counts are dropped.
    pub(crate) broken: &'a AtomicBool,
    /// Reports that the thread sent its last query.
    pub(crate) all_sent: &'a dyn Fn(),
}

impl<'a> PlayerThread<'a> {
    /// `targets` are the targets of the sockets, in the same order. Fails if the process has no descriptors left.
    pub(crate) fn new(
        plan: &Plan,
        sockets: &'a [UdpSocket],
        targets: Box<[Address]>,
        state: ThreadState<'a>,
        signals: Signals<'a>,
    ) -> io::Result<Self> {
        Ok(Self {
            state,
            polling: Polling::new(sockets.len()),
            sockets,
            targets,
            burst_most: plan.udp().burst,
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

    /// Gets ready and waits for the common start. Returns false if the trial is called off. Allocate everything before
    /// this call, since anything slow after it shows as lag.
    pub(super) fn begin(&mut self) -> io::Result<bool> {
        if self.has_own_core {
            self.precedence = Precedence::ask();
        }
        if let Some(wait) = self.wait.as_mut().filter(|_| self.stays_awake) {
            wait.stay_awake_at_last()?;
        }
        if let Some(start_ns) = (self.signals.ready)() {
            self.state.clock.begin(start_ns);
            self.begun = true;
        }
        Ok(self.begun)
    }

    /// The current time, and whether there is still something to send. Call it once a turn.
    #[inline]
    pub(super) fn turn(&mut self) -> (u64, bool) {
        let now_ns = self.state.now_ns();
        if self.signals.stop.is_asked() || self.is_broken() {
            self.state.supply.stop(now_ns);
        }
        self.precedence.keep(now_ns);
        self.stretch_since_ns = None;
        (now_ns, !self.state.supply.is_played(now_ns))
    }

    #[inline]
    fn is_broken(&self) -> bool {
        self.signals.broken.load(Relaxed)
    }

    /// Whether due queries leave before replies are read. In an open loop they do, since replies carry the kernel's
    /// time of arrival. In a closed loop they do not, since replies make room. So an open loop gives up what fell due
    /// while its window was full, before a reply makes room.
    #[inline]
    pub(super) fn sends_first(&self) -> bool {
        self.state.supply.is_open()
    }

    /// Takes the next burst of this turn. Returns the number of its socket, if there is a burst. After 200 µs there is
    /// none, however much is due, so that the thread reads replies. A closed loop has one burst in a turn, since it
    /// must read replies next.
    #[inline]
    pub(super) fn next_burst(&mut self, burst: &mut Vec<Due>) -> Option<usize> {
        let now_ns = self.state.now_ns();
        let first = self.stretch_since_ns.is_none();
        let since_ns = *self.stretch_since_ns.get_or_insert(now_ns);
        let more = first || (self.state.supply.is_open() && now_ns - since_ns < STRETCH_NS);
        if !more || !self.state.is_due(now_ns, self.burst_most) {
            return None;
        }
        let socket = self.state.deal(now_ns, self.burst_most, burst);
        if burst.is_empty() {
            return None;
        }
        if self.state.books.unsettled_of(socket) as usize == burst.len() {
            self.polling.was_idle(socket, now_ns);
        }
        Some(socket)
    }

    /// Writes each query of a burst as a message of its own.
    #[inline]
    pub(super) fn write_queries(&self, socket: usize, burst: &[Due], queries: &mut SendBatch) {
        queries.clear();
        for due in burst {
            let query = queries.add(&self.targets[socket], usize::from(due.bytes), None);
            write_query(&self.state, due, query);
        }
    }

    /// Sleeps until there is probably something to do: until a burst is due, or until several replies have come. Does
    /// not sleep during a round of looks. `received` is whether a reply came in this turn.
    pub(super) fn rest(&mut self, now_ns: u64, received: bool) -> io::Result<()> {
        if self.polling.is_looking() {
            return Ok(());
        }
        if self.state.is_held_back() {
            return self.readable.wait(NAP_LONGEST_NS.min(self.state.supply.nap_most_ns())).map(drop);
        }
        if let (Some(wait), Some(leaves)) = (&mut self.wait, self.state.supply.leaves_ns(self.burst_most)) {
            wait.withheld.runs_first = self.precedence.runs_first();
            return wait.until(&mut self.state, leaves, self.burst_most, now_ns + NAP_LONGEST_NS);
        }
        self.naps = if received { 0 } else { self.naps + 1 };
        match self.state.refill_ns(self.burst_most) {
            // Wait for several replies: a look for each reply costs both sides more than it gains.
            Some(refill_ns) if self.naps < NAPS_MOST => {
                self.state.clock.sleep_until_ns(now_ns + refill_ns.clamp(NAP_NS, NAP_MOST_NS));
            }
            _ => {
                self.readable.wait(NAP_LONGEST_NS)?;
            }
        }
        Ok(())
    }

    /// Ends the sending. Reports to the main thread that everything was sent, then reads replies through `receive`
    /// until every query is settled or the drain is over. Then it looks at every socket once more, and settles the
    /// remaining queries.
    pub(super) fn drain(
        &mut self,
        mut receive: impl FnMut(&mut Self, u64) -> io::Result<bool>,
    ) -> io::Result<()> {
        let played_ns = self.state.now_ns();
        self.state.played(played_ns);
        (self.signals.all_sent)();
        let end_ns = played_ns + self.drain_ns;
        loop {
            let now_ns = self.state.now_ns();
            receive(self, now_ns)?;
            let is_over = now_ns >= end_ns || self.state.books.is_settled();
            if is_over || self.signals.stop.is_urgent() || self.is_broken() {
                break;
            }
            self.readable.wait((end_ns - now_ns).min(NAP_LONGEST_NS))?;
        }
        self.polling.look_for_the_last_time();
        receive(self, self.state.now_ns())?;
        self.state.books.end();
        Ok(())
    }

    /// Sleeps 50 µs, to wait for room in a socket's send buffer.
    pub(super) fn wait_for_room(&self) {
        self.state.clock.sleep_until_ns(self.state.now_ns() + SEND_NAP_NS);
    }

    /// Records that the kernel accepted these queries at `now_ns`.
    #[inline]
    pub(super) fn sent(&mut self, socket: usize, now_ns: u64, burst: &[Due]) {
        self.polling.sent(socket, now_ns);
        self.state.sent(socket, now_ns, burst);
    }

    /// Records that the kernel refused these queries.
    pub(super) fn refused(&mut self, socket: usize, errno: i32, burst: &[Due]) {
        self.state.books.refused(socket, errno, burst);
    }

    /// Sends through `send`, which returns how many of the remaining messages the kernel took. If the kernel has no
    /// room, tries again up to [`SEND_TRIES`] times. Calls `book` for each message, with the time at which the kernel
    /// took it (see [`taken_up_ns`]) or with the error of the last try.
    #[inline]
    pub(super) fn send_all(
        &mut self,
        socket: usize,
        messages: usize,
        mut send: impl FnMut(&UdpSocket, usize) -> io::Result<usize>,
        mut book: impl FnMut(&mut Self, usize, Result<u64, i32>),
    ) {
        let (mut first, mut tries) = (0, 0);
        let mut began_ns = self.state.now_ns();
        self.state.books.tally.send_began(began_ns);
        while first < messages {
            let errno = match send(&self.sockets[socket], first) {
                Ok(0) if tries < SEND_TRIES => {
                    tries += 1;
                    self.wait_for_room();
                    began_ns = self.state.now_ns();
                    continue;
                }
                Ok(0) => WOULD_BLOCK,
                Ok(taken) => {
                    self.state.books.tally.messages_sent += taken as u64;
                    let call_ns = began_ns..self.state.now_ns();
                    for message in 0..taken {
                        let at_ns = taken_up_ns(&call_ns, message, taken);
                        book(self, first + message, Ok(at_ns));
                    }
                    began_ns = call_ns.end;
                    first += taken;
                    continue;
                }
                Err(error) => error.raw_os_error().unwrap_or(0),
            };
            book(self, first, Err(errno));
            began_ns = self.state.now_ns();
            first += 1;
        }
    }
}

/// When the kernel took a message of those that one call passed to it. It takes one after the other, the first as the
/// call begins.
#[inline]
pub(super) fn taken_up_ns(call_ns: &Range<u64>, message: usize, messages: usize) -> u64 {
    call_ns.start + (call_ns.end - call_ns.start) * message as u64 / messages as u64
}

/// The error number `EAGAIN`.
pub(super) const WOULD_BLOCK: i32 = 11;

/// Copies a query into a buffer of its length, and writes its ID.
#[inline]
pub(super) fn write_query(state: &ThreadState<'_>, due: &Due, buffer: &mut [u8]) {
    buffer.copy_from_slice(state.supply.query(due.query).message);
    buffer[..2].copy_from_slice(&due.key.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::Duration;

    use kqps_kernel::udp::UdpOptions;

    use super::*;

    use crate::plan::tests::plan;
    use crate::plan::{AWAKE_COALESCE_MOST, Arrivals, LoadPlan};
    use crate::state::tests::Fixture;

    #[test]
    fn messages_of_one_call_are_taken_up_one_after_another() {
        let at = |messages| (0..messages).map(move |message| taken_up_ns(&(1000..1600), message, messages));
        assert_eq!(at(1).collect::<Vec<_>>(), [1000]);
        assert_eq!(at(3).collect::<Vec<_>>(), [1000, 1200, 1400]);
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

    /// The outcome of three sends, with `send` in the place of the kernel.
    fn outcomes(mut send: impl FnMut(usize) -> io::Result<usize>) -> Vec<Result<(), i32>> {
        let (fixture, stop, broken) = (Fixture::new(), Interrupts::default(), AtomicBool::new(false));
        let socket = UdpSocket::bind(([127, 0, 0, 1], 0).into(), &UdpOptions::default()).unwrap();
        let plan = plan(socket.local_addr().unwrap());
        let signals = Signals { ready: &|| None, stop: &stop, broken: &broken, all_sent: &|| () };
        let (state, sockets) = (fixture.state(1, 16, u64::MAX, Arrivals::Even), [socket]);
        let mut thread = PlayerThread::new(&plan, &sockets, Box::default(), state, signals).unwrap();
        let mut outcomes = Vec::new();
        let book = |_: &mut PlayerThread<'_>, message, outcome: Result<u64, i32>| {
            assert_eq!(message, outcomes.len());
            outcomes.push(outcome.map(|_| ()));
        };
        thread.send_all(0, 3, |_, first| send(first), book);
        outcomes
    }

    #[test]
    fn a_full_buffer_is_tried_again_until_there_is_room() {
        let mut calls = 0;
        let outcomes = outcomes(|first| {
            calls += 1;
            // There is room for one, then for none for a while, then for all.
            Ok(match calls {
                1 => 1,
                2..=10 => 0,
                _ => 3 - first,
            })
        });
        assert_eq!((outcomes, calls), (vec![Ok(()); 3], 11));
    }

    #[test]
    fn what_is_refused_in_the_end_does_not_stop_the_rest() {
        let refused = |errno| Err(io::Error::from_raw_os_error(errno));
        assert_eq!(outcomes(|first| if first == 1 { refused(1) } else { Ok(1) }), [Ok(()), Err(1), Ok(())]);
        let mut calls = 0;
        let outcomes = outcomes(|_| {
            calls += 1;
            Ok(0)
        });
        assert_eq!((outcomes, calls), (vec![Err(WOULD_BLOCK); 3], SEND_TRIES + 3));
    }
}
