//! Chains of NSEC and NSEC3 records for small zones, and what they prove to a resolver (RFC 4035, section 5.4;
//! RFC 5155, section 8).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use domain::base::iana::Rtype;
use sha1::{Digest, Sha1};

use super::reference::{APEX, Sets, has, is_below, parent, path};
use super::support::{Data, section, wire};

/// How a zone proves that something does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chain {
    Nsec,
    Nsec3,
    OptOut,
}

/// Facts that a reply must prove.
#[derive(Debug, Default)]
pub(crate) struct Denial {
    /// Names that a wildcard answered, and their closest enclosers.
    pub(crate) expanded: Vec<(String, String)>,
    pub(crate) end: End,
}

/// How a search ended.
#[derive(Debug, Default)]
pub(crate) enum End {
    #[default]
    Found,
    NoName(String),
    NoData(String),
    /// A name, and its wildcard.
    NoWildcardData(String, String),
    /// A cut.
    Unsigned(String),
}

const SALT: &str = "AB";
const ITERATIONS: usize = 1;

fn letters(name: &str) -> String {
    let mut bytes = wire(name);
    for _ in 0..=ITERATIONS {
        bytes.push(0xab);
        bytes = Sha1::digest(&bytes).to_vec();
    }
    let bits: Vec<String> = bytes.iter().map(|byte| format!("{byte:08b}")).collect();
    let bits = bits.concat();
    let value = |at: usize| u32::from_str_radix(&bits[at..at + 5], 2).expect("five bits");
    (0..160)
        .step_by(5)
        .map(|at| char::from_digit(value(at), 32).expect("a letter").to_ascii_uppercase())
        .collect()
}

fn canonical(name: &str) -> Vec<&str> {
    name.split('.').rev().collect()
}

/// The chain of a zone as text.
pub(crate) fn chain(sets: &Sets, chain: Chain) -> String {
    let is_own = |name: &str| {
        path(name)
            .into_iter()
            .filter(|ancestor| *ancestor != name)
            .all(|ancestor| !has(sets, ancestor, "DNAME") && (ancestor == APEX || !has(sets, ancestor, "NS")))
    };
    let mut names: BTreeSet<&str> = sets.keys().map(String::as_str).filter(|name| is_own(name)).collect();
    let types = |name: &str, more: &str| {
        let mut types: BTreeSet<&str> =
            sets.get(name).map(|set| set.iter().map(|record| record.0).collect()).unwrap_or_default();
        types.extend(more.split(' '));
        types.into_iter().collect::<Vec<_>>().join(" ")
    };
    let mut text = String::new();
    if chain == Chain::Nsec {
        let mut names: Vec<&str> = names.into_iter().collect();
        names.sort_by_key(|name| canonical(name));
        for (place, name) in names.iter().enumerate() {
            let next = names[(place + 1) % names.len()];
            writeln!(text, "{name} 300 IN NSEC {next} {}", types(name, "NSEC")).unwrap();
        }
        return text;
    }
    if chain == Chain::OptOut {
        names.retain(|name| *name == APEX || !has(sets, name, "NS") || has(sets, name, "DS"));
    }
    let inner: Vec<&str> = names.iter().flat_map(|name| path(name)).collect();
    names.extend(inner);
    let hashed: BTreeMap<String, &str> = names.into_iter().map(|name| (letters(name), name)).collect();
    let flags = u8::from(chain == Chain::OptOut);
    for (place, (hash, name)) in hashed.iter().enumerate() {
        let next = hashed.keys().nth((place + 1) % hashed.len()).expect("one of them");
        let types = types(name, if *name == APEX { "NSEC3PARAM" } else { "" });
        writeln!(text, "{hash}.{APEX} 300 IN NSEC3 1 {flags} {ITERATIONS} {SALT} {next} {types}").unwrap();
    }
    text + &format!("{APEX} 0 IN NSEC3PARAM 1 0 {ITERATIONS} {SALT}\n")
}

/// The records of a reply that prove something.
struct Proofs {
    /// Owner, next name, types.
    nsec: Vec<(String, String, BTreeSet<u16>)>,
    /// Owner's hash, next hash, types, opt-out.
    nsec3: Vec<(String, String, BTreeSet<u16>, bool)>,
}

impl Proofs {
    fn read(reply: &[u8]) -> Self {
        let mut proofs = Self { nsec: Vec::new(), nsec3: Vec::new() };
        for record in section(reply, 1) {
            let owner = format!("{}.", record.owner().to_string().trim_end_matches('.'));
            match record.data() {
                Data::Nsec(nsec) => {
                    let next = format!("{}.", nsec.next_name().to_string().trim_end_matches('.'));
                    proofs.nsec.push((owner, next, nsec.types().iter().map(Rtype::to_int).collect()));
                }
                Data::Nsec3(nsec3) => {
                    let hash = owner.split('.').next().unwrap_or_default().to_ascii_uppercase();
                    let next = nsec3.next_owner().to_string().to_ascii_uppercase();
                    let types = nsec3.types().iter().map(Rtype::to_int).collect();
                    proofs.nsec3.push((hash, next, types, nsec3.opt_out()));
                }
                _ => {}
            }
        }
        proofs
    }

    fn is_nsec(&self) -> bool {
        !self.nsec.is_empty()
    }

