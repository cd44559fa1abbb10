//! Checks whether an Internet can be made from a recipe.

use super::{Behaviour, DelayRecipe, Fault, InternetRecipe, RecipeError, SERVERS_MAX};

/// The most zones. Their numbers have seven digits.
const ZONES_MAX: u64 = 10_000_000;
/// The most top-level domains and companies.
const COMPANIES_MAX: u32 = 100_000;
/// The longest chain of CNAMEs, which every resolver follows.
pub(crate) const ALIASES_MAX: usize = 8;
/// The most further hosts of a zone.
const HOSTS_MAX: usize = 32;
/// The greatest TTL has 31 bits (RFC 2181, section 8).
const TTL_MAX_S: u32 = 0x7fff_ffff;
/// The most signatures that are kept. They take 4 GB.
const KEPT_MAX: u32 = 10_000_000;
/// The most days on either side of a date. Within 68 years the times of a signature can be compared (RFC 4034, section 3.1.5).
const DAYS_MAX: u16 = 10_000;
/// The longest delay of a query. A server keeps a reply that long.
const DELAY_MAX_US: u64 = 120_000_000;
/// The longest pieces of a reply, and the longest time between two.
const PIECE_BYTES_MAX: u16 = 512;
const GAP_MAX_US: u32 = 1_000_000;

impl InternetRecipe {
    /// Checks everything but the prefixes of addresses.
    pub(crate) fn check(&self) -> Result<(), RecipeError> {
        range("zone.count", self.zone.count, 1, ZONES_MAX)?;
        range("tld.count", self.tld.count.into(), 1, 10_000)?;
        range("company.count", self.company.count.into(), 1, COMPANIES_MAX.into())?;
        range("root.servers", self.root.servers.into(), 1, SERVERS_MAX.into())?;
        for (key, [least, most]) in
            [("tld.servers", self.tld.servers), ("company.servers", self.company.servers)]
        {
            range(key, least.into(), 1, SERVERS_MAX.into())?;
            range(key, most.into(), least.into(), SERVERS_MAX.into())?;
        }
        if self.root.algorithm != 0 {
            algorithms("root.algorithm", &[[f64::from(self.root.algorithm), 1.0]])?;
        }
        algorithms("tld.algorithms", &self.tld.algorithms)?;
        algorithms("zone.algorithms", &self.zone.algorithms)?;
        for (key, ttls) in [
            ("company.edge_ttls_s", &self.company.edge_ttls_s),
            ("zone.ttls_s", &self.zone.ttls_s),
            ("zone.negative_ttls_s", &self.zone.negative_ttls_s),
        ] {
            weighted(key, ttls)?;
            let is_ttl = |ttl: f64| (0.0..=f64::from(TTL_MAX_S)).contains(&ttl);
            if let Some([ttl, _]) = ttls.iter().find(|[ttl, _]| !is_ttl(*ttl)) {
                return Err(RecipeError::fault(key, format!("a TTL of {ttl}; expected 0 to {TTL_MAX_S}")));
            }
        }
        for (key, ttl_s) in [
            ("root.ttl_s", self.root.ttl_s),
            ("root.negative_ttl_s", self.root.negative_ttl_s),
            ("tld.ttl_s", self.tld.ttl_s),
            ("tld.negative_ttl_s", self.tld.negative_ttl_s),
        ] {
            range(key, ttl_s.into(), 0, TTL_MAX_S.into())?;
        }
        range("signing.kept", self.signing.kept.into(), 0, KEPT_MAX.into())?;
        range("signing.days_before", self.signing.days_before.into(), 0, DAYS_MAX.into())?;
        range("signing.days_after", self.signing.days_after.into(), 0, DAYS_MAX.into())?;
        self.check_shares()?;
        self.check_weights()?;
        self.behaviour.iter().try_for_each(Behaviour::check)?;
        self.check_delays()
    }

    /// Checks that no query can be delayed for too long.
    fn check_delays(&self) -> Result<(), RecipeError> {
        let greatest = |times: &[u64]| times.iter().copied().max().unwrap_or(0);
        let DelayRecipe { root_us, tld_us, company_us, jitter } = &self.delay;
        let mut own_us = 0;
        for (key, times_us) in
            [("delay.root_us", root_us), ("delay.tld_us", tld_us), ("delay.company_us", company_us)]
        {
            range(key, greatest(times_us), 0, DELAY_MAX_US)?;
            own_us = greatest(times_us).max(own_us);
        }
        let mut sum_us = own_us as f64 * (1.0 + jitter);
        for behaviour in &self.behaviour {
            range("behaviour.delay_us", greatest(&behaviour.delay_us), 0, DELAY_MAX_US)?;
            sum_us += greatest(&behaviour.delay_us) as f64;
        }
        if sum_us > DELAY_MAX_US as f64 {
            let what =
                format!("up to {sum_us} µs together with other delays; expected {DELAY_MAX_US} at most");
            return Err(RecipeError::fault("delay", what));
        }
        Ok(())
    }

