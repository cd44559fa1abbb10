//! Everything that kqps prints goes through here. Two things can go wrong with it. Nobody may read it any more, as in
//! `kqps host | head`, or its disk may be full: the first failure to write to stdout is remembered, nothing more is
//! written there, and [`crate::exit::after_printing`] makes it the exit status. What cannot be written to stderr is
//! lost, and a measurement goes on. And text from outside may hold characters that a terminal obeys: each shows as its
//! number instead. So does a line feed within what is printed as one line (`println!`, `eprintln!`); text of several lines
//! is for `print!` and `eprint!`.

use std::fmt::{self, Arguments};
use std::io::{self, ErrorKind, IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::sync::OnceLock;

use kqps_kernel::inherited::stdout_is_closed;
use kqps_observation::visible::{visible, visible_json, visible_line};
use serde::Serialize;

// These shadow the standard macros in the whole program, which panic where they cannot write.
macro_rules! eprintln {
    ($($said:tt)*) => { $crate::print::line_to_stderr(format_args!($($said)*)) };
}

macro_rules! eprint {
    ($($said:tt)*) => { $crate::print::to_stderr(format_args!($($said)*)) };
}

macro_rules! print {
    ($($said:tt)*) => { $crate::print::to_stdout(format_args!($($said)*)) };
}

macro_rules! println {
    ($($said:tt)*) => { $crate::print::line_to_stdout(format_args!($($said)*)) };
}

/// Why writing to stdout failed, if it did.
static FAILURE: OnceLock<io::Error> = OnceLock::new();

/// Writes text to stderr, or loses it.
pub(crate) fn to_stderr(said: Arguments<'_>) {
    let _ = io::stderr().write_all(visible(&said.to_string()).as_bytes());
}

/// Writes one line to stderr, whatever is quoted in it.
pub(crate) fn line_to_stderr(said: Arguments<'_>) {
    let _ = io::stderr().write_all(format!("{}\n", visible_line(&said.to_string())).as_bytes());
}

/// Writes text to stdout, or remembers that this failed.
pub(crate) fn to_stdout(said: Arguments<'_>) {
    write(visible(&said.to_string()).as_bytes());
}

/// Writes one line to stdout, whatever is quoted in it.
pub(crate) fn line_to_stdout(said: Arguments<'_>) {
    write(format!("{}\n", visible_line(&said.to_string())).as_bytes());
}

/// Prints a value as one line of JSON.
pub(crate) fn json(value: &impl Serialize) -> serde_json::Result<()> {
    let line = to_json(value)?;
    println!("{line}");
    Ok(())
}

/// A value as JSON in which no character acts on a terminal.
pub(crate) fn to_json(value: &impl Serialize) -> serde_json::Result<String> {
    Ok(visible_json(&serde_json::to_string(value)?).into_owned())
}

/// Stdout for what writes piece by piece. It never fails: a server goes on when nobody reads what it prints.
pub(crate) struct Out;

impl io::Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // What is formatted comes in pieces of whole characters.
        write(visible(&String::from_utf8_lossy(bytes)).as_bytes());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What clap has to say: help and the version on stdout, errors on stderr. In colour on a terminal, unless the user typed
/// characters that act there, since an error quotes them.
pub(crate) fn by_clap(said: &clap::Error) -> ExitCode {
    let status = ExitCode::from(said.exit_code() as u8);
    let is_plain =
        || std::env::args_os().all(|word| visible_line(&word.to_string_lossy()) == word.to_string_lossy());
    match (said.use_stderr(), is_plain()) {
        (true, true) if io::stderr().is_terminal() => {
            let _ = said.print();
        }
        (true, _) => to_stderr(format_args!("{}", in_one_line(said.render().to_string()))),
        (false, true) if stdout().is_terminal() => remember(said.print()),
        (false, _) => print!("{}", said.render()),
    }
    status
}

/// What clap says, with each line feed that the user typed as its number.
fn in_one_line(mut said: String) -> String {
    for word in std::env::args_os().map(|word| word.to_string_lossy().into_owned()) {
        // Clap may quote the value of --flag=VALUE alone.
        for typed in word.split_once('=').into_iter().map(|(_, value)| value).chain([&*word]) {
            if typed.contains('\n') {
                said = said.replace(typed, &visible_line(typed));
            }
        }
    }
    said
}

/// What was printed is lost, as [`failure`] says: reason enough to end what only prints more.
#[derive(Debug)]
pub(crate) struct Lost;

impl fmt::Display for Lost {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("stdout cannot be written")
    }
}

impl std::error::Error for Lost {}

/// An error if what was printed is lost.
pub(crate) fn check() -> Result<(), Lost> {
    if FAILURE.get().is_some() { Err(Lost) } else { Ok(()) }
}

/// Writes what is still held back, and returns why anything that was printed is lost.
pub(crate) fn failure() -> Option<&'static io::Error> {
    if FAILURE.get().is_none() {
        remember(stdout().flush());
    }
    FAILURE.get()
}

fn write(bytes: &[u8]) {
    if FAILURE.get().is_some() {
        return;
    }
    remember(if stdout_is_closed() {
        Err(io::Error::other("it is closed (to print nothing, redirect it to /dev/null)"))
    } else {
        stdout().write_all(bytes)
    });
}

/// Remembers the first failure, and reports it at once, since a server may go on for days. A pipe that nobody reads needs
/// no report.
fn remember(written: io::Result<()>) {
    let Err(error) = written else { return };
    let report = (error.kind() != ErrorKind::BrokenPipe).then(|| error.to_string());
    // Of two threads that fail at once, one reports.
    if let (Ok(()), Some(report)) = (FAILURE.set(error), report) {
        eprintln!("kqps: cannot write to stdout: {report}; what was printed there is incomplete");
    }
}

#[allow(clippy::disallowed_methods)] // the one place that prints
fn stdout() -> io::Stdout {
    io::stdout()
}
