//! Measures how fast cores do what name servers do: system calls over loopback. The speed of a virtual core often depends
//! on whether another one shares its physical core. So all cores in use are measured at the same time.
//!
//! A reading loads its cores fully, and before other ordinary programs if this process has the right to that. So
//! everything that is compared with it should be idle. Its datagrams count in the UDP counters of the caller's network namespace.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use kqps_kernel::udp::{Peer, UdpOptions, UdpSocket};
use kqps_kernel::{Wait, affinity, clock, priority};
use kqps_observation::{CoreGauge, GaugeFacts};

/// A turn that takes longer than this was interrupted. A turn takes some microseconds, and an interrupt seldom more than a
/// tenth of this.
const STALL_NS: u64 = 500_000;

/// The most that a reading may take beyond its duration, stalls included. A core that others hold for longer has no speed.
const GIVE_UP: Duration = Duration::from_secs(2);

/// How much longer than that the threads of a reading are waited for. One that gets no CPU time cannot end.
const LAST: Duration = Duration::from_millis(200);

/// How long a datagram may take to arrive, and how often the thread looks for it at least.
const ARRIVES_NS: u64 = 1_000_000_000;
const LOOKS_LEAST: u32 = 1000;

/// A datagram as long as a usual query, bytes.
const DATAGRAM: [u8; 64] = [0; 64];

/// Measures these cores, or all that the calling thread may use if the list is empty, for `duration`, usually 10 ms. Each
/// core does turns: it sends one datagram over loopback to its own socket and receives it. Turns count from the moment
/// when all cores do them, until each core has done them for that long. If a core stands still for more than half a
/// millisecond in a turn, neither the turn nor its time counts. A call takes a few tenths of a millisecond longer than
/// `duration`.
///
/// Fails if a core does not exist or is not allowed here, if loopback is down, or if a core does not finish within 2.2 s
/// beyond `duration`. A thread that gets no CPU time is then left behind, and ends when its core is free.
pub fn gauge(cpus: &[u32], duration: Duration) -> io::Result<GaugeFacts> {
    let cpus = cores(cpus)?;
    // The calling thread makes the sockets, before the start, since they belong to its network namespace.
    let sockets = cpus.iter().map(|_| own_socket()).collect::<io::Result<Vec<_>>>()?;
    let together = Arc::new(Together::new(cpus.len(), duration));
    let (sender, ended) = mpsc::channel();
    for (&cpu, turn) in cpus.iter().zip(sockets) {
        let (theirs, sender) = (Arc::clone(&together), sender.clone());
        let work = move || {
            // There is no receiver any more if the caller gave up.
            let _ = sender.send(theirs.unless_failed(work(cpu, turn, &theirs)));
        };
        let begun = thread::Builder::new().name(format!("gauge-{cpu}")).spawn(work);
        together.unless_failed(begun)?;
    }
    drop(sender);
    let deadline = Instant::now() + duration + GIVE_UP + LAST;
    let next = || match ended.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        Ok(facts) => facts,
        Err(mpsc::RecvTimeoutError::Timeout) => together.unless_failed(Err(held())),
        Err(mpsc::RecvTimeoutError::Disconnected) => Err(io::Error::other("a thread of the gauge panicked")),
    };
    let mut cores = cpus.iter().map(|_| next()).collect::<io::Result<Vec<_>>>()?;
    cores.sort_by_key(|core| core.cpu);
    Ok(GaugeFacts { cores })
}

/// The error of a core that other programs hold.
fn held() -> io::Error {
    let words = "other programs held this core, or another core of the gauge, nearly all the time";
    io::Error::new(io::ErrorKind::TimedOut, words)
}

