//! Everything that kqps prints goes through this file, which handles two problems.
//!
//! A write may fail. The reader may have gone, as in `kqps host | head`, or the disk may be full. The first
//! failure of stdout is remembered. Nothing more is written there, and [`crate::exit::after_printing`] turns
//! the failure into the exit status. Text that cannot be written to stderr is lost, and a measurement goes
//! on.
//!
//! Text from outside may hold control characters that a terminal obeys. Each is printed as its number
//! instead. So is a line feed within a line of `println!` or `eprintln!`; `print!` and `eprint!` are for text
//! of several lines.
//!
//! While `--tui` draws on the terminal, what would be printed there waits.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use kqps_kernel::inherited::stdout_is_closed;
use kqps_observation::SCHEMA;
use kqps_observation::visible::{visible, visible_json, visible_line};
use schemars::JsonSchema;
use serde::Serialize;

// These shadow the standard macros in the whole program. The standard ones panic if a write fails.
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

/// The first failure to write to stdout.
static FAILURE: OnceLock<io::Error> = OnceLock::new();

/// Output that waits until the terminal is free, in the order in which it came.
struct Waiting {
    /// Whether stdout waits, too: it is a terminal.
    holds_stdout: bool,
    /// Whether each text is for stdout, and the text.
    texts: Vec<(bool, Vec<u8>)>,
}

static WAITING: Mutex<Option<Waiting>> = Mutex::new(None);

/// A receiver of lines.
type Receiver = Box<dyn Fn(&str) + Send + Sync>;

/// The receiver that also gets each line that is printed on stderr.
static PASSED_TO: OnceLock<Receiver> = OnceLock::new();

fn waiting() -> MutexGuard<'static, Option<Waiting>> {
    WAITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on, what would be printed on a terminal waits for [`release`].
pub(crate) fn hold() {
    let holds_stdout = stdout().is_terminal();
    waiting().get_or_insert(Waiting { holds_stdout, texts: Vec::new() });
}

/// Prints what waited. From now on nothing waits.
pub(crate) fn release() {
    let waited = waiting().take();
    for (is_for_stdout, text) in waited.into_iter().flat_map(|waited| waited.texts) {
        if is_for_stdout {
            write(&text);
        } else {
            write_to_stderr(&text);
        }
    }
}

/// Keeps a text if its stream waits. Returns whether it does.
fn keeps(is_for_stdout: bool, text: &[u8]) -> bool {
    let mut waiting = waiting();
    let Some(waiting) = waiting.as_mut().filter(|waiting| !is_for_stdout || waiting.holds_stdout) else {
        return false;
    };
    waiting.texts.push((is_for_stdout, text.to_vec()));
    true
}

/// From now on, `receive` also gets each line that is printed on stderr. Only the first one does.
pub(crate) fn pass_to(receive: impl Fn(&str) + Send + Sync + 'static) {
    let _ = PASSED_TO.set(Box::new(receive));
}

/// Passes on a line that is printed in another way.
pub(crate) fn pass_on(line: &str) {
    if let Some(receive) = PASSED_TO.get() {
        receive(line);
    }
}

/// Writes text to stderr. A failure is ignored.
pub(crate) fn to_stderr(said: Arguments<'_>) {
    let said = said.to_string();
    let text = visible(&said);
    text.lines().for_each(pass_on);
    write_to_stderr(text.as_bytes());
}

/// Writes one line to stderr that says how to see the others, so it is not passed on.
pub(crate) fn beside(line: &str) {
    write_to_stderr(format!("{}\n", visible_line(line)).as_bytes());
}

/// Writes one line to stderr, even if a quoted text in it has line feeds.
pub(crate) fn line_to_stderr(said: Arguments<'_>) {
    let said = said.to_string();
    let line = visible_line(&said);
    pass_on(&line);
    write_to_stderr(format!("{line}\n").as_bytes());
}

