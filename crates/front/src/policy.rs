//! Where queries go: the back ends, how to choose among them, and the rules that come before the choice.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use super::parsed_query::ParsedQuery;
use kqps_message::header::RD;
use kqps_message::name::is_at_or_below;
use strum::{EnumString, IntoStaticStr, VariantNames};

/// The port of a URL without one.
const PORT: u16 = 53;

/// The back ends, and how a query finds one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// All back ends, at least one, each with a different name.
    pub back_ends: Vec<BackEnd>,
    /// How to choose if no rule says otherwise.
    pub choice: Choice,
    /// The first rule that matches a query decides. A query without a rule may go to all back ends.
    pub rules: Vec<Rule>,
    /// Whether to try a client's query once on another back end if it is answered SERVFAIL.
    pub retry_servfail: bool,
}

/// Reads the policy of a front again, and reports to the user what is wrong with it.
pub trait PolicySource {
    /// Reads the policy. If it cannot be used or `check` refuses it, reports the reason to the user and returns `None`.
    fn policy(&self, check: &dyn Fn(&Policy) -> Result<(), String>) -> Option<Policy>;

    /// Reports that the front uses this policy from now on or, with an error, that one of its workers cannot.
    fn adopted(&self, policy: &Policy, outcome: io::Result<()>);
}

/// A name server to which the front sends queries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackEnd {
    /// The name of the back end in rules and counts.
    pub name: String,
    /// The address and transport of the back end.
    pub target: Target,
    /// The back end's share of the queries relative to the others, at least 1.
    pub weight: u32,
}

/// The address and transport of a back end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// DNS over UDP, many datagrams per call, from several sockets. Queries of TCP clients go over TCP to the same
    /// address.
    Udp(SocketAddr),
    /// DNS over TCP (RFC 7766), pipelined.
    Tcp(SocketAddr),
    /// A Unix stream socket, with the framing of DNS over TCP.
    Unix(PathBuf),
}

/// How to choose one of several back ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "kebab-case", parse_err_ty = String, parse_err_fn = unknown)]
pub enum Choice {
    /// At random, in proportion to weights.
    Random,
    /// In turn; in every round each is chosen as often as its weight says.
    RoundRobin,
    /// The back end with the fewest outstanding queries for its weight.
    LeastOutstanding,
    /// By a hash of the qname: the same name goes to the same back end. When a back end comes or goes, only its own
    /// names move.
    Hash,
}

/// The back ends for the queries that match. A condition that is not set matches every query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The RD bit that a query must have; `None` for any.
    pub recursion_desired: Option<bool>,
    /// Names, uncompressed and in lower case, of which the qname must be one or be below one. Empty for any.
    pub suffixes: Vec<Vec<u8>>,
    /// The qtypes of which the query must have one. Empty for any.
    pub types: Vec<u16>,
    /// The indices of the rule's back ends in [`Policy::back_ends`], at least one.
    pub to: Vec<usize>,
    /// How to choose among them; `None` for [`Policy::choice`].
    pub choice: Option<Choice>,
}

impl Policy {
    /// The rule that a query matches; `None` if it may go to all back ends.
    pub(super) fn rule(&self, query: &[u8], asked: ParsedQuery) -> Option<usize> {
        if self.rules.is_empty() {
            return None;
        }
        self.rules.iter().position(|rule| rule.fits(query, asked))
    }

    /// Whether the back end with this index gets only queries with RD: there are rules for it, and all say so.
    pub(super) fn is_recursive(&self, back_end: usize) -> bool {
        let mut rules = self.rules.iter().filter(|rule| rule.to.contains(&back_end)).peekable();
        rules.peek().is_some() && rules.all(|rule| rule.recursion_desired == Some(true))
    }
}

impl Rule {
    fn fits(&self, query: &[u8], asked: ParsedQuery) -> bool {
        let wants_recursion = query[2] & RD != 0;
        self.recursion_desired.is_none_or(|desired| desired == wants_recursion)
            && (self.types.is_empty() || self.types.contains(&asked.qtype))
            && (self.suffixes.is_empty()
                || self.suffixes.iter().any(|suffix| is_at_or_below(asked.name(query), suffix)))
    }
}

impl Choice {
    /// The names of all variants.
    pub const NAMES: &[&str] = Self::VARIANTS;

    /// The name of the choice in flags and files.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The error for a name that no choice has.
fn unknown(name: &str) -> String {
    format!("no policy `{name}`; there are {}", Choice::NAMES.join(", "))
}

impl FromStr for Target {
    type Err = String;

