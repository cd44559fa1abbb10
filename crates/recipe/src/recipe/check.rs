//! Checks whether something can be generated from a recipe.

use super::{Contents, Outcomes, Recipe, RecipeFault, RecipeQueries};
use crate::RECORDS_MAX;

/// The most zones, including those that do not load.
const ZONES_MAX: u64 = 10_000_000;

impl Contents {
    /// Every kind of entry by its name, with its weight.
    pub fn weights(&self) -> [(&'static str, f64); 11] {
        [
            ("A", self.a),
            ("AAAA", self.aaaa),
            ("CNAME", self.cname),
            ("MX", self.mx),
            ("TXT", self.txt),
            ("SRV", self.srv),
            ("PTR", self.ptr),
            ("CAA", self.caa),
            ("HTTPS", self.https),
            ("wildcard", self.wildcard),
            ("delegation", self.delegation),
        ]
    }
}

impl Outcomes {
    /// Every outcome by its name, with its weight.
    pub fn weights(&self) -> [(&'static str, f64); 6] {
        [
            ("NOERROR", self.noerror),
            ("NXDOMAIN", self.nxdomain),
            ("NODATA", self.nodata),
            ("referral", self.referral),
            ("SERVFAIL", self.servfail),
            ("REFUSED", self.refused),
        ]
    }
}

impl Recipe {
    /// Checks everything except the lengths of names and what needs other files.
    pub(crate) fn check(&self) -> Result<(), RecipeFault> {
        if !(1..=RECORDS_MAX).contains(&self.records) {
            return Err(RecipeFault::records(self.records));
        }
        if !(1..=super::CHAIN_MAX).contains(&self.chain) {
            return Err(RecipeFault::chain(self.chain));
        }
        range("zones", "zones", self.zones, 1, ZONES_MAX)?;
        range("broken", "zones that do not load", self.broken, 0, ZONES_MAX)?;
        weights("contents", &self.contents.weights())?;
        share("glue", self.delegations.glue)?;
        share("DS", self.delegations.ds)?;
        let depths: Vec<_> = self.names.depth.iter().map(|weight| ("a depth", *weight)).collect();
        weights("depth", &depths)?;
        range("depth", "depths", depths.len() as u64, 0, 8)?;
        self.queries.check()?;
        self.check_needs()
    }

    /// Checks that the zones have what the queries ask for.
    fn check_needs(&self) -> Result<(), RecipeFault> {
        let (queries, contents) = (&self.queries, &self.contents);
        let is_root = self.origin == ".";
        let deep = self.names.depth.iter().skip(1).any(|weight| *weight > 0.0);
        for (key, is_lacking, needs) in [
            ("broken", is_root && !self.is_one_zone(), "an origin other than the root"),
            ("zones", is_root && self.zones > 1, "an origin other than the root, where there are several"),
            (
                "SERVFAIL",
                queries.outcomes.servfail > 0.0 && self.broken == 0,
                "zones that do not load: broken = 1",
            ),
            (
                "REFUSED",
                queries.outcomes.refused > 0.0 && is_root,
                "names outside the zones; all are below the root",
            ),
            (
                "referral",
                queries.outcomes.referral > 0.0 && contents.delegation == 0.0,
                "delegations in the contents",
            ),
            ("alias", queries.alias > 0.0 && contents.cname == 0.0, "CNAMEs in the contents"),
            ("wildcard", queries.wildcard > 0.0 && contents.wildcard == 0.0, "wildcards in the contents"),
            ("empty", queries.empty > 0.0 && !deep, "names of more than one label: depth = [1, 1]"),
            (
                "glue",
                is_root && self.delegations.glue < 1.0 && contents.delegation > 0.0,
                "to be 1 in the root, where every name server is below a delegation",
            ),
        ] {
            if is_lacking {
                return Err(RecipeFault::Lacking { key, needs });
            }
        }
        range("attack", "attacked zones", queries.attack.zones, 1, self.zones)
    }
}

impl RecipeQueries {
    fn check(&self) -> Result<(), RecipeFault> {
        for (key, value) in [
            ("alias", self.alias),
            ("wildcard", self.wildcard),
            ("empty", self.empty),
            ("edns", self.edns),
            ("dnssec", self.dnssec),
            ("mixed_case", self.mixed_case),
            ("attack", self.attack.share),
        ] {
            share(key, value)?;
        }
        if self.alias + self.wildcard > 1.0 {
            return Err(RecipeFault::Share { key: "alias and wildcard", found: self.alias + self.wildcard });
        }
        range("label_bytes", "letters of attacking labels", self.attack.label_bytes.into(), 8, 63)?;
        weights("outcomes", &self.outcomes.weights())?;
        for types in [&self.types, &self.positive_types] {
            let named: Vec<_> = types.iter().map(|(qtype, weight)| (qtype.to_string(), *weight)).collect();
            weights("types", &named)?;
            if !types.is_empty() && named.iter().all(|(_, weight)| *weight == 0.0) {
                return Err(RecipeFault::Types);
            }
        }
        if self.types.is_empty() { Err(RecipeFault::Types) } else { Ok(()) }
    }
}

fn range(
    key: &'static str,
    what: &'static str,
    found: u64,
    least: u64,
    most: u64,
) -> Result<(), RecipeFault> {
    if (least..=most).contains(&found) {
        Ok(())
    } else {
        Err(RecipeFault::Range { key, what, found, least, most })
    }
}

fn share(key: &'static str, found: f64) -> Result<(), RecipeFault> {
    if (0.0..=1.0).contains(&found) { Ok(()) } else { Err(RecipeFault::Share { key, found }) }
}

fn weights<N: ToString>(key: &'static str, weights: &[(N, f64)]) -> Result<(), RecipeFault> {
    let bad = weights.iter().find(|(_, weight)| !weight.is_finite() || *weight < 0.0);
    bad.map_or(Ok(()), |(name, found)| {
        Err(RecipeFault::Weight { key, name: name.to_string(), found: *found })
    })
}
