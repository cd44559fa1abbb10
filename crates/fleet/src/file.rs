//! The hosts' file:
//!
//! ```toml
//! [server]
//! name = "ns1"
//! reach = "ssh ns1"          # or a list of words; left out: this host itself
//! data = "192.0.2.1"
//! device = "eth1"
//!
//! [[player]]
//! name = "player1"
//! reach = ["srun", "-w", "node1"]
//! kqps = "/opt/kqps/bin/kqps"
//! data = "192.0.2.11"
//! sources = "192.0.2.64/28"
//! cores = "0,2-5"
//! ```

use std::ops::Range;
use std::path::Path;

use kqps_files::toml_file::{self, FileError, TomlError};
use kqps_observation::cpu_list;
use serde::{Deserialize, Serialize};
use toml::Spanned;

use crate::host::{Host, Hosts, Words, Wrong};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileHosts {
    server: FileHost,
    #[serde(default)]
    player: Vec<FileHost>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileHost {
    name: Spanned<String>,
    reach: Option<Spanned<Reach>>,
    kqps: Option<Spanned<String>>,
    data: Spanned<String>,
    sources: Option<Spanned<String>>,
    cores: Option<Spanned<String>>,
    device: Option<Spanned<String>>,
}

#[derive(Clone, Deserialize)]
#[serde(untagged, expecting = "expected a command such as \"ssh ns1\", or a list of its words")]
enum Reach {
    Line(String),
    Words(Vec<String>),
}

/// Reads a hosts' file. An error gives the place.
pub(crate) fn read(path: &Path) -> Result<Hosts, FileError> {
    toml_file::open(path, parse)
}

fn parse(file: &str, text: &str) -> Result<Hosts, TomlError> {
    let at = |byte: usize, what: String| TomlError::at(file, text, byte, what);
    let found: FileHosts = toml_file::read(file, text)?;
    let listed: Vec<&FileHost> = std::iter::once(&found.server).chain(&found.player).collect();
    let mut hosts = Vec::new();
    for one in &listed {
        let words = one.words().map_err(|(span, what)| at(span.start, what))?;
        let host = Host::from_words(words).map_err(|wrong| at(one.place(wrong.key), wrong.what))?;
        hosts.push(host);
    }
    let server = hosts.remove(0);
    Hosts::new(server, hosts).map_err(|(place, Wrong { key, what })| match key {
        "player" => at(text.len(), format!("{what}: write a table [[player]]")),
        _ => at(listed[place].place(key), what),
    })
}

impl FileHost {
    /// Its words, or the place of the command that has an open quote.
    fn words(&self) -> Result<Words<'_>, (Range<usize>, String)> {
        let reach = match &self.reach {
            None => Vec::new(),
            Some(reach) => match reach.get_ref() {
                Reach::Words(words) => words.clone(),
                Reach::Line(line) => shlex::split(line)
                    .ok_or_else(|| (reach.span(), format!("a quote is not closed in `{line}`")))?,
            },
        };
        Ok(Words {
            name: self.name.get_ref(),
            reach,
            kqps: word(self.kqps.as_ref()),
            data: self.data.get_ref(),
            sources: word(self.sources.as_ref()),
            cores: word(self.cores.as_ref()),
            device: word(self.device.as_ref()),
        })
    }

    /// The first byte of the value of a key.
    fn place(&self, key: &str) -> usize {
        let given = match key {
            "data" => Some(&self.data),
            "kqps" => self.kqps.as_ref(),
            "sources" => self.sources.as_ref(),
            "cores" => self.cores.as_ref(),
            "device" => self.device.as_ref(),
            "reach" => return self.reach.as_ref().map_or(self.name.span().start, |reach| reach.span().start),
            _ => Some(&self.name),
        };
        given.unwrap_or(&self.name).span().start
    }
}

fn word(given: Option<&Spanned<String>>) -> Option<&str> {
    given.map(|given| given.get_ref().as_str())
}

#[derive(Serialize)]
struct WrittenHosts<'h> {
    server: WrittenHost<'h>,
    player: Vec<WrittenHost<'h>>,
}

