//! Signals to a server and to its worker processes, also before it can answer.

use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use kqps_kernel::process::{Signal, signal};
use tempfile::TempDir;

use super::running::{Running, serve_as};
use super::sent::{flow, query, reply};

/// Sends queries one by one, and awaits each answer.
fn ask(address: SocketAddr, queries: u16) {
    let flow = flow(address);
    for id in 0..queries {
        flow.send(&query(id)).unwrap();
        let mut buffer = [0; 512];
        let bytes = flow.recv(&mut buffer).unwrap();
        assert_eq!(buffer[..bytes], reply(id));
    }
}

#[test]
fn under_nohup_an_echo_goes_on_when_the_terminal_is_gone() {
    for processes in ["1", "2"] {
        let mut command = Command::new("nohup");
        command.args([env!("CARGO_BIN_EXE_kqps"), "serve", "echo", "--json", "--listen", "127.0.0.1:0"]);
        command.args(["--processes", processes]).stdin(Stdio::null());
        let server =
            Running::from_child(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        signal(server.child.id(), Signal::HangUp).unwrap();
        server.processes().iter().for_each(|&child| signal(child, Signal::HangUp).unwrap());
        ask(server.addresses[0], 1000);
        assert_eq!(server.stop(Signal::Terminate).answered, 1000);
    }
}

/// Two worker processes, which have answered 100 and 20 queries.
fn two_processes() -> Running {
    let server = Running::start(&["--processes", "2", "--sockets", "port-each", "--listen", "127.0.0.1:0"]);
    ask(server.addresses[0], 100);
    ask(server.addresses[1], 20);
    server
}

#[test]
fn a_worker_process_that_dies_ends_the_server_with_an_error_and_the_counts_of_the_rest() {
    for (killed, rest) in [(0, 20), (1, 100)] {
        let mut server = two_processes();
        signal(server.processes()[killed], Signal::Kill).unwrap();
        let report = server.report();
        let (status, errors) = server.end();
        assert_eq!(status.code(), Some(1));
        assert_eq!(errors, format!("kqps: worker process {killed} ended: signal: 9 (SIGKILL)\n"));
        assert_eq!((report.received, report.answered, report.workers.len()), (rest, rest, 1));
    }
}

#[test]
fn a_worker_process_that_is_stopped_before_its_parent_stops_all_and_loses_no_count() {
    for how in [Signal::Terminate, Signal::Interrupt] {
        for stopped in 0..2 {
            let mut server = two_processes();
            signal(server.processes()[stopped], how).unwrap();
            let report = server.report();
            let (status, errors) = server.end();
            assert!(status.success(), "{status}: {errors}");
            assert_eq!(errors, "");
            let workers: Vec<u64> = report.workers.iter().map(|worker| worker.answered).collect();
            assert_eq!((report.answered, workers), (120, vec![100, 20]));
        }
    }
}

/// A zone file that is a pipe: the server loads it until the writer closes it.
struct Pipe(TempDir);

impl Pipe {
    fn new() -> Self {
        let pipe = Self(tempfile::tempdir().unwrap());
        assert!(Command::new("mkfifo").arg(pipe.path()).status().unwrap().success());
        pipe
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("zone")
    }

    /// Opens it for writing, which waits for a reader.
    fn open(&self) -> File {
        File::options().write(true).open(self.path()).unwrap()
    }

    /// Starts a server with this zone.
    fn serve(&self, arguments: &[&str]) -> Child {
        let zone = format!("example={}", self.path().display());
        let arguments = [&["--zone", &*zone, "--listen", "127.0.0.1:0", "--json"], arguments].concat();
        serve_as("auth", &arguments).stderr(Stdio::piped()).spawn().unwrap()
    }
}

#[test]
fn a_signal_ends_a_server_that_is_loading() {
    for (processes, how, status) in [
        ("1", Signal::Terminate, 143),
        ("1", Signal::Interrupt, 130),
        ("2", Signal::Terminate, 143),
        ("2", Signal::Interrupt, 130),
    ] {
        let pipe = Pipe::new();
        let unix = pipe.0.path().join("socket");
        let server = pipe.serve(&["--processes", processes, "--unix", unix.to_str().unwrap()]);
        let mut zone = pipe.open();
        assert!(unix.exists());
        signal(server.id(), how).unwrap();
        let output = server.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(status));
        assert_eq!(String::from_utf8_lossy(&output.stdout), "");
        assert_eq!(
            String::from_utf8_lossy(&output.stderr),
            "kqps: stopped by a signal before it could answer\n"
        );
        // No process reads the pipe any more, and nothing is left behind.
        assert_eq!(zone.write(b"@").unwrap_err().kind(), ErrorKind::BrokenPipe);
        assert!(!unix.exists());
    }
}

#[test]
fn a_worker_process_that_is_stopped_while_it_loads_stops_the_server() {
    let pipe = Pipe::new();
    let server = pipe.serve(&["--processes", "2"]);
    let _zone = pipe.open();
    // The first child; the second may not exist yet.
    let children = format!("/proc/{0}/task/{0}/children", server.id());
    let children = std::fs::read_to_string(children).unwrap();
    signal(children.split_whitespace().next().unwrap().parse().unwrap(), Signal::Terminate).unwrap();
    let output = server.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(143));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "kqps: stopped by a signal before it could answer\n");
}

#[test]
fn zones_are_loaded_once_more_if_sighup_comes_while_they_are_loaded() {
    const ZONE: &[u8] = b"$TTL 300\n@ SOA ns host 1 3600 600 86400 60\n@ NS ns\nns A 192.0.2.1\n";
    let pipe = Pipe::new();
    let server = pipe.serve(&[]);
    let mut zone = pipe.open();
    signal(server.id(), Signal::HangUp).unwrap();
    zone.write_all(ZONE).unwrap();
    drop(zone);
    let mut server = Running::from_child(server);
    pipe.open().write_all(ZONE).unwrap();
    assert_eq!(server.next_line().unwrap()["kind"], "reloaded");
    server.stop(Signal::Terminate);
}
