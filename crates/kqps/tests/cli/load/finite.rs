//! Loads that end with their queries before the answers come, wrong answers, and what comes after the last answer.

use std::net::{SocketAddr, UdpSocket};
use std::process::Output;
use std::thread;
use std::time::Duration;

use kqps_observation::Trial;

use super::bench::{Bench, words};

const QUERIES: usize = 40;

/// Plays 40 queries at a server that answers all of them half a second after the last one came, and what is `more` again
/// another half second later.
fn load(flags: &[&str], rcode: u8, more: usize) -> Output {
    let bench = Bench::new();
    let names: Vec<String> = (0..QUERIES).map(|number| format!("q{number}.test A NOERROR")).collect();
    std::fs::write(bench.queries(), names.join("\n")).unwrap();
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap().to_string();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut asked: Vec<(Vec<u8>, SocketAddr)> = Vec::new();
            while asked.len() < QUERIES {
                let mut query = [0; 512];
                let (length, from) = server.recv_from(&mut query).unwrap();
                (query[2], query[3]) = (query[2] | 0x80, rcode);
                asked.push((query[..length].to_vec(), from));
            }
            for count in [QUERIES, more] {
                thread::sleep(Duration::from_millis(500));
                asked.iter().take(count).for_each(|(reply, to)| drop(server.send_to(reply, to)));
            }
        });
        bench.load_of(&address, flags).output().unwrap()
    })
}

/// The number behind a label.
fn number(out: &str, label: &str) -> f64 {
    let line = out
        .lines()
        .find_map(|line| line.trim_start().strip_prefix(label))
        .unwrap_or_else(|| panic!("{label}: {out}"));
    line.trim_start_matches(':').split_whitespace().next().unwrap().parse().unwrap()
}

/// 40 queries that are all answered after 0.5 s are 80 a second at most.
#[test]
fn a_rate_lasts_until_the_last_answer() {
    let (out, _) = words(&load(&["-q", "40", "-n", "1"], 0, 0));
    assert!(
        number(&out, "Run time (s)") >= 0.5 && (number(&out, "Queries completed") - 40.0).abs() < 0.1,
        "{out}"
    );
    for label in ["Queries per second", "Correct answers"] {
        assert!((1.0..=80.0).contains(&number(&out, label)), "{label}: {out}");
    }
    let (_, mean) = out.split_once("closed loop, window 40, ").unwrap();
    let mean: f64 = mean.split_once(' ').unwrap().0.parse().unwrap();
    assert!((1.0..=40.0).contains(&mean), "{out}");
}

#[test]
fn wrong_answers_complete_queries_and_are_no_correct_ones() {
    let (out, _) = words(&load(&["-q", "40", "-n", "1"], 3, 0));
    assert!(
        out.contains("  Queries completed:    40 (100.00%)\n  Queries lost:         0 (0.00%)\n"),
        "{out}"
    );
    assert!(out.contains("  Response codes:       NXDOMAIN 40 (100.00%)\n"), "{out}");
    assert!((1.0..=80.0).contains(&number(&out, "Queries per second")), "{out}");
    assert!(number(&out, "Correct answers") == 0.0 && number(&out, "Average Latency (s)") >= 0.5, "{out}");
}

#[test]
fn an_asked_drain_counts_what_comes_after_the_last_answer() {
    let played = |flags: &[&str]| -> Trial {
        let output = load(&[&["-q", "40", "-n", "1", "--json"], flags].concat(), 0, 7);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", words(&output).1))
    };
    let asked = played(&["--drain", "4s"]);
    assert_eq!((asked.accounts.correct, asked.accounts.duplicate), (40, 7), "{:?}", asked.accounts);
    let usual = played(&[]);
    assert_eq!((usual.accounts.correct, usual.accounts.duplicate), (40, 0), "it ended with the last answer");
    // Few times have bounds.
    assert_eq!((usual.latency_us.p99, usual.latency_us.count), (None, Some(40)));
    let bounds = usual.latency_us.at_most.unwrap();
    assert!(bounds.p90 >= Some(500_000) && bounds.p99.is_none(), "{bounds:?}");
}
