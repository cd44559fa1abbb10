//! Clients that flood a front with bytes that are no queries, or hold connections. The front still answers honest
//! clients.

use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use fastrand::Rng;
use kqps_message::rcode;
use kqps_programs::shell;

use super::super::{Bench, Size};
use super::honest::{AskResult, Client, question, socket_to};
use super::honest_load::{Harm, HonestLoad, TRY, beside_clients, honest};
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
        for part in [floods, many_idle, few_descriptors] {
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
    let [_, noerror] = rcode::NOERROR.to_be_bytes();
    while client.ask("again", TRY)? != AskResult::Rcode(noerror) {
        ensure!(
            began.elapsed() < Duration::from_secs(8),
            "without descriptors back ends are not reached again"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(began.elapsed())
}

fn set_all(back_ends: &[BackEnd], fault: Fault) {
    for back_end in back_ends {
        back_end.set(fault);
    }
}
