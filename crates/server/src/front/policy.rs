//! Whom a query goes to: the back ends there are, the way to choose among them, and the rules before that.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use kqps_message::header::RD;
use serde::{Deserialize, Serialize};

use super::asked::Asked;

/// The port of DNS, where a URL names none.
const PORT: u16 = 53;

/// Back ends, and how a query finds one of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// All of them, at least one, each with a name of its own.
    pub back_ends: Vec<BackEnd>,
    /// How one is chosen where no rule says it.
    pub choice: Choice,
    /// The first that fits a query decides; without one all back ends are open to it.
    pub rules: Vec<Rule>,
    /// Whether a client's query that is answered SERVFAIL is tried once on another back end.
    pub retry_servfail: bool,
}

/// A server that answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackEnd {
    /// Its name in rules and counts.
    pub name: String,
    /// Where and how it is reached.
    pub target: Target,
    /// Its share of the queries beside that of others, at least 1.
    pub weight: u32,
}

/// Where and how a back end is reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Target {
    /// Datagrams, many in one call, from several sockets; and for clients that came by TCP, TCP.
    Udp(SocketAddr),
    /// DNS over TCP (RFC 7766), pipelined.
    Tcp(SocketAddr),
    /// The framing of DNS over TCP on a stream socket of this host.
    Unix(PathBuf),
}

/// How one of several back ends is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Choice {
    /// By chance, in proportion to weights.
    Random,
    /// One after the other, each as often in a round as it weighs.
    RoundRobin,
    /// The one that has the fewest queries outstanding for its weight.
    LeastOutstanding,
    /// By the name asked: the same name goes to the same back end, and when one goes or comes, only its own names
    /// move.
    Hash,
}

/// Which queries go to which back ends. A condition that is not given fits every query.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// The RD bit that it fits.
    pub recursion_desired: Option<bool>,
    /// The names at or under which it fits, uncompressed and in lower case; empty for all.
    pub suffixes: Vec<Vec<u8>>,
    /// The types that it fits; empty for all.
    pub types: Vec<u16>,
    /// The places of its back ends in [`Policy::back_ends`], at least one.
    pub to: Vec<usize>,
    /// How one of them is chosen, where not as usual.
    pub choice: Option<Choice>,
}

impl Policy {
    /// The rule that a query falls under; none where all back ends are open to it.
    pub(super) fn rule(&self, query: &[u8], asked: Asked) -> Option<usize> {
        if self.rules.is_empty() {
            return None;
        }
        self.rules.iter().position(|rule| rule.fits(query, asked))
    }
}

impl Rule {
    fn fits(&self, query: &[u8], asked: Asked) -> bool {
        let wants_recursion = query[2] & RD != 0;
        self.recursion_desired.is_none_or(|desired| desired == wants_recursion)
            && (self.types.is_empty() || self.types.contains(&asked.qtype))
            && (self.suffixes.is_empty()
                || self.suffixes.iter().any(|suffix| is_under(asked.name(query), suffix)))
    }
}

/// Whether a name is this suffix or below it; whole labels only (RFC 1034, section 3.1).
fn is_under(name: &[u8], suffix: &[u8]) -> bool {
    let Some(above) = name.len().checked_sub(suffix.len()) else { return false };
    if !name[above..].eq_ignore_ascii_case(suffix) {
        return false;
    }
    let mut at = 0;
    while at < above {
        at += 1 + usize::from(name[at]);
    }
    at == above
}

impl Choice {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Random, Self::RoundRobin, Self::LeastOutstanding, Self::Hash];

    /// Its name in flags and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::RoundRobin => "round-robin",
            Self::LeastOutstanding => "least-outstanding",
            Self::Hash => "hash",
        }
    }
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|choice| choice.name() == name)
            .ok_or_else(|| format!("no policy `{name}`; there are {}", Self::ALL.map(Self::name).join(", ")))
    }
}

impl FromStr for Target {
    type Err = String;

    /// `udp://ADDR[:PORT]`, `tcp://ADDR[:PORT]` or `unix:PATH`.
    fn from_str(url: &str) -> Result<Self, String> {
        let address = |text: &str| {
            let text = text.strip_suffix('/').unwrap_or(text);
            parse_address(text)
                .ok_or_else(|| format!("`{text}` in `{url}` is no address of the form ADDR[:PORT]"))
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
            // `unix:///path` is how some write it.
            Some(path) => Ok(Self::Unix(path.strip_prefix("//").unwrap_or(path).into())),
        }
    }
}

/// An address with a port above 0, which is that of DNS where it is not given. An IPv6 address of a link has its link's
/// number behind a per cent sign.
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
        assert!("fastest".parse::<Choice>().unwrap_err().contains("random, round-robin"));
    }

    #[test]
    fn a_suffix_is_made_of_whole_labels() {
        let name = b"\x03www\x07eXample\x04test\0";
        assert!(is_under(name, b"\x07example\x04test\0"));
        assert!(is_under(name, b"\x03www\x07example\x04test\0"));
        assert!(is_under(name, b"\0"));
        assert!(!is_under(name, b"\x04test\x07example\0"));
        assert!(!is_under(b"\x09aexample\x04test\0", b"\x07example\x04test\0"));
        // A label whose text looks like the suffix's bytes.
        assert!(!is_under(b"\x06\x01a\x04test\0", b"\x04test\0"));
        assert!(!is_under(b"\0", b"\x04test\0"));
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
            policy.rule(&query, Asked::of(&query).unwrap())
        };
        assert_eq!(found(RD, b"\x04test\0\0\x01\0\x01"), Some(0));
        assert_eq!(found(0, b"\x01a\x04TEST\0\0\x1c\0\x01"), Some(1));
        assert_eq!(found(0, b"\x01a\x04test\0\0\x0f\0\x01"), Some(2));
        assert_eq!(found(0, b"\x01a\x02se\0\0\x01\0\x01"), None);
    }
}
