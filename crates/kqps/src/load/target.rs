//! The targets of a load: addresses, names and URLs as people type them.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};

use clap::ValueEnum;

use kqps_http::{Method, Requests, authority};
use kqps_observation::trial::Transport;

use super::allowed::{Allowed, check_target};
use crate::exit::bad_input;

/// The address family that names are resolved to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Family {
    Inet,
    Inet6,
    #[default]
    Any,
}

impl Family {
    fn has(self, address: SocketAddr) -> bool {
        match self {
            Self::Inet => address.is_ipv4(),
            Self::Inet6 => address.is_ipv6(),
            Self::Any => true,
        }
    }
}

/// A target as typed, with the port that was typed as a separate word.
type Typed<'a> = (&'a str, Option<u16>);

/// The targets of a load: at least one.
#[derive(Clone, Debug)]
pub(crate) struct Targets {
    /// Their addresses, all of one family.
    pub(crate) addresses: Vec<SocketAddr>,
    /// The name or address of each, as typed and without a port.
    pub(crate) names: Vec<String>,
    /// The path of each one's URL, or the usual one.
    pub(crate) paths: Vec<String>,
    /// The transport that each one's URL names, if it names one.
    transports: Vec<Option<Transport>>,
}

impl Targets {
    /// The transport that URLs name, if any does. An error if they name several.
    pub(crate) fn transport(&self) -> anyhow::Result<Option<Transport>> {
        one_transport(self.transports.iter().copied().flatten())
    }

    /// The targets whose URLs name this transport.
    pub(super) fn over(&self, transport: Transport) -> Self {
        let is_over = |number: &usize| self.transports[*number] == Some(transport);
        let numbers: Vec<usize> = (0..self.addresses.len()).filter(is_over).collect();
        Self {
            addresses: numbers.iter().map(|number| self.addresses[*number]).collect(),
            names: numbers.iter().map(|number| self.names[*number].clone()).collect(),
            paths: numbers.iter().map(|number| self.paths[*number].clone()).collect(),
            transports: vec![Some(transport); numbers.len()],
        }
    }

    /// The first target that names none of these transports.
    pub(super) fn beside(&self, transports: &[Transport]) -> Option<SocketAddr> {
        let is_other = |named: &Option<Transport>| named.is_none_or(|named| !transports.contains(&named));
        self.transports.iter().position(is_other).map(|number| self.addresses[number])
    }
}

/// A target that was found.
struct ResolvedTarget {
    address: SocketAddr,
    name: String,
    path: Option<String>,
    transport: Option<Transport>,
}

/// The targets of these words, which must be of one family, as the sockets are. A bare number after a target is its
/// port; `port` is the port of targets without one, or else that of their transport, which is `mode` unless a URL names
/// one.
pub(crate) fn resolve_all(
    words: &[String],
    port: Option<u16>,
    mode: Option<Transport>,
    family: Family,
    allowed: &[Allowed],
) -> anyhow::Result<Targets> {
    let targets = with_ports(words)?;
    let resolved: Vec<ResolvedTarget> = targets
        .iter()
        .map(|&(target, own)| resolve((target, own.or(port)), mode, family, allowed))
        .collect::<anyhow::Result<_>>()?;
    let (mut addresses, mut names, mut paths, mut transports) = (vec![], vec![], vec![], vec![]);
    for ResolvedTarget { address, name, path, transport } in resolved {
        addresses.push(address);
        names.push(name);
        paths.push(path.unwrap_or_else(|| kqps_http::PATH.to_owned()));
        transports.push(transport);
    }
    let Some(&first) = addresses.first() else {
        return Err(bad_input("which server? Give a <TARGET>, such as 127.0.0.1:5300, or -s ADDR -p PORT"));
    };
    match addresses.iter().find(|address| address.is_ipv4() != first.is_ipv4()) {
        Some(other) => Err(bad_input(format!(
            "targets {first} and {other} are of different families: give IPv4 or IPv6 addresses, not both"
        ))),
        None => Ok(Targets { addresses, names, paths, transports }),
    }
}

