//! The hosts of a run: a server, its players, and the way to each.

use std::collections::BTreeSet;
use std::net::IpAddr;

use kqps_observation::cpu_list;
use serde::{Deserialize, Serialize};

/// The program that is started on a host that names no other.
const PROGRAM: &str = "kqps";

/// The longest name of a host, in characters.
const NAME_MOST: usize = 64;

/// The longest name of a network device, in bytes (`IFNAMSIZ` less its end).
const DEVICE_MOST: usize = 15;

/// The hosts of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hosts {
    /// The host of the subjects.
    pub server: Host,
    /// The hosts of the players: at least one. No two hosts have the same name.
    pub players: Vec<Host>,
}

/// A host, as the hosts' file describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Its name in output and records: letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// The words before a command that is to run there, such as `ssh ns1`; empty for this host itself.
    pub reach: Vec<String>,
    /// The path or name of kqps there.
    pub kqps: String,
    /// The server's address for queries, or the player's own.
    pub data: IpAddr,
    /// The addresses that a player sends from, `ADDR` or `ADDR/PREFIX`; `None` for `data`.
    pub sources: Option<String>,
    /// The cores that may be used there; `None` for all.
    pub cores: Option<Vec<u32>>,
    /// The network device that carries the queries; `None` for the one that has the address `data`.
    pub device: Option<String>,
}

impl Hosts {
    /// All hosts, the server first.
    pub fn all(&self) -> impl Iterator<Item = &Host> {
        std::iter::once(&self.server).chain(&self.players)
    }

    /// Hosts that fit together. An error names the place of the host among [`all`](Self::all).
    pub(crate) fn new(server: Host, players: Vec<Host>) -> Result<Self, (usize, Wrong)> {
        let hosts = Self { server, players };
        hosts.check()?;
        Ok(hosts)
    }

    fn check(&self) -> Result<(), (usize, Wrong)> {
        if self.players.is_empty() {
            return Err((0, Wrong::new("player", "at least one player is needed")));
        }
        let mut names = BTreeSet::new();
        for (place, host) in self.all().enumerate() {
            if !names.insert(&host.name) {
                return Err((place, Wrong::new("name", format!("two hosts have the name `{}`", host.name))));
            }
            if host.data.is_ipv4() != self.server.data.is_ipv4() {
                let what = format!(
                    "{} is not of the same IP version as the server's address {}",
                    host.data, self.server.data
                );
                return Err((place, Wrong::new("data", what)));
            }
        }
        Ok(())
    }
}

/// A host in the words of a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Words<'w> {
    pub(crate) name: &'w str,
    pub(crate) reach: Vec<String>,
    pub(crate) kqps: Option<&'w str>,
    pub(crate) data: &'w str,
    pub(crate) sources: Option<&'w str>,
    pub(crate) cores: Option<&'w str>,
    pub(crate) device: Option<&'w str>,
}

/// A wrong value of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    /// The key whose value is wrong.
    pub(crate) key: &'static str,
    /// The error: what was found and what was expected.
    pub(crate) what: String,
}

impl Wrong {
    fn new(key: &'static str, what: impl Into<String>) -> Self {
        Self { key, what: what.into() }
    }
}

impl Host {
    /// Reads the words of a file.
    pub(crate) fn from_words(words: Words<'_>) -> Result<Self, Wrong> {
        let data = data(words.data).map_err(|what| Wrong::new("data", what))?;
        let owned = |word: &str| word.to_owned();
        if let Some(word) = words.reach.iter().find(|word| word.contains('\0')) {
            return Err(Wrong::new("reach", format!("`{word}` has a zero byte")));
        }
        Ok(Self {
            name: name(words.name).map_err(|what| Wrong::new("name", what))?,
            reach: words.reach,
            kqps: program(words.kqps.unwrap_or(PROGRAM)).map_err(|what| Wrong::new("kqps", what))?,
            data,
            sources: words
                .sources
                .map(|text| sources(text, data).map(|()| owned(text)))
                .transpose()
                .map_err(|what| Wrong::new("sources", what))?,
            cores: words.cores.map(cores).transpose().map_err(|what| Wrong::new("cores", what))?,
            device: words.device.map(device).transpose().map_err(|what| Wrong::new("device", what))?,
        })
    }
}

fn name(text: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let begins = text.starts_with(|c: char| c.is_ascii_alphanumeric());
    if begins && text.chars().all(is_plain) && text.len() <= NAME_MOST {
        return Ok(text.to_owned());
    }
    Err(format!("expected a name of at most {NAME_MOST} letters, digits, `-`, `_` and `.`, found `{text}`"))
}

fn program(text: &str) -> Result<String, String> {
    if text.is_empty() || text.starts_with('-') || text.contains('\0') {
        return Err(format!("expected the path or the name of kqps there, found `{text}`"));
    }
    Ok(text.to_owned())
}

