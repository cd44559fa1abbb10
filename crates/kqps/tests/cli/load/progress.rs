//! The lines and the bar while a load runs.

use std::net::UdpSocket;

use super::bench::{Bench, kqps, words};

/// Losses appear once the timeout has passed, and are at most 100 %.
#[test]
fn interval_lines_show_loss_in_time() {
    let bench = Bench::new();
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut load = kqps(&["load", &silent.local_addr().unwrap().to_string(), "-Q", "1k", "-l", "1s", "-d"]);
    load.arg(bench.queries()).args(["-S", "100ms", "-t", "0.2s", "--drain", "0.9s"]);
    let (out, err) = words(&load.env("XDG_CACHE_HOME", bench.folder.path()).output().unwrap());
    let lines: Vec<&str> = err.lines().filter(|line| line.contains("q/s, correct")).collect();
    let bad = |line: &&str| line.contains("bad 100.00 %");
    assert!(lines.iter().all(|line| bad(line) || line.contains("bad 0.00 %")), "{err}");
    assert!(out.contains("the line above counts a lost query as 0.2 s"), "{out}");
    // Losses appear before the drain is over.
    let sending = lines.iter().filter(|line| !line.contains("sent 0.0k q/s"));
    assert!(sending.filter(|line| bad(line)).count() > 0, "{err}");
}
