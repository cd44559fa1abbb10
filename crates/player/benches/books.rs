//! The cost of the player's accounts for one query: to deal it, to record that it was sent, to book its reply, and to
//! give it up; with 1, 64 and 10,000 sockets. No datagram is sent, and time is what the bench says it is.

use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion};
use kqps_dataset::{Dataset, Options};
use kqps_player::Arrivals;
use kqps_player::books::{Books, Due, Times};
use kqps_player::clock::TrialClock;
use kqps_player::inflight::Inflight;
use kqps_player::live::Live;
use kqps_player::pace::Pace;
use kqps_player::schedule::Schedule;
use kqps_player::state::ThreadState;
use kqps_player::supply::Supply;
use kqps_player::walk::Walk;
use tempfile::TempDir;

/// Numbers of sockets to compare.
const SOCKETS: [usize; 3] = [1, 64, 10_000];

/// Outstanding queries of all sockets together.
const OUTSTANDING: u64 = 10_000;

/// Outstanding queries that all sockets together have room for, if that gives each room for [`ROOM_LEAST`].
const ROOM: usize = 1 << 16;
const ROOM_LEAST: usize = 16;

/// The time from one query to the next.
const PERIOD_NS: u64 = 1_000;

const TIMEOUT_NS: u64 = 1_000_000_000;
const SETTLE_NS: u64 = 2 * TIMEOUT_NS;

/// When replies come, after their queries.
const LATENCY_NS: u64 = 50_000;

/// Queries of the dataset.
const QUERIES: u32 = 1_000;

/// The queries, and the counters that a thread publishes.
struct Fixture {
    dataset: Dataset,
    live: Live,
    _folder: TempDir,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("queries");
        let add = |text: String, number| text + &format!("n{number}.example.test A\n");
        let text = (0..QUERIES).fold(String::new(), add);
        std::fs::write(&file, text).expect("a file");
        let options = Options { cache_dir: Some(folder.path().into()), ..Options::default() };
        let dataset = Dataset::open(&file, &options).expect("a dataset");
        Self { dataset, live: Live::new(1), _folder: folder }
    }

    fn thread(&self, sockets: usize) -> Thread<'_> {
        let rate_qps = 1e9 / PERIOD_NS as f64;
        let schedule = Schedule::new(rate_qps, 1, 0, Arrivals::Even, 0);
        let pace = Pace::Open { schedule, coalesce_ns: 0, leave_ns: None, window: None };
        let walk = Walk::new(&self.dataset, (1, 0), None, 0);
        let capacity = (ROOM / sockets).next_power_of_two().max(ROOM_LEAST);
        let tables = (0..sockets).map(|_| Inflight::new(capacity, fastrand::u16(..)));
        let times = Times { timeout_ns: TIMEOUT_NS, settle_ns: SETTLE_NS, tick_ns: 1_000_000 };
        let state = ThreadState {
            clock: TrialClock::unstarted(),
            supply: Supply::new(&self.dataset, walk, pace, u64::MAX, u64::MAX),
            books: Books::new(&self.dataset, tables, times, self.live.thread(0)),
        };
        Thread { state, now_ns: 0, burst: Vec::with_capacity(1) }
    }
}

/// The state of a thread, and the time.
struct Thread<'a> {
    state: ThreadState<'a>,
    now_ns: u64,
    burst: Vec<Due>,
}