    /// The types of a name that has its own record.
    fn own(&self, name: &str) -> Option<&BTreeSet<u16>> {
        let hash = letters(name);
        let nsec = self.nsec.iter().find(|nsec| nsec.0 == name).map(|nsec| &nsec.2);
        nsec.or_else(|| self.nsec3.iter().find(|nsec3| nsec3.0 == hash).map(|nsec3| &nsec3.2))
    }

    /// Whether the name is proved not to exist. For NSEC3: whether its hash is proved absent, and whether
    /// opt-out allows it to exist unsigned.
    fn covers(&self, name: &str) -> (bool, bool) {
        let target = canonical(name);
        let nsec = self.nsec.iter().any(|(owner, next, _)| {
            let is_last = next == APEX;
            canonical(owner) < target && (is_last || target < canonical(next)) && !is_below(next, name)
        });
        let hash = letters(name);
        let mut nsec3 = self.nsec3.iter().filter(|(owner, next, ..)| {
            if owner < next { *owner < hash && hash < *next } else { *owner < hash || hash < *next }
        });
        let first = nsec3.next();
        (nsec || first.is_some(), first.is_some_and(|nsec3| nsec3.3))
    }

    /// Whether a name is an empty non-terminal.
    fn is_empty_node(&self, name: &str) -> bool {
        self.nsec.iter().any(|(owner, next, _)| canonical(owner) < canonical(name) && is_below(next, name))
    }

    /// The proved closest encloser of a name, whether the next name below it is covered, and whether by
    /// opt-out.
    fn encloser<'n>(&self, name: &'n str) -> Option<(&'n str, (bool, bool))> {
        let path: Vec<&str> = path(name);
        let place = path.iter().rposition(|ancestor| *ancestor != name && self.own(ancestor).is_some())?;
        Some((path[place], self.covers(path[place + 1])))
    }
}

fn lacks(types: Option<&BTreeSet<u16>>, qtype: &str) -> bool {
    let number = kqps_message::rtype::parse(qtype.as_bytes()).expect("a type");
    types.is_some_and(|types| !types.contains(&number) && !types.contains(&5))
}

/// Checks whether a reply proves what it must. The error is what is missing.
pub(crate) fn check(reply: &[u8], denial: &Denial, qtype: &str) -> Result<(), &'static str> {
    let proofs = Proofs::read(reply);
    let holds = |fact: bool, gap: &'static str| if fact { Ok(()) } else { Err(gap) };
    for (name, encloser) in &denial.expanded {
        let mut next_closer = name.as_str();
        while let Some(above) = parent(next_closer).filter(|above| above != encloser) {
            next_closer = above;
        }
        let covered = if proofs.is_nsec() { name } else { next_closer };
        holds(proofs.covers(covered).0, "the name that a wildcard stood for may exist")?;
    }
    match &denial.end {
        End::Found => Ok(()),
        End::NoName(name) if proofs.is_nsec() => {
            holds(proofs.covers(name).0, "the name may exist")?;
            let encloser = path(name).into_iter().rev().find(|ancestor| {
                let spans = |known: &str| known == *ancestor || is_below(known, ancestor);
                *ancestor != name && proofs.nsec.iter().any(|nsec| spans(&nsec.0) || spans(&nsec.1))
            });
            let wildcard = format!("*.{}", encloser.ok_or("no closest encloser")?);
            holds(proofs.covers(&wildcard).0, "a wildcard may exist")
        }
        End::NoName(name) => {
            let (encloser, (is_covered, is_opt_out)) = proofs.encloser(name).ok_or("no closest encloser")?;
            holds(is_covered, "the next closer name may exist")?;
            // An empty non-terminal that has only unsigned delegations below it is not in the chain. Then the
            // wildcard of a higher encloser, which does not apply to the name, may well exist.
            let is_denied = proofs.covers(&format!("*.{encloser}")).0;
            holds(
                is_denied || is_opt_out && proofs.own(&format!("*.{encloser}")).is_some(),
                "a wildcard may exist",
            )
        }
        End::NoData(name) => {
            let opted_out = || proofs.encloser(name).is_some_and(|(_, (_, is_opt_out))| is_opt_out);
            let is_proved = lacks(proofs.own(name), qtype) || proofs.is_empty_node(name) || opted_out();
            holds(is_proved, "the type may exist")
        }
        End::NoWildcardData(name, wildcard) => {
            if proofs.is_nsec() {
                holds(proofs.covers(name).0, "the name may exist")?;
                let is_proved = lacks(proofs.own(wildcard), qtype) || proofs.is_empty_node(wildcard);
                return holds(is_proved, "the wildcard may have the type");
            }
            let (_, (is_covered, _)) = proofs.encloser(name).ok_or("no closest encloser")?;
            holds(is_covered, "the next closer name may exist")?;
            let is_proved = lacks(proofs.own(wildcard), qtype) || proofs.covers(wildcard).1;
            holds(is_proved, "the wildcard may have the type")
        }
        End::Unsigned(cut) => {
            if section(reply, 1).iter().any(|record| record.rtype() == Rtype::DS) {
                return Ok(());
            }
            let opted_out = || proofs.encloser(cut).is_some_and(|(_, (_, is_opt_out))| is_opt_out);
            let own = proofs.own(cut);
            let is_cut = own.is_some_and(|types| types.contains(&2) && !types.contains(&6));
            holds(is_cut && lacks(own, "DS") || opted_out(), "the delegation may be signed")
        }
    }
}
