//! A definition from a command line: `my-server -p {port} -z {zone}` says enough about a server. It is
//! converted to the text of a definition file, so that a run stores it like any other and can be resumed.

use std::path::{Path, PathBuf};

use kqps_observation::secret;
use serde::Serialize;

use super::{Definition, check};
use crate::subject::{programs, template};

/// The I/O model of the echo that is its ceiling, since its own is not known: the best one without offloading.
const IO: &str = "mmsg";

/// Seconds that it has to load its zone.
const READY_WITHIN_S: f64 = 60.0;

/// Seconds that it has to stop.
const STOP_WITHIN_S: f64 = 5.0;

/// Why a command line cannot start a subject.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // the messages say it
pub enum CommandLineError {
    #[error("`{line}`: a quote is not closed")]
    Quote { line: String },
    #[error(
        "`{line}`: a secret is missing, which kqps left out when it stored this line: type it in place of {mark}",
        mark = secret::MARK
    )]
    Secret { line: String },
    #[error("a command is missing: expected a program with its arguments, such as 'my-server -p {{port}}'")]
    Empty,
    #[error("`{line}`: {unknown}")]
    Placeholder { line: String, unknown: template::Unknown },
    #[error("`{line}`: {{port}} or {{endpoint}} is missing, so it would not know where to listen")]
    Port { line: String },
    #[error("`{line}`: there is no program `{program}`")]
    Program { line: String, program: String },
    #[error("the working folder is unknown: {reason}")]
    Folder { reason: String },
    #[error("{}: the path is not UTF-8, so it cannot be kept with a run", path.display())]
    Path { path: PathBuf },
}

/// The parts of a definition's text that come from a command line.
#[derive(Serialize)]
struct Text<'a> {
    name: &'a str,
    title: &'a str,
    about: &'a str,
    programs: &'a [String],
    io: &'a str,
    start: Start<'a>,
    ready: Ready<'a>,
    stop: Stop<'a>,
}

#[derive(Serialize)]
struct Start<'a> {
    command: &'a [String],
    folder: &'a Path,
}

#[derive(Serialize)]
struct Ready<'a> {
    kind: &'a str,
    within_s: f64,
}

#[derive(Serialize)]
struct Stop<'a> {
    signal: &'a str,
    within_s: f64,
}

impl Definition {
    /// The definition of a server that is started with `line`: words as in a shell, with placeholders. It runs
    /// in the current folder of kqps, and gets the name of its program. A server with `{zone}` in its command
    /// line must serve the zone. Any other is ready as soon as it replies, and its rcodes are not checked.
    pub fn of_command(line: &str) -> Result<Self, CommandLineError> {
        let owned = || secret::masked_line(line);
        if secret::is_masked(line) {
            return Err(CommandLineError::Secret { line: owned() });
        }
        let mut words = shlex::split(line).ok_or_else(|| CommandLineError::Quote { line: owned() })?;
        let first = words.first().ok_or(CommandLineError::Empty)?.clone();
        for word in &words {
            template::check(word, &template::BUILT_IN)
                .map_err(|unknown| CommandLineError::Placeholder { line: owned(), unknown })?;
        }
        let uses = |name| words.iter().any(|word| template::uses(word, name));
        if !template::OF_PORT.iter().any(|placeholder| uses(placeholder)) {
            return Err(CommandLineError::Port { line: owned() });
        }
        let kind = if uses("zone") { "soa" } else { "reply" };
        // The path of kqps itself is known only at the start, and exists.
        let is_kqps = template::uses(&first, "kqps");
        if !is_kqps {
            let path = programs::find(&first).and_then(|path| std::path::absolute(path).ok());
            let path =
                path.ok_or_else(|| CommandLineError::Program { line: owned(), program: first.clone() })?;
            text_of(&path)?.clone_into(&mut words[0]);
        }
        let folder = std::env::current_dir()
            .map_err(|error| CommandLineError::Folder { reason: error.to_string() })?;
        text_of(&folder)?;
        let name = name_of(&first);
        let text = Text {
            name: &name,
            title: &name,
            about: line,
            programs: if is_kqps { &[] } else { &words[..1] },
            io: IO,
            start: Start { command: &words, folder: &folder },
            ready: Ready { kind, within_s: READY_WITHIN_S },
            stop: Stop { signal: "TERM", within_s: STOP_WITHIN_S },
        };
        let text = toml::to_string(&text).expect("texts and numbers can be written");
        Ok(Self::read("command", &text).expect("every part of it was checked"))
    }
}

/// A path as text, which a definition is.
fn text_of(path: &Path) -> Result<&str, CommandLineError> {
    path.to_str().ok_or_else(|| CommandLineError::Path { path: path.to_owned() })
}

/// The program's file name, with `-` for every character that a name cannot contain.
fn name_of(program: &str) -> String {
    let file = Path::new(program).file_name().unwrap_or_default().to_string_lossy();
    let name: String =
        file.chars().map(|c| if check::is_name(c.encode_utf8(&mut [0; 4])) { c } else { '-' }).collect();
    let name = name.trim_matches('-');
    if name.is_empty() { "command".into() } else { name.into() }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    use super::super::ReadyKind;
    use super::*;

    #[test]
    fn a_command_line_is_a_definition_that_can_be_stored() {
        let definition = Definition::of_command("sh -c 'exec my \"$0\"' {port} {zone}").unwrap();
        assert_eq!((definition.name.as_str(), definition.title.as_str()), ("sh", "sh"));
        assert!(definition.start.command[0].ends_with("/sh"));
        assert_eq!(definition.start.command[1..], ["-c", "exec my \"$0\"", "{port}", "{zone}"]);
        assert_eq!(definition.start.folder.as_deref(), std::env::current_dir().ok().as_deref());
        assert_eq!(definition.ready.kind, ReadyKind::Soa);
        assert_eq!(Definition::read("again", &definition.text).unwrap(), definition);
        assert_eq!(Definition::of_command("sh {port}").unwrap().ready.kind, ReadyKind::Reply);
        assert_eq!(definition.programs, definition.start.command[..1]);
        let ours = Definition::of_command("{kqps} serve echo --listen {endpoint}").unwrap();
        assert_eq!((ours.name.as_str(), ours.programs.len()), ("kqps", 0));
    }

    #[test]
    fn what_cannot_be_started_is_explained() {
        for (line, expected) in [
            ("sh 'x", "a quote is not closed"),
            ("  ", "a command is missing"),
            ("sh -p {prot}", "unknown placeholder `{prot}`; did you mean `{port}`?"),
            ("sh -p 53", "{port} or {endpoint} is missing"),
            ("no-such-server-anywhere {port}", "there is no program `no-such-server-anywhere`"),
        ] {
            let error = Definition::of_command(line).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_path_that_is_no_text_is_an_error() {
        let path = Path::new(OsStr::from_bytes(b"/tmp/\xff/server"));
        let error = text_of(path).unwrap_err().to_string();
        assert!(error.contains("/server: the path is not UTF-8"), "{error}");
        assert_eq!(text_of(Path::new("/tmp/server")), Ok("/tmp/server"));
    }
}