#[derive(Serialize)]
struct WrittenHost<'h> {
    name: &'h str,
    reach: &'h [String],
    kqps: &'h str,
    data: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    sources: Option<&'h str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cores: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<&'h str>,
}

impl<'h> WrittenHost<'h> {
    fn new(host: &'h Host) -> Self {
        Self {
            name: &host.name,
            reach: &host.reach,
            kqps: &host.kqps,
            data: host.data.to_string(),
            sources: host.sources.as_deref(),
            cores: host.cores.as_deref().map(cpu_list::write),
            device: host.device.as_deref(),
        }
    }
}

/// The text of a hosts' file from which the same hosts are read.
pub(crate) fn write(hosts: &Hosts) -> String {
    let player = hosts.players.iter().map(WrittenHost::new).collect();
    let written = WrittenHosts { server: WrittenHost::new(&hosts.server), player };
    toml::to_string(&written).expect("texts and lists of texts are TOML")
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
[server]
name = "ns1"
reach = "ssh -p 2222 'ns 1'"
data = "192.0.2.1"
device = "eth1"

[[player]]
name = "player1"
reach = ["srun", "-w", "node1"]
kqps = "/opt/kqps/bin/kqps"
data = "192.0.2.11"
sources = "192.0.2.64/28"
cores = "5,0,2-4"

[[player]]
name = "player2"
data = "192.0.2.12"
"#;

    #[test]
    fn a_file_is_read_and_written() {
        let hosts = parse("hosts.toml", FILE).unwrap();
        assert_eq!(hosts.server.reach, ["ssh", "-p", "2222", "ns 1"]);
        assert_eq!((hosts.server.kqps.as_str(), hosts.server.device.as_deref()), ("kqps", Some("eth1")));
        let [one, two] = hosts.players.as_slice() else { panic!("{hosts:?}") };
        assert_eq!(one.reach, ["srun", "-w", "node1"]);
        assert_eq!(one.cores.as_deref(), Some(&[5, 0, 2, 3, 4][..]));
        assert_eq!(one.sources.as_deref(), Some("192.0.2.64/28"));
        assert!(two.reach.is_empty());
        let again = write(&hosts);
        assert_eq!(parse("again.toml", &again).unwrap(), hosts, "{again}");
    }

    #[test]
    fn an_error_has_its_place() {
        let failed = |from: &str, to: &str| {
            assert!(FILE.contains(from), "{from}");
            parse("hosts.toml", &FILE.replacen(from, to, 1)).unwrap_err().to_string()
        };
        for (from, to, expected) in [
            ("\"192.0.2.1\"", "\"ns1\"", "hosts.toml:5:8: expected an IP address"),
            ("'ns 1'", "'ns 1", "hosts.toml:4:9: a quote is not closed"),
            ("\"player2\"", "\"ns1\"", "hosts.toml:17:8: two hosts have the name `ns1`"),
            ("\"player2\"", "\"player1\"", "hosts.toml:17:8: two hosts have the name `player1`"),
            ("\"192.0.2.12\"", "\"::1\"", "hosts.toml:18:8: ::1 is not of the same IP version"),
            ("5,0,2-4", "0-9-", "hosts.toml:14:9: expected a list such as 0,2-5"),
            ("/28\"", "/99\"", "hosts.toml:13:11: expected ADDR or ADDR/PREFIX"),
            ("\"eth1\"", "\"\"", "hosts.toml:6:10: expected the name of a network device"),
            ("cores =", "core =", "hosts.toml:14:1: unknown field `core`"),
            ("[\"srun\", \"-w\", \"node1\"]", "7", "hosts.toml:10:9: expected a command such as"),
        ] {
            let error = failed(from, to);
            assert!(error.starts_with(expected), "{error}");
        }
        assert!(failed("cores =", "core =").contains("did you mean `cores`?"));
        let lonely = FILE.split("[[player]]").next().unwrap();
        let error = parse("hosts.toml", lonely).unwrap_err().to_string();
        assert!(error.ends_with("at least one player is needed: write a table [[player]]"), "{error}");
        let error = parse("hosts.toml", "[[player]]\nname = \"a\"\ndata = \"::1\"").unwrap_err().to_string();
        assert!(error.contains("missing field `server`"), "{error}");
    }
}
