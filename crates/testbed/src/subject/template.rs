//! Texts with `{placeholders}`: the command lines and configuration files of a subject. A placeholder is a
//! lower-case word in braces, or two words with a dot between them. Braces of other languages can stay as they
//! are.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use kqps_files::toml_file::{did_you_mean, nearest};

/// The texts of the placeholders in one start of a subject.
#[derive(Clone, Debug, Default)]
pub struct Values(BTreeMap<String, String>);

/// The placeholders of every subject; its settings are further ones.
pub const BUILT_IN: [&str; 17] = [
    "address",
    "certificate",
    "cpus",
    "dir",
    "endpoint",
    "io",
    "key",
    "kqps",
    "origin",
    "port",
    "primary_port",
    "root_hints",
    "secret",
    "trust_anchor",
    "workers",
    "zone",
    "zones",
];

/// The placeholders with a subject's port. A definition must use one of them.
pub const OF_PORT: [&str; 2] = ["endpoint", "port"];

impl Values {
    /// Sets the text of a setting, or of one of [`BUILT_IN`].
    #[must_use]
    pub fn with(mut self, name: &str, value: &dyn ToString) -> Self {
        self.0.insert(name.into(), value.to_string());
        self
    }

    /// Sets the address that a subject listens on. An endpoint has brackets around an IPv6 address.
    #[must_use]
    pub fn listening_at(self, first: SocketAddr) -> Self {
        self.with("address", &first.ip()).with("port", &first.port()).with("endpoint", &first)
    }

    /// The text with every placeholder replaced. A word without a value stays as it is: [`check`] refused it
    /// when the definition was read.
    pub fn fill(&self, text: &str) -> String {
        let mut filled = String::with_capacity(text.len());
        let mut done = 0;
        for found in placeholders(text) {
            filled.push_str(&text[done..found.start]);
            filled.push_str(self.0.get(found.name).map_or(&text[found.start..found.end], String::as_str));
            done = found.end;
        }
        filled + &text[done..]
    }
}

/// A placeholder that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown placeholder `{placeholder}`{} (known: {})",
    did_you_mean(.nearest.as_deref()),
    .known.join(", ")
)]
pub struct Unknown {
    /// The placeholder, with its braces.
    pub placeholder: String,
    /// The known placeholder that was probably meant, with its braces.
    pub nearest: Option<String>,
    /// All known placeholders, without braces.
    pub known: Vec<String>,
}

/// Whether all placeholders of a text are known.
pub fn check(text: &str, known: &[&str]) -> Result<(), Unknown> {
    match placeholders(text).find(|found| !known.contains(&found.name)) {
        None => Ok(()),
        Some(found) => Err(Unknown {
            placeholder: format!("{{{}}}", found.name),
            nearest: nearest(found.name, known).map(|name| format!("{{{name}}}")),
            known: known.iter().map(ToString::to_string).collect(),
        }),
    }
}

/// Whether a text uses a placeholder, named without braces.
pub fn uses(text: &str, name: &str) -> bool {
    placeholders(text).any(|found| found.name == name)
}

/// Whether a word could be a placeholder.
pub fn is_word(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(is_letter)
}

fn is_letter(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte == b'_'
}

struct Placeholder<'t> {
    name: &'t str,
    start: usize,
    end: usize,
}

fn placeholders(text: &str) -> impl Iterator<Item = Placeholder<'_>> {
    text.match_indices('{').filter_map(|(start, _)| {
        let (name, _) = text[start + 1..].split_once('}')?;
        let is_one = is_word(name) || name.split_once('.').is_some_and(|(a, b)| is_word(a) && is_word(b));
        is_one.then(|| Placeholder { name, start, end: start + name.len() + 2 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_words_in_braces_are_placeholders() {
        let values = Values::default().with("port", &5300).with("dir", &"/tmp/x").with("io.call", &"poll");
        assert_eq!(
            values.fill("listen-on port {port} { none; }; \"{dir}/a\" {} {io.call} {a.b.c} {{port}"),
            "listen-on port 5300 { none; }; \"/tmp/x/a\" {} poll {a.b.c} {5300"
        );
        assert_eq!(check("listen { 127.0.0.1; } {port}", &BUILT_IN), Ok(()));
    }

    #[test]
    fn an_endpoint_has_brackets_around_an_ipv6_address() {
        let filled = |first: &str| {
            Values::default().listening_at(first.parse().unwrap()).fill("{endpoint} {address} {port}")
        };
        assert_eq!(filled("192.0.2.1:53"), "192.0.2.1:53 192.0.2.1 53");
        assert_eq!(filled("[2001:db8::1]:53"), "[2001:db8::1]:53 2001:db8::1 53");
    }

    #[test]
    fn an_unknown_one_is_refused_with_the_nearest() {
        let unknown = check("-p {prot}", &["port", "zone"]).unwrap_err();
        assert_eq!(
            unknown.to_string(),
            "unknown placeholder `{prot}`; did you mean `{port}`? (known: port, zone)"
        );
    }
}
