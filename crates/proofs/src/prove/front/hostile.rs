//! Clients that flood a front with bytes that are no queries, hold connections, or do not read. The front
//! still answers honest clients.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use fastrand::Rng;
use kqps_message::rcode;
use kqps_programs::shell;

use super::super::{Bench, Size};
use super::counts::FrontCounts;
use super::honest::{AskResult, Client, question, socket_to};
use super::honest_load::{Harm, HonestLoad, TRIES, TRY, beside_clients, honest};
use super::servers::{Front, back_ends, half_of_capacity, urls};
use kqps_faults::back_end::{BackEnd, Fault, Transport};
use kqps_skips::{Capability, skip};

/// Names of the honest clients' queries.
const QUERIES: u32 = 10_000;

/// The load of honest clients in the small form. The whole form uses half of the capacity.
const SMALL_QPS: f64 = 2000.0;

/// Repetitions of each trial in the whole form.
const REPETITIONS: u64 = 20;

/// Packets of a flood in a millisecond.
const BURST: usize = 20;

/// Idle connections opened in a millisecond. If they are opened any faster, opening them uses up the shared
/// cores.
const CONNECTS: usize = 4;

/// Clients that send one byte a second.
const DRIPPING: usize = 20;

/// The most CPU time, seconds, that the front may use in a second in which it only waits.
const WAITING_CPU_S: f64 = 0.3;

/// The back ends of each front, and the load of honest clients.
struct Scene<'a> {
    bench: &'a Bench,
    back_ends: Vec<BackEnd>,
    load: HonestLoad<'a>,
    rng: Rng,
}

pub(super) fn prove(bench: &Bench) -> Result<()> {
    let back_ends = back_ends(bench, Transport::Tcp, "hostile", 2)?;
    let queries = bench.queries_with_answers(QUERIES)?;
    let rate_qps = match bench.size {
        Size::Small => SMALL_QPS,
        Size::Whole => half_of_capacity(bench, &urls(&back_ends), &queries)?,
    };
    let load = HonestLoad { bench, queries, rate_qps };
    let mut scene = Scene { bench, back_ends, load, rng: Rng::with_seed(bench.seed) };
    for repetition in 0..bench.choose(1, REPETITIONS) {
        for part in [floods, dripping, many_idle, few_descriptors, half_closed] {
            part(&mut scene).with_context(|| format!("repetition {repetition}"))?;
        }
    }
    Ok(())
}

