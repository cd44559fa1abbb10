//! Asking a program its version.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::definition::Definition;
use super::programs;
use super::template::Values;

/// The version that a subject tells, or none when it cannot be asked or says something else. `kqps` is the
/// program that is running.
pub fn ask(definition: &Definition, kqps: &Path) -> Option<String> {
    let version = definition.version.as_ref()?;
    let values = Values::default().with("kqps", &kqps.display());
    let mut words = version.command.iter().map(|word| values.fill(word));
    let program: PathBuf = programs::find(&words.next()?)?;
    let output = Command::new(program).args(words).stdin(Stdio::null()).output().ok()?;
    let said = [output.stdout, output.stderr].concat();
    word_after(&String::from_utf8_lossy(&said), &version.after)
}

fn word_after(text: &str, after: &str) -> Option<String> {
    let (_, rest) = text.split_once(after)?;
    rest.split_whitespace().next().map(|word| word.trim_end_matches([',', ';']).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_that_follows_is_the_version() {
        assert_eq!(word_after("NSD version 4.6.1\nWritten by", "NSD version "), Some("4.6.1".into()));
        assert_eq!(word_after("BIND 9.18.49-1, (Extended", "BIND "), Some("9.18.49-1".into()));
        assert_eq!(word_after("nothing of the kind", "BIND "), None);
    }
}
