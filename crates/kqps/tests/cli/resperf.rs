//! `kqps resperf` beside Debian's resperf, at a server of a known capacity.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::load::bench::{Bench, Echo, words};

/// The words before the first colon or number of each line that scripts read.
fn labels(text: &str) -> Vec<String> {
    let text = text.split("\n\nWhat kqps").next().unwrap_or(text);
    let lines = text.lines().filter(|line| line.contains(':') || line.starts_with("[Status]"));
    lines.map(|line| line.split([':', '(']).next().unwrap_or_default().trim().to_owned()).collect()
}

fn figure(text: &str, label: &str) -> f64 {
    let line =
        text.lines().find_map(|line| line.trim().strip_prefix(label)).unwrap_or_else(|| panic!("{text}"));
    line.trim().split([' ', '%']).next().unwrap().parse().unwrap()
}

fn run(program: &Path, bench: &Bench, plot: Option<&Path>, flags: &[&str]) -> String {
    let (host, port) = bench.echo.address.rsplit_once(':').unwrap();
    let mut command = Command::new(program);
    command.args(["-s", host, "-p", port, "-d"]).arg(bench.queries()).args(flags);
    if let Some(plot) = plot {
        command.arg("-P").arg(plot);
    }
    let output = command.current_dir(bench.folder.path()).output().unwrap();
    let (out, err) = words(&output);
    assert!(output.status.success(), "{out}{err}");
    out
}

/// The columns of a plot, line by line.
fn columns(plot: &Path) -> Vec<Vec<f64>> {
    let text = std::fs::read_to_string(plot).unwrap();
    assert!(
        text.starts_with("# time target_qps actual_qps responses_per_sec failures_per_sec avg_latency"),
        "{text}"
    );
    let number = |word: &str| word.parse().unwrap();
    text.lines().skip(1).map(|line| line.split_whitespace().map(number).collect()).collect()
}

#[test]
fn the_same_flags_print_the_same_lines_and_plot_the_same_course() {
    let bench = Bench::new();
    let ours = bench.folder.path().join("resperf");
    symlink(env!("CARGO_BIN_EXE_kqps"), &ours).unwrap();
    let [own_plot, their_plot] = ["own", "their"].map(|name| bench.folder.path().join(name));
    // So few queries fit any buffer, however long another test keeps the cores.
    let flags = ["-m", "200", "-r", "1", "-c", "1", "-R", "-t", "5", "-F", "0"];
    let own = run(&ours, &bench, Some(&own_plot), &flags);
    assert!(own.contains("Version 2.15.0"), "{own}");
    assert!((figure(&own, "Maximum throughput:") / 200.0 - 1.0).abs() < 0.02, "{own}");
    assert!(own.contains("the server may answer more"), "{own}");
    let rows = columns(&own_plot);
    assert!(rows.len() == 4 && rows.iter().all(|row| row.len() == 8), "{rows:?}");
    assert!((rows[0][1] - 50.0).abs() < 0.1 && (rows[0][2] - 50.0).abs() < 3.0, "{rows:?}");
    let theirs = Path::new("/usr/bin/resperf");
    if theirs.exists() {
        let their = run(theirs, &bench, Some(&their_plot), &flags);
        assert_eq!(labels(&own), labels(&their), "{own}\n{their}");
        // Its last interval is there or not, by some microseconds.
        let their_rows = columns(&their_plot);
        assert!(their_rows.len() >= 3, "{their_rows:?}");
        for (own, their) in rows.iter().zip(&their_rows) {
            assert!(
                own.iter().zip(&their[..2]).all(|(own, their)| (own - their).abs() < 0.01),
                "{own:?} {their:?}"
            );
        }
    }
}

#[test]
fn what_ends_a_test_early_is_said() {
    let bench = Bench::before(Echo::with(&["--work", "10ms"]));
    let ours = bench.folder.path().join("resperf-report");
    symlink(env!("CARGO_BIN_EXE_kqps"), &ours).unwrap();
    // The echo answers 100 queries a second.
    let said = run(&ours, &bench, None, &["-m", "2000", "-r", "2", "-R", "-q", "100", "-t", "1"]);
    assert!(said.contains("[Status] Reached 100 outstanding queries"), "{said}");
    assert!(said.contains("the maximum is the server's"), "{said}");
    let names: Vec<String> = std::fs::read_dir(bench.folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    for end in [".html", ".output", ".gnuplot"] {
        assert!(names.iter().any(|name| name.ends_with(end)), "{names:?}");
    }
}
