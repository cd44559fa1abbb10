//! Offers of a client: cipher suites and groups for the exchange of keys, by the names that IANA lists.

use std::fmt;
use std::str::FromStr;

use rustls::crypto::aws_lc_rs::{ALL_CIPHER_SUITES, ALL_KX_GROUPS, default_provider};
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::{CipherSuite, NamedGroup, SupportedCipherSuite};
use serde::{Deserialize, Serialize};

use crate::key::signs_by;
use kqps_catalogue::choice::KeyType;

/// A cipher suite, such as `TLS_AES_128_GCM_SHA256`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Suite(pub(crate) CipherSuite);

/// A group for the exchange of keys, such as `x25519`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Group(pub(crate) NamedGroup);

impl Suite {
    /// All suites that a client can offer.
    pub fn all() -> impl Iterator<Item = Self> {
        ALL_CIPHER_SUITES.iter().map(|suite| Self(suite.suite()))
    }

    /// Whether it is a suite of TLS 1.3.
    pub(crate) fn is_of_tls13(self) -> bool {
        self.supported().is_some_and(|suite| suite.tls13().is_some())
    }

    fn supported(self) -> Option<SupportedCipherSuite> {
        ALL_CIPHER_SUITES.iter().copied().find(|suite| suite.suite() == self.0)
    }
}

impl Group {
    /// All groups that a client can offer.
    pub fn all() -> impl Iterator<Item = Self> {
        ALL_KX_GROUPS.iter().map(|group| Self(group.name()))
    }

    fn supported(self) -> Option<&'static dyn SupportedKxGroup> {
        ALL_KX_GROUPS.iter().copied().find(|group| group.name() == self.0)
    }
}

/// The provider of cryptography with these suites and groups alone, in this order; without any, with its usual ones. A
/// suite of TLS 1.2 is for one type of key, and those for another type than `certificate` are left out.
pub(crate) fn provider(suites: &[Suite], groups: &[Group], certificate: Option<KeyType>) -> CryptoProvider {
    let mut provider = default_provider();
    if !suites.is_empty() {
        provider.cipher_suites = suites.iter().filter_map(|suite| suite.supported()).collect();
    }
    if !groups.is_empty() {
        provider.kx_groups = groups.iter().filter_map(|group| group.supported()).collect();
    }
    if let Some(key) = certificate {
        let is_for = |suite: &SupportedCipherSuite| match suite {
            SupportedCipherSuite::Tls12(suite) => suite.sign.iter().any(|scheme| signs_by(key, *scheme)),
            SupportedCipherSuite::Tls13(_) => true,
        };
        provider.cipher_suites.retain(is_for);
    }
    provider
}

impl fmt::Display for Suite {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_str() {
            // Rustls marks the suites of TLS 1.3 in their names, and IANA does not.
            Some(name) => formatter.write_str(&name.replacen("TLS13_", "TLS_", 1)),
            None => write!(formatter, "suite {:#06x}", u16::from(self.0)),
        }
    }
}

impl fmt::Display for Group {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_str() {
            Some(name) => formatter.write_str(&name.to_ascii_lowercase()),
            None => write!(formatter, "group {:#06x}", u16::from(self.0)),
        }
    }
}

impl FromStr for Suite {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        named(text, Self::all())
    }
}

impl FromStr for Group {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        named(text, Self::all())
    }
}

/// The one with this name, in whatever case.
fn named<T: fmt::Display>(text: &str, all: impl Iterator<Item = T>) -> Result<T, String> {
    let mut names = Vec::new();
    for one in all {
        let name = one.to_string();
        if name.eq_ignore_ascii_case(text) {
            return Ok(one);
        }
        names.push(name);
    }
    Err(format!("expected one of {}", names.join(", ")))
}

impl TryFrom<String> for Suite {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl TryFrom<String> for Group {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Suite> for String {
    fn from(suite: Suite) -> Self {
        suite.to_string()
    }
}

impl From<Group> for String {
    fn from(group: Group) -> Self {
        group.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_and_groups_have_the_names_of_the_registry() {
        let suite: Suite = "TLS_AES_128_GCM_SHA256".parse().unwrap();
        assert_eq!(suite.to_string(), "TLS_AES_128_GCM_SHA256");
        assert_eq!("x25519".parse::<Group>(), "X25519".parse());
        assert_eq!("X25519MLKEM768".parse::<Group>().unwrap().to_string(), "x25519mlkem768");
        assert!("TLS_NULL".parse::<Suite>().unwrap_err().contains("TLS_AES_256_GCM_SHA384"));
        assert!("x448".parse::<Group>().unwrap_err().contains("secp256r1"));
        for suite in Suite::all() {
            let text = serde_json::to_string(&suite).unwrap();
            assert_eq!(serde_json::from_str::<Suite>(&text).unwrap(), suite, "{text}");
        }
    }

    #[test]
    fn a_provider_has_what_is_asked_for_in_that_order() {
        let groups = ["secp384r1", "x25519"].map(|name| name.parse::<Group>().unwrap());
        let narrow = provider(&[], &groups, None);
        let names: Vec<NamedGroup> = narrow.kx_groups.iter().map(|group| group.name()).collect();
        assert_eq!(names, [NamedGroup::secp384r1, NamedGroup::X25519]);
        assert_eq!(narrow.cipher_suites.len(), default_provider().cipher_suites.len());
    }

    #[test]
    fn a_provider_for_a_type_of_key_has_no_suite_for_another() {
        for (key, other) in [(KeyType::Rsa, "ECDSA"), (KeyType::Ecdsa, "RSA")] {
            let names = provider(&[], &[], Some(key)).cipher_suites;
            let names: Vec<String> = names.iter().map(|suite| Suite(suite.suite()).to_string()).collect();
            assert!(names.iter().any(|name| name == "TLS_AES_128_GCM_SHA256"));
            assert!(names.iter().any(|name| name.starts_with("TLS_ECDHE_")));
            assert!(!names.iter().any(|name| name.starts_with(&format!("TLS_ECDHE_{other}_"))), "{names:?}");
        }
    }
}