impl Thread<'_> {
    /// Deals the next query. Returns its socket.
    fn deal(&mut self) -> usize {
        self.now_ns += PERIOD_NS;
        self.state.deal(self.now_ns, 1, &mut self.burst)
    }

    /// Deals queries, and returns each with its socket.
    fn dealt(&mut self, count: u64) -> Vec<(usize, Due)> {
        let one = |_| {
            let socket = self.deal();
            (socket, *self.burst.first().expect("a query is due, and there is room"))
        };
        (0..count).map(one).collect()
    }

    /// Deals queries that are also sent.
    fn sent(&mut self, count: u64) -> Vec<(usize, Due)> {
        let dealt = self.dealt(count);
        self.send(&dealt);
        dealt
    }

    fn send(&mut self, dealt: &[(usize, Due)]) {
        for (socket, due) in dealt {
            self.state.sent(*socket, self.now_ns, std::slice::from_ref(due));
        }
    }

    /// The right replies to these queries.
    fn replies(&self, sent: &[(usize, Due)]) -> Vec<(usize, Vec<u8>)> {
        let reply = |(socket, due): &(usize, Due)| {
            let mut reply = self.state.supply.query(due.query).message.to_vec();
            reply[..2].copy_from_slice(&due.key.to_be_bytes());
            reply[2] |= 0x80;
            (*socket, reply)
        };
        sent.iter().map(reply).collect()
    }

    /// Loses every outstanding query.
    fn lose(&mut self) {
        while !self.state.books.is_settled() {
            self.state.books.expire(self.now_ns + SETTLE_NS + 1);
        }
    }
}

/// The time of `act` over `queries` queries, in rounds of at most [`OUTSTANDING`] queries. Preparing a round and
/// clearing up after it do not count.
fn in_rounds<T>(
    thread: &mut Thread<'_>,
    queries: u64,
    prepare: impl Fn(&mut Thread<'_>, u64) -> T,
    act: impl Fn(&mut Thread<'_>, &T),
) -> Duration {
    let (mut left, mut took) = (queries, Duration::ZERO);
    while left > 0 {
        let count = left.min(OUTSTANDING);
        let prepared = prepare(thread, count);
        let began = Instant::now();
        act(thread, &prepared);
        took += began.elapsed();
        thread.lose();
        left -= count;
    }
    took
}

/// Measures `act` for each number of sockets.
fn measure<T>(
    criterion: &mut Criterion,
    name: &str,
    prepare: impl Fn(&mut Thread<'_>, u64) -> T,
    act: impl Fn(&mut Thread<'_>, &T),
) {
    let fixture = Fixture::new();
    let mut group = criterion.benchmark_group(name);
    for sockets in SOCKETS {
        let mut thread = fixture.thread(sockets);
        group.bench_function(BenchmarkId::from_parameter(sockets), |bencher| {
            bencher.iter_custom(|queries| in_rounds(&mut thread, queries, &prepare, &act));
        });
    }
    group.finish();
}

/// A tick at which no time has run out, while queries are outstanding.
fn measure_tick(criterion: &mut Criterion) {
    let fixture = Fixture::new();
    let mut group = criterion.benchmark_group("expire none");
    for sockets in SOCKETS {
        let mut thread = fixture.thread(sockets);
        thread.sent(OUTSTANDING);
        group.bench_function(BenchmarkId::from_parameter(sockets), |bencher| {
            bencher.iter(|| thread.state.books.expire(thread.now_ns));
        });
    }
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let deal = |thread: &mut Thread<'_>, count: &u64| {
        for _ in 0..*count {
            thread.deal();
        }
    };
    measure(&mut criterion, "deal", |_, count| count, deal);
    let dealt = |thread: &mut Thread<'_>, count| thread.dealt(count);
    measure(&mut criterion, "sent", dealt, |thread, dealt| thread.send(dealt));
    let answered = |thread: &mut Thread<'_>, count| {
        let sent = thread.sent(count);
        thread.replies(&sent)
    };
    let arrived = |thread: &mut Thread<'_>, replies: &Vec<(usize, Vec<u8>)>| {
        for (socket, reply) in replies {
            thread.state.books.arrived(*socket, reply, thread.now_ns + LATENCY_NS);
        }
    };
    measure(&mut criterion, "arrived", answered, arrived);
    let sent = |thread: &mut Thread<'_>, count| drop(thread.sent(count));
    measure(&mut criterion, "expire all", sent, |thread, &()| thread.lose());
    measure_tick(&mut criterion);
    criterion.final_summary();
}