/// These cores, each once, ascending; all that the calling thread may use if the list is empty.
pub(crate) fn cores(cpus: &[u32]) -> io::Result<Vec<u32>> {
    let mut cpus = if cpus.is_empty() { affinity::allowed()? } else { cpus.to_vec() };
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

/// Gauges a core. If another core fails, the caller drops the result.
fn work(cpu: u32, mut turn: Turn, together: &Together) -> io::Result<CoreGauge> {
    let of = |error: io::Error| io::Error::new(error.kind(), format!("cannot gauge core {cpu}: {error}"));
    affinity::pin_thread(cpu).map_err(of)?;
    // Without the right to it, the thread keeps its priority.
    let _ = priority::yield_least();
    turn.take().map_err(of)?;
    together.ready.fetch_add(1, Ordering::Relaxed);
    // These turns do not count. They warm up the core.
    while !together.all(&together.ready) {
        turn.take().map_err(of)?;
        together.still_has_time(clock::now_ns()).map_err(of)?;
    }
    let mut tally = Tally::begin(clock::now_ns());
    let mut is_done = false;
    while !together.all(&together.done) {
        turn.take().map_err(of)?;
        let now_ns = clock::now_ns();
        tally.add(now_ns);
        if !is_done && tally.worked_ns >= together.duration_ns && tally.turns > 0 {
            is_done = true;
            together.done.fetch_add(1, Ordering::Relaxed);
        }
        together.still_has_time(now_ns).map_err(of)?;
    }
    Ok(tally.facts(cpu))
}

/// State that the threads of a reading share, so that they begin and end at the same time.
struct Together {
    threads: usize,
    duration_ns: u64,
    ends_at_latest_ns: u64,
    /// Threads that do turns on their cores, and threads that have done them for the whole duration.
    ready: AtomicUsize,
    done: AtomicUsize,
    failed: AtomicBool,
}

impl Together {
    fn new(threads: usize, duration: Duration) -> Self {
        let duration_ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let give_up_ns = GIVE_UP.as_nanos() as u64;
        let ends_at_latest_ns = clock::now_ns().saturating_add(duration_ns).saturating_add(give_up_ns);
        let (ready, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { threads, duration_ns, ends_at_latest_ns, ready, done, failed: AtomicBool::new(false) }
    }

    /// Whether all threads have come this far, or one has failed and none need wait.
    fn all(&self, count: &AtomicUsize) -> bool {
        count.load(Ordering::Relaxed) >= self.threads || self.failed.load(Ordering::Relaxed)
    }

    /// Marks the reading as failed if `outcome` is an error, so that the other threads end.
    fn unless_failed<T>(&self, outcome: io::Result<T>) -> io::Result<T> {
        outcome.inspect_err(|_| self.failed.store(true, Ordering::Relaxed))
    }

    fn still_has_time(&self, now_ns: u64) -> io::Result<()> {
        if now_ns <= self.ends_at_latest_ns { Ok(()) } else { Err(held()) }
    }
}

/// A socket that sends to itself.
struct Turn {
    socket: UdpSocket,
    myself: Peer,
    buffer: [u8; DATAGRAM.len()],
}

fn own_socket() -> io::Result<Turn> {
    let open = || {
        let options = UdpOptions { nonblocking: true, ..UdpOptions::default() };
        let socket = UdpSocket::bind(([127, 0, 0, 1], 0).into(), &options)?;
        let address = socket.local_addr()?;
        // A connected socket receives nothing from others.
        socket.connect(address)?;
        Ok(Turn {
            socket,
            myself: Peer { address: address.into(), asked: None },
            buffer: [0; DATAGRAM.len()],
        })
    };
    open().map_err(|error: io::Error| {
        let words =
            format!("cannot gauge cores, since nothing can be sent to 127.0.0.1; is loopback up? {error}");
        io::Error::new(error.kind(), words)
    })
}

impl Turn {
    /// Sends a datagram to an explicit address, as servers do, and receives it.
    #[inline]
    fn take(&mut self) -> io::Result<()> {
        self.socket.send(&DATAGRAM, &self.myself)?;
        // The kernel delivers the datagram within the call that sends it, unless its own thread for this has work left.
        match self.socket.recv(&mut self.buffer, &mut Peer::default(), Wait::No)? {
            Some(_) => Ok(()),
            None => self.wait(),
        }
    }

    #[cold]
    fn wait(&mut self) -> io::Result<()> {
        let (began_ns, mut looks) = (clock::now_ns(), 0);
        while self.socket.recv(&mut self.buffer, &mut Peer::default(), Wait::No)?.is_none() {
            looks += 1;
            if looks > LOOKS_LEAST && clock::now_ns() > began_ns + ARRIVES_NS {
                return Err(io::Error::other("a datagram over loopback did not arrive within 1 s"));
            }
            thread::yield_now();
        }
        Ok(())
    }
}

/// A core's turns so far, and its times of work and of stalls.
struct Tally {
    /// When the last turn ended.
    looked_ns: u64,
    turns: u64,
    worked_ns: u64,
    stalled_ns: u64,
}

impl Tally {
    fn begin(now_ns: u64) -> Self {
        Self { looked_ns: now_ns, turns: 0, worked_ns: 0, stalled_ns: 0 }
    }

    /// Records the end of a turn.
    #[inline]
    fn add(&mut self, now_ns: u64) {
        let took_ns = now_ns - self.looked_ns;
        self.looked_ns = now_ns;
        if took_ns > STALL_NS {
            self.stalled_ns += took_ns;
        } else {
            self.turns += 1;
            self.worked_ns += took_ns;
        }
    }

    fn facts(&self, cpu: u32) -> CoreGauge {
        let turns_per_s = self.turns as f64 / (self.worked_ns.max(1) as f64 / 1e9);
        CoreGauge { cpu, turns_per_s, stalled_s: self.stalled_ns as f64 / 1e9 }
    }
}

#[cfg(test)]
mod tests {
    use kqps_kernel::namespace;
    use kqps_skips::{Capability, skip};

    use super::*;

    #[test]
    fn a_stall_is_no_slowness() {
        let mut tally = Tally::begin(1_000_000);
        // Four turns of 5 µs, a slow turn of 0.5 ms, and a turn with a stall of 3 ms, which does not count.
        for now_ns in [1_005_000, 1_010_000, 1_015_000, 1_020_000, 1_520_000, 4_525_000] {
            tally.add(now_ns);
        }
        let facts = tally.facts(7);
        assert!((facts.turns_per_s - 5.0 / 520e-6).abs() < 1e-6, "{facts:?}");
        assert!((facts.stalled_s - 3.005e-3).abs() < 1e-12, "{facts:?}");
        assert_eq!(facts.cpu, 7);
    }

    #[test]
    fn every_core_that_is_named_is_gauged_once() {
        let allowed = affinity::allowed().unwrap();
        let duration = Duration::from_millis(2);
        let all = gauge(&[], duration).unwrap();
        assert_eq!(all.cores.iter().map(|core| core.cpu).collect::<Vec<_>>(), allowed);
        let last = *allowed.last().unwrap();
        let one = gauge(&[last, last], duration).unwrap();
        assert_eq!(one.cores.iter().map(|core| core.cpu).collect::<Vec<_>>(), [last]);
        for facts in [all, one] {
            for core in &facts.cores {
                // A turn counts only if it took half a millisecond at most.
                assert!(core.turns_per_s >= 2000.0 && core.stalled_s >= 0.0, "{core:?}");
            }
        }
    }

    #[test]
    fn a_core_that_is_not_there_is_named_and_the_others_end() {
        let known = affinity::allowed().unwrap()[0];
        for unknown in [1023, 5000] {
            let error = gauge(&[known, unknown], Duration::from_hours(1)).unwrap_err().to_string();
            assert!(error.starts_with(&format!("cannot gauge core {unknown}: ")), "{error}");
        }
    }

    #[test]
    fn some_cores_are_enough() {
        let first = affinity::allowed().unwrap()[0];
        let within = move || {
            affinity::pin_thread(first).unwrap();
            gauge(&[], Duration::from_millis(1)).unwrap()
        };
        let facts = thread::spawn(within).join().unwrap();
        assert_eq!(facts.cores.iter().map(|core| core.cpu).collect::<Vec<_>>(), [first]);
    }

    #[test]
    fn without_loopback_the_error_says_so() {
        let within = || {
            namespace::enter_silent_network()?;
            Ok(gauge(&[], Duration::from_millis(1)).unwrap_err().to_string())
        };
        let outcome: io::Result<String> = thread::spawn(within).join().unwrap();
        match outcome {
            Ok(words) => assert!(words.contains("is loopback up?"), "{words}"),
            Err(error) => skip(Capability::Networks, format!("a network without loopback: {error}")),
        }
    }
}