    /// Reads `udp://ADDR[:PORT]`, `tcp://ADDR[:PORT]` or `unix:PATH`.
    fn from_str(url: &str) -> Result<Self, String> {
        let address = |text: &str| {
            let text = text.strip_suffix('/').unwrap_or(text);
            parse_address(text)
                .ok_or_else(|| format!("`{text}` in `{url}` is not an address of the form ADDR[:PORT]"))
        };
        if let Some(rest) = url.strip_prefix("udp://") {
            return address(rest).map(Self::Udp);
        }
        if let Some(rest) = url.strip_prefix("tcp://") {
            return address(rest).map(Self::Tcp);
        }
        match url.strip_prefix("unix:") {
            None => Err(format!("`{url}`: expected udp://ADDR[:PORT], tcp://ADDR[:PORT] or unix:PATH")),
            Some("") => Err(format!("`{url}` names no socket: expected unix:PATH")),
            // `unix:///path` is another common form.
            Some(path) => Ok(Self::Unix(path.strip_prefix("//").unwrap_or(path).into())),
        }
    }
}

/// Reads an address with a port above 0, by default that of DNS. A link-local IPv6 address has the index of its
/// interface after a per cent sign.
fn parse_address(text: &str) -> Option<SocketAddr> {
    let with_port = || format!("{text}:{PORT}").parse().ok();
    let bare = || Some(SocketAddr::new(text.parse().ok()?, PORT));
    let address: SocketAddr = text.parse().ok().or_else(with_port).or_else(bare)?;
    (address.port() > 0).then_some(address)
}

impl fmt::Display for Target {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Udp(address) => write!(out, "udp://{address}"),
            Self::Tcp(address) => write!(out, "tcp://{address}"),
            Self::Unix(path) => write!(out, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_as_they_are_shown() {
        for url in ["udp://127.0.0.1:5301", "tcp://[::1]:53", "unix:/run/kqps.sock"] {
            assert_eq!(url.parse::<Target>().unwrap().to_string(), url);
        }
        assert_eq!("tcp://192.0.2.1".parse::<Target>().unwrap().to_string(), "tcp://192.0.2.1:53");
        assert_eq!("udp://[2001:db8::1]".parse::<Target>().unwrap().to_string(), "udp://[2001:db8::1]:53");
        assert_eq!("udp://2001:db8::1".parse::<Target>().unwrap().to_string(), "udp://[2001:db8::1]:53");
        assert_eq!("udp://[fe80::1%3]".parse::<Target>().unwrap().to_string(), "udp://[fe80::1%3]:53");
        assert_eq!("unix:///run/x".parse::<Target>(), Ok(Target::Unix("/run/x".into())));
    }

    #[test]
    fn what_is_no_url_is_explained() {
        for (url, why) in [
            ("127.0.0.1:53", "expected udp://ADDR[:PORT]"),
            ("tls://127.0.0.1", "expected udp://ADDR[:PORT]"),
            ("tcp://localhost", "`localhost` in"),
            ("udp://127.0.0.1:0", "`127.0.0.1:0` in"),
            ("unix:", "names no socket"),
        ] {
            let error = url.parse::<Target>().unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn choices_are_found_by_their_names() {
        let expected = "no policy `fastest`; there are random, round-robin, least-outstanding, hash";
        assert_eq!("fastest".parse::<Choice>().unwrap_err(), expected);
        for choice in [Choice::Random, Choice::RoundRobin, Choice::LeastOutstanding, Choice::Hash] {
            assert_eq!(choice.name().parse(), Ok(choice));
        }
    }

    #[test]
    fn a_suffix_is_made_of_whole_labels() {
        let name = b"\x03www\x07eXample\x04test\0";
        assert!(is_at_or_below(name, b"\x07example\x04test\0"));
        assert!(is_at_or_below(name, b"\x03www\x07example\x04test\0"));
        assert!(is_at_or_below(name, b"\0"));
        assert!(!is_at_or_below(name, b"\x04test\x07example\0"));
        assert!(!is_at_or_below(b"\x09aexample\x04test\0", b"\x07example\x04test\0"));
        // A label whose text contains the bytes of the suffix.
        assert!(!is_at_or_below(b"\x06\x01a\x04test\0", b"\x04test\0"));
        assert!(!is_at_or_below(b"\0", b"\x04test\0"));
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        let rule = |recursion_desired, suffixes: &[&[u8]], types: &[u16], to| Rule {
            recursion_desired,
            suffixes: suffixes.iter().map(|suffix| suffix.to_vec()).collect(),
            types: types.to_vec(),
            to: vec![to],
            choice: None,
        };
        let policy = Policy {
            back_ends: Vec::new(),
            choice: Choice::Random,
            retry_servfail: false,
            rules: vec![
                rule(Some(true), &[], &[], 0),
                rule(None, &[b"\x04test\0"], &[1, 28], 1),
                rule(None, &[b"\x04test\0"], &[], 2),
            ],
        };
        let found = |flags: u8, question: &[u8]| {
            let query = [&[0, 0, flags, 0, 0, 1, 0, 0, 0, 0, 0, 0], question].concat();
            policy.rule(&query, ParsedQuery::from_query(&query).unwrap())
        };
        assert_eq!(found(RD, b"\x04test\0\0\x01\0\x01"), Some(0));
        assert_eq!(found(0, b"\x01a\x04TEST\0\0\x1c\0\x01"), Some(1));
        assert_eq!(found(0, b"\x01a\x04test\0\0\x0f\0\x01"), Some(2));
        assert_eq!(found(0, b"\x01a\x02se\0\0\x01\0\x01"), None);
        assert_eq!([0, 1, 2, 3].map(|back_end| policy.is_recursive(back_end)), [true, false, false, false]);
    }
}
