//! The flags of dnsperf in `kqps load` and `kqps find`. A letter that means the same there works. For every other
//! letter the error names what kqps offers instead. No letter silently means something else.

use std::fs::File;
use std::io::{self, IsTerminal as _};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

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

/// A flag of dnsperf that kqps does not have.
struct Missing {
    letter: char,
    takes: Takes,
    instead: &'static str,
}

#[derive(Clone, Copy)]
enum Takes {
    Nothing,
    Value,
    Maybe,
}

const MISSING: [Missing; 6] = [
    Missing {
        letter: 'v',
        takes: Takes::Nothing,
        instead: "kqps dnsperf prints every reply; --json prints all counts, and -S 1s a line every second",
    },
    Missing {
        letter: 'W',
        takes: Takes::Nothing,
        instead: "warnings of the load are on standard output already; for errors write 2>&1",
    },
    Missing {
        letter: 'O',
        takes: Takes::Value,
        instead: "kqps has flags instead of extended options, such as --queries-per-connection; `kqps load --help` \
                  lists them, and kqps dnsperf has -O",
    },
    Missing { letter: 'C', takes: Takes::Maybe, instead: "the number of sockets is -c" },
    Missing {
        letter: 'X',
        takes: Takes::Maybe,
        instead: "`kqps load --help` lists the flags that kqps has; -Q sets a rate, and `kqps find` searches one",
    },
    Missing { letter: 'H', takes: Takes::Nothing, instead: "the long help is --help" },
];

/// Flags of `kqps load` that `kqps find` does not have, since a search chooses its loads itself.
const NOT_OF_SEARCHES: [Missing; 7] = [
    Missing {
        letter: 'Q',
        takes: Takes::Value,
        instead: "kqps find chooses the rates itself, between --min and --max; kqps load plays one",
    },
    Missing {
        letter: 'q',
        takes: Takes::Value,
        instead: "kqps find plays rates, and no window; kqps load has -q",
    },
    Missing {
        letter: 'l',
        takes: Takes::Value,
        instead: "the length of a trial is the --goal's, and --time-limit is that of the search",
    },
    Missing {
        letter: 'n',
        takes: Takes::Value,
        instead: "kqps find goes through the queries as often as it must; --time-limit says how long",
    },
    Missing {
        letter: 'u',
        takes: Takes::Nothing,
        instead: "kqps find plays queries; kqps load plays updates",
    },
    Missing { letter: 'y', takes: Takes::Value, instead: "kqps find does not sign queries; kqps load does" },
    Missing {
        letter: 'E',
        takes: Takes::Value,
        instead: "-e adds EDNS and -D the DO bit; a client subnet stands in the query file, and any other option in a \
                  binary one (-B); kqps load has -E",
    },
];

/// A group of flags that stands for those of dnsperf that kqps does not have. Each is an error that says what
/// to write instead.
#[derive(Clone, Debug, Default)]
pub(crate) struct Foreign;

/// A group of flags that stands for those that `kqps find` does not have.
#[derive(Clone, Debug, Default)]
pub(crate) struct NotOfSearches;

/// Adds the missing flags as hidden ones, so that parsing can refuse them with a reason.
fn augmented(command: Command, missing: &[Missing]) -> Command {
    command.args(missing.iter().map(|missing| {
        let arg = Arg::new(id(missing)).short(missing.letter).hide(true);
        match missing.takes {
            Takes::Nothing => arg.action(ArgAction::SetTrue),
            Takes::Value => arg.action(ArgAction::Append).allow_hyphen_values(true),
            Takes::Maybe => arg.action(ArgAction::Append).num_args(0..=1),
        }
    }))
}

/// An error for the first missing flag that the user typed.
fn refused(matches: &ArgMatches, missing: &[Missing]) -> Result<(), clap::Error> {
    let is_given = |missing: &&Missing| {
        matches.value_source(&id(missing)) == Some(clap::parser::ValueSource::CommandLine)
    };
    match missing.iter().find(is_given) {
        None => Ok(()),
        Some(missing) => {
            let message = format!("-{}: {}\n", missing.letter, missing.instead);
            Err(clap::Error::raw(clap::error::ErrorKind::UnknownArgument, message))
        }
    }
}

macro_rules! refuses {
    ($flags:ty, $missing:expr) => {
        impl Args for $flags {
            fn augment_args(command: Command) -> Command {
                augmented(command, &$missing)
            }

            fn augment_args_for_update(command: Command) -> Command {
                Self::augment_args(command)
            }
        }

        impl FromArgMatches for $flags {
            fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
                refused(matches, &$missing).map(|()| Self)
            }

            fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
                Self::from_arg_matches(matches).map(drop)
            }
        }
    };
}

refuses!(Foreign, MISSING);
refuses!(NotOfSearches, NOT_OF_SEARCHES);

fn id(missing: &Missing) -> String {
    format!("dnsperf-{}", missing.letter)
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