fn data(text: &str) -> Result<IpAddr, String> {
    let expected = || format!("expected an IP address, such as 192.0.2.1, found `{text}`");
    let address: IpAddr = text.parse().map_err(|_| expected())?;
    if address.is_unspecified() || address.is_multicast() {
        return Err(format!("{address} is no address of one host"));
    }
    Ok(address)
}

fn sources(text: &str, data: IpAddr) -> Result<(), String> {
    let expected = || format!("expected ADDR or ADDR/PREFIX, such as 192.0.2.0/28, found `{text}`");
    let (address, prefix) =
        text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
    let address: IpAddr = address.parse().map_err(|_| expected())?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let fits = |bits: &str| {
        bits.bytes().all(|byte| byte.is_ascii_digit()) && bits.parse::<u32>().is_ok_and(|bits| bits <= most)
    };
    if !prefix.is_none_or(fits) {
        return Err(expected());
    }
    if address.is_ipv4() != data.is_ipv4() {
        return Err(format!("{text} is not of the same IP version as {data}"));
    }
    Ok(())
}

fn cores(text: &str) -> Result<Vec<u32>, String> {
    let cores = cpu_list::parse(text).map_err(|error| error.to_string())?;
    if cores.is_empty() {
        return Err("expected a list such as 0,2-5, found none; leave the key out for all cores".into());
    }
    Ok(cores)
}

fn device(text: &str) -> Result<String, String> {
    let is_name = |c: char| c.is_ascii_graphic() && c != '/';
    if text.is_empty() || text.len() > DEVICE_MOST || !text.chars().all(is_name) {
        return Err(format!("expected the name of a network device, such as eth0, found `{text}`"));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(name: &str) -> Words<'_> {
        Words { name, data: "192.0.2.1", ..Words::default() }
    }

    fn error(words: Words<'_>) -> String {
        let Wrong { key, what } = Host::from_words(words).unwrap_err();
        format!("{key}: {what}")
    }

    #[test]
    fn what_is_left_out_has_a_default() {
        let host = Host::from_words(words("ns1.example")).unwrap();
        assert_eq!((host.kqps.as_str(), &host.cores, &host.sources), ("kqps", &None, &None));
    }

    #[test]
    fn each_value_is_checked() {
        for name in ["", "-x", ".x", "a b", "ä", "a/b", &"x".repeat(65)] {
            assert!(error(words(name)).starts_with("name: expected a name of"), "{name}");
        }
        for data in ["", "ns1", "192.0.2.1:53", "192.0.2.0/24"] {
            let expected = format!("data: expected an IP address, such as 192.0.2.1, found `{data}`");
            assert_eq!(error(Words { data, ..words("a") }), expected);
        }
        for data in ["0.0.0.0", "::", "224.0.0.1"] {
            assert_eq!(
                error(Words { data, ..words("a") }),
                format!("data: {data} is no address of one host")
            );
        }
        for text in ["x", "192.0.2.0/33", "192.0.2.0/", "192.0.2.0/+4", "2001:db8::/129"] {
            let found = error(Words { sources: Some(text), ..words("a") });
            assert!(found.starts_with("sources: expected ADDR or ADDR/PREFIX"), "{found}");
        }
        let other = error(Words { sources: Some("2001:db8::/64"), ..words("a") });
        assert_eq!(other, "sources: 2001:db8::/64 is not of the same IP version as 192.0.2.1");
        assert!(error(Words { cores: Some("1,1"), ..words("a") }).starts_with("cores: 1 stands twice"));
        assert!(error(Words { cores: Some(""), ..words("a") }).starts_with("cores: expected a list"));
        for text in ["", "eth0/1", "a name", "sixteen-letters-"] {
            assert!(error(Words { device: Some(text), ..words("a") }).starts_with("device: expected"));
        }
        assert!(error(Words { kqps: Some("-v"), ..words("a") }).starts_with("kqps: expected the path"));
    }

    #[test]
    fn hosts_must_fit_together() {
        let host = |name, data| Host::from_words(Words { data, ..words(name) }).unwrap();
        let server = host("ns", "192.0.2.1");
        let failed = |players| Hosts::new(server.clone(), players).unwrap_err();
        assert_eq!(failed(vec![]).0, 0);
        let (place, wrong) = failed(vec![host("a", "192.0.2.2"), host("a", "192.0.2.3")]);
        assert_eq!((place, wrong.what.as_str()), (2, "two hosts have the name `a`"));
        let (place, wrong) = failed(vec![host("a", "2001:db8::1")]);
        assert_eq!((place, wrong.key), (1, "data"));
        let names = |hosts: &Hosts| hosts.all().map(|host| host.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&Hosts::new(server.clone(), vec![host("a", "192.0.2.2")]).unwrap()), ["ns", "a"]);
    }
}
