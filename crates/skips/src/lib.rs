//! Skips: how a test says that it, or a part of it, cannot be tried on this host.
//!
//! For: one function that every test calls, and the lines by which `cargo xtask test` learns of the calls. The test
//! harness keeps the output of tests that pass, so each line also goes to a file. Not for: finding out what a host
//! offers; the test does that.
//!
//! Invariant: [`Skip::of_line`] reads every line that [`skip`] writes.

mod capability;

use std::fmt;
use std::fs::File;
use std::io::{self, Write as _};
use std::panic::Location;
use std::path::Path;

pub use capability::Capability;

/// The environment variable with the path of the file to which tests append their lines.
pub const FILE: &str = "KQPS_SKIPS";

/// The beginning of every line.
const HEAD: &str = "skipped: ";

/// Something that a test did not try.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Skip {
    /// The test, after its package if that is known.
    pub test: String,
    /// The part that was not tried, and why; one line.
    pub reason: String,
    /// The capability that the host lacks.
    pub capability: Capability,
}

/// Reports that the calling test, or a part of it, is not tried. Panics if the file that [`FILE`] names cannot be
/// written, since no summary would then show the skip.
#[track_caller]
pub fn skip(capability: Capability, reason: impl fmt::Display) {
    let reason = reason.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    // Cargo sets the package while it runs tests.
    let package = std::env::var("CARGO_PKG_NAME").ok();
    let test = name(package.as_deref(), std::thread::current().name(), Location::caller());
    let skip = Skip { test, reason, capability };
    println!("{skip}");
    if let Some(file) = std::env::var_os(FILE) {
        let added = add(Path::new(&file), &skip);
        added.unwrap_or_else(|error| panic!("cannot write to {}: {error}", file.display()));
    }
}

/// The running test by its package and its thread, which has the test's name. On the main thread, or one that the test
/// started, the calling line takes its place.
fn name(package: Option<&str>, thread: Option<&str>, caller: &Location<'_>) -> String {
    let place = || format!("{}:{}", caller.file(), caller.line());
    let name = thread.filter(|name| *name != "main").map_or_else(place, str::to_owned);
    package.map_or_else(|| name.clone(), |package| format!("{package} {name}"))
}

/// Appends a line by one call, so that lines of several programs do not mix.
fn add(file: &Path, skip: &Skip) -> io::Result<()> {
    let mut file = File::options().create(true).append(true).open(file)?;
    file.write_all(format!("{skip}\n").as_bytes())
}

impl Skip {
    /// Reads a line; `None` if no test writes such a line.
    pub fn of_line(line: &str) -> Option<Self> {
        let (test, rest) = line.strip_prefix(HEAD)?.split_once(": ")?;
        let (reason, capability) = rest.strip_suffix(')')?.rsplit_once(" (")?;
        let capability = capability.parse().ok()?;
        Some(Self { test: test.into(), reason: reason.into(), capability })
    }
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{HEAD}{}: {} ({})", self.test, self.reason, self.capability.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_read_as_it_was_meant() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("skips");
        let skip = |capability: &Capability| Skip {
            test: "kqps-kernel uring::tests::a_ring".into(),
            reason: "io_uring: Operation not permitted (os error 1): seccomp (perhaps)".into(),
            capability: *capability,
        };
        let skips: Vec<Skip> = Capability::ALL.iter().map(skip).collect();
        for skip in &skips {
            add(&file, skip).unwrap();
        }
        let text = std::fs::read_to_string(file).unwrap();
        assert_eq!(text.lines().map(|line| Skip::of_line(line).unwrap()).collect::<Vec<_>>(), skips);
    }

    #[test]
    fn other_lines_are_no_skips() {
        for line in [
            "",
            "test result: ok. 3 passed; 0 failed",
            "skipped: needs root",
            "skipped: a::test: needs root",
            "skipped: a::test: needs root (luck)",
        ] {
            assert_eq!(Skip::of_line(line), None, "{line}");
        }
    }

    #[test]
    fn a_test_is_called_by_its_name_and_a_thread_of_it_by_its_line() {
        let here = Location::caller();
        assert_eq!(name(Some("kqps-zone"), Some("peers::bind"), here), "kqps-zone peers::bind");
        assert_eq!(name(None, Some("peers::bind"), here), "peers::bind");
        for thread in [None, Some("main")] {
            let line = format!("kqps-zone {}:{}", here.file(), here.line());
            assert_eq!(name(Some("kqps-zone"), thread, here), line);
        }
    }
}
