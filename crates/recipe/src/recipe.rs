//! A recipe: the zones and the queries, as described in a TOML file. Shares are weights, so they need not have the
//! sum 1.

mod check;
mod error;
mod fault;
mod read;

use indexmap::IndexMap;
use kqps_message::rtype;
use serde::Deserialize;

pub use error::RecipeError;
pub(crate) use fault::RANKS_MAX;
pub use fault::RecipeFault;

use super::label::Labels;
use super::popularity::Popularity;
use super::qtype::Type;

/// The description of what to generate. Each field is a key of the file; see docs/DATASETS.md.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Recipe {
    /// A sentence that describes the recipe.
    pub about: String,
    /// The zone's origin. If there are several zones, the name above them. A final dot is optional.
    pub origin: String,
    /// The number of zones that load, at least 1.
    pub zones: u64,
    /// The number of further zones that are configured with a file that does not load.
    pub broken: u64,
    /// Entries of each zone, 1 to [`super::RECORDS_MAX`]. An entry is a name with a record, or a delegation with
    /// all its records. The records of the apex are not counted.
    pub records: u64,
    /// The seed of names and data.
    pub seed: u64,
    /// The longest chain of CNAMEs, 1 to [`CHAIN_MAX`].
    pub chain: u64,
    /// The form of names.
    pub names: Labels,
    /// The kinds of entries, by weight.
    pub contents: Contents,
    /// The records of delegations.
    pub delegations: Delegations,
    /// How zones are signed; `None` leaves them unsigned.
    pub signing: Option<Signing>,
    /// The queries.
    pub queries: RecipeQueries,
}

/// The most CNAMEs in a chain, since some servers follow no more than eleven.
pub const CHAIN_MAX: u64 = 8;

/// The kinds of a zone's entries, by weight. If all weights are 0, as by default, all entries are A records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[allow(missing_docs)] // each is a record of its type at a name of its own
pub struct Contents {
    #[serde(rename = "A")]
    pub a: f64,
    #[serde(rename = "AAAA")]
    pub aaaa: f64,
    #[serde(rename = "CNAME")]
    pub cname: f64,
    #[serde(rename = "MX")]
    pub mx: f64,
    #[serde(rename = "TXT")]
    pub txt: f64,
    #[serde(rename = "SRV")]
    pub srv: f64,
    #[serde(rename = "PTR")]
    pub ptr: f64,
    #[serde(rename = "CAA")]
    pub caa: f64,
    #[serde(rename = "HTTPS")]
    pub https: f64,
    /// An A record at `*` below a name.
    pub wildcard: f64,
    /// Two NS records, and the records of [`Delegations`].
    pub delegation: f64,
}

/// The records of delegations besides their two NS records.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Delegations {
    /// The share, 0 to 1, of delegations whose name servers are below the delegation, with A and AAAA glue for
    /// both. The name servers of the others are elsewhere.
    pub glue: f64,
    /// The share of delegations with a DS record, 0 to 1.
    #[serde(rename = "DS")]
    pub ds: f64,
}

impl Default for Delegations {
    fn default() -> Self {
        Self { glue: 1.0, ds: 0.0 }
    }
}

/// How zones are signed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signing {
    /// The mnemonic of the algorithm, such as `ECDSAP256SHA256`.
    #[serde(default = "Signing::usual")]
    pub algorithm: String,
    /// How absence is proved.
    #[serde(default)]
    pub denial: Denial,
}

impl Signing {
    fn usual() -> String {
        "ECDSAP256SHA256".into()
    }
}

/// How absence is proved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Denial {
    /// With names (RFC 4034).
    #[default]
    Nsec,
    /// With hashed names, without salt or further iterations (RFC 5155, RFC 9276).
    Nsec3,
    /// With hashed names, and no NSEC3 record for delegations without DS.
    Nsec3OptOut,
}

