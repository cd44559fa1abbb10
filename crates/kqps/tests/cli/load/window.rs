//! A rate with a window: the player keeps at most that many queries outstanding, whatever the schedule.

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::process::Stdio;
use std::time::Duration;

use kqps_observation::Trial;

use super::bench::{Bench, is_nothing, words};
use super::trouble::offered_io;

/// The number of queries in a socket's buffer.
fn received(socket: &UdpSocket) -> u64 {
    socket.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
    let (mut count, mut buffer) = (0, [0; 512]);
    loop {
        match socket.recv_from(&mut buffer) {
            Ok(_) => count += 1,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if is_nothing(&error) => return count,
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_mute_server_gets_the_window_and_no_query_more() {
    let bench = Bench::new();
    // No timeout frees a place while the load runs, however long the player stands still. All wait together until their
    // queries are lost.
    let common = ["-Q", "1k", "-q", "50", "-l", "0.2s", "-t", "3s", "--json"];
    let loads = offered_io().map(|io| (io, "1")).chain([("auto", "3")]).map(|(io, threads)| {
        let mute = UdpSocket::bind("127.0.0.1:0").unwrap();
        let target = mute.local_addr().unwrap().to_string();
        let mut load = bench.load_of(&target, &[&common[..], &["--io", io, "-T", threads]].concat());
        (io, mute, load.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    });
    for (io, mute, load) in loads.collect::<Vec<_>>() {
        let output = load.wait_with_output().unwrap();
        let (out, err) = words(&output);
        let trial: Trial = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"));
        trial.accounts.check().unwrap();
        let accounts = trial.accounts;
        assert_eq!(
            (accounts.intended, accounts.sent, accounts.unsent, accounts.lost),
            (200, 50, 150, 50),
            "{io}"
        );
        assert_eq!(
            trial.unsent_causes.into_iter().collect::<Vec<_>>(),
            [("window".to_string(), 150)],
            "{io}"
        );
        assert_eq!(received(&mute), 50, "{io}");
        assert_eq!((trial.load.outstanding, trial.load.intended_qps), (Some(50), Some(1000.0)));
        assert_eq!(output.status.code(), Some(1), "nothing answered");
    }
}

#[test]
fn timeouts_make_room_for_as_many_again() {
    let bench = Bench::new();
    let mute = UdpSocket::bind("127.0.0.1:0").unwrap();
    let target = mute.local_addr().unwrap().to_string();
    let output =
        bench.load_of(&target, &["-Q", "1k", "-q", "20", "-l", "0.5s", "-t", "0.2s"]).output().unwrap();
    let (out, err) = words(&output);
    // Within half a second each of the 20 places takes three queries at most, and at least one takes two.
    let sent = received(&mute);
    assert!((21..=60).contains(&sent), "{sent}: {out}{err}");
    assert!(
        out.contains(&format!("intended 500 = sent {sent} + unsent {} + send failed 0", 500 - sent)),
        "{out}"
    );
    assert!(
        out.contains(&format!("unsent: {} (the window of 20 outstanding queries was full)", 500 - sent)),
        "{out}"
    );
    assert!(out.contains("arrivals even, 20 outstanding at most"), "{out}");
}

#[test]
fn a_window_that_is_never_full_changes_nothing() {
    let bench = Bench::new();
    let trial = bench.trial(&["-Q", "1k", "-q", "5k", "-n", "1"]);
    assert_eq!((trial.accounts.intended, trial.accounts.correct), (1000, 1000));
    assert!(trial.unsent_causes.is_empty());
}
