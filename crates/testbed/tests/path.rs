//! A veth path: every packet that passes over it is counted, and nothing of it outlives its processes.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::net::UdpSocket;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use kqps_kernel::interrupts::Interrupts;
use kqps_kernel::namespace::NetNs;
use kqps_kernel::namespace::veth::{DEVICE, VethSettings};
use kqps_kernel::process::{self, Signal};
use kqps_kernel::xdp::place;
use kqps_observation::Cell;
use kqps_observation::question::Path as Kind;
use kqps_skips::{Capability, skip};
use kqps_testbed::path::{LaidPath, VethPath};
use kqps_testbed::subject::{Definition, LaunchSetting, Subject, Zone};

/// A path, if this process has the rights to lay one.
fn laid() -> Option<LaidPath> {
    match kqps_kernel::probe::probe_one("veth") {
        Ok(()) => Some(LaidPath::Veth(VethPath::lay(&VethSettings::default()).unwrap())),
        Err(reason) => {
            skip(Capability::Networks, reason);
            None
        }
    }
}

/// Packets that the device in the calling thread's namespace has received and sent.
fn passed() -> io::Result<(u64, u64)> {
    let devices = fs::read_to_string("/proc/thread-self/net/dev")?;
    let line =
        devices.lines().find_map(|line| line.trim().strip_prefix(DEVICE)).ok_or(io::ErrorKind::NotFound)?;
    let counters: Vec<u64> = line.split([' ', ':']).filter_map(|word| word.parse().ok()).collect();
    // The bytes and packets received come first in the line, those sent follow eight fields later (proc(5)).
    Ok((counters[1], counters[9]))
}

#[test]
fn what_is_sent_is_counted_to_the_packet() {
    let Some(path) = laid() else { return };
    let counters = || (path.at_player(passed).unwrap(), path.at_subject(passed).unwrap());
    assert_eq!(counters(), ((0, 0), (0, 0)), "nothing passes by itself");

    let subject = path.at_subject(|| UdpSocket::bind((path.subject_address(), 5300))).unwrap();
    let player = path.at_player(|| UdpSocket::bind((path.player_address(), 0))).unwrap();
    player.connect(subject.local_addr().unwrap()).unwrap();
    subject.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    player.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut packet = [0; 16];
    for number in 0..1000_u32 {
        player.send(&number.to_be_bytes()).unwrap();
        let (length, from) = subject.recv_from(&mut packet).unwrap();
        assert_eq!(packet[..length], number.to_be_bytes());
        if number % 10 == 0 {
            subject.send_to(&packet[..length], from).unwrap();
            player.recv(&mut packet).unwrap();
        }
    }
    assert_eq!(counters(), ((100, 1000), (1000, 100)));
}

#[test]
fn a_subject_past_the_kernel_has_a_queue_for_each_worker() {
    if laid().is_none() {
        return;
    }
    let queues = |cell: &Cell| {
        let path = LaidPath::new(Kind::Veth, cell).unwrap();
        path.at_subject(|| place::named(DEVICE)).unwrap().queues
    };
    let cell = Cell { io: "xdp".into(), workers: 2, ..Cell::default() };
    assert_eq!(queues(&cell), Some(2));
    let mut with_more = cell.clone();
    with_more.factors.set("path.queues", "3").unwrap();
    assert_eq!(queues(&with_more), Some(3));
}

/// The environment variable that turns this test program into a server, with the address to listen on.
const SERVE: &str = "KQPS_SERVE_ON";

/// A test only if an address is given: it then answers every query.
#[test]
fn fake_server() {
    let Ok(address) = std::env::var(SERVE) else { return };
    let socket = UdpSocket::bind(address).unwrap();
    let mut packet = [0; 512];
    loop {
        let (length, from) = socket.recv_from(&mut packet).unwrap();
        packet[2] |= 0x80;
        socket.send_to(&packet[..length], from).unwrap();
    }
}

