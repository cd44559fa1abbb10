//! Options that a front refuses, and what it prints of itself in words.

use std::fs;
use std::net::UdpSocket;
use std::process::{Command, Stdio};

use super::{Running, echo, front, stop};
use crate::auth::dns::{A, ask, query};

/// Runs a front that cannot start. Returns its status and stderr.
pub(super) fn refused(arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kqps"));
    command.args(["serve", "front", "--for", "0s"]).args(arguments).stdin(Stdio::null());
    let output = command.output().unwrap();
    assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

/// Asserts that wrong options are bad usage, with this reason.
fn wrong(arguments: &[&str], why: &str) {
    let (status, error) = refused(&[&["--listen", "127.0.0.1:0"], arguments].concat());
    assert_eq!(status, Some(2), "{arguments:?}: {error}");
    assert!(error.contains(why), "{arguments:?}: {error}");
}

#[test]
fn a_back_end_has_a_url_a_name_and_a_weight() {
    for (back_end, why) in [
        ("127.0.0.1:53", "expected udp://ADDR[:PORT], tcp://ADDR[:PORT] or unix:PATH"),
        ("tls://127.0.0.1", "expected udp://"),
        ("", "expected udp://"),
        ("udp://localhost", "`localhost` in `udp://localhost` is not an address of the form"),
        ("tcp://127.0.0.1:0", "is not an address of the form"),
        ("tcp://127.0.0.1:65536", "is not an address of the form"),
        ("tcp://[::1", "is not an address of the form"),
        ("unix:", "names no socket"),
        ("=udp://127.0.0.1", "a name is missing"),
        ("udp://127.0.0.1,weight=0", "`0` is no weight: expected 1 to 1000"),
        ("udp://127.0.0.1,weight=1001", "is no weight"),
        ("udp://127.0.0.1,wait=3", "is not an address of the form"),
    ] {
        wrong(&["--backend", back_end], why);
    }
    wrong(&[], "--backend");
    wrong(&["--backend", "a=udp://127.0.0.1", "--backend", "a=tcp://127.0.0.1"], "two of the name a");
    wrong(&["--backend", "udp://127.0.0.1", "--backend", "udp://127.0.0.1"], "two of the name udp://");
}

#[test]
fn numbers_and_questions_are_checked() {
    let good = ["--backend", "udp://127.0.0.1:5301"];
    for arguments in [
        ["--check", "a..b"],
        ["--check", "test/NOTYPE"],
        ["--check", ""],
        ["--batch", "0"],
        ["--batch", "1025"],
        ["--flush", "1.1s"],
        ["--timeout", "0s"],
        ["--outstanding", "0"],
        ["--outstanding", "65001"],
        ["--backend-outstanding", "0"],
        ["--backend-connections", "0"],
        ["--backend-sockets", "0"],
        ["--check-interval", "0s"],
        ["--fall", "0"],
        ["--rise", "0"],
        ["--silence", "0s"],
        ["--overload", "all"],
        ["--policy", "fastest"],
        ["--metrics", "localhost"],
        ["--tcp-idle", "0s"],
    ] {
        wrong(&[&good[..], &arguments].concat(), arguments[0]);
    }
    wrong(&[&good[..], &["--no-tcp", "--tcp-idle", "1s"]].concat(), "--no-tcp");
    wrong(&[&good[..], &["--config", "x"]].concat(), "--config");
    // Options that the file sets are only allowed there.
    wrong(&["--config", "x", "--retry-servfail"], "--retry-servfail");
    wrong(&[&good[..], &["--check", "a", "--check", "b"]].concat(), "--check");
    wrong(
        &[&good[..], &["--io", "blocking"]].concat(),
        "--io blocking does not work for a front: use mmsg, segment or uring",
    );
    wrong(&[&good[..], &["--processes", "2"]].concat(), "use --threads");
}

#[test]
fn a_file_is_explained_by_line_and_column() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("front.toml");
    let path = file.to_str().unwrap();
    wrong(&["--config", path], path);
    for (text, why) in [
        ("", "1:1: missing field `backend`"),
        ("backend = []", "1:11: there is no back end"),
        ("[[backend]]\nurl = \"udp://x\"", "2:7: `x` in `udp://x` is not an address of the form"),
        ("[[backend]]\nurls = \"udp://127.0.0.1\"", "2:1: unknown field `urls`, expected one of"),
        ("[[backends]]\nurl = \"udp://127.0.0.1\"", "did you mean `backend`?"),
        ("policy = \"hsah\"\n[[backend]]\nurl = \"udp://127.0.0.1\"", "1:10: no policy `hsah`"),
        ("[[backend]]\nurl = \"udp://127.0.0.1\"\n[[rule]]\nto = [\"b\"]\nrd = 1", "5:6: "),
        ("[[backend]\n", "1:11: "),
    ] {
        fs::write(&file, text).unwrap();
        wrong(&["--config", path], why);
        wrong(&["--config", path], &format!("kqps: {path}:"));
    }
    fs::write(&file, "[[backend]]\nurl = \"udp://127.0.0.1\"").unwrap();
    wrong(&["--config", path, "--policy", "hash"], "--policy");
}

