//! Facts of the source as a whole, as JSON at the end of an encoded file.

use std::io;

use serde::{Deserialize, Serialize};

use crate::facts::CaptureFacts;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Tail {
    /// The source is a capture.
    Capture(Box<CaptureFacts>),
    /// The source has bad lines or messages, which were skipped: the first of them, as [`crate::Bad`] names them.
    Bad(Vec<String>),
}

impl Tail {
    pub(crate) fn encode(&self) -> io::Result<Vec<u8>> {
        Ok(serde_json::to_vec(self)?)
    }
}
