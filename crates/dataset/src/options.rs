//! How a query file is read.

use std::path::PathBuf;

use kqps_message::Edns;
use serde::{Deserialize, Serialize};

/// How to read a query file.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Text or binary.
    pub format: Format,
    /// Whether to give an OPT record to every query that has none.
    pub edns: bool,
    /// Whether to give an OPT record with the DO flag to every query.
    pub dnssec: bool,
    /// Whether to skip and count bad lines and messages; otherwise the first is an error.
    pub skip_bad: bool,
    /// The folder of encoded datasets; `None` for the user's cache directory.
    pub cache_dir: Option<PathBuf>,
}

impl Options {
    /// The OPT record that every query gets.
    pub(crate) fn every_query(&self) -> Option<Edns> {
        (self.edns || self.dnssec).then(|| Edns { dnssec_ok: self.dnssec, ..Edns::default() })
    }

    /// The options that change the encoded form.
    pub(crate) fn shape(&self) -> [u8; 4] {
        [self.format as u8, self.edns.into(), self.dnssec.into(), self.skip_bad.into()]
    }
}

/// The format of a query file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// Binary if the first byte is below 9; text otherwise. No line of text begins with such a byte, and every length
    /// below 2304 does.
    #[default]
    Auto,
    /// Lines of `name type [further columns]`.
    Text,
    /// 16-bit big-endian lengths and messages.
    Binary,
}
