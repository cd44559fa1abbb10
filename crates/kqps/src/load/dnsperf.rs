//! Values of `kqps load` and `kqps find` that are typed as for dnsperf. A letter that means the same there works; for
//! every other letter [`crate::hints`] has what kqps offers instead.

use std::fs::File;
use std::io::{self, IsTerminal as _};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use crate::exit::bad_input;
use crate::value::{BUFFER_MOST, parse_size};

/// The window of a load if the flags give neither a rate nor a window.
pub(super) const WINDOW: u64 = 100;

/// The name of standard input. It is read by its descriptor, since a socket cannot be opened by this name.
const STDIN: &str = "/dev/stdin";

/// Parses the size of a socket's buffer: a size with a unit, or a bare number of KiB.
pub(super) fn parse_buffer(text: &str) -> Result<u64, String> {
    let is_bare = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let bytes = if is_bare { parse_size(&format!("{text}KiB"))? } else { parse_size(text)? };
    match bytes {
        0 => Err("expected a size above 0, such as 4MiB, or a number of KiB".into()),
        bytes if bytes > BUFFER_MOST && is_bare => Err(format!(
            "a bare number is KiB, as in dnsperf, and this is more than 1GiB; for bytes write {text}B"
        )),
        bytes if bytes > BUFFER_MOST => Err("expected 1GiB at most".into()),
        bytes => Ok(bytes),
    }
}

/// The source of the queries and its name: the file, or standard input for `-` and for no file. A terminal as
/// standard input is an error.
pub(super) fn query_file(given: Option<&Path>) -> anyhow::Result<(Option<File>, PathBuf)> {
    match given {
        Some(path) if path != "-" && path != STDIN => Ok((None, path.to_owned())),
        None if io::stdin().is_terminal() => Err(bad_input(
            "which queries? Name a file with -d FILE, or pipe them into standard input (a line each: name type)",
        )),
        _ => Ok((Some(io::stdin().as_fd().try_clone_to_owned()?.into()), STDIN.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_number_is_kib_and_a_unit_always_counts() {
        assert_eq!(parse_buffer("32"), Ok(32 << 10));
        assert_eq!(parse_buffer("1024"), Ok(1 << 20));
        assert_eq!(parse_buffer("4096B"), Ok(4096));
        assert_eq!(parse_buffer("4MiB"), Ok(4 << 20));
        assert_eq!(parse_buffer("1GiB"), Ok(1 << 30));
        assert!(parse_buffer("4194304").unwrap_err().contains("4194304B"));
        for bad in ["", "0", "-1", "1.5", "x", "2GiB"] {
            assert!(parse_buffer(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn queries_come_from_the_file_or_from_standard_input() {
        let file = |given| query_file(Some(Path::new(given))).unwrap();
        let (open, path) = file("a/b");
        assert!(open.is_none() && path == Path::new("a/b"));
        for given in ["-", "/dev/stdin"] {
            let (open, path) = file(given);
            assert!(open.is_some() && path == Path::new("/dev/stdin"));
        }
    }
}