/// Sends a packet again and again from one socket. Returns how often, and the replies.
fn flood(address: SocketAddr, packet: &[u8], time: Duration) -> Result<(u64, Vec<Vec<u8>>)> {
    let socket = socket_to(address)?;
    socket.set_nonblocking(true)?;
    let (mut sent, mut replies, mut buffer) = (0, Vec::new(), [0; 4096]);
    let began = Instant::now();
    let mut listen_until = began + time;
    while Instant::now() < listen_until {
        if began.elapsed() < time {
            sent += (0..BURST).filter(|_| socket.send(packet).is_ok()).count() as u64;
            listen_until = Instant::now() + TRY;
        }
        while let Ok(bytes) = socket.recv(&mut buffer) {
            replies.push(buffer[..bytes].to_vec());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok((sent, replies))
}

fn floods(scene: &mut Scene<'_>) -> Result<()> {
    let front = Front::start(scene.bench, "floods", &urls(&scene.back_ends), &[])?;
    front.is_ready(scene.back_ends.len())?;
    let time = scene.bench.choose(Duration::from_millis(500), Duration::from_secs(2));
    let load_s = scene.bench.choose(4, 9);
    let query = question("flood.bench.test", scene.rng.u16(..))?;
    let mut reply = query.clone();
    reply[2] |= 0x80;
    let lengths = [0, scene.rng.usize(1..11), 11];
    let (mut no_queries, mut short) = (0, 0);
    let flood_it = || {
        let (sent, answers) = flood(front.address, &reply, time)?;
        ensure!(answers.is_empty(), "{} packets with QR=1 were answered", answers.len());
        no_queries += sent;
        for bytes in lengths {
            let (sent, answers) = flood(front.address, &query[..bytes], time / 3)?;
            ensure!(answers.is_empty(), "{} packets of {bytes} bytes were answered", answers.len());
            short += sent;
        }
        flood(front.address, &query, time)
    };
    let ((asked, answers), harm) = scene.load.beside(&front, load_s, || beside_clients(&front, flood_it))?;
    ensure!(
        !answers.is_empty() && answers.len() as u64 <= asked,
        "{asked} equal queries had {} replies",
        answers.len()
    );
    ensure!(
        answers.iter().all(|answer| answer[..2] == query[..2] && answer[12..query.len()] == query[12..]),
        "a reply to another query came"
    );
    let counts = front.stop()?;
    let dropped = |cause: &str| counts.dropped.get(cause).copied().unwrap_or(0);
    for (cause, sent) in [("is-response", no_queries), ("query-too-short", short)] {
        let count = dropped(cause);
        ensure!(0 < count && count <= sent, "of {sent} packets {count} were dropped as {cause}");
    }
    eprintln!(
        "floods: {no_queries} with QR=1, {short} too short, {asked} equal queries with {} replies; {harm}",
        answers.len()
    );
    harm.is_small()
}

/// The front closes clients that send one byte a second and never finish a query.
fn dripping(scene: &mut Scene<'_>) -> Result<()> {
    let front = Front::start(scene.bench, "dripping", &urls(&scene.back_ends), &["--tcp-idle", "2s"])?;
    front.is_ready(scene.back_ends.len())?;
    let query = question("drip.bench.test", scene.rng.u16(..))?;
    let frame = [&(query.len() as u16).to_be_bytes(), &query[..]].concat();
    let within = Duration::from_secs(10);
    let drip = || {
        let connect = |_| -> Result<TcpStream> { Ok(TcpStream::connect(front.address)?) };
        let mut clients = (0..DRIPPING).map(connect).collect::<Result<Vec<_>>>()?;
        let began = Instant::now();
        for byte in frame {
            // A closed connection refuses the next byte, or the one after that.
            clients.retain_mut(|client| client.write_all(&[byte]).is_ok());
            if clients.is_empty() || began.elapsed() > within {
                break;
            }
            std::thread::sleep(Duration::from_secs(1));
        }
        ensure!(
            clients.is_empty(),
            "{} clients that send one byte a second still hold their place",
            clients.len()
        );
        Ok(began.elapsed())
    };
    let (lasted, harm) = scene.load.beside(&front, 3, || beside_clients(&front, drip))?;
    let counts = front.stop()?.tcp.context("the front takes connections")?;
    let idle = counts.ended.get("idle").copied().unwrap_or(0);
    ensure!(idle >= DRIPPING as u64, "{idle} of {DRIPPING} such clients were closed: {:?}", counts.ended);
    eprintln!("one byte a second: all {DRIPPING} closed after {:.1} s at most; {harm}", lasted.as_secs_f64());
    harm.is_small()
}

/// More idle connections than there is room for, opened as fast as possible, and again at a pace that leaves
/// the cores to others, which should then hardly be affected.
fn many_idle(scene: &mut Scene<'_>) -> Result<()> {
    if scene.bench.size == Size::Whole {
        // Each end of a connection is a descriptor, and both processes inherit this limit.
        let own = std::process::id().to_string();
        shell::run(Command::new("prlimit").args(["--nofile=16384", "--pid", &own]))?;
    }
    idle_connections(scene, None)?;
    idle_connections(scene, Some(CONNECTS))?.is_small()
}

/// Opens idle connections, `pace` in a millisecond or all at once. The front still accepts new ones.
fn idle_connections(scene: &Scene<'_>, pace: Option<usize>) -> Result<Harm> {
    // If an honest client waits for a core while many connections come, its own connection is the one idle
    // for longest, and is closed. There are more places than connections that come in that time.
    let (idle, places) = scene.bench.choose((850, "750"), (5000, "4096"));
    let flags = ["--tcp-connections", places, "--tcp-per-client", "10000", "--tcp-idle", "60s"];
    let front = Front::start(scene.bench, "idle", &urls(&scene.back_ends), &flags)?;
    front.is_ready(scene.back_ends.len())?;
    let connect = || -> Result<Vec<TcpStream>> {
        let mut held = Vec::new();
        while held.len() < idle {
            for _ in 0..pace.unwrap_or(idle) {
                held.push(TcpStream::connect(front.address)?);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(held)
    };
    let (held, harm) = scene.load.beside(&front, 2, || beside_clients(&front, connect))?;
    for number in 0..10 {
        honest(&mut Client::tcp(front.address)?, number).context("a new connection beside idle ones")?;
        honest(&mut Client::udp(front.address)?, number)?;
    }
    let counts = front.stop()?.tcp.context("the front takes connections")?;
    ensure!(counts.connections >= idle as u64, "{} connections were taken", counts.connections);
    eprintln!("{} idle connections: {:?}; {harm}", held.len(), counts.ended);
    Ok(harm)
}

/// A front without a free descriptor goes on with its connections, and makes room for new ones.
fn few_descriptors(scene: &mut Scene<'_>) -> Result<()> {
    if !Path::new("/usr/bin/prlimit").exists() {
        skip(Capability::Programs, "few descriptors: there is no prlimit (util-linux)");
        return Ok(());
    }
    let back_ends = &scene.back_ends;
    let front = Front::start_limited(scene.bench, 64, &urls(back_ends))?;
    front.is_ready(back_ends.len())?;
    let (back, harm) = scene.load.beside(&front, 3, || without_descriptors(&front, back_ends))?;
    let counts = front.stop()?.tcp.context("the front takes connections")?;
    eprintln!(
        "64 descriptors: back ends reached again after {:.2} s, {:?}; {harm}",
        back.as_secs_f64(),
        counts.ended
    );
    Ok(())
}

/// Uses up all descriptors of a front, and then stops its back ends for a while. Returns how long the front
/// was without them afterwards.
fn without_descriptors(front: &Front, back_ends: &[BackEnd]) -> Result<Duration> {
    let mut held = Vec::new();
    for _ in 0..200 {
        held.push(TcpStream::connect(front.address)?);
    }
    for number in 0..10 {
        honest(&mut Client::udp(front.address)?, number).context("by UDP")?;
    }
    honest(&mut Client::tcp(front.address)?, 0).context("by TCP, while 200 others hold all descriptors")?;
    // A back end's connection ends meanwhile, and is opened again.
    set_all(back_ends, Fault::Refusing);
    std::thread::sleep(Duration::from_millis(200));
    set_all(back_ends, Fault::None);
    let mut client = Client::udp(front.address)?;
    let began = Instant::now();
    while client.ask("again", TRY)? != AskResult::Rcode(rcode::NOERROR as u8) {
        ensure!(
            began.elapsed() < Duration::from_secs(8),
            "without descriptors back ends are not reached again"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(began.elapsed())
}

/// Clients that have ended their stream and wait, or that do not read, cost no CPU time.
fn half_closed(scene: &mut Scene<'_>) -> Result<()> {
    let back_ends = &scene.back_ends;
    let flags = ["--silence", "20s", "--timeout", "40s", "--check-interval", "30s"];
    let front = Front::start(scene.bench, "half", &urls(back_ends), &flags)?;
    front.is_ready(back_ends.len())?;
    set_all(back_ends, Fault::HalfOpen);
    let query = question("half.bench.test", scene.rng.u16(..))?;
    let frame = [&(query.len() as u16).to_be_bytes(), &query[..]].concat();
    let mut client = TcpStream::connect(front.address)?;
    client.write_all(&frame)?;
    client.shutdown(std::net::Shutdown::Write)?;
    let has_come = |counts: &FrontCounts| counts.tcp.as_ref().is_some_and(|tcp| tcp.received > 0);
    front.wait_until("that the query came", TRY, has_come)?;
    let before_s = front.cpu_s()?;
    std::thread::sleep(Duration::from_secs(1));
    let used_s = front.cpu_s()? - before_s;
    set_all(back_ends, Fault::None);
    let mut reply = Vec::new();
    client.set_read_timeout(Some(TRIES as u32 * TRY))?;
    client.read_to_end(&mut reply).context("a client that waits is answered and closed")?;
    ensure!(reply.len() > frame.len() && reply[2..4] == frame[2..4], "the reply is {reply:?}");
    front.stop()?;
    eprintln!("half-closed: {used_s:.2} s of CPU in a second of waiting");
    ensure!(used_s <= WAITING_CPU_S, "waiting for a back end took {used_s:.2} s of CPU in a second");
    Ok(())
}

fn set_all(back_ends: &[BackEnd], fault: Fault) {
    for back_end in back_ends {
        back_end.set(fault);
    }
}
