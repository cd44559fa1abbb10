//! A recipe: what zones there are and what is asked of them, as a TOML file says it. Shares are weights: they need
//! not add up to 1.

mod check;
mod fault;
mod read;

use indexmap::IndexMap;
use kqps_message::rtype;
use serde::Deserialize;

pub use fault::RecipeFault;
pub use read::RecipeError;

use super::label::Labels;
use super::popularity::Popularity;
use super::qtype::Type;

/// What is generated. Each field is a key of the file; docs/DATASETS.md tells them.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Recipe {
    /// A sentence for whoever looks for a recipe.
    pub about: String,
    /// The zone's origin, or where there are several the name above them; a final dot may be missing.
    pub origin: String,
    /// How many zones load, at least 1.
    pub zones: u64,
    /// How many more are configured, and have a file that does not load.
    pub broken: u64,
    /// Entries of each zone, 1 to [`super::RECORDS_MAX`]: a name with a record, or a delegation with all that it
    /// takes. What the apex holds comes on top.
    pub records: u64,
    /// What names and data are made from.
    pub seed: u64,
    /// The longest chain of CNAMEs, 1 to [`CHAIN_MAX`].
    pub chain: u64,
    /// How names look.
    pub names: Labels,
    /// What the entries are, by weight.
    pub contents: Contents,
    /// What delegations hold.
    pub delegations: Delegations,
    /// How zones are signed; none leaves them unsigned.
    pub signing: Option<Signing>,
    /// What is asked.
    pub queries: Asked,
}

/// CNAMEs in a chain at most: some servers follow no more than eleven.
pub const CHAIN_MAX: u64 = 8;

/// What the entries of a zone are, by weight. Where all weights are 0, as they are when nothing is said, they are
/// A records.
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
    /// Two NS records, and what [`Delegations`] adds.
    pub delegation: f64,
}

/// What delegations hold beside their two NS records.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Delegations {
    /// The share whose name servers are below the delegation, with A and AAAA glue for both; those of the others
    /// are elsewhere. 0 to 1.
    pub glue: f64,
    /// The share with a DS record, 0 to 1.
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
    /// The mnemonic of the algorithm, as `ECDSAP256SHA256`.
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
    /// The same, and delegations without DS have no record of their own.
    Nsec3OptOut,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Asked {
    /// What the queries are drawn from.
    pub seed: u64,
    /// Types, by weight. The zones have no data of types that are none of their contents.
    pub types: IndexMap<Type, f64>,
    /// Types of queries that find what they ask for; the same as the others where there are none.
    pub positive_types: IndexMap<Type, f64>,
    /// What comes of the queries, by weight.
    pub outcomes: Outcomes,
    /// The share of A queries with an answer that are asked at a CNAME.
    pub alias: f64,
    /// The share of A queries with an answer that are asked below a wildcard.
    pub wildcard: f64,
    /// The share of queries without data that are asked at an empty non-terminal.
    pub empty: f64,
    /// Which names are asked how often.
    pub popularity: Popularity,
    /// The share with EDNS, those with DO included.
    pub edns: f64,
    /// The share with DO.
    pub dnssec: f64,
    /// The share whose letters are of random case.
    pub mixed_case: f64,
    /// What is told of the right answer.
    pub expect: Expect,
    /// The share that is an attack, and what it asks for.
    pub attack: Attack,
}

impl Default for Asked {
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

/// What comes of the queries, by weight. Where all weights are 0, as they are when nothing is said, it is NOERROR.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Outcomes {
    /// An answer: at names that have the type, or none where the zones have none of it.
    #[serde(rename = "NOERROR")]
    pub noerror: f64,
    /// A name that does not exist.
    #[serde(rename = "NXDOMAIN")]
    pub nxdomain: f64,
    /// A name that exists and does not have the type.
    #[serde(rename = "NODATA")]
    pub nodata: f64,
    /// A name at a delegation or below.
    pub referral: f64,
    /// A name in a zone whose file did not load.
    #[serde(rename = "SERVFAIL")]
    pub servfail: f64,
    /// A name in no zone.
    #[serde(rename = "REFUSED")]
    pub refused: f64,
}

/// What is told of the right answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Expect {
    /// Nothing, as for an echo, which answers NOERROR to everything.
    Nothing,
    /// The rcode.
    #[default]
    Rcode,
    /// The rcode and the digest of the answer, where it is known.
    Answers,
}

/// A random-subdomain attack: A queries for names that nobody asked before.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Attack {
    /// Its share of all queries, 0 to 1.
    pub share: f64,
    /// How many zones are attacked, the first ones.
    pub zones: u64,
    /// The length of the random labels, letters only; 8 to 63.
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
            queries: Asked::default(),
        }
    }
}

impl Recipe {
    /// Whether there is one zone only, which then has the origin for its name. Several have a label each below it.
    pub fn is_one_zone(&self) -> bool {
        self.zones == 1 && self.broken == 0
    }

    /// What the zones are, in hexadecimal digits that are the same for the same zones, whatever is asked of them.
    pub fn zones_hash(&self) -> String {
        let zones = Self { about: String::new(), queries: Asked::default(), ..self.clone() };
        let mut hasher = blake3::Hasher::new();
        hasher.update(&super::VERSION.to_le_bytes()).update(format!("{zones:?}").as_bytes());
        hasher.finalize().to_hex().to_string()
    }
}
