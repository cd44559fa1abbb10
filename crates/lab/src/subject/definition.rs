//! What is known of a name server, read from `subjects/NAME.toml`: how it is configured, started on a port,
//! becomes ready, tells its version, and is stopped. Nothing about any one server is in code.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

use super::template;
use crate::toml_file::{self, TomlError};

/// A name server that can be measured.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// Short, and the name of its cell: `nsd`.
    pub name: String,
    /// As people write it: `NSD`.
    pub title: String,
    /// The Debian package that holds it.
    #[serde(default)]
    pub package: Option<String>,
    /// Programs that it needs on the PATH.
    pub programs: Vec<String>,
    /// The I/O model of the echo that comes nearest to its own, which makes that echo its ceiling.
    pub io: String,
    /// Files written into its work folder before it starts: name → text with placeholders.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// How it starts.
    pub start: Start,
    /// How it is seen to be ready.
    pub ready: Ready,
    /// How it is stopped.
    pub stop: Stop,
    /// How it tells its version.
    #[serde(default)]
    pub version: Option<Version>,
    /// The text that it was read from.
    #[serde(skip)]
    pub text: String,
}

/// How a subject starts: in the foreground.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Start {
    /// The program and its arguments, with placeholders.
    pub command: Vec<String>,
}

/// How a subject is seen to be ready.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ready {
    /// What must come back when the zone's SOA is asked for over UDP.
    pub kind: ReadyKind,
    /// Seconds after which it is given up.
    pub within_s: f64,
}

/// What counts as being ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadyKind {
    /// NOERROR with an answer in it: it serves the zone, and its rcodes are checked.
    Soa,
    /// Any reply to the query: it is an echo of some kind, and any rcode will do.
    Reply,
}

/// How a subject is stopped: a signal, and when that does not end it, SIGKILL to its whole process group.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stop {
    /// The signal that it is asked with.
    pub signal: StopSignal,
    /// Seconds that it is given.
    pub within_s: f64,
}

/// The signals that servers take for "please stop".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[allow(missing_docs)] // the names say it
pub enum StopSignal {
    Term,
    Int,
}

/// How a subject tells its version.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Version {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The version is the word that follows this text in what the command prints.
    pub after: String,
}

impl Ready {
    /// The time limit.
    pub fn within(&self) -> Duration {
        Duration::from_secs_f64(self.within_s)
    }
}

impl Stop {
    /// The time it is given.
    pub fn within(&self) -> Duration {
        Duration::from_secs_f64(self.within_s)
    }
}

/// A definition that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DefinitionError {
    /// The file cannot be read.
    #[error("cannot read {file}: {error}")]
    Unreadable {
        /// The file.
        file: String,
        /// The system's word.
        error: std::io::Error,
    },
    /// Its text is wrong.
    #[error(transparent)]
    Wrong(#[from] TomlError),
}

impl Definition {
    /// Reads a definition from a file.
    pub fn open(path: &Path) -> Result<Self, DefinitionError> {
        let file = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|error| DefinitionError::Unreadable { file: file.clone(), error })?;
        Ok(Self::read(&file, &text)?)
    }

    /// Reads a definition from the text of a file.
    pub fn read(file: &str, text: &str) -> Result<Self, TomlError> {
        let definition: Self = toml_file::read(file, text)?;
        definition.check(file, text)?;
        Ok(Self { text: text.into(), ..definition })
    }

    fn check(&self, file: &str, text: &str) -> Result<(), TomlError> {
        let wrong = |key: &str, what: String| Err(TomlError::at_text(file, text, key, what));
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if self.name.is_empty() || !self.name.chars().all(plain) {
            return wrong("name", "a name is made of letters, digits, `-` and `_`".into());
        }
        if self.start.command.is_empty() {
            return wrong("command", "the command to start with is empty".into());
        }
        for (key, seconds) in [("[ready]", self.ready.within_s), ("[stop]", self.stop.within_s)] {
            if !(seconds > 0.0 && seconds <= 3600.0) {
                return wrong(key, "within_s is a number of seconds above 0, 3600 at most".into());
            }
        }
        for name in self.files.keys() {
            if Path::new(name).file_name() != Some(name.as_ref()) {
                return wrong(name, format!("`{name}` must be a plain file name"));
            }
        }
        for template in self.templates() {
            if let Err(unknown) = template::check(template) {
                let hint = unknown.nearest.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
                let known = template::KNOWN.join(", ");
                let what = format!("unknown placeholder {}{hint} (known: {known})", unknown.placeholder);
                return wrong(&unknown.placeholder, what);
            }
        }
        if !self.uses("port") {
            return wrong("[start]", "no command or file uses {port}, so it could not be found".into());
        }
        if !self.uses("workers") {
            return wrong("[start]", "no command or file uses {workers}, so they could not be set".into());
        }
        Ok(())
    }

    fn templates(&self) -> impl Iterator<Item = &String> {
        let version = self.version.iter().flat_map(|version| &version.command);
        self.files.values().chain(&self.start.command).chain(version).chain([&self.io])
    }

    fn uses(&self, placeholder: &str) -> bool {
        self.templates().any(|text| template::uses(text, placeholder))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
name = "fake"
title = "Fake"
programs = []
io = "plain"
[files]
"fake.conf" = "threads {workers}"
[start]
command = ["fake", "{port}"]
[ready]
kind = "soa"
within_s = 1
[stop]
signal = "TERM"
within_s = 1
"#;

    fn error(text: &str) -> String {
        Definition::read("fake.toml", text).unwrap_err().to_string()
    }

    #[test]
    fn the_least_definition_is_accepted() {
        let definition = Definition::read("fake.toml", GOOD).unwrap();
        assert_eq!(definition.stop.signal, StopSignal::Term);
        assert_eq!(definition.version, None);
    }

    #[test]
    fn slips_are_placed_and_explained() {
        let cases = [
            ("title =", "titel =", "fake.toml:3:1: unknown field `titel`"),
            ("title =", "titel =", "did you mean `title`?"),
            (
                "{workers}",
                "{worker}",
                "fake.toml:7:24: unknown placeholder {worker}; did you mean {workers}?",
            ),
            ("{port}", "53", "fake.toml:8:1: no command or file uses {port}"),
            ("within_s = 1", "within_s = 0", "fake.toml:10:1: within_s is a number of seconds above 0"),
            ("\"soa\"", "\"sao\"", "did you mean `soa`?"),
            ("fake.conf", "../fake.conf", "must be a plain file name"),
            ("\"TERM\"", "\"KILL\"", "unknown variant `KILL`, expected `TERM` or `INT`"),
            ("name = \"fake\"", "name = \"a b\"", "fake.toml:2:1: a name is made of letters"),
            ("signal = \"TERM\"\n", "", "missing field `signal`"),
        ];
        for (from, to, expected) in cases {
            let error = error(&GOOD.replacen(from, to, 1));
            assert!(error.contains(expected), "{expected} is not in {error}");
        }
    }
}
