//! Why HTTP/2 of a connection failed.

use std::fmt;

/// The act of the peer that HTTP/2 forbids, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(String);

impl Failure {
    pub(crate) fn from_error(error: &h2::Error) -> Self {
        Self(error.to_string())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "HTTP/2: {}", self.0)
    }
}
