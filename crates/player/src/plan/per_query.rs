//! Changes to each query as it is sent: random labels before its name, and a signature. A dataset has room for
//! both.

use std::fmt;
use std::str::FromStr;

use kqps_message::name::LABEL_BYTES_MAX;
use kqps_message::tsig::{Algorithm, KeyName};
use serde::{Deserialize, Serialize};

/// Changes to each query as it is sent; usually none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PerQueryPlan {
    /// The labels before its name, whose lengths the dataset has as well; `None` for none.
    #[serde(default)]
    pub prefix: Option<Prefix>,
    /// The key that signs it, whose name the dataset has as well; `None` for no signature.
    #[serde(default)]
    pub tsig: Option<TsigKey>,
}

/// A TSIG key (RFC 8945).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TsigKey {
    /// The word of the algorithm, such as `hmac-sha256`.
    pub algorithm: String,
    /// The name in presentation form; empty for the root.
    pub name: String,
    /// The secret, any number of bytes.
    pub secret: Vec<u8>,
}

impl TsigKey {
    /// The key without its secret; `None` if the algorithm or the name is none.
    pub fn key_name(&self) -> Option<KeyName> {
        KeyName::new(Algorithm::of_word(&self.algorithm)?, self.name.as_bytes()).ok()
    }
}

impl fmt::Debug for TsigKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "TsigKey({} {}, a secret of {} bytes)", self.algorithm, self.name, self.secret.len())
    }
}

/// Labels before the name of each query, made anew for each. Their lengths are the same for all queries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Prefix {
    /// This many labels of this many letters and digits each.
    Label {
        /// The length of a label, 1 to 63.
        bytes: u8,
        /// The number of labels, at least 1.
        labels: u8,
    },
    /// A label of this many bytes of any value.
    Bytes {
        /// The length of the label, 1 to 63.
        bytes: u8,
    },
    /// A label with a decimal number, with as many digits as the highest has.
    Number {
        /// The lowest number.
        low: u64,
        /// The highest number.
        high: u64,
    },
}

impl Prefix {
    /// The lengths of the labels.
    pub fn lengths(&self) -> Vec<u8> {
        match *self {
            Self::Label { bytes, labels } => vec![bytes; labels.into()],
            Self::Bytes { bytes } => vec![bytes],
            Self::Number { high, .. } => vec![high.checked_ilog10().unwrap_or(0) as u8 + 1],
        }
    }
}

/// The default length of a label.
const LABEL_BYTES: u8 = 10;
/// The most labels. With one byte each they fill a name.
const LABELS_MOST: u8 = 126;

impl FromStr for Prefix {
    type Err = &'static str;

    /// Reads `label[:BYTES[xLABELS]]`, `bytes[:BYTES]` or `number:LOW-HIGH`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let expected = "expected label[:BYTES[xLABELS]], bytes[:BYTES] or number:LOW-HIGH, such as label:8 or \
                        number:0-99999; a label has 1 to 63 bytes";
        let (kind, rest) = text.split_once(':').map_or((text, None), |(kind, rest)| (kind, Some(rest)));
        let within = |text: &str, most: u64| -> Option<u64> {
            let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse().ok().filter(|number| is_number && *number <= most)
        };
        let length = |text: &str| within(text, LABEL_BYTES_MAX as u64).filter(|bytes| *bytes > 0);
        let prefix = match (kind, rest) {
            ("label", None) => Some(Self::Label { bytes: LABEL_BYTES, labels: 1 }),
            ("label", Some(rest)) => {
                let (bytes, labels) = rest.split_once('x').unwrap_or((rest, "1"));
                let labels = within(labels, LABELS_MOST.into()).filter(|labels| *labels > 0);
                length(bytes)
                    .zip(labels)
                    .map(|(bytes, labels)| Self::Label { bytes: bytes as u8, labels: labels as u8 })
            }
            ("bytes", None) => Some(Self::Bytes { bytes: LABEL_BYTES }),
            ("bytes", Some(rest)) => length(rest).map(|bytes| Self::Bytes { bytes: bytes as u8 }),
            ("number", Some(rest)) => rest
                .split_once('-')
                .and_then(|(low, high)| within(low, u64::MAX).zip(within(high, u64::MAX)))
                .filter(|(low, high)| low <= high)
                .map(|(low, high)| Self::Number { low, high }),
            _ => None,
        };
        prefix.ok_or(expected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_a_kind_with_its_lengths() {
        for (text, prefix, lengths) in [
            ("label", Prefix::Label { bytes: 10, labels: 1 }, &[10][..]),
            ("label:8", Prefix::Label { bytes: 8, labels: 1 }, &[8]),
            ("label:3x2", Prefix::Label { bytes: 3, labels: 2 }, &[3, 3]),
            ("bytes:63", Prefix::Bytes { bytes: 63 }, &[63]),
            ("number:0-0", Prefix::Number { low: 0, high: 0 }, &[1]),
            ("number:5-100", Prefix::Number { low: 5, high: 100 }, &[3]),
        ] {
            assert_eq!(text.parse(), Ok(prefix.clone()), "{text}");
            assert_eq!(prefix.lengths(), lengths, "{text}");
        }
        for bad in [
            "",
            "label:",
            "label:0",
            "label:64",
            "label:3x",
            "label:3x0",
            "bytes:+1",
            "number",
            "number:2-1",
            "x:1",
        ] {
            assert!(bad.parse::<Prefix>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_key_is_shown_without_its_secret() {
        let key = TsigKey { algorithm: "hmac-md5".into(), name: "k".into(), secret: b"secret".to_vec() };
        assert_eq!(format!("{key:?}"), "TsigKey(hmac-md5 k, a secret of 6 bytes)");
        assert!(key.key_name().is_some());
        assert!(TsigKey { algorithm: "md5".into(), ..key.clone() }.key_name().is_none());
        assert!(TsigKey { name: "a..b".into(), ..key }.key_name().is_none());
    }
}
