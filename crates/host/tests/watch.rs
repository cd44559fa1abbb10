//! Watches over real processes. The result must be what the processes did.

use std::io::{BufRead as _, BufReader};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use kqps_host::{
    HostWatch, PlayerPlace, PlayerWatched, SubjectSeen, SubjectWatch, SubjectWatched, TrialWatch as _, Watch,
    lives, parent_of_same_program,
};

struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn shell(script: &str) -> Guard {
    Guard(
        Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap(),
    )
}

#[test]
fn a_worker_is_known_by_a_parent_that_runs_the_same_program() {
    // A shell forks itself for what is in parentheses. Both processes end with their input.
    let script = "exec 3<&0; (read end <&3; true) & echo $!; wait";
    let mut server = Command::new("sh");
    server.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut server = Guard(server.spawn().unwrap());
    let mut worker = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut worker).unwrap();
    let worker = worker.trim().parse().unwrap();
    assert_eq!(parent_of_same_program(worker), Some(server.0.id()));
    assert_eq!(parent_of_same_program(server.0.id()), None, "its parent is this test");
    assert!(lives(worker));
    drop(server.0.stdin.take());
    server.0.wait().unwrap();
    assert!(!lives(server.0.id()));
}

/// A watch of a subject, and of a player without threads.
fn watched(pid: u32) -> Watch {
    let subject = SubjectWatched { pids: vec![pid], ..SubjectWatched::default() };
    Watch::begin(&PlayerWatched::default(), &subject)
}

/// Waits until a condition about a process holds, and fails after 10 s.
fn until(mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < deadline, "waited too long");
        std::thread::yield_now();
    }
}

fn on_cpu_ns(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap();
    text.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn a_busy_subject_is_charged_what_the_kernel_charges_it() {
    let subject = shell("while :; do :; done");
    let pid = subject.0.id();
    until(|| on_cpu_ns(pid) > 0);
    let watch = watched(pid);
    let before_ns = on_cpu_ns(pid);
    until(|| on_cpu_ns(pid) > before_ns + 200_000_000);
    let seen = watch.end();
    let facts = seen.subject.unwrap();
    let cpu_s = facts.cpu_user_s + facts.cpu_system_s;
    assert!((0.19..=seen.host.wall_s + 0.02).contains(&cpu_s), "{cpu_s} s in {} s", seen.host.wall_s);
    assert_eq!((facts.alive, facts.processes, facts.threads.len()), (true, 1, 1));
    assert_eq!((facts.threads[0].pid, facts.threads[0].name.as_str()), (pid, "sh"));
    assert!((facts.threads[0].cpu_s - cpu_s).abs() < 0.05);
    assert!(facts.rss_bytes > 100_000);
    assert_eq!(facts.socket_drops, None);
    assert!(seen.host.unreadable.contains_key("subject sockets"));
}

#[test]
fn children_are_the_subjects_too_even_when_they_are_gone() {
    // A child that burns CPU and ends between the readings, then one that stays.
    let burn = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
    let mut subject = shell(&format!("read go; sh -c '{burn}'; sleep 60 & wait"));
    let watch = watched(subject.0.id());
    drop(subject.0.stdin.take());
    let pid = subject.0.id();
    let children = format!("/proc/{pid}/task/{pid}/children");
    let names_sleep = |pid: &str| {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "sleep")
    };
    until(|| std::fs::read_to_string(&children).is_ok_and(|text| text.split_whitespace().any(names_sleep)));
    let seen = watch.end();
    let sleeper = std::fs::read_to_string(&children).unwrap();
    let facts = seen.subject.unwrap();
    assert_eq!(facts.processes, 2);
    assert!(facts.cpu_user_s > 0.02, "{facts:?}");
    let status = Command::new("kill").arg(sleeper.trim()).status().unwrap();
    assert!(status.success());
}

#[test]
fn a_subject_that_dies_is_reported_dead() {
    let mut subject = shell("read go");
    let watch = watched(subject.0.id());
    subject.0.kill().unwrap();
    let zombie = format!("/proc/{}/stat", subject.0.id());
    until(|| std::fs::read_to_string(&zombie).unwrap().contains(") Z "));
    assert!(!watch.end().subject.unwrap().alive);

    subject.0.wait().unwrap();
    let seen = watched(subject.0.id()).end();
    assert!(!seen.subject.unwrap().alive);
    assert!(seen.host.unreadable["subject"].contains("not alive"));
}