#[test]
fn a_subject_is_started_and_asked_over_it() {
    let Some(path) = laid() else { return };
    let folder = tempfile::tempdir().unwrap();
    let definition = format!(
        r#"
name = "fake"
title = "The fake"
programs = ["sh"]
io = "blocking"
[start]
command = ["sh", "-c", "{SERVE}={{address}}:{{port}} exec {program} --exact path::fake_server # {{workers}}"]
[ready]
kind = "reply"
within_s = 30
[stop]
signal = "TERM"
within_s = 1
"#,
        program = std::env::current_exe().unwrap().display()
    );
    let definition = Definition::read("fake.toml", &definition).unwrap();
    let setting = LaunchSetting {
        path: &path,
        folder: &folder.path().join("fake"),
        zones: &[Zone::new("bench.test.", "/nonexistent/zone")],
        kqps: Path::new("/nonexistent/kqps"),
        io: "",
        workers: 1,
        cpus: &[],
        settings: &BTreeMap::new(),
    };
    let subject = Subject::start(&definition, &setting, &Interrupts::default()).unwrap();
    assert_eq!(subject.address().ip(), path.subject_address());
    let LaidPath::Veth(veth) = &path else { unreachable!("it was laid as one") };
    let of_subject = NetNs::of_process(subject.pid()).unwrap().number().unwrap();
    assert_eq!(of_subject, veth.subject().number().unwrap());
    assert_ne!(of_subject, NetNs::of_process(std::process::id()).unwrap().number().unwrap());
    subject.stop();
}

/// The environment variable that makes this test program hold a path.
const HOLD: &str = "KQPS_HOLD_A_PATH";

/// A test only if it is requested: it then lays a path, starts a child at either end, prints their process
/// IDs, and stays.
#[test]
fn holder() {
    if std::env::var_os(HOLD).is_none() {
        return;
    }
    let path = laid().unwrap();
    let start = |place: fn(&LaidPath, &mut Command) -> io::Result<()>| {
        let mut command = Command::new("sleep");
        place(&path, command.arg("600")).unwrap();
        process::tie(&mut command).spawn().unwrap()
    };
    let children = [start(LaidPath::place_subject), start(LaidPath::place_player)];
    println!("children {} {}", children[0].id(), children[1].id());
    let mut nothing = Vec::new();
    io::stdin().read_to_end(&mut nothing).unwrap();
}

/// A running holder, and its children at the subject's and at the player's end.
fn held() -> (Child, [u32; 2]) {
    let mut holder = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "path::holder", "--nocapture"])
        .env(HOLD, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(holder.stdout.take().unwrap()).lines();
    // The test harness prints on the same line.
    let pids = lines.map_while(Result::ok).find_map(|line| Some(line.split_once("children ")?.1.to_string()));
    let pids = pids.expect("the holder laid no path");
    let mut pids = pids.split_whitespace().map(|word| word.parse().unwrap());
    (holder, [pids.next().unwrap(), pids.next().unwrap()])
}

/// The processes in a network namespace.
fn inhabitants(namespace: u64) -> Vec<String> {
    let is_in = |process: &fs::DirEntry| {
        fs::metadata(process.path().join("ns/net")).is_ok_and(|metadata| metadata.ino() == namespace)
    };
    let processes = fs::read_dir("/proc").unwrap().flatten().filter(is_in);
    processes.map(|process| process.file_name().display().to_string()).collect()
}

/// Waits for an event that is imminent; fails if it does not come for a long time.
fn soon(what: &str, mut happened: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !happened() {
        assert!(Instant::now() < deadline, "{what}: not within 30 s");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn nothing_is_left_of_it_after_a_kill() {
    if laid().is_none() {
        return;
    }
    // The end that is kept open here shows that the other one is gone: a device disappears with its peer.
    for kept in 0..2 {
        let (mut holder, children) = held();
        let ends = children.map(|pid| NetNs::of_process(pid).unwrap());
        let numbers = [ends[0].number().unwrap(), ends[1].number().unwrap()];
        assert_eq!(inhabitants(numbers[0]), [children[0].to_string()]);
        assert_eq!(inhabitants(numbers[1]), [children[1].to_string()]);
        assert!(!fs::read_to_string("/proc/net/dev").unwrap().contains(DEVICE), "it is on the host");
        let kept_end = ends.into_iter().nth(kept).unwrap();
        assert!(kept_end.within(passed).is_ok());

        process::signal(holder.id(), Signal::Kill).unwrap();
        holder.wait().unwrap();
        soon("the children's end", || numbers.iter().all(|number| inhabitants(*number).is_empty()));
        soon("the devices' end", || kept_end.within(passed).is_err());
    }
}
