//! Other programs, run to their end. Their output goes to the user or to the caller.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

/// Runs a command with the user's output streams and no standard input. A status other than 0 is an error.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command.stdin(Stdio::null()).status().with_context(|| cannot_start(command))?;
    if !status.success() {
        bail!("{} failed: {status}", words(command));
    }
    Ok(())
}

/// Runs a command and returns its standard output. A status other than 0 is an error, with the command's
/// standard error.
pub fn read(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().with_context(|| cannot_start(command))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{} failed: {}: {}", words(command), output.status, said.trim());
    }
    String::from_utf8(output.stdout).with_context(|| format!("{} printed what is not UTF-8", words(command)))
}

/// The command as a user would type it, without quotes.
pub fn words(command: &Command) -> String {
    let arguments = command.get_args().map(OsStr::to_string_lossy);
    let words: Vec<_> = std::iter::once(command.get_program().to_string_lossy()).chain(arguments).collect();
    words.join(" ")
}

/// The message for a program that the system could not start.
fn cannot_start(command: &Command) -> String {
    format!("cannot start {}", command.get_program().to_string_lossy())
}

/// The path of a program, on `PATH` or in Debian's folders for administrators; `None` if there is none.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}
