//! The facts of a zone: functions of the seed and its number.

use std::sync::Arc;

use kqps_recipe::{Draws, Stream};

use crate::recipe::InternetRecipe;

/// Parts of the seeds of zones and of the targets of aliases. No two kinds of draws have the same part.
const SITES: u64 = 0x7369_7465_0000_0001;
const EDGES: u64 = 0x6564_6765_0000_0002;

/// A zone that a company hosts.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools)] // each is a feature that a zone has or has not
pub(crate) struct Site {
    pub(crate) number: u64,
    pub(crate) tld: u32,
    pub(crate) company: u32,
    /// The algorithm of its key; 0 if it is not signed.
    pub(crate) algorithm: u8,
    pub(crate) has_nsec3: bool,
    /// Whether its servers have names in it.
    pub(crate) in_bailiwick: bool,
    pub(crate) ipv6: bool,
    pub(crate) wildcard: bool,
    pub(crate) mail: bool,
    pub(crate) https: bool,
    pub(crate) srv: bool,
    /// The number of CNAMEs from `www` to an address.
    pub(crate) aliases: u8,
    /// Whether its only CNAME leads to its apex.
    pub(crate) alias_to_apex: bool,
    pub(crate) hosts: u8,
    pub(crate) ttl_s: u32,
    pub(crate) negative_ttl_s: u32,
    /// The TTL of the names to which its aliases lead.
    pub(crate) edge_ttl_s: u32,
    /// A number of its own, for its addresses.
    pub(crate) salt: u64,
}

/// The draws of zones' facts.
#[derive(Clone, Debug)]
pub(crate) struct Sites {
    seed: u64,
    recipe: Arc<InternetRecipe>,
    tlds: Draws,
    companies: Draws,
    aliases: Draws,
    hosts: Draws,
    ttls: Choice,
    negative_ttls: Choice,
    edge_ttls: Choice,
    algorithms: Choice,
}

/// Draws of a number by weight.
#[derive(Clone, Debug)]
pub(crate) struct Choice(Vec<u32>, Draws);

impl Choice {
    /// Numbers with their weights.
    pub(crate) fn new(pairs: &[[f64; 2]]) -> Self {
        let weights: Vec<f64> = pairs.iter().map(|[_, weight]| *weight).collect();
        Self(pairs.iter().map(|[number, _]| whole(*number)).collect(), Draws::weighted(&weights))
    }

    pub(crate) fn draw(&self, stream: &mut Stream) -> u32 {
        self.0[self.1.draw(stream) as usize]
    }
}

/// A whole number of 32 bits.
fn whole(number: f64) -> u32 {
    u32::try_from(number as u64).unwrap_or(u32::MAX)
}

impl Sites {
    /// `tlds` and `companies` are the weights of their zones.
    pub(crate) fn new(recipe: &Arc<InternetRecipe>, tlds: &[f64], companies: &[f64]) -> Self {
        let zone = &recipe.zone;
        Self {
            seed: recipe.seed,
            recipe: recipe.clone(),
            tlds: Draws::weighted(tlds),
            companies: Draws::weighted(companies),
            aliases: Draws::weighted(&zone.aliases),
            hosts: Draws::weighted(&zone.hosts),
            ttls: Choice::new(&zone.ttls_s),
            negative_ttls: Choice::new(&zone.negative_ttls_s),
            edge_ttls: Choice::new(&recipe.company.edge_ttls_s),
            algorithms: Choice::new(&zone.algorithms),
        }
    }

    /// The facts of the zone with this number. `is_signed` says whether a top-level domain is signed.
    #[inline]
    pub(crate) fn site(&self, number: u64, is_signed: impl Fn(u32) -> bool) -> Site {
        let zone = &self.recipe.zone;
        let mut stream = Stream::with_number(self.seed ^ SITES, number);
        let tld = small(self.tlds.draw(&mut stream));
        let company = small(self.companies.draw(&mut stream));
        let salt = stream.next();
        let mut has = |share: f64| stream.unit() < share;
        let (in_bailiwick, signed, has_nsec3) = (has(zone.in_bailiwick), has(zone.signed), has(zone.nsec3));
        let (ipv6, wildcard, mail) = (has(zone.ipv6), has(zone.wildcard), has(zone.mail));
        let (https, srv, to_apex) = (has(zone.https), has(zone.srv), has(zone.alias_to_apex));
        let algorithm = self.algorithms.draw(&mut stream);
        let aliases = tiny(self.aliases.draw(&mut stream));
        Site {
            number,
            tld,
            company,
            algorithm: if signed && is_signed(tld) { tiny(algorithm.into()) } else { 0 },
            has_nsec3,
            in_bailiwick,
            ipv6,
            wildcard,
            mail,
            https,
            srv,
            aliases,
            alias_to_apex: to_apex && aliases == 1,
            hosts: tiny(self.hosts.draw(&mut stream)),
            ttl_s: self.ttls.draw(&mut stream),
            negative_ttl_s: self.negative_ttls.draw(&mut stream),
            edge_ttl_s: self.edge_ttls.draw(&mut stream),
            salt,
        }
    }

    /// The company in whose zone a zone's alias is after `step` CNAMEs, from 1.
    pub(crate) fn edge_company(&self, number: u64, step: u8) -> u32 {
        let mut stream = Stream::with_number(self.seed ^ EDGES, number << 4 | u64::from(step));
        small(self.companies.draw(&mut stream))
    }
}

fn small(drawn: u64) -> u32 {
    u32::try_from(drawn).expect("the recipe has no more than 2^32 of them")
}

fn tiny(drawn: u64) -> u8 {
    u8::try_from(drawn).expect("the recipe has no more than 256 of them")
}
