//! `cargo test`. Its output goes to the user line by line, and its results are added up.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::thread::available_parallelism;

use anyhow::{Context as _, Result, bail};
use kqps_skips::Skip;

use super::skips;
use crate::workspace::{self, cargo};

/// Counts of tests, and what they skipped. A test that skipped something has also passed or failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) passed: u64,
    pub(super) failed: u64,
    pub(super) skips: BTreeSet<Skip>,
    /// The last words of each test that failed, in the order of their printing.
    pub(super) failures: Vec<Failure>,
}

/// A test that failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) test: String,
    /// The lines that it printed, without its backtrace.
    pub(super) words: Vec<String>,
}

impl Tally {
    pub(super) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skips.extend(other.skips);
        self.failures.extend(other.failures);
    }

    /// Reads a line such as `test result: ok. 3 passed; 0 failed; 0 ignored; …`; `None` for any other line.
    pub(super) fn of_line(line: &str) -> Option<Self> {
        let counts = line.trim().strip_prefix("test result: ")?.split_once(". ")?.1;
        let count = |word: &str| {
            counts.split(';').find_map(|part| part.trim().strip_suffix(word)?.trim().parse::<u64>().ok())
        };
        Some(Self { passed: count("passed")?, failed: count("failed")?, ..Self::default() })
    }
}

/// Tests of one program that run at the same time, for each core. Most of them wait for other programs.
const TESTS_PER_CORE: usize = 2;

/// The variable that sets how many tests a test program runs at the same time.
const THREADS: &str = "RUST_TEST_THREADS";

/// Runs the workspace's tests of these kinds to the end, even if some fail.
pub(super) fn run(kinds: &[&str]) -> Result<Tally> {
    let threads = match std::env::var_os(THREADS) {
        Some(threads) => threads,
        None => (TESTS_PER_CORE * available_parallelism().map_or(1, usize::from)).to_string().into(),
    };
    let skipped = workspace::metadata()?.target_directory.join("skips");
    // The file of the last run.
    if skipped.exists() {
        fs::remove_file(&skipped).with_context(|| format!("cannot remove {}", skipped.display()))?;
    }
    let mut child = cargo()
        .args(["test", "--quiet", "--workspace", "--no-fail-fast"])
        .args(kinds)
        .env(THREADS, threads)
        .env(kqps_skips::FILE, &skipped)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start cargo test")?;
    let output = child.stdout.take().expect("standard output is piped");
    let mut sum = Tally::default();
    let mut failures = Failures::default();
    for line in BufReader::new(output).lines() {
        let line = line.context("cannot read the output of cargo test")?;
        println!("{line}");
        failures.read(&line);
        if let Some(tally) = Tally::of_line(&line) {
            sum.add(tally);
        }
    }
    let status = child.wait()?;
    if !status.success() && sum.failed == 0 {
        bail!("cargo test failed before or between its tests: {status}");
    }
    sum.skips = skips::read(&skipped)?;
    sum.failures = failures.read;
    Ok(sum)
}

/// The most lines that are kept of one failed test.
const WORDS_MOST: usize = 12;

/// Reads the words of failed tests from the lines of `cargo test`, which stand between `---- NAME stdout ----` and the
/// backtrace, the next test, or the list of names.
#[derive(Default)]
struct Failures {
    read: Vec<Failure>,
    is_within: bool,
}

impl Failures {
    fn read(&mut self, line: &str) {
        let named = line.strip_prefix("---- ").and_then(|line| line.strip_suffix(" stdout ----"));
        if let Some(test) = named {
            self.read.push(Failure { test: test.to_owned(), words: Vec::new() });
            self.is_within = true;
        } else if line == "failures:" || line == "stack backtrace:" {
            self.is_within = false;
        } else if let Some(failure) =
            self.read.last_mut().filter(|_| self.is_within && !line.trim().is_empty())
            && failure.words.len() < WORDS_MOST
        {
            failure.words.push(line.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_read_from_cargos_words() {
        let line = "test result: FAILED. 12 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s";
        assert_eq!(Tally::of_line(line), Some(Tally { passed: 12, failed: 3, ..Tally::default() }));
        assert_eq!(Tally::of_line("test it_says_test_result ... ok"), None);
    }

    #[test]
    fn the_words_of_failed_tests_are_kept_without_their_backtraces() {
        let output = "failures:\n\n---- a::b stdout ----\n\nthread 'a::b' panicked at a.rs:1:2:\n  left: 1\nstack \
                      backtrace:\n   0: main\n\n---- c stdout ----\nError: no\n\n\nfailures:\n    a::b\n    c\n";
        let mut failures = Failures::default();
        output.lines().for_each(|line| failures.read(line));
        let of = |test: &str, words: &[&str]| Failure {
            test: test.to_owned(),
            words: words.iter().map(|&word| word.to_owned()).collect(),
        };
        let expected =
            [of("a::b", &["thread 'a::b' panicked at a.rs:1:2:", "  left: 1"]), of("c", &["Error: no"])];
        assert_eq!(failures.read, expected);
    }
}