/// The transport that all of these are; `None` if there are none.
fn one_transport(mut named: impl Iterator<Item = Transport>) -> anyhow::Result<Option<Transport>> {
    let Some(first) = named.next() else { return Ok(None) };
    match named.find(|other| *other != first) {
        Some(other) => Err(bad_input(format!(
            "targets over {} and over {}: give one transport for all",
            first.word(),
            other.word()
        ))),
        None => Ok(Some(first)),
    }
}

fn with_ports(words: &[String]) -> anyhow::Result<Vec<Typed<'_>>> {
    let mut targets: Vec<Typed<'_>> = Vec::new();
    for word in words {
        if word.is_empty() || !word.bytes().all(|byte| byte.is_ascii_digit()) {
            targets.push((word, None));
            continue;
        }
        match targets.last_mut() {
            Some((_, port @ None)) => *port = Some(port_of(word)?),
            _ => {
                return Err(bad_input(format!(
                    "target `{word}`: a bare number is the port of the address before it, as in 127.0.0.1 5300"
                )));
            }
        }
    }
    Ok(targets)
}

/// The port of servers without another one.
pub(crate) fn usual_port(transport: Transport) -> u16 {
    match transport {
        // RFC 1035, section 4.2.
        Transport::Udp | Transport::Tcp => 53,
        Transport::Tls => kqps_tls::PORT,
        Transport::Https => kqps_http::PORT,
        Transport::Quic => kqps_quic::PORT,
    }
}

fn port_of(word: &str) -> anyhow::Result<u16> {
    let port = word.parse().ok().filter(|port| *port > 0);
    port.ok_or_else(|| bad_input(format!("port {word}: expected 1 to 65535")))
}

/// The address of a target, resolved once. An error if kqps may not load it.
fn resolve(
    (target, port): Typed<'_>,
    mode: Option<Transport>,
    family: Family,
    allowed: &[Allowed],
) -> anyhow::Result<ResolvedTarget> {
    let found = parse(target, port, mode, family)?;
    let address = found.address;
    if !family.has(address) {
        return Err(bad_input(format!("target `{target}`: {address} is not of the family that -f asks for")));
    }
    let ip = address.ip();
    if address.port() == 0 {
        return Err(bad_input(format!("target `{target}`: port 0: expected 1 to 65535")));
    }
    if ip.is_unspecified() || ip.is_multicast() {
        return Err(bad_input(format!("target `{target}`: {ip} is the address of no single server")));
    }
    check_target(address, allowed)?;
    Ok(found)
}

fn parse(
    target: &str,
    typed: Option<u16>,
    mode: Option<Transport>,
    family: Family,
) -> anyhow::Result<ResolvedTarget> {
    let (rest, path, transport) = match target.split_once("://") {
        None => (target, None, None),
        Some((scheme, rest)) => {
            // RFC 3986, section 3.1: the case of letters makes no difference.
            let transport = parse_transport(&scheme.to_ascii_lowercase())
                .map_err(|error| bad_input(format!("target `{target}`: {error}")))?;
            let (rest, path) = match transport {
                Transport::Https => split_path(rest),
                Transport::Udp | Transport::Tcp | Transport::Tls | Transport::Quic => {
                    (rest.trim_end_matches('/'), None)
                }
            };
            (rest, path, Some(transport))
        }
    };
    let usual = usual_port(transport.or(mode).unwrap_or_default());
    let (address, name) = address_of(target, rest, (typed, usual), family)?;
    if let Some(path) = &path {
        Requests::new(Method::default(), &authority(&name, address.port()), path).map_err(bad_input)?;
    }
    Ok(ResolvedTarget { address, name, path, transport })
}

