//! Compares compiled small random zones with a slow and simple search (RFC 1034, section 4.3.2, with RFC 4592
//! and 6672). Denials are checked as a resolver checks them ([`super::proof`]).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use kqps_zone::Entry;
use proptest::prelude::*;

use super::proof::{self, Denial, End};
use super::support::{self, DO, EDNS, Server, section, zone};

pub(crate) const APEX: &str = "example.";
const DIGEST: &str = "1 13 2 0102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F20";
const SOA: &str = "ns.example. h.example. 1 2 3 4 300";

/// A name's records: type and data.
pub(crate) type Sets = BTreeMap<String, BTreeSet<(&'static str, String)>>;

/// The right reply to a query.
#[derive(Debug, Default, PartialEq, Eq)]
struct Expected {
    rcode: &'static str,
    is_authoritative: bool,
    /// Owner, type and data.
    answer: BTreeSet<(String, String, String)>,
    /// The cut of a referral.
    cut: Option<String>,
    is_negative: bool,
}

pub(crate) fn parent(name: &str) -> Option<&str> {
    name.split_once('.').map(|(_, parent)| parent).filter(|parent| !parent.is_empty())
}

pub(crate) fn is_below(name: &str, ancestor: &str) -> bool {
    name.len() > ancestor.len() && name.ends_with(&format!(".{ancestor}"))
}

/// The name and its ancestors within the zone, the apex first.
pub(crate) fn path(name: &str) -> Vec<&str> {
    let mut path: Vec<&str> = std::iter::successors(Some(name), |name| parent(name)).collect();
    path.retain(|name| *name == APEX || is_below(name, APEX));
    path.reverse();
    path
}

pub(crate) fn has(sets: &Sets, name: &str, rtype: &str) -> bool {
    sets.get(name).is_some_and(|set| set.iter().any(|record| record.0 == rtype))
}

fn exists(sets: &Sets, name: &str) -> bool {
    sets.keys().any(|known| known == name || is_below(known, name))
}

/// The right reply to a query, and what it must prove.
fn expected(sets: &Sets, qname: &str, qtype: &str) -> (Expected, Denial) {
    let mut out = Expected { rcode: "NOERROR", ..Expected::default() };
    let mut denial = Denial::default();
    let mut name = qname.to_owned();
    let mut seen = BTreeSet::new();
    while seen.len() < 16 && seen.insert(name.clone()) {
        if name != APEX && !is_below(&name, APEX) {
            return (out, denial);
        }
        let first = seen.len() == 1;
        let stop = path(&name).into_iter().find(|ancestor| {
            let is_cut =
                *ancestor != APEX && has(sets, ancestor, "NS") && !(*ancestor == name && qtype == "DS");
            is_cut || *ancestor != name && has(sets, ancestor, "DNAME")
        });
        out.is_authoritative |= first;
        if let Some(ancestor) = stop {
            if ancestor != APEX && has(sets, ancestor, "NS") {
                out.cut = Some(ancestor.to_owned());
                out.is_authoritative &= !first;
                denial.end = End::Unsigned(ancestor.to_owned());
                return (out, denial);
            }
            let target = data(sets, ancestor, "DNAME").pop().expect("one");
            let is_known = !out.answer.insert((ancestor.to_owned(), "DNAME".into(), target.clone()));
            if is_known && (target == ancestor || is_below(&target, ancestor)) {
                return (out, denial);
            }
            let renamed = format!("{}{target}", &name[..name.len() - ancestor.len()]);
            out.answer.insert((name.clone(), "CNAME".into(), renamed.clone()));
            if qtype == "CNAME" {
                return (out, denial);
            }
            name = renamed;
            continue;
        }
        let mut source = name.clone();
        if !exists(sets, &name) {
            let encloser = path(&name).into_iter().rev().find(|name| exists(sets, name)).expect("the apex");
            source = format!("*.{encloser}");
            if !exists(sets, &source) {
                (out.rcode, out.is_negative) = ("NXDOMAIN", true);
                denial.end = End::NoName(name);
                return (out, denial);
            }
        }
        let found = data(sets, &source, qtype);
        let alias = data(sets, &source, "CNAME").pop();
        if source != name && (alias.is_some() || !found.is_empty()) {
            denial.expanded.push((name.clone(), source[2..].to_owned()));
        }
        if !found.is_empty() {
            out.answer.extend(found.into_iter().map(|data| (name.clone(), qtype.to_owned(), data)));
            return (out, denial);
        }
        let Some(target) = alias else {
            out.is_negative = true;
            denial.end = if source == name { End::NoData(name) } else { End::NoWildcardData(name, source) };
            return (out, denial);
        };
        out.answer.insert((name.clone(), "CNAME".into(), target.clone()));
        name = target;
    }
    (out, denial)
}

fn data(sets: &Sets, name: &str, rtype: &str) -> Vec<String> {
    let of_type = |set: &BTreeSet<(&str, String)>| {
        set.iter().filter(|record| record.0 == rtype).map(|record| record.1.clone()).collect()
    };
    sets.get(name).map(of_type).unwrap_or_default()
}

/// The content of a reply.
fn content(reply: &[u8]) -> Expected {
    let text = support::shown(reply);
    let mut head = text.lines().next().unwrap_or_default().split(' ');
    let rcode = ["NOERROR", "NXDOMAIN"].into_iter().find(|known| head.clone().next() == Some(*known));
    let fields = |record: &_| {
        let line = support::line(record);
        let mut fields = line.splitn(4, ' ').map(str::to_owned);
        let mut next = || fields.next().unwrap_or_default();
        let (owner, _ttl, rtype, data) = (next(), next(), next(), next());
        // The oracle writes it in another form.
        let data = if rtype == "DS" { DIGEST.to_owned() } else { data };
        (owner, rtype, data)
    };
    let authority: Vec<_> = section(reply, 1).iter().map(fields).collect();
    Expected {
        rcode: rcode.unwrap_or("another"),
        is_authoritative: head.any(|flag| flag == "aa"),
        answer: section(reply, 0).iter().map(fields).filter(|record| record.1 != "RRSIG").collect(),
        cut: authority.iter().find(|record| record.1 == "NS").map(|record| record.0.clone()),
        is_negative: authority.iter().any(|record| record.1 == "SOA"),
    }
}

fn name() -> impl Strategy<Value = String> {
    let label = prop::sample::select(vec!["a", "a", "b", "b", "c", "d", "*"]);
    prop::collection::vec(label, 1..5).prop_map(|labels| format!("{}.{APEX}", labels.join(".")))
}

/// Small zones with every case of RFC 1034 and its successors.
fn sets() -> impl Strategy<Value = Sets> {
    let kind = prop::sample::select(vec![
        "A", "A", "A", "TXT", "TXT", "NS", "NS", "DS", "CNAME", "CNAME", "DNAME", "MX",
    ]);
    prop::collection::vec((name(), kind, name()), 0..14).prop_map(|records| {
        let mut sets = Sets::new();
        for (owner, kind, other) in records {
            let data = match kind {
                "A" => format!("192.0.2.{}", other.len()),
                "TXT" => format!("\"{other}\""),
                "MX" => format!("10 {other}"),
                "DS" => DIGEST.to_owned(),
                _ => other,
            };
            sets.entry(owner).or_default().insert((kind, data));
        }
        for (owner, set) in &mut sets {
            tidy(owner, set);
        }
        sets.retain(|_, set| !set.is_empty());
        let apex = [("SOA", SOA.to_owned()), ("NS", "ns.elsewhere.test.".to_owned())];
        sets.entry(APEX.to_owned()).or_default().extend(apex);
        sets
    })
}

/// Removes records that may not stand together.
fn tidy(owner: &str, set: &mut BTreeSet<(&'static str, String)>) {
    let has = |set: &BTreeSet<(&str, String)>, rtype| set.iter().any(|record| record.0 == rtype);
    // Wildcards that delegate or rename are undefined (RFC 4592, sections 4.2 and 4.4).
    if owner.starts_with('*') {
        set.retain(|record| !matches!(record.0, "NS" | "DNAME"));
    }
    for single in ["CNAME", "DNAME"] {
        let first = set.iter().find(|record| record.0 == single).cloned();
        set.retain(|record| record.0 != single || Some(record) == first.as_ref());
    }
    if has(set, "CNAME") {
        set.retain(|record| record.0 == "CNAME");
    }
    if has(set, "NS") {
        set.retain(|record| matches!(record.0, "NS" | "DS"));
    } else {
        set.retain(|record| record.0 != "DS");
    }
}

fn text(sets: &Sets) -> String {
    let mut text = String::new();
    for (owner, set) in sets {
        for (rtype, data) in set {
            writeln!(text, "{owner} 3600 IN {rtype} {data}").unwrap();
        }
    }
    text
}

fn questions(sets: &Sets, others: &[String]) -> Vec<(String, &'static str)> {
    let mut names: BTreeSet<String> = sets.keys().cloned().collect();
    names.extend(others.iter().cloned());
    names.extend(sets.keys().filter_map(|name| parent(name)).map(str::to_owned));
    names.extend(sets.keys().map(|name| format!("b.{name}")));
    names.retain(|name| name == APEX || is_below(name, APEX));
    let types = ["A", "TXT", "NS", "DS", "CNAME", "DNAME", "MX"];
    names.iter().flat_map(|name| types.map(|rtype| (name.clone(), rtype))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn answers_are_those_of_a_plain_search(sets in sets(), others in prop::collection::vec(name(), 0..6)) {
        let mut server = Server::new([zone(APEX, &text(&sets))]);
        for (qname, qtype) in questions(&sets, &others) {
            let question = format!("{qname} {qtype}");
            let reply = server.reply(&support::query(&question, &EDNS), EDNS.transport);
            let expected = expected(&sets, &qname, qtype).0;
            prop_assert_eq!(content(&reply), expected, "{} in\n{}", question, text(&sets));
        }
    }

    #[test]
    fn denials_prove_what_is_denied(
        sets in sets(),
        others in prop::collection::vec(name(), 0..6),
        chain in prop::sample::select(vec![proof::Chain::Nsec, proof::Chain::Nsec3, proof::Chain::OptOut]),
    ) {
        let signed = text(&sets) + &proof::chain(&sets, chain);
        let entry: Entry = zone(APEX, &signed);
        let mut server = Server::new([entry]);
        for (qname, qtype) in questions(&sets, &others) {
            let question = format!("{qname} {qtype}");
            let reply = server.reply(&support::query(&question, &DO), DO.transport);
            let (expected, denial) = expected(&sets, &qname, qtype);
            prop_assert_eq!(&content(&reply), &expected, "{} in\n{}", question, signed);
            if let Err(gap) = proof::check(&reply, &denial, qtype) {
                prop_assert!(false, "{gap}: {question} in\n{signed}\n{}", support::shown(&reply));
            }
        }
    }
}
