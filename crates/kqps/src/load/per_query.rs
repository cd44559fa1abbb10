//! The flags of what every query gets beside its name and type: whether it is an update, EDNS options, random labels
//! and a signature.

use std::str::FromStr;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use kqps_dataset::{Additions, Format};
use kqps_message::edns::append_option;
use kqps_message::tsig::Algorithm;
use kqps_player::{PerQueryPlan, Prefix, TsigKey};

use super::flags::Reading;

/// Secrets in base64, with or without the padding at their end.
const SECRETS: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// An EDNS option as typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EdnsOption {
    code: u16,
    data: Vec<u8>,
}

impl EdnsOption {
    /// The option with this code and data in hex, of which there may be none. The error says what is wrong with them.
    pub(crate) fn new(code: u16, hex: &str) -> Result<Self, &'static str> {
        Ok(Self { code, data: bytes_of_hex(hex)? })
    }
}

/// The bytes that pairs of hexadecimal digits stand for.
pub(super) fn bytes_of_hex(hex: &str) -> Result<Vec<u8>, &'static str> {
    let value = |digit: char| u8::try_from(digit.to_digit(16)?).ok();
    let digits: Option<Vec<u8>> = hex.chars().map(value).collect();
    let digits = digits.filter(|digits| digits.len().is_multiple_of(2));
    let digits = digits.ok_or("expected pairs of hexadecimal digits")?;
    Ok(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

impl FromStr for EdnsOption {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let expected = "expected CODE:HEX, such as 65001:0a0b, or CODE: for an option without data";
        let (code, hex) = text.split_once(':').ok_or(expected)?;
        let is_number = !code.is_empty() && code.bytes().all(|byte| byte.is_ascii_digit());
        let code = code.parse().ok().filter(|_| is_number).ok_or(expected)?;
        Self::new(code, hex).map_err(|_| expected)
    }
}

/// Why the text of a key is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeyFault {
    /// It has no secret.
    Parts,
    /// The algorithm is unknown.
    Algorithm(String),
    /// The name is malformed.
    Name(String),
    /// The secret has no letters.
    EmptySecret,
    /// The secret is not base64.
    Secret,
}

/// Parses a key, `[alg:]name:secret`, as dnsperf does. Without an algorithm it is HMAC-MD5.
pub(crate) fn parse_key(text: &str) -> Result<TsigKey, KeyFault> {
    let (first, rest) = text.split_once(':').ok_or(KeyFault::Parts)?;
    let (algorithm, name, secret) = match rest.split_once(':') {
        Some((name, secret)) => (first, name, secret),
        None => (Algorithm::Md5.word(), first, rest),
    };
    let algorithm = Algorithm::of_word(algorithm).ok_or_else(|| KeyFault::Algorithm(algorithm.to_owned()))?;
    if secret.is_empty() {
        return Err(KeyFault::EmptySecret);
    }
    let secret = SECRETS.decode(secret).ok().filter(|secret| !secret.is_empty()).ok_or(KeyFault::Secret)?;
    let key = TsigKey { algorithm: algorithm.word().to_owned(), name: name.to_owned(), secret };
    if key.key_name().is_none() {
        return Err(KeyFault::Name(key.name));
    }
    Ok(key)
}

/// Parses the key of a flag.
fn parse_tsig(text: &str) -> Result<TsigKey, String> {
    parse_key(text).map_err(|fault| match fault {
        KeyFault::Parts => "expected [ALG:]NAME:SECRET, such as hmac-sha256:my-key:c2VjcmV0".into(),
        KeyFault::Algorithm(word) => {
            let known = Algorithm::ALL.map(Algorithm::word).join(", ");
            format!("`{word}` is no algorithm; expected one of {known}")
        }
        KeyFault::Name(name) => format!("`{name}` is no name of a key"),
        KeyFault::EmptySecret => "the secret is empty".into(),
        KeyFault::Secret => "the secret is not base64".into(),
    })
}

/// The flags. The comments are the help text.
#[derive(clap::Args)]
#[allow(clippy::doc_markdown)] // the comments are the help text
#[command(next_help_heading = "Queries")]
pub(crate) struct PerQueryArgs {
    /// Read dynamic updates (RFC 2136) instead of queries, as dnsperf -u does
    ///
    /// An update is a line with the zone, lines that begin with require, prohibit, add or delete, and a line send.
    #[arg(short = 'u', long, conflicts_with = "binary")]
    updates: bool,

    /// Add this EDNS option to every query: its code, and its data in hex (repeatable)
    ///
    /// Every query then has EDNS.
    #[arg(short = 'E', long, value_name = "CODE:HEX")]
    edns_option: Vec<EdnsOption>,