fn write_to_stderr(text: &[u8]) {
    if !keeps(false, text) {
        let _ = io::stderr().write_all(text);
    }
}

/// Writes text to stdout. A failure is remembered.
pub(crate) fn to_stdout(said: Arguments<'_>) {
    write(visible(&said.to_string()).as_bytes());
}

/// Writes one line to stdout, even if a quoted text in it has line feeds.
pub(crate) fn line_to_stdout(said: Arguments<'_>) {
    write(format!("{}\n", visible_line(&said.to_string())).as_bytes());
}

/// An object with the version of its schema.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Versioned<'a, T> {
    /// The version of the record: names and meanings of fields change only with it.
    schema: u32,
    #[serde(flatten)]
    object: &'a T,
}

impl<'a, T> Versioned<'a, T> {
    pub(crate) fn new(object: &'a T) -> Self {
        Self { schema: SCHEMA, object }
    }
}

pub(crate) fn json(value: &impl Serialize) -> serde_json::Result<()> {
    let line = to_json(value)?;
    println!("{line}");
    Ok(())
}

/// A value as JSON without characters that act on a terminal.
pub(crate) fn to_json(value: &impl Serialize) -> serde_json::Result<String> {
    Ok(visible_json(&serde_json::to_string(value)?).into_owned())
}

/// Stdout for code that writes piece by piece. Writes never fail, since a server goes on when the reader of
/// its output has gone.
pub(crate) struct Out;

impl io::Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Formatting writes pieces of whole characters.
        write(visible(&String::from_utf8_lossy(bytes)).as_bytes());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Prints a message of clap: help and version on stdout, errors on stderr. On a terminal it is in colour,
/// unless the arguments hold control characters, since an error quotes them.
pub(crate) fn by_clap(said: &clap::Error) -> ExitCode {
    let status = ExitCode::from(u8::try_from(said.exit_code()).unwrap_or(u8::MAX));
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

/// A message of clap in which each line feed of the user's arguments is a number.
fn in_one_line(mut said: String) -> String {
    for word in std::env::args_os().map(|word| word.to_string_lossy().into_owned()) {
        // Clap may quote only the value of --flag=VALUE.
        for typed in word.split_once('=').into_iter().map(|(_, value)| value).chain([&*word]) {
            if typed.contains('\n') {
                said = said.replace(typed, &visible_line(typed));
            }
        }
    }
    said
}

/// The error of output that was lost (see [`failure`]). A command that would only print more ends with it.
#[derive(Debug, thiserror::Error)]
#[error("stdout cannot be written")]
pub(crate) struct Lost;

pub(crate) fn check() -> Result<(), Lost> {
    if FAILURE.get().is_some() { Err(Lost) } else { Ok(()) }
}

/// Flushes stdout, and returns the first failure of this program to write there.
pub(crate) fn failure() -> Option<&'static io::Error> {
    if FAILURE.get().is_none() {
        remember(stdout().flush());
    }
    FAILURE.get()
}

fn write(bytes: &[u8]) {
    if FAILURE.get().is_some() || keeps(true, bytes) {
        return;
    }
    remember(if stdout_is_closed() {
        Err(io::Error::other("it is closed (to print nothing, redirect it to /dev/null)"))
    } else {
        stdout().write_all(bytes)
    });
}

/// Remembers the first failure, and reports it at once, since a server may run for days. A closed pipe is not
/// reported.
fn remember(written: io::Result<()>) {
    let Err(error) = written else { return };
    let report = (error.kind() != ErrorKind::BrokenPipe).then(|| error.to_string());
    // If two threads fail at once, one reports.
    if let (Ok(()), Some(report)) = (FAILURE.set(error), report) {
        eprintln!("kqps: cannot write to stdout: {report}; what was printed there is incomplete");
    }
}

#[allow(clippy::disallowed_methods)] // the one place that prints
fn stdout() -> io::Stdout {
    io::stdout()
}