#[test]
fn a_port_that_is_taken_is_refused() {
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (status, error) = refused(&["--listen", &address, "--backend", "udp://127.0.0.1:5301"]);
    assert_eq!(status, Some(1));
    assert!(error.starts_with(&format!("kqps: cannot listen on {address}: another program")), "{error}");
}

#[test]
fn a_back_end_that_can_never_be_reached_is_named() {
    // Broadcasts take a permission that a front does not ask for (SO_BROADCAST).
    let (status, error) = refused(&["--listen", "127.0.0.1:0", "--backend", "all=udp://255.255.255.255"]);
    assert_eq!(status, Some(1), "{error}");
    assert!(error.contains("back end all (udp://255.255.255.255:53): "), "{error}");
}

#[test]
fn a_front_is_no_back_end_of_its_own() {
    for (listen, itself) in [
        (&["127.0.0.1:5396"][..], "tcp://127.0.0.1:5396"),
        (&["0.0.0.0:5395"], "udp://127.0.0.1:5395"),
        (&["0.0.0.0:5394"], "udp://[::ffff:127.0.0.2]:5394"),
        (&["[::]:5393"], "tcp://[::1]:5393"),
        (&["127.0.0.1:5391", "--sockets", "port-each", "--threads", "2"], "udp://127.0.0.1:5392"),
    ] {
        let arguments = [&["--listen"], listen, &["--backend", "udp://127.0.0.1:5301", "--backend", itself]];
        let (status, error) = refused(&arguments.concat());
        assert_eq!(status, Some(2), "{itself}: {error}");
        assert_eq!(error, format!("kqps: the back end {itself} is an address of this front\n"));
    }
}

#[test]
fn it_says_whom_it_asks_and_what_came_of_it() {
    let (_echo, url) = echo();
    let nowhere = super::peer::Datagrams::new().url();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("front.toml");
    let text = format!(
        "[[backend]]\nname = \"echo\"\nurl = \"{url}\"\n[[backend]]\nurl = \"{nowhere}\"\n\
         [[rule]]\nrd = true\nto = [\"echo\"]\n"
    );
    fs::write(&file, text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_kqps"));
    command.args(["serve", "front", "--for", "10ms", "--listen", "127.0.0.1:0"]);
    // Every host allows buffers of this size.
    command.args(["--buffer", "64KiB", "--backend-buffer", "64KiB", "--config"]).arg(&file);
    let output = command.output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines = text.lines();
    let first = lines.next().unwrap();
    assert!(first.starts_with("Listening on 127.0.0.1:") && first.ends_with(" (mmsg, 1 worker)"), "{text}");
    assert_eq!(lines.next(), Some(&*format!("Back end echo ({url})")));
    assert_eq!(lines.next(), Some(&*format!("Back end {nowhere}")));
    assert_eq!(lines.next(), Some("By 1 rule, and otherwise least-outstanding"));
    assert_eq!(lines.next(), Some("Received 0, answered 0"));
    assert!(text.contains(&format!("Back end echo ({url}): sent 1 (1 check), answered ")), "{text}");
}

#[test]
fn without_tcp_there_is_no_listener() {
    let (_echo, url) = echo();
    let server: Running = front(&[&url], &["--no-tcp"]);
    assert_eq!(ask(server.addresses[0], &query(1, "a.test", A)).rcode(), 0);
    assert!(std::net::TcpStream::connect(server.addresses[0]).is_err());
    assert_eq!(stop(server).tcp, None);
}