/// The host and port of a URL, and its path if it has one beside `/`. A path may be a template, as RFC 8484, section 3,
/// has it: what it does with the query is what the player does.
fn split_path(rest: &str) -> (&str, Option<String>) {
    let (host, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let path = path.strip_suffix("{?dns}").unwrap_or(path);
    (host, Some(path).filter(|path| !["", "/"].contains(path)).map(str::to_owned))
}

/// The address of a target, and its name or address without a port. `rest` is what follows its scheme. The port is that
/// of `rest`, the typed one, or the usual one.
fn address_of(
    target: &str,
    rest: &str,
    (typed, usual): (Option<u16>, u16),
    family: Family,
) -> anyhow::Result<(SocketAddr, String)> {
    let expected = || {
        bad_input(format!(
            "target `{target}`: expected ADDR, ADDR:PORT, [IPv6]:PORT, or a URL such as udp://127.0.0.1:53"
        ))
    };
    let has_one = |own: u16| match typed {
        Some(typed) if typed != own => Err(bad_input(format!(
            "target `{target}`: it has port {own}, and port {typed} was given beside it; leave one of them out"
        ))),
        _ => Ok(own),
    };
    if let Ok(address) = rest.parse::<SocketAddr>() {
        has_one(address.port())?;
        return Ok((address, address.ip().to_string()));
    }
    let bracketed = rest.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let ip = bracketed.map_or_else(|| rest.parse().ok(), |v6| v6.parse().ok().map(IpAddr::V6));
    if let Some(ip) = ip {
        return Ok((SocketAddr::new(ip, typed.unwrap_or(usual)), ip.to_string()));
    }
    let is_number = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) if is_number(port) && !host.contains(':') => {
            let own = port_of(port).map_err(|error| bad_input(format!("target `{target}`: {error}")))?;
            (host, has_one(own)?)
        }
        Some(_) => return Err(expected()),
        None => (rest, typed.unwrap_or(usual)),
    };
    if host.is_empty()
        || host.contains(|letter: char| !letter.is_ascii_alphanumeric() && !"-._".contains(letter))
    {
        return Err(expected());
    }
    let found =
        (host, port).to_socket_addrs().map_err(|error| bad_input(format!("target `{target}`: {error}")))?;
    let found: Vec<SocketAddr> = found.filter(|address| family.has(*address)).collect();
    if found.is_empty() {
        return Err(bad_input(format!(
            "target `{target}`: the name has no address of the family that -f asks for"
        )));
    }
    // IPv4 first: a name such as localhost has both, and most servers under test listen on 127.0.0.1.
    let address = found.iter().find(|address| address.is_ipv4()).or(found.first()).copied();
    Ok((address.ok_or_else(expected)?, host.to_owned()))
}