    /// Sign every query with this TSIG key, whose secret is base64; ALG is hmac-md5 unless given
    ///
    /// The signature is made as the query is sent (RFC 8945). Those of replies are not checked. Algorithms are
    /// hmac-md5, hmac-sha1, hmac-sha224, hmac-sha256, hmac-sha384 and hmac-sha512.
    #[arg(short = 'y', long, value_name = "[ALG:]NAME:SECRET", value_parser = parse_tsig)]
    tsig: Option<TsigKey>,

    /// Put random labels before every name: label[:BYTES[xLABELS]], bytes[:BYTES] or number:LOW-HIGH
    ///
    /// label:8x2 are two labels of eight letters and digits each, bytes:8 is a label of any bytes, and number:0-99999
    /// one of five digits. Labels are made anew for each query, and its reply must repeat them.
    #[arg(long, value_name = "KIND", conflicts_with_all = ["binary", "updates"])]
    prefix: Option<Prefix>,
}

impl PerQueryArgs {
    /// How the queries are read with these flags.
    pub(super) fn reading(&self) -> Reading {
        let format = if self.updates { Format::Updates } else { Format::Auto };
        let labels = self.prefix.as_ref().map(Prefix::lengths).unwrap_or_default();
        Reading { format, additions: additions(&self.edns_option, labels, self.tsig.as_ref()) }
    }

    /// The plan for each query with these flags.
    pub(super) fn plan(&self) -> PerQueryPlan {
        PerQueryPlan { prefix: self.prefix.clone(), tsig: self.tsig.clone() }
    }

    /// The first flag that is given and of no use for a capture.
    pub(super) fn first_given(&self) -> Option<&'static str> {
        let given = [
            ("-u", self.updates),
            ("-E", !self.edns_option.is_empty()),
            ("-y", self.tsig.is_some()),
            ("--prefix", self.prefix.is_some()),
        ];
        given.into_iter().find_map(|(flag, is_given)| is_given.then_some(flag))
    }
}

/// Additions to every query with these options, label lengths and key.
pub(crate) fn additions(options: &[EdnsOption], labels: Vec<u8>, key: Option<&TsigKey>) -> Additions {
    let mut edns_options = Vec::new();
    for EdnsOption { code, data } in options {
        // More than a record holds makes queries too long, which is reported when they are read.
        let _ = append_option(&mut edns_options, *code, data);
    }
    Additions { udp_payload_bytes: None, edns_options, labels, tsig: key.and_then(TsigKey::key_name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_a_name_a_secret_and_perhaps_an_algorithm() {
        let key = parse_key("hmac-sha256:key.:c2VjcmV0MTI=").unwrap();
        assert_eq!((&*key.algorithm, &*key.name, &*key.secret), ("hmac-sha256", "key.", &b"secret12"[..]));
        assert_eq!(parse_key("HMAC-SHA512:k:c2VjcmV0").unwrap().algorithm, "hmac-sha512");
        let md5 = parse_key("key:c2VjcmV0MTI").unwrap();
        assert_eq!((&*md5.algorithm, &*md5.secret), ("hmac-md5", &b"secret12"[..]), "without padding");
        assert_eq!(parse_key(":c2VjcmV0").unwrap().name, "");
        assert_eq!(parse_key("key"), Err(KeyFault::Parts));
        assert_eq!(parse_key("a:b"), Err(KeyFault::Secret));
        assert_eq!(parse_key("a:"), Err(KeyFault::EmptySecret));
        assert_eq!(parse_key("a:="), Err(KeyFault::Secret));
        assert_eq!(parse_key("hmac-foo:a:AAAA"), Err(KeyFault::Algorithm("hmac-foo".into())));
        assert_eq!(parse_key("hmac-md5:a..b:AAAA"), Err(KeyFault::Name("a..b".into())));
    }

    #[test]
    fn an_option_is_a_code_and_hex() {
        assert_eq!("65001:0a0B".parse(), Ok(EdnsOption { code: 65_001, data: vec![10, 11] }));
        assert_eq!("3:".parse(), Ok(EdnsOption { code: 3, data: vec![] }));
        for bad in ["", "3", ":00", "x:00", "65536:00", "3:0", "3:zz", "-1:00", "3:+1"] {
            assert!(bad.parse::<EdnsOption>().is_err(), "{bad}");
        }
        let both = additions(&["3:".parse().unwrap(), "4:01".parse().unwrap()], vec![], None);
        assert_eq!(both.edns_options, b"\x00\x03\x00\x00\x00\x04\x00\x01\x01");
    }
}