    fn check_shares(&self) -> Result<(), RecipeError> {
        let (zone, queries) = (&self.zone, &self.queries);
        for (key, value) in [
            ("tld.signed", self.tld.signed),
            ("company.ipv6", self.company.ipv6),
            ("company.glue", self.company.glue),
            ("zone.in_bailiwick", zone.in_bailiwick),
            ("zone.signed", zone.signed),
            ("zone.nsec3", zone.nsec3),
            ("zone.ipv6", zone.ipv6),
            ("zone.wildcard", zone.wildcard),
            ("zone.mail", zone.mail),
            ("zone.https", zone.https),
            ("zone.srv", zone.srv),
            ("zone.alias_to_apex", zone.alias_to_apex),
            ("delay.jitter", self.delay.jitter),
            ("queries.no_name", queries.no_name),
            ("queries.no_zone", queries.no_zone),
            ("queries.no_tld", queries.no_tld),
            ("queries.no_name, no_zone and no_tld", queries.no_name + queries.no_zone + queries.no_tld),
        ] {
            share(key, value)?;
        }
        Ok(())
    }

    fn check_weights(&self) -> Result<(), RecipeError> {
        let zone = &self.zone;
        range("zone.aliases", zone.aliases.len() as u64, 1, ALIASES_MAX as u64 + 1)?;
        range("zone.hosts", zone.hosts.len() as u64, 1, HOSTS_MAX as u64 + 1)?;
        range("tld.largest", self.tld.largest.len() as u64, 0, self.tld.count.into())?;
        let types: Vec<f64> = self.queries.types.values().copied().collect();
        let tlds: Vec<f64> = self.tld.largest.iter().copied().chain([self.tld.others]).collect();
        for (key, values) in [
            ("zone.aliases", &zone.aliases[..]),
            ("zone.hosts", &zone.hosts),
            ("queries.types", &types),
            ("queries.names", &self.queries.names),
            ("tld.largest and others", &tlds),
        ] {
            weights(key, values)?;
        }
        if !(0.0..=10.0).contains(&self.company.exponent) {
            let what = format!("an exponent of {}; expected 0 to 10", self.company.exponent);
            return Err(RecipeError::fault("company.exponent", what));
        }
        Ok(())
    }
}

fn range(key: &'static str, found: u64, least: u64, most: u64) -> Result<(), RecipeError> {
    if (least..=most).contains(&found) {
        return Ok(());
    }
    Err(RecipeError::fault(key, format!("{found}; expected {least} to {most}")))
}

impl Behaviour {
    fn check(&self) -> Result<(), RecipeError> {
        share("behaviour.servers", self.servers)?;
        share("behaviour.queries", self.queries)?;
        let name = self.fault.name();
        let in_pieces = self.piece_bytes > 0;
        range("behaviour.names", self.names.into(), 1, u8::MAX.into())?;
        range("behaviour.piece_bytes", self.piece_bytes.into(), 0, PIECE_BYTES_MAX.into())?;
        range("behaviour.piece_gap_us", self.piece_gap_us.into(), 0, GAP_MAX_US.into())?;
        if in_pieces && self.fault != Fault::SlowTcp {
            let what = format!("{name} has no pieces; leave piece_bytes out");
            return Err(RecipeError::fault("behaviour.piece_bytes", what));
        }
        if self.piece_gap_us > 0 && !in_pieces {
            return Err(RecipeError::fault("behaviour.piece_gap_us", "is of pieces, and needs piece_bytes"));
        }
        let is_delay = matches!(self.fault, Fault::Delay | Fault::SlowTcp);
        if is_delay == self.delay_us.is_empty() && !in_pieces {
            let what = match self.fault {
                Fault::Delay => "needs delay_us",
                Fault::SlowTcp => "needs delay_us or piece_bytes",
                _ => "has no delay; leave delay_us out",
            };
            return Err(RecipeError::fault("behaviour.delay_us", format!("{name} {what}")));
        }
        let is_of_connections = self.fault == Fault::TcpRefused || in_pieces;
        if is_of_connections && self.queries < 1.0 {
            let what = format!("{name} is of whole connections; leave queries out, and use servers");
            return Err(RecipeError::fault("behaviour.queries", what));
        }
        Ok(())
    }
}

fn share(key: &'static str, found: f64) -> Result<(), RecipeError> {
    if (0.0..=1.0).contains(&found) {
        return Ok(());
    }
    Err(RecipeError::fault(key, format!("a share of {found}; expected 0 to 1")))
}

fn weights(key: &'static str, weights: &[f64]) -> Result<(), RecipeError> {
    if let Some(found) = weights.iter().find(|weight| !weight.is_finite() || **weight < 0.0) {
        return Err(RecipeError::fault(key, format!("a weight of {found}; expected a number of 0 or more")));
    }
    if weights.iter().all(|weight| *weight == 0.0) {
        return Err(RecipeError::fault(key, "no weight is above 0"));
    }
    Ok(())
}

fn weighted(key: &'static str, pairs: &[[f64; 2]]) -> Result<(), RecipeError> {
    let only: Vec<f64> = pairs.iter().map(|[_, weight]| *weight).collect();
    weights(key, &only)
}

fn algorithms(key: &'static str, pairs: &[[f64; 2]]) -> Result<(), RecipeError> {
    weighted(key, pairs)?;
    match pairs.iter().find(|[number, _]| !crate::keys::is_known(*number)) {
        Some([number, _]) => Err(RecipeError::fault(
            key,
            format!("algorithm {number}; expected 8 (RSASHA256) or 13 (ECDSAP256SHA256)"),
        )),
        None => Ok(()),
    }
}