/// The queries of a recipe.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RecipeQueries {
    /// The seed of the queries.
    pub seed: u64,
    /// Types, by weight. If a type is not in the zones' contents, no zone has data of it.
    pub types: IndexMap<Type, f64>,
    /// Types of queries with an answer; if empty, `types`.
    pub positive_types: IndexMap<Type, f64>,
    /// The outcomes of queries, by weight.
    pub outcomes: Outcomes,
    /// The share of A queries with an answer that ask for a CNAME's name, 0 to 1.
    pub alias: f64,
    /// The share of A queries with an answer that ask for a name below a wildcard, 0 to 1.
    pub wildcard: f64,
    /// The share of queries without data that ask for an empty non-terminal, 0 to 1.
    pub empty: f64,
    /// How often each name is asked for.
    pub popularity: Popularity,
    /// The share of queries with EDNS, including those with DO, 0 to 1.
    pub edns: f64,
    /// The share of queries with DO, 0 to 1.
    pub dnssec: f64,
    /// The share of queries whose letters have random case, 0 to 1.
    pub mixed_case: f64,
    /// The part of the right answer that the query file states.
    pub expect: Expect,
    /// The attack among the queries.
    pub attack: Attack,
}

impl Default for RecipeQueries {
    fn default() -> Self {
        Self {
            seed: 1,
            types: [(Type(rtype::A), 1.0)].into(),
            positive_types: IndexMap::new(),
            outcomes: Outcomes::default(),
            alias: 0.0,
            wildcard: 0.0,
            empty: 0.0,
            popularity: Popularity::Uniform,
            edns: 0.0,
            dnssec: 0.0,
            mixed_case: 0.0,
            expect: Expect::Rcode,
            attack: Attack::default(),
        }
    }
}

/// The outcomes of queries, by weight. If all weights are 0, as by default, all queries have an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Outcomes {
    /// An answer: from names that have the type, or without records if the zones have none of the type.
    #[serde(rename = "NOERROR")]
    pub noerror: f64,
    /// A name that does not exist.
    #[serde(rename = "NXDOMAIN")]
    pub nxdomain: f64,
    /// A name that exists and does not have the type.
    #[serde(rename = "NODATA")]
    pub nodata: f64,
    /// A name at a delegation or below it.
    pub referral: f64,
    /// A name in a zone whose file does not load.
    #[serde(rename = "SERVFAIL")]
    pub servfail: f64,
    /// A name in no zone.
    #[serde(rename = "REFUSED")]
    pub refused: f64,
}

/// The part of the right answer that the query file states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Expect {
    /// Nothing, as for an echo, which answers NOERROR to everything.
    Nothing,
    /// The rcode.
    #[default]
    Rcode,
    /// The rcode and the digest of the answer, if it is known.
    Answers,
}

/// A random-subdomain attack: A queries for names that were never asked for before.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Attack {
    /// The share of the attack among all queries, 0 to 1.
    pub share: f64,
    /// The number of zones under attack, from the first.
    pub zones: u64,
    /// The length of the random labels, which have letters only; 8 to 63.
    pub label_bytes: u8,
}

impl Default for Attack {
    fn default() -> Self {
        Self { share: 0.0, zones: 1, label_bytes: 12 }
    }
}

impl Default for Recipe {
    fn default() -> Self {
        Self {
            about: String::new(),
            origin: "example.test".into(),
            zones: 1,
            broken: 0,
            records: 100_000,
            seed: 1,
            chain: 1,
            names: Labels::default(),
            contents: Contents::default(),
            delegations: Delegations::default(),
            signing: None,
            queries: RecipeQueries::default(),
        }
    }
}

impl Recipe {
    /// Whether there is only one zone. Its name is then the origin. Several zones have a label each below the
    /// origin.
    pub fn is_one_zone(&self) -> bool {
        self.zones == 1 && self.broken == 0
    }

    /// A hash of the zones, in hexadecimal digits. It does not depend on the queries.
    pub fn zones_hash(&self) -> String {
        let zones = Self { about: String::new(), queries: RecipeQueries::default(), ..self.clone() };
        let mut hasher = blake3::Hasher::new();
        hasher.update(&super::VERSION.to_le_bytes()).update(format!("{zones:?}").as_bytes());
        hasher.finalize().to_hex().to_string()
    }
}
