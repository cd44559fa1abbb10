//! Reads a TOML file that a person wrote. An error gives the file, the line and the column, and for an unknown
//! key the nearest known key.

use std::path::Path;

use kqps_message::text::without_mark;
use serde::de::DeserializeOwned;

/// The reason why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file cannot be read.
    #[error("cannot read {file}: {error}")]
    Unreadable {
        /// The path of the file, as it was given.
        file: String,
        /// The system's error.
        error: std::io::Error,
    },
    /// The file's text has an error.
    #[error(transparent)]
    Wrong(#[from] TomlError),
}

/// An error in a file, with its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {what}")]
pub struct TomlError {
    /// The path of the file, as it was given.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The column in characters, counted from 1.
    pub column: usize,
    /// The fault: what was found and what was expected.
    pub what: String,
}

impl TomlError {
    /// An error at a byte of the file's text.
    pub fn at(file: &str, text: &str, byte: usize, what: impl Into<String>) -> Self {
        let before = &text[..text.floor_char_boundary(byte)];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Self {
            file: file.into(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            what: what.into(),
        }
    }

    /// An error at the first occurrence of `needle`, or at the start of the file.
    pub fn at_text(file: &str, text: &str, needle: &str, what: impl Into<String>) -> Self {
        Self::at(file, text, text.find(needle).unwrap_or(0), what)
    }
}

/// Reads a file, and calls `read` with its path and its text to make a value.
pub fn open<T>(path: &Path, read: impl FnOnce(&str, &str) -> Result<T, TomlError>) -> Result<T, FileError> {
    let file = path.display().to_string();
    match std::fs::read(path) {
        Ok(content) => Ok(read(&file, text(&file, &content)?)?),
        Err(error) => Err(FileError::Unreadable { file, error }),
    }
}

/// The text of a file, without a byte order mark.
fn text<'c>(file: &str, content: &'c [u8]) -> Result<&'c str, TomlError> {
    let content =
        without_mark(content).map_err(|encoding| TomlError::at(file, "", 0, encoding.to_string()))?;
    std::str::from_utf8(content).map_err(|error| {
        let valid = str::from_utf8(&content[..error.valid_up_to()]).unwrap_or_default();
        TomlError::at(file, valid, valid.len(), "these bytes are not text in UTF-8; save the file as UTF-8")
    })
}

/// Parses a value whose type denies unknown fields.
pub fn read<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, TomlError> {
    toml::from_str(text).map_err(|error: toml::de::Error| {
        let byte = error.span().map_or(0, |span| span.start);
        TomlError::at(file, text, byte, with_nearest(error.message()))
    })
}

/// The word of `known` that `word` probably means, ignoring case; `None` if none is near.
pub fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let meant = word.to_lowercase();
    let distance = |candidate: &str| strsim::damerau_levenshtein(&meant, &candidate.to_lowercase());
    let ranked = known.iter().map(|&candidate| (distance(candidate), candidate));
    let (distance, candidate) = ranked.min()?;
    let letters = word.chars().count();
    // In a word of three letters, two other letters would make any word.
    (distance <= if letters > 3 { 1 + letters / 3 } else { 1 }).then_some(candidate)
}

/// The end of a message about an unknown word: the word that was probably meant, if any.
pub fn did_you_mean(near: Option<&str>) -> String {
    near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default()
}

/// serde writes ``unknown field `x`, expected one of `a`, `b` ``. Adds which of those was probably meant.
pub fn with_nearest(message: &str) -> String {
    let mut quoted = message.split('`').skip(1).step_by(2);
    let unknown = quoted.next().filter(|_| message.starts_with("unknown "));
    let known: Vec<&str> = quoted.collect();
    let hint = did_you_mean(unknown.and_then(|word| nearest(word, &known)));
    format!("{message}{hint}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Sample {
        #[serde(rename = "within_s")]
        _within_s: u32,
        #[serde(rename = "name")]
        _name: String,
    }

    #[test]
    fn an_unknown_key_is_placed_and_the_nearest_known_one_is_named() {
        let error = read::<Sample>("x.toml", "name = \"é\"\n  withn_s = 3\n").unwrap_err();
        assert_eq!((error.line, error.column), (2, 3));
        assert!(error.to_string().starts_with("x.toml:2:3: unknown field `withn_s`"), "{error}");
        assert!(error.to_string().ends_with("did you mean `within_s`?"), "{error}");
    }

    #[test]
    fn what_is_far_from_everything_is_not_guessed_at() {
        assert_eq!(nearest("colour", &["port", "zone"]), None);
        assert_eq!(nearest("zoen", &["port", "zone"]), Some("zone"));
        assert_eq!(nearest("ZONE", &["port", "zone"]), Some("zone"));
        assert_eq!(nearest("nxdomain", &["NODATA", "NXDOMAIN"]), Some("NXDOMAIN"));
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.toml");
        let error = open(&path, read::<Sample>).unwrap_err().to_string();
        assert!(error.starts_with(&format!("cannot read {}: ", path.display())), "{error}");
        std::fs::write(&path, "nmae = 1").unwrap();
        let error = open(&path, read::<Sample>).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{}:1:1: unknown field `nmae`", path.display())), "{error}");
    }

    #[test]
    fn a_mark_is_no_text_and_other_encodings_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.toml");
        let opened = |content: &[u8]| {
            std::fs::write(&path, content).unwrap();
            open(&path, read::<Sample>).map_err(|error| error.to_string())
        };
        assert!(opened("\u{feff}name = \"é\"\r\nwithin_s = 3\r\n".as_bytes()).is_ok());
        for (content, place, what) in [
            (&b"\xff\xfen\0"[..], "1:1", "the file is encoded in UTF-16, as its byte order mark shows"),
            (b"\xef\xbb\xbfname = \"\xc3\xa9\xe9\"", "1:10", "these bytes are not text in UTF-8"),
        ] {
            let expected = format!("{}:{place}: {what}; save", path.display());
            let error = opened(content).unwrap_err();
            assert!(error.starts_with(&expected), "{error}");
        }
    }

    #[test]
    fn a_wrong_type_is_placed() {
        let error = read::<Sample>("x.toml", "name = \"é\"\nwithin_s = \"long\"").unwrap_err();
        assert_eq!((error.line, error.column), (2, 12));
    }
}
