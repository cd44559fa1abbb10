//! The recipe of an Internet, as described in a TOML file. Weights need not have the sum 1.

mod behaviour;
mod check;
mod read;

use indexmap::IndexMap;
use kqps_recipe::{Popularity, Type};
use serde::Deserialize;

pub use behaviour::{Among, Behaviour, Fault};
pub(crate) use check::ALIASES_MAX;
pub use read::RecipeError;

/// The most servers of the root, of a top-level domain or of a hosting company.
pub const SERVERS_MAX: u8 = 13;

/// The description of an Internet. Each field is a key of the file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct InternetRecipe {
    /// A sentence that describes the recipe.
    pub about: String,
    /// The seed of everything but the questions.
    pub seed: u64,
    /// The numbers of zones, top-level domains and companies for each size, by its name.
    pub sizes: IndexMap<String, SizeRecipe>,
    /// Prefixes of the servers' addresses.
    pub addresses: AddressRecipe,
    /// The root zone.
    pub root: RootRecipe,
    /// The zones of top-level domains.
    pub tld: TldRecipe,
    /// Hosting companies, whose name servers serve the zones.
    pub company: CompanyRecipe,
    /// The zones.
    pub zone: ZoneRecipe,
    /// The dates of signatures.
    pub signing: SigningRecipe,
    /// How long servers take to answer.
    pub delay: DelayRecipe,
    /// Faults of servers.
    pub behaviour: Vec<Behaviour>,
    /// The questions of clients.
    pub queries: QuestionRecipe,
}

/// The numbers of a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)] // as the fields of the same name below
pub struct SizeRecipe {
    pub zones: u64,
    pub tlds: u32,
    pub companies: u32,
}

/// Prefixes of the servers' addresses, `ADDRESS/BITS`. They must have room for every server.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AddressRecipe {
    /// The IPv4 prefix, 1 to 24 bits, outside of 10.0.0.0/8, which has the addresses of hosts.
    pub ipv4: String,
    /// The IPv6 prefix, at most 96 bits; if empty, no server has an IPv6 address.
    pub ipv6: String,
}

/// The root zone.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RootRecipe {
    /// The number of its servers, 1 to [`SERVERS_MAX`].
    pub servers: u8,
    /// The TTL of delegations and of its own records, seconds.
    pub ttl_s: u32,
    /// The TTL of negative answers, seconds.
    pub negative_ttl_s: u32,
    /// The algorithm of its key, 8 or 13; 0 leaves it unsigned.
    pub algorithm: u8,
}

/// Top-level domains.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TldRecipe {
    /// Their number.
    pub count: u32,
    /// Zones in the largest top-level domains, by weight.
    pub largest: Vec<f64>,
    /// The weight of all others together. Among them, the *n*-th has 1 / *n* of the first's zones.
    pub others: f64,
    /// The least and the greatest number of servers of each.
    pub servers: [u8; 2],
    /// The share of those that are signed, 0 to 1.
    pub signed: f64,
    /// The algorithms of keys, by weight: 8 and 13.
    pub algorithms: Vec<[f64; 2]>,
    /// The TTL of delegations, seconds.
    pub ttl_s: u32,
    /// The TTL of negative answers, seconds.
    pub negative_ttl_s: u32,
}

/// Hosting companies. Each has a zone of its own, with the names of its servers.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CompanyRecipe {
    /// Their number.
    pub count: u32,
    /// The *n*-th has 1 / *n*^*s* of the first's zones.
    pub exponent: f64,
    /// The least and the greatest number of servers of each.
    pub servers: [u8; 2],
    /// The share of those whose servers have IPv6 addresses, 0 to 1.
    pub ipv6: f64,
    /// The share of those whose servers' addresses the registry also gives in referrals to zones of others, if they are in the
    /// same top-level domain (RFC 9471, section 2.2), 0 to 1.
    pub glue: f64,
    /// TTLs of the names to which aliases of other zones lead, in seconds, by weight.
    pub edge_ttls_s: Vec<[f64; 2]>,
}

/// Zones.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ZoneRecipe {
    /// Their number.
    pub count: u64,
    /// The share of those whose name servers have names in the zone itself, and so always have glue, 0 to 1.
    pub in_bailiwick: f64,
    /// The share of those that are signed, among zones in signed top-level domains, 0 to 1.
    pub signed: f64,
    /// The algorithms of keys, by weight: 8 and 13.
    pub algorithms: Vec<[f64; 2]>,
    /// The share of NSEC3 among signed zones, 0 to 1; others have NSEC.
    pub nsec3: f64,
    /// The share of those with AAAA records, 0 to 1.
    pub ipv6: f64,
    /// The share of those with a wildcard, 0 to 1.
    pub wildcard: f64,
    /// The share of those with mail, 0 to 1: MX, TXT of SPF and DMARC.
    pub mail: f64,
    /// The share of those with HTTPS records, 0 to 1.
    pub https: f64,
    /// The share of those with an SRV record, below an empty non-terminal, 0 to 1.
    pub srv: f64,
    /// The number of CNAMEs from `www` to an address, by weight, from 0. The first CNAME leads to the zone's own apex or out of
    /// the zone, all others from company to company.
    pub aliases: Vec<f64>,
    /// The share of those with one CNAME from `www` whose CNAME leads to the zone's own apex, 0 to 1.
    pub alias_to_apex: f64,
    /// The number of further hosts, by weight, from 0; at most 32.
    pub hosts: Vec<f64>,
    /// TTLs of records in seconds, by weight.
    pub ttls_s: Vec<[f64; 2]>,
    /// TTLs of negative answers in seconds, by weight.
    pub negative_ttls_s: Vec<[f64; 2]>,
}