/// Parses what carries the queries, as `-m` and the scheme of a URL name it.
pub(super) fn parse_transport(text: &str) -> Result<Transport, String> {
    match text {
        // dnsperf names these by the protocol above them.
        "dot" => Ok(Transport::Tls),
        "doh" => Ok(Transport::Https),
        "doq" => Ok(Transport::Quic),
        _ => text.parse(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(target: &str, allowed: &[Allowed]) -> anyhow::Result<SocketAddr> {
        resolve((target, None), None, Family::Any, allowed).map(|found| found.address)
    }

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_port_may_stand_apart() {
        let all = |targets: &[&str], port: Option<u16>| {
            let found = resolve_all(&words(targets), port, None, Family::Any, &[]);
            found.map(|found| found.addresses.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        assert_eq!(all(&["127.0.0.1", "5300"], None).unwrap(), ["127.0.0.1:5300"]);
        assert_eq!(all(&["::1", "5300"], None).unwrap(), ["[::1]:5300"]);
        assert_eq!(all(&["[::1]"], Some(5301)).unwrap(), ["[::1]:5301"]);
        assert_eq!(all(&["udp://127.0.0.1"], Some(5301)).unwrap(), ["127.0.0.1:5301"]);
        assert_eq!(
            all(&["127.0.0.1", "5300", "127.0.0.2", "5301", "127.0.0.3"], Some(5302)).unwrap(),
            ["127.0.0.1:5300", "127.0.0.2:5301", "127.0.0.3:5302"]
        );
        assert_eq!(all(&["127.0.0.1:5300"], Some(5300)).unwrap(), ["127.0.0.1:5300"]);
        for (targets, port, wanted) in [
            (&["5300"][..], None, "bare number"),
            (&["127.0.0.1", "5300", "5301"], None, "bare number"),
            (&["127.0.0.1:5300", "5301"], None, "port 5300, and port 5301"),
            (&["127.0.0.1:53"], Some(5300), "port 53, and port 5300"),
            (&["127.0.0.1", "65536"], None, "1 to 65535"),
            (&["127.0.0.1", "0"], None, "1 to 65535"),
            (&[], Some(5300), "<TARGET>"),
        ] {
            let error = all(targets, port).unwrap_err().to_string();
            assert!(error.contains(wanted), "{targets:?}: {error}");
        }
    }

    #[test]
    fn names_have_addresses_of_the_family_that_is_asked_for() {
        let of = |family| resolve(("localhost", Some(5300)), None, family, &[]).map(|found| found.address);
        assert!(of(Family::Inet).unwrap().is_ipv4() && of(Family::Any).unwrap().is_ipv4());
        assert!(resolve(("::1", None), None, Family::Inet, &[]).is_err());
        assert!(resolve(("127.0.0.1", None), None, Family::Inet6, &[]).is_err());
    }

    #[test]
    fn targets_of_both_families() {
        let address = |text| one(text, &[]).unwrap().to_string();
        assert_eq!(address("127.0.0.1"), "127.0.0.1:53");
        assert_eq!(address("127.0.0.2:5300"), "127.0.0.2:5300");
        assert_eq!(address("udp://[::1]:5300"), "[::1]:5300");
        assert_eq!(address("::1"), "[::1]:53");
        assert_eq!(address("[::1]"), "[::1]:53");
        for port in ["127.0.0.1:0", "127.0.0.1:65536", "[::1]:0", "localhost:99999", "localhost:0"] {
            let error = one(port, &[]).unwrap_err().to_string();
            assert!(error.ends_with("expected 1 to 65535") || port.starts_with('['), "{error}");
        }
        assert_eq!(address("198.19.255.255"), "198.19.255.255:53");
        for bad in [
            "",
            "::1:",
            "[::1",
            "::1]",
            "[[::1]]",
            "[127.0.0.1]",
            "https:///dns-query",
            "gopher://127.0.0.1",
            "127.0.0.1:99999",
            "0.0.0.0",
            "127.0.0.1:0",
            "a b",
        ] {
            assert!(one(bad, &[]).is_err(), "{bad}");
        }
    }

    #[test]
    fn targets_are_of_one_family() {
        let all = |targets: &[&str]| resolve_all(&words(targets), None, None, Family::Any, &[]);
        assert_eq!(all(&["127.0.0.1:1", "127.0.0.2:2"]).unwrap().addresses.len(), 2);
        assert!(all(&["127.0.0.1", "::1"]).unwrap_err().to_string().contains("different families"));
        assert!(all(&["127.0.0.1", "192.0.2.1"]).is_err());
    }

    #[test]
    fn targets_have_one_transport() {
        let all = |targets: &[&str]| resolve_all(&words(targets), None, None, Family::Any, &[]);
        let transport = |targets: &[&str]| all(targets).unwrap().transport().unwrap();
        assert_eq!(transport(&["127.0.0.1"]), None);
        assert_eq!(transport(&["127.0.0.1", "tcp://127.0.0.2:5300/"]), Some(Transport::Tcp));
        assert_eq!(transport(&["udp://127.0.0.1"]), Some(Transport::Udp));
        assert_eq!(transport(&["TLS://127.0.0.1", "Dot://127.0.0.2"]), Some(Transport::Tls));
        let both = all(&["udp://127.0.0.1", "tcp://127.0.0.1:5300", "127.0.0.2"]).unwrap();
        assert!(both.transport().unwrap_err().to_string().contains("one transport"));
        let over_tcp = both.over(Transport::Tcp);
        assert_eq!((over_tcp.addresses[0].port(), over_tcp.names.len()), (5300, 1));
        assert_eq!(both.beside(&[Transport::Udp, Transport::Tcp]), Some(both.addresses[2]));
        assert_eq!(over_tcp.beside(&[Transport::Tcp]), None);
        let error = |targets: &[&str]| all(targets).unwrap_err().to_string();
        assert!(error(&["gopher://127.0.0.1"]).contains("expected udp, tcp, tls, https or quic"));
    }

    #[test]
    fn the_transport_decides_the_port_and_a_target_keeps_its_name() {
        let all = |target: &str, mode| {
            let found = resolve_all(&words(&[target]), None, mode, Family::Any, &[]).unwrap();
            (found.addresses[0].to_string(), found.names[0].clone())
        };
        let named = |address: &str, name: &str| (address.to_owned(), name.to_owned());
        assert_eq!(all("tls://127.0.0.1", None), named("127.0.0.1:853", "127.0.0.1"));
        assert_eq!(all("dot://[::1]:8853", None), named("[::1]:8853", "::1"));
        assert_eq!(all("quic://127.0.0.1", None), named("127.0.0.1:853", "127.0.0.1"));
        assert_eq!(all("doq://[::1]:8853", None), named("[::1]:8853", "::1"));
        assert_eq!(all("::1", Some(Transport::Tls)), named("[::1]:853", "::1"));
        assert_eq!(all("tls://localhost:8853", None).1, "localhost");
        assert_eq!(all("127.0.0.1", Some(Transport::Tcp)), named("127.0.0.1:53", "127.0.0.1"));
        assert_eq!(all("https://127.0.0.1", None), named("127.0.0.1:443", "127.0.0.1"));
        assert_eq!(all("doh://[::1]:8443/q", None), named("[::1]:8443", "::1"));
    }

    #[test]
    fn a_url_may_have_a_path() {
        let path = |target: &str| {
            let found =
                resolve_all(&words(&[target]), None, Some(Transport::Https), Family::Any, &[]).unwrap();
            found.paths[0].clone()
        };
        for usual in
            ["127.0.0.1", "https://127.0.0.1", "https://[::1]:8443/", "https://127.0.0.1/dns-query{?dns}"]
        {
            assert_eq!(path(usual), "/dns-query", "{usual}");
        }
        assert_eq!(path("https://127.0.0.1:8443/a/b?c=d"), "/a/b?c=d");
        for (wrong, why) in [
            ("https://127.0.0.1/q#x", "`https://127.0.0.1/q#x` has a fragment"),
            ("https://127.0.0.1:8443#x", "`https://127.0.0.1:8443#x` has a fragment"),
            ("https://127.0.0.1/grün", "write /gr%C3%BCn"),
            ("https://127.0.0.1?x=y", "is no URL"),
        ] {
            let error = one(wrong, &[]).unwrap_err().to_string();
            assert!(error.contains(why), "{wrong}: {error}");
        }
    }

    #[test]
    fn others_must_be_named_twice() {
        assert!(one("192.0.2.1", &[]).is_err());
        assert!(one("198.20.0.1", &[]).is_err());
        assert!(one("192.0.2.1", &["192.0.2.0/24".parse().unwrap()]).is_ok());
        assert!(one("192.0.3.1", &["192.0.2.0/24".parse().unwrap()]).is_err());
        assert!(one("2001:db8::1", &["2001:db8::/32".parse().unwrap()]).is_ok());
        assert!(one("192.0.2.1", &["0.0.0.0/0".parse().unwrap()]).is_ok());
        assert!("192.0.2.0/33".parse::<Allowed>().is_err());
    }
}
