//! Searches that end early, and say why: a server with another zone, a server that answers a part of the
//! queries only, and a server whose answers are all late.

use std::collections::VecDeque;
use std::net::UdpSocket;
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::auth::Rig;
use crate::load::bench::{kqps, words};

/// A server that answers until it is dropped.
pub(super) struct Server {
    pub(super) address: String,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Answers by `turn` in a loop; each receive waits this long.
    pub(super) fn new(wait: Duration, mut turn: impl FnMut(&UdpSocket) + Send + 'static) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(wait)).unwrap();
        let (address, over) = (socket.local_addr().unwrap().to_string(), Arc::new(AtomicBool::new(false)));
        let until = Arc::clone(&over);
        let thread = thread::spawn(move || {
            while !until.load(Relaxed) {
                turn(&socket);
            }
        });
        Self { address, over, thread: Some(thread) }
    }

    /// Answers seven queries of ten at any load, and drops the rest, as a packet filter does.
    fn filter() -> Self {
        let mut message = [0; 512];
        let mut count = 0_u64;
        Self::new(Duration::from_millis(50), move |socket| {
            let Ok((length, from)) = socket.recv_from(&mut message) else { return };
            count += 1;
            if count % 10 < 7 {
                message[2] |= 0x80;
                socket.send_to(&message[..length], from).unwrap();
            }
        })
    }

    /// Answers every query `delay` after it came, as a server far away does.
    fn far(delay: Duration) -> Self {
        let mut message = [0; 512];
        let mut waiting = VecDeque::new();
        Self::new(Duration::from_millis(1), move |socket| {
            if let Ok((length, from)) = socket.recv_from(&mut message) {
                message[2] |= 0x80;
                waiting.push_back((Instant::now() + delay, message[..length].to_vec(), from));
            }
            while waiting.front().is_some_and(|(due, ..)| *due <= Instant::now()) {
                let (_, reply, from) = waiting.pop_front().unwrap();
                // The player may have closed some of its sockets by now.
                let _ = socket.send_to(&reply, from);
            }
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.over.store(true, Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

/// Searches for the rate of the server at this address with these queries.
fn search(address: &str, queries: &str, goal: &str) -> (Output, Value) {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("queries");
    std::fs::write(&file, queries).unwrap();
    let mut find =
        kqps(&["find", address, "--goal", goal, "--no-ceiling", "--json", "-t", "100ms", "--lag", "10s"]);
    // Beside other tests, many trials are made again.
    find.args(["--time-limit", "2m"]).arg("-d").arg(&file).env("XDG_CACHE_HOME", folder.path());
    let output = find.output().unwrap();
    let (out, err) = words(&output);
    let last = out.lines().last().unwrap_or_else(|| panic!("{err}"));
    let verdict = serde_json::from_str(last).unwrap();
    (output, verdict)
}

fn names(origin: &str) -> String {
    let lines: Vec<String> = (0..500).map(|number| format!("n{number:03}.{origin} A NOERROR\n")).collect();
    lines.concat()
}

#[test]
fn a_server_with_another_zone_is_named_after_one_trial() {
    let rig = Rig::new();
    let server = rig.start(&["--listen", "127.0.0.1:0"]);
    let address = server.addresses[0].to_string();
    // The goals with the longest limits end as early.
    for goal in ["quick", "lossless"] {
        let queries = names("elsewhere.test") + "www.auth.test A NOERROR\n";
        let (output, verdict) = search(&address, &queries, goal);
        assert_eq!(output.status.code(), Some(3), "{verdict}");
        assert_eq!(verdict["trials"].as_array().unwrap().len(), 1, "{verdict}");
        let reason = verdict["reasons"][0].as_str().unwrap();
        let asks = " of the answers were REFUSED instead of NOERROR: does the server have this zone?";
        assert!(reason.contains(asks), "{reason}");
        assert_eq!((&verdict["grade"], &verdict["incomplete"]), (&"F".into(), &false.into()));
    }
    // Some answers have another rcode, and the reason names the most frequent one. The odd query comes first, so it is asked
    // however few a busy host lets out.
    let mixed = "www.elsewhere.test A NOERROR\n".to_owned() + &names("auth.test");
    let (_, verdict) = search(&address, &mixed, "quick");
    let reason = verdict["reasons"][0].as_str().unwrap();
    assert!(reason.contains("of the answers were NXDOMAIN instead of NOERROR"), "{reason}");
}

#[test]
fn a_loss_that_no_lesser_load_is_spared_ends_the_search() {
    let filter = Server::filter();
    let (output, verdict) = search(&filter.address, &names("any.test").replace(" NOERROR", ""), "quick");
    assert_eq!(output.status.code(), Some(3), "{verdict}");
    let reasons = verdict["reasons"].to_string();
    assert!(reasons.contains("the loss does not fall with the load: "), "{reasons}");
    // Three of every ten were dropped, whatever their number; a busy host may have lost some more.
    let less_ratio = verdict["seen"]["futile"]["lossy"]["less_ratio"].as_f64().unwrap();
    assert!(less_ratio > 0.29, "{verdict}");
    assert!(reasons.contains("packet filter or a rate limit") && !reasons.contains("used up"), "{reasons}");
    let least_qps = verdict["seen"]["missed_qps"].as_f64().unwrap();
    assert!(least_qps > 20.0, "it did not creep to the least load: {least_qps}");
}

#[test]
fn a_server_that_is_farther_away_than_the_timeout_is_not_called_silent() {
    // An answer is late if it comes after the timeout while the player still listens, which it does for up to
    // twice the timeout.
    let server = Server::far(Duration::from_millis(130));
    let (output, verdict) = search(&server.address, &names("far.test"), "quick");
    assert_eq!(output.status.code(), Some(3), "{}", words(&output).1);
    let late = &verdict["seen"]["futile"]["late"];
    assert_eq!((&late["timeout_s"], &late["less_ratio"]), (&0.1.into(), &1.0.into()), "{verdict}");
    let reasons = verdict["reasons"].to_string();
    assert!(reasons.contains("all answers came late (timeout 100 ms)"), "{reasons}");
    assert!(reasons.contains("--timeout") && !reasons.contains("packet filter"), "{reasons}");
}
