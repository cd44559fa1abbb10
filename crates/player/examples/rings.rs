//! The player's own cost: its loop past the kernel plays against rings that another thread of this program empties and
//! fills with replies. No kernel is in between, and nothing waits.
//!
//! ```sh
//! cargo run --release -p kqps-player --example rings                  # as fast as it goes
//! cargo run --release -p kqps-player --example rings 1000000 4096     # so many queries, with 4,096 outstanding
//! cargo run --release -p kqps-player --example rings 1000000 4096 live # the player also publishes what live views show
//! perf stat -e instructions:u target/release/examples/rings 1000000   # both threads
//! ```
//!
//! The last line that it prints is for programs: the queries that were answered, and the seconds that they took.

use std::error::Error;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use kqps_dataset::{Dataset, Options};
use kqps_host::{PlayerWatched, SubjectWatched, Watch};
use kqps_kernel::affinity;
use kqps_kernel::xdp::memory::{MemoryDevice, pair};
use kqps_player::{
    Control, Io, Live, LoadPlan, Part, PerQueryPlan, Plan, Stop, UdpPlan, Wire, play_in_memory,
};
use kqps_stack::turn_round;

/// Frames of the player's socket, of which half receive.
const FRAMES: u32 = 1 << 13;

/// Queries in the file, which is played several times: so many that their bytes are not all in the nearest cache.
const QUERIES: u64 = 5_000;

/// Queries in all, and those outstanding at once, if the caller does not say.
const USUAL: u64 = 20_000_000;
const USUAL_OUTSTANDING: u64 = 2048;

/// Where a message begins: after Ethernet, IPv4 and UDP.
const MESSAGE_AT: usize = 42;

/// Counts of the device's turns.
struct Turns {
    /// Queries that it took.
    queries: u64,
    /// Looks that found something, and that found nothing.
    busy: u64,
    idle: u64,
}

/// Answers all queries until `stop` is set.
fn answer(mut device: MemoryDevice, cpu: Option<u32>, stop: &AtomicBool) -> Turns {
    if let Some(cpu) = cpu {
        // Unpinned it is slower, and works.
        let _ = affinity::pin_thread(cpu);
    }
    let mut turns = Turns { queries: 0, busy: 0, idle: 0 };
    while !stop.load(Relaxed) {
        let taken = device.turn(64, |query, room| {
            let reply = &mut room[..query.len()];
            reply.copy_from_slice(query);
            turn_round(reply);
            // The checksum is wrong now. Nothing looks at it here, as on veth.
            reply[MESSAGE_AT + 2] |= 0x80;
            Some(query.len())
        });
        turns.queries += taken as u64;
        if taken > 0 {
            turns.busy += 1;
        } else {
            turns.idle += 1;
            std::hint::spin_loop();
        }
    }
    turns
}

fn plan(queries: u64, outstanding: u64, cpus: Vec<u32>) -> Plan {
    let second = Duration::from_secs(1);
    let udp = UdpPlan { io: Io::Xdp, sockets: 32, buffer_bytes: None, local_port: None, device: None };
    Plan {
        targets: vec![([198, 18, 0, 2], 53).into()],
        wire: Wire::Udp(udp),
        burst: 64,
        local: None,
        load: LoadPlan::Closed { outstanding },
        start_at_ns: None,
        stop: Stop { after: None, passes: Some(queries.div_ceil(QUERIES)) },
        part: Part::WHOLE,
        timeout: second,
        drain: second,
        listens_on: false,
        lag_allowed: second,
        coalesce: Duration::ZERO,
        threads: 1,
        cpus,
        own_cores: false,
        seed: 1,
        drop_reasons: false,
        moments: None,
        course: None,
        per_query: PerQueryPlan::default(),
        first_query: 0,
        hostile: None,
        replay: None,
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let queries: u64 = arguments.next().map_or(Ok(USUAL), |text| text.parse())?;
    let outstanding: u64 = arguments.next().map_or(Ok(USUAL_OUTSTANDING), |text| text.parse())?;
    let live = Live::new(1);
    let live = if arguments.next().is_some_and(|word| word == "live") { live.with_fates() } else { live };
    let control = Control { live: Arc::new(live), ..Control::new(1) };
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("queries");
    let mut text = String::new();
    for number in 0..QUERIES {
        writeln!(text, "name-{number}.example.test A")?;
    }
    std::fs::write(&file, text)?;
    let options = Options { cache_dir: Some(folder.path().join("cache")), ..Options::default() };
    let dataset = Dataset::open(&file, &options)?;
    let cores = affinity::allowed()?;
    let (own, other) = match cores[..] {
        [own, other, ..] => (vec![own], Some(other)),
        _ => (Vec::new(), None),
    };
    let plan = plan(queries, outstanding, own);
    let (socket, device) = pair(FRAMES)?;
    let stop = AtomicBool::new(false);
    let (trial, turns) = std::thread::scope(|scope| {
        let device = scope.spawn(|| answer(device, other, &stop));
        let watch = |player: &PlayerWatched| Watch::begin(player, &SubjectWatched::default());
        let trial = play_in_memory(&plan, &dataset, &control, vec![socket], watch);
        stop.store(true, Relaxed);
        (trial, device.join().expect("the device only answers"))
    });
    let trial = trial?;
    let (accounts, load) = (trial.accounts, &trial.load);
    let qps = accounts.correct as f64 / load.duration_s;
    println!("{:.2} M q/s, {:.1} ns a query", qps / 1e6, 1e9 / qps);
    println!("sent {}, correct {}, lost {}", accounts.sent, accounts.correct, accounts.lost);
    let idle = turns.idle as f64 / (turns.busy + turns.idle).max(1) as f64;
    let each = turns.queries as f64 / turns.busy.max(1) as f64;
    println!("the device looked in vain {:.0} % of the time, and else found {each:.1} queries", idle * 100.0);
    println!("{{\"queries\":{},\"seconds\":{}}}", accounts.correct, load.duration_s);
    Ok(())
}
