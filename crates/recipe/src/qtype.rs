//! Record types as recipes name them.

use std::fmt;

use kqps_message::rtype;
use serde::de::{Deserialize, Deserializer, Error};

use kqps_files::toml_file::{did_you_mean, nearest};

/// A record type that a query can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Type(pub u16);

/// Whether a query for this type asks for data. OPT does not, nor do the types from TKEY to ANY, except ANY
/// itself, which has an answer.
fn is_of_data(rtype: u16) -> bool {
    rtype != rtype::OPT && !(249..rtype::ANY).contains(&rtype)
}

impl fmt::Display for Type {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&rtype::RtypeName(self.0), out)
    }
}

impl std::str::FromStr for Type {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match rtype::parse(text.as_bytes()) {
            Some(rtype) if is_of_data(rtype) => Ok(Self(rtype)),
            Some(_) => Err(format!("{text} is not a type of data")),
            None => {
                let known: Vec<&str> = rtype::TYPES.iter().map(|(name, _)| *name).collect();
                let near = did_you_mean(nearest(&text.to_ascii_uppercase(), &known));
                Err(format!("unknown type \"{text}\"; expected one such as A or TYPE65{near}"))
            }
        }
    }
}

impl<'de> Deserialize<'de> for Type {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(Error::custom)
    }
}
