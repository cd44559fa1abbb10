//! A resolver by the book finds every name, with the number of questions that is foretold.

use std::collections::BTreeMap;

use kqps_internet::{Expected, Internet, InternetRecipe, ZoneId};
use kqps_message::name::NameText;
use kqps_message::{rcode, rtype};

use crate::book::{Book, Rec, is_signed, small, wire};

/// The answer that is expected as records, in order but within an RRset.
fn records(expected: &Expected) -> Vec<Rec> {
    let record = |rec: &kqps_internet::ExpectedRecord| Rec {
        owner: rec.owner.to_ascii_lowercase(),
        rtype: rec.rtype,
        ttl_s: rec.ttl_s,
        data: rec.data.clone(),
    };
    expected.answers.iter().map(record).collect()
}

/// Resolves a name and compares. Returns what was expected.
fn compare(internet: &Internet, name: &[u8], qtype: u16) -> Expected {
    let shown = || format!("{} {}", NameText(name), rtype::RtypeName(qtype));
    let mut book = Book::new(internet);
    let (rcode, mut answers) = book.resolve(name, qtype);
    let expected = internet.expected(name, qtype).expect("a name");
    let mut wanted = records(&expected);
    // An RRset has no order, but chains have one.
    let count = answers.iter().filter(|rec| rec.rtype == rtype::CNAME).count();
    answers[count..].sort();
    wanted[count..].sort();
    assert_eq!((rcode, answers), (expected.rcode, wanted), "{}", shown());
    assert_eq!(book.upstream, expected.upstream, "{}", shown());
    expected
}

/// Settings by which all outcomes are frequent.
const MIXED: [&str; 5] = [
    "queries.no_name=0.1",
    "queries.no_zone=0.05",
    "queries.no_tld=0.05",
    "queries.types={A=5,AAAA=2,HTTPS=1,MX=1,TXT=1,NS=1,SOA=1,DS=1,DNSKEY=1,SRV=1,CAA=1}",
    "zone.aliases=[4,3,2,1]",
];

#[test]
fn every_name_is_found_with_the_questions_that_are_foretold() {
    for extra in ["root.algorithm=0", "root.algorithm=13"] {
        let internet = small(&[&MIXED[..], &[extra]].concat());
        let (mut upstream, mut rcodes) = (BTreeMap::new(), BTreeMap::new());
        let mut without_data = 0;
        for number in 0..4000 {
            let (name, qtype) = internet.question(number);
            let expected = compare(&internet, &name, qtype);
            *upstream.entry(expected.upstream).or_insert(0) += 1;
            *rcodes.entry(expected.rcode).or_insert(0) += 1;
            without_data += u32::from(expected.rcode == rcode::NOERROR && expected.answers.is_empty());
        }
        // Names at every level, servers without glue, and chains of every length were among them.
        assert!([1, 2, 3, 6, 9, 12].iter().all(|count| upstream.contains_key(count)), "{upstream:?}");
        assert!(rcodes[&rcode::NXDOMAIN] > 200 && rcodes[&rcode::NOERROR] > 2000, "{rcodes:?}");
        assert!(without_data > 200, "{without_data}");
    }
}

/// The records of a zone's text without those of DNSSEC.
fn lines(internet: &Internet, zone: ZoneId) -> Vec<(Vec<u8>, u16)> {
    let text = internet.zone_text(zone);
    let line = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        (wire(words[0]), rtype::parse(words[3].as_bytes()).unwrap())
    };
    text.lines().map(line).collect()
}

#[test]
fn every_record_of_a_zone_is_found() {
    let internet = small(&["root.algorithm=0", "zone.wildcard=0.5", "zone.srv=0.5"]);
    let mut count = 0;
    for number in 0..200 {
        for (owner, rtype) in lines(&internet, ZoneId::Site(number)) {
            let expected = compare(&internet, &owner, rtype);
            assert!(expected.answers.iter().any(|rec| rec.rtype == rtype && rec.owner == owner));
            count += 1;
        }
        let name = internet.zone_name(ZoneId::Site(number));
        for (label, qtype) in
            [("a.www", rtype::A), ("x", rtype::TXT), ("_tcp", rtype::A), ("x._tcp", rtype::A)]
        {
            let mut below = wire(label);
            below.pop();
            below.extend_from_slice(&name);
            compare(&internet, &below, qtype);
        }
    }
    assert!(count > 2000, "{count}");
    for company in 0..20 {
        for (owner, rtype) in lines(&internet, ZoneId::Company(company)) {
            compare(&internet, &owner, rtype);
        }
    }
    // The root and a top-level domain: delegations are answered by the zones below, but hold as they are for these.
    for zone in [ZoneId::Root, ZoneId::Tld(0), ZoneId::Tld(99)] {
        let apex = internet.zone_name(zone);
        for (owner, rtype) in lines(&internet, zone) {
            let expected = compare(&internet, &owner, rtype);
            assert!(owner != apex || !expected.answers.is_empty());
        }
    }
}

#[test]
fn the_case_of_letters_does_not_matter() {
    let internet = small(&[]);
    for number in 0..300 {
        let (name, qtype) = internet.question(number);
        let lower = compare(&internet, &name, qtype);
        let upper = compare(&internet, &name.to_ascii_uppercase(), qtype);
        assert_eq!(
            (lower.rcode, records(&lower), lower.upstream),
            (upper.rcode, records(&upper), upper.upstream)
        );
    }
}

#[test]
fn the_same_recipe_gives_the_same_tree_and_another_seed_another() {
    let text = |settings: &[&str]| small(settings).zone_text(ZoneId::Tld(1));
    assert_eq!(text(&[]), text(&[]));
    assert_ne!(text(&[]), text(&["seed=2"]));
}

#[test]
fn the_large_size_has_the_shape_that_the_recipe_says() {
    let recipe = InternetRecipe::named("internet", Some("large"), &[]).unwrap();
    let internet = Internet::new(&recipe).unwrap();
    assert_eq!(internet.zones(), 1_000_000);
    let most = |count: u64, share: f64| {
        let expected = 1_000_000.0 * share;
        assert!((count as f64 - expected).abs() < 5.0 * expected.sqrt(), "{count} for {expected}");
    };
    let largest = internet.zone_name(ZoneId::Tld(0));
    let zones = (0..internet.zones()).map(ZoneId::Site);
    let in_largest = zones.clone().filter(|zone| internet.zone_name(*zone).ends_with(&largest));
    most(in_largest.count() as u64, 157.6 / 362.4);
    // Some top-level domains are not signed, and so are none of their zones.
    let signed = zones.step_by(10).filter(|zone| is_signed(&internet, *zone)).count();
    assert!((2_500..=5_100).contains(&signed), "{signed} of 100,000");
    for number in 0..500 {
        let (name, qtype) = internet.question(number);
        compare(&internet, &name, qtype);
    }
}
