//! A large query file takes no anonymous memory of the player, which maps it.

use std::fs;
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::process::{Child, Stdio};
use std::time::Duration;

use kqps_kernel::process::{Signal, signal};

use super::bench::Bench;
use super::trouble::trial_of;

const QUERIES: u64 = 1_000_000;
/// The most that a load of this many queries may take, KiB.
const ANONYMOUS_KIB_MAX: u64 = 64 << 10;
/// Pause between two readings of its memory, since each stops the process for a moment.
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// Memory of a process that no file backs, KiB; `None` when it has ended.
fn anonymous_kib(child: &Child) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

#[test]
fn a_load_of_a_million_queries_stays_below_64_mib() {
    let bench = Bench::new();
    let mut file = BufWriter::new(fs::File::create(bench.queries()).unwrap());
    for number in 0..QUERIES {
        writeln!(file, "n{number}.test A").unwrap();
    }
    file.into_inner().unwrap();
    let mut load = bench.load(&["-Q", "2k", "-l", "1h", "-S", "100ms", "--json"]);
    let mut child = load.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines_of_progress = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let most_kib = std::thread::scope(|scope| {
        let child = &child;
        let playing = scope.spawn(move || {
            assert!(lines_of_progress.any(|line| !line.contains("sent 0.0k q/s")));
            signal(child.id(), Signal::Interrupt).unwrap();
            lines_of_progress.for_each(drop);
        });
        let mut most = 0;
        while !playing.is_finished() {
            most = most.max(anonymous_kib(child).unwrap_or(0));
            std::thread::sleep(BETWEEN_LOOKS);
        }
        most
    });
    let trial = trial_of(child);
    assert_eq!(trial.dataset.queries, QUERIES);
    assert!(trial.accounts.correct > 0, "{:?}", trial.accounts);
    assert!((1..ANONYMOUS_KIB_MAX).contains(&most_kib), "{most_kib} KiB");
}
