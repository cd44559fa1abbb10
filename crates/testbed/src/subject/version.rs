//! Asks a program for its version.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::bounded::{self, Unended};
use super::definition::Definition;
use super::programs;
use super::template::Values;

/// The time limit of a program that reports its version.
const PATIENCE: Duration = Duration::from_secs(5);

/// A command that prints a subject's version, and did not end.
#[derive(Debug, thiserror::Error)]
#[error("`{words}`: {error}")]
pub struct NoVersion {
    words: String,
    error: Unended,
}

/// The version that a subject reports, if it does. `kqps` is the path of this program.
pub fn ask(definition: &Definition, kqps: &Path) -> Result<Option<String>, NoVersion> {
    let Some(version) = &definition.version else { return Ok(None) };
    let values = Values::default().with("kqps", &kqps.display());
    let words: Vec<String> = version.command.iter().map(|word| values.fill(word)).collect();
    let Some(program) = words.first().and_then(|program| programs::find(program)) else { return Ok(None) };
    let output = bounded::output(Command::new(program).args(&words[1..]), Some(PATIENCE))
        .map_err(|error| NoVersion { words: words.join(" "), error })?;
    let said = [output.stdout, output.stderr].concat();
    Ok(word_after(&String::from_utf8_lossy(&said), &version.after))
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