#[test]
fn a_neighbour_is_reported_wherever_player_and_subject_may_run() {
    let (neighbour, subject) = (shell("while :; do :; done"), shell("read go"));
    let watch = watched(subject.0.id());
    let pid = neighbour.0.id();
    let before_ns = on_cpu_ns(pid);
    until(|| on_cpu_ns(pid) > before_ns + 300_000_000);
    let seen = watch.end();
    let foreign_cpu_s = seen.host.foreign_cpu_s.unwrap();
    // The measured time is lower by the resolution of idle time and by what the hypervisor took from the
    // neighbour.
    assert!(foreign_cpu_s > 0.2, "{:?}", seen.host);
}

#[test]
fn drops_of_the_subjects_sockets_are_counted_to_the_packet() {
    // This process itself is the subject. Its socket holds one datagram and drops the rest.
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = socket.local_addr().unwrap();
    let watch = watched(std::process::id());
    let sent = 4000u64;
    for _ in 0..sent {
        sender.send_to(&[0; 512], to).unwrap();
    }
    socket.set_nonblocking(true).unwrap();
    let seen = watch.end();
    let held = std::iter::from_fn(|| socket.recv(&mut [0; 512]).ok()).count() as u64;
    let facts = seen.subject.unwrap();
    assert_eq!(facts.socket_drops, Some(sent - held));
    assert!(seen.host.network.udp(|udp| udp.rcvbuf_errors) >= sent - held);
    assert!(seen.host.network.udp(|udp| udp.out_datagrams) >= sent);
}

#[test]
fn overflows_of_a_listen_queue_are_counted() {
    // This process itself is the subject. It accepts nothing, until its queue is full.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let watch = watched(std::process::id());
    let mut made = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(100)) {
        made.push(stream);
        assert!(made.len() < 10_000, "no queue is that long");
    }
    let tcp = watch.end().host.network.tcp.unwrap();
    assert!(tcp.active_opens > made.len() as u64 && tcp.listen_overflows >= 1, "{tcp:?}");
    assert!(tcp.listen_drops >= tcp.listen_overflows && tcp.time_wait_after.is_some(), "{tcp:?}");
}

#[test]
fn player_threads_are_distinguished() {
    let tid = || -> u32 {
        let link = std::fs::read_link("/proc/thread-self").unwrap();
        link.file_name().unwrap().to_str().unwrap().parse().unwrap()
    };
    let mine = tid();
    let player = PlayerWatched { threads: vec![mine], ..PlayerWatched::default() };
    let mut watch = Watch::begin(&player, &SubjectWatched::default());
    let started_ns = kqps_kernel::clock::thread_cpu_ns();
    while kqps_kernel::clock::thread_cpu_ns() < started_ns + 60_000_000 {}
    watch.sending_ended();
    let ended_ns = kqps_kernel::clock::thread_cpu_ns();
    // CPU time after sending does not count.
    while kqps_kernel::clock::thread_cpu_ns() < ended_ns + 60_000_000 {}
    let seen = watch.end();
    let thread = &seen.player_threads[0];
    assert_eq!(thread.tid, mine);
    assert!((0.05..0.085).contains(&thread.cpu_s), "{thread:?}");
    assert!(seen.player_cpu_s >= 0.06);
    assert_eq!(seen.host.foreign_cpu_s, None);
    assert!(seen.host.unreadable["foreign CPU time"].contains("the subject is not watched"));
    assert_eq!(seen.host.cpus.len(), std::thread::available_parallelism().unwrap().get());
}

#[test]
fn a_subject_of_another_host_is_seen_there_and_sent_as_json() {
    // This process stands for the subject. Its namespace counts as another one, though it is this process's.
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let subject = SubjectWatched {
        pids: vec![std::process::id()],
        player: PlayerPlace::Elsewhere,
        ..SubjectWatched::default()
    };
    let watch = SubjectWatch::begin(&subject);
    socket.send_to(&[0; 8], socket.local_addr().unwrap()).unwrap();
    let seen = watch.end();
    let sent: SubjectSeen = serde_json::from_str(&serde_json::to_string(&seen).unwrap()).unwrap();
    assert_eq!(sent, seen);
    let facts = seen.facts().unwrap();
    assert!(facts.network.as_ref().unwrap().udp4.out_datagrams >= 1, "{facts:?}");
}

#[test]
fn a_host_without_a_player_is_watched() {
    let mut watch = HostWatch::begin(&[]);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.send_to(&[0; 8], socket.local_addr().unwrap()).unwrap();
    watch.sending_ended();
    let host = watch.end();
    assert_eq!(host.cpus.len(), std::thread::available_parallelism().unwrap().get());
    assert!(host.network.udp4.out_datagrams >= 1 && host.boot_id.is_some(), "{host:?}");
    let number = std::fs::read_link("/proc/thread-self/ns/net").unwrap().display().to_string();
    assert_eq!(host.network_namespace.map(|known| format!("net:[{known}]")), Some(number));
    assert_eq!((host.foreign_cpu_s, host.device), (None, None), "others know these");
}
