//! A paragraph of labelled lines, as runs and searches print it of a server.

use std::fmt::Write as _;

use kqps_observation::visible::visible_line;

use super::wrapped;

/// A heading with labelled lines below it.
pub(crate) struct Paragraph(String);

impl Paragraph {
    pub(crate) fn new(heading: &str) -> Self {
        Self(format!("{heading}\n"))
    }

    /// Adds a value in one line, however long it is.
    pub(crate) fn line(&mut self, label: &str, value: &str) {
        let _ = writeln!(self.0, "  {label:<12} {}", visible_line(value));
    }

    /// Adds a sentence, in as many lines as it needs.
    pub(crate) fn sentence(&mut self, label: &str, sentence: &str) {
        self.0 += &wrapped(&format!("  {label:<12} "), &visible_line(sentence));
    }

    pub(crate) fn into_text(self) -> String {
        self.0
    }
}
