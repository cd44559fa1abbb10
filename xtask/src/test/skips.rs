//! Skipped parts of tests on this host: the lines that they left, and whether continuous integration accepts them.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context as _, Result};
use kqps_skips::{Capability, Skip};

/// The variable that continuous integration sets.
const CI: &str = "CI";

/// Reads the lines that tests wrote to this file. Without a file there are none.
pub(super) fn read(file: &Path) -> Result<BTreeSet<Skip>> {
    match fs::read_to_string(file) {
        Ok(text) => parse(&text),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(BTreeSet::new()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", file.display())),
    }
}

fn parse(text: &str) -> Result<BTreeSet<Skip>> {
    let read =
        |line| Skip::of_line(line).with_context(|| format!("a test left a line that is no skip: {line}"));
    text.lines().map(read).collect()
}

/// Whether the run fails if an expected capability is missing: if the user asks for that, or in continuous integration.
pub(super) fn is_strict(asked: bool) -> bool {
    asked || std::env::var(CI).is_ok_and(|value| is_set(&value))
}

fn is_set(value: &str) -> bool {
    !matches!(value, "" | "0" | "false")
}

/// The expected capabilities that were missing, as a sentence; `None` if none was.
pub(super) fn lacking(skips: &BTreeSet<Skip>) -> Option<String> {
    let expected = skips.iter().map(|skip| skip.capability).filter(|capability| capability.is_expected());
    let names: BTreeSet<&str> = expected.map(Capability::name).collect();
    let list = names.into_iter().collect::<Vec<_>>().join(", ");
    (!list.is_empty())
        .then(|| format!("tests were skipped because this host lacks what it must have: {list}"))
}

/// The number of tests that were skipped, wholly or in part.
pub(super) fn tests(skips: &BTreeSet<Skip>) -> usize {
    skips.iter().map(|skip| &skip.test).collect::<BTreeSet<_>>().len()
}

/// Prints every skip with its reason, those of expected capabilities last.
pub(super) fn print(skips: &BTreeSet<Skip>) {
    if skips.is_empty() {
        return;
    }
    eprintln!("\n== skipped, wholly or in part ==");
    let (expected, others): (Vec<_>, Vec<_>) = skips.iter().partition(|skip| skip.capability.is_expected());
    for skip in others {
        eprintln!("{skip}");
    }
    if !expected.is_empty() {
        eprintln!("Because this host lacks what continuous integration must have:");
    }
    for skip in expected {
        eprintln!("{skip}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "\
skipped: kqps-kernel idle::tests::a_wish: no such device (os error 19) (idle-states)
skipped: kqps-player every_io: uring: not permitted (uring)
skipped: kqps-player every_io: gso: no such option (segmentation)
skipped: kqps-player every_io: uring: not permitted (uring)
";

    #[test]
    fn lines_are_counted_by_test_and_judged_by_capability() {
        let skips = parse(LINES).unwrap();
        assert_eq!((skips.len(), tests(&skips)), (3, 2));
        let sentence = lacking(&skips).unwrap();
        assert!(sentence.ends_with(": segmentation, uring"), "{sentence}");
        let first: BTreeSet<Skip> = parse(LINES.lines().next().unwrap()).unwrap();
        assert_eq!((tests(&first), lacking(&first)), (1, None), "a laptop may lack it, and so may CI");
        assert_eq!((tests(&BTreeSet::new()), lacking(&BTreeSet::new())), (0, None));
    }

    #[test]
    fn an_unreadable_line_is_an_error() {
        let error = parse("skipped: kqps every_io: no root (luck)\n").unwrap_err().to_string();
        assert!(error.contains("(luck)"), "{error}");
    }

    #[test]
    fn without_a_file_nothing_was_skipped() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("skips");
        assert!(read(&file).unwrap().is_empty());
        fs::write(&file, LINES).unwrap();
        assert_eq!(read(&file).unwrap(), parse(LINES).unwrap());
    }

    #[test]
    fn ci_is_set_unless_it_says_no() {
        assert_eq!(
            ["true", "1", "yes", "false", "0", ""].map(is_set),
            [true, true, true, false, false, false]
        );
        assert!(is_strict(true));
    }
}
