//! Helpers of the targets for files that a person writes: text from any bytes, and the place of an error.

use std::borrow::Cow;

use kqps_files::toml_file::TomlError;

/// The name of the file in errors.
pub(crate) const FILE: &str = "fuzzed.toml";

/// Bytes as text, with a sign in place of those that are no UTF-8. The reader of files refuses such bytes before the
/// parser sees them.
pub(crate) fn text(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// An error names the file, and a line and a column that the text has.
pub(crate) fn is_placed(error: &TomlError, text: &str) {
    assert_eq!(error.file, FILE);
    let line = text.split('\n').nth(error.line - 1).unwrap_or_else(|| panic!("no such line: {error}"));
    assert!((1..=line.chars().count() + 1).contains(&error.column), "no such column: {error}");
    assert!(!error.what.is_empty());
}