/// The dates of signatures, around a day that the caller sets: nothing here knows the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SigningRecipe {
    /// A moment at which signatures are valid, in seconds since 1970.
    pub date_s: u32,
    /// Days from the inception of signatures to that moment, 10,000 at most.
    pub days_before: u16,
    /// Days from that moment to the expiry of signatures, 10,000 at most.
    pub days_after: u16,
    /// Signatures that are kept, 10 million at most. Each takes up to 400 bytes of memory.
    pub kept: u32,
}

/// How long servers take to answer, in microseconds: quantiles at equal distances, between which times are interpolated. One
/// number is the time of all servers; none is no delay. Each server has a time of its own. All delays of a query together are
/// at most 120 s.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DelayRecipe {
    /// Servers of the root.
    pub root_us: Vec<u64>,
    /// Servers of top-level domains.
    pub tld_us: Vec<u64>,
    /// Servers of companies.
    pub company_us: Vec<u64>,
    /// The share of a server's time by which the time of a query is at most longer, 0 to 1.
    pub jitter: f64,
}

/// The questions of clients.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QuestionRecipe {
    /// The seed of the questions.
    pub seed: u64,
    /// Types, by weight.
    pub types: IndexMap<Type, f64>,
    /// The share of questions for a name that does not exist in a zone that does, 0 to 1. A wildcard may answer it.
    pub no_name: f64,
    /// The share of questions for a name in a zone that does not exist, 0 to 1.
    pub no_zone: f64,
    /// The share of questions for a name in a top-level domain that does not exist, 0 to 1.
    pub no_tld: f64,
    /// Among names that exist: the weights of `www`, of the zone's own name, and of other hosts.
    pub names: [f64; 3],
    /// How often each zone is asked for.
    pub popularity: Popularity,
}

impl Default for InternetRecipe {
    fn default() -> Self {
        Self {
            about: String::new(),
            seed: 1,
            sizes: IndexMap::new(),
            addresses: AddressRecipe::default(),
            root: RootRecipe::default(),
            tld: TldRecipe::default(),
            company: CompanyRecipe::default(),
            zone: ZoneRecipe::default(),
            signing: SigningRecipe::default(),
            delay: DelayRecipe::default(),
            behaviour: Vec::new(),
            queries: QuestionRecipe::default(),
        }
    }
}

impl Default for AddressRecipe {
    fn default() -> Self {
        // Both are reserved for benchmarks (RFC 2544, RFC 5180), and no resolver refuses to ask there.
        Self { ipv4: "198.18.0.0/15".into(), ipv6: "2001:2::/64".into() }
    }
}

impl Default for RootRecipe {
    fn default() -> Self {
        Self { servers: SERVERS_MAX, ttl_s: 172_800, negative_ttl_s: 86_400, algorithm: 8 }
    }
}

impl Default for TldRecipe {
    fn default() -> Self {
        Self {
            count: 100,
            largest: vec![3.0, 1.0],
            others: 4.0,
            servers: [2, 6],
            signed: 1.0,
            algorithms: vec![[13.0, 1.0]],
            ttl_s: 86_400,
            negative_ttl_s: 900,
        }
    }
}

impl Default for CompanyRecipe {
    fn default() -> Self {
        Self {
            count: 50,
            exponent: 1.0,
            servers: [2, 4],
            ipv6: 0.5,
            glue: 1.0,
            edge_ttls_s: vec![[60.0, 1.0]],
        }
    }
}

impl Default for ZoneRecipe {
    fn default() -> Self {
        Self {
            count: 1000,
            in_bailiwick: 0.1,
            signed: 0.1,
            algorithms: vec![[13.0, 1.0]],
            nsec3: 0.5,
            ipv6: 0.3,
            wildcard: 0.1,
            mail: 0.7,
            https: 0.2,
            srv: 0.1,
            aliases: vec![6.0, 3.0, 1.0],
            alias_to_apex: 0.5,
            hosts: vec![2.0, 1.0, 1.0, 1.0, 1.0],
            ttls_s: vec![[3600.0, 1.0]],
            negative_ttls_s: vec![[3600.0, 1.0]],
        }
    }
}

impl Default for SigningRecipe {
    fn default() -> Self {
        Self { date_s: 1_767_225_600, days_before: 30, days_after: 365, kept: 1 << 18 }
    }
}

impl Default for QuestionRecipe {
    fn default() -> Self {
        Self {
            seed: 1,
            types: [(Type(kqps_message::rtype::A), 1.0)].into(),
            no_name: 0.0,
            no_zone: 0.0,
            no_tld: 0.0,
            names: [5.0, 3.0, 2.0],
            popularity: Popularity::Zipf(1.0),
        }
    }
}
