//! Generated zones and query files: the same for the same seed, right in number, and agreed with one another.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;

use kqps_dataset::generate::{self, LabelBytes, Popularity, Queries, Zone};
use kqps_dataset::{Check, Dataset, Options};
use kqps_message::{rcode, rtype};

fn zone() -> Zone {
    Zone { origin: "Example.test".to_owned(), records: 500, label_bytes: LabelBytes::Spread, seed: 3 }
}

fn queries() -> Queries {
    Queries {
        zone: zone(),
        count: 20_000,
        nxdomain_share: 0.05,
        types: vec![(rtype::A, 3.0), (rtype::AAAA, 1.0)],
        popularity: Popularity::Uniform,
        expected: true,
        seed: 4,
    }
}

fn written(write: impl FnOnce(&Path) -> Result<(), generate::GenerateError>) -> String {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("out");
    write(&path).expect("a file");
    assert_eq!(fs::read_dir(directory.path()).expect("the directory").count(), 1, "nothing else is left");
    fs::read_to_string(path).expect("the file")
}

fn zone_text(zone: &Zone) -> String {
    written(|path| generate::zone(zone, path))
}

fn queries_text(queries: &Queries) -> String {
    written(|path| generate::queries(queries, path))
}

#[test]
fn a_seed_decides_everything() {
    assert_eq!(zone_text(&zone()), zone_text(&zone()));
    assert_eq!(queries_text(&queries()), queries_text(&queries()));
    assert_ne!(zone_text(&zone()), zone_text(&Zone { seed: 5, ..zone() }));
    assert_ne!(queries_text(&queries()), queries_text(&Queries { seed: 5, ..queries() }));
}

#[test]
fn what_a_seed_gives_never_changes() {
    let small = Zone { records: 3, ..zone() };
    assert_eq!(zone_text(&small), include_str!("generated/zone.txt"));
    let few = Queries { zone: small, count: 6, nxdomain_share: 0.5, ..queries() };
    assert_eq!(queries_text(&few), include_str!("generated/queries.txt"));
}

#[test]
fn queries_are_answered_by_the_zone_as_expected() {
    let text = zone_text(&zone());
    let names: HashSet<String> = text
        .lines()
        .filter_map(|line| line.split_once(" IN A 198."))
        .map(|(label, _)| format!("{label}.Example.test."))
        .collect();
    assert_eq!(names.len(), 500 + 2);
    let mut asked = HashMap::new();
    for line in queries_text(&queries()).lines() {
        let [name, qtype, rcode] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("three columns: {line}")
        };
        assert_eq!(names.contains(name), rcode == "NOERROR", "{line}");
        *asked.entry((qtype.to_owned(), rcode.to_owned())).or_insert(0u32) += 1;
    }
    // Binomial: five standard deviations around 3/4 and 1/4 of 95 % and 5 %.
    for (qtype, rcode, expected, off) in [
        ("A", "NOERROR", 14_250.0, 320.0),
        ("AAAA", "NOERROR", 4750.0, 302.0),
        ("A", "NXDOMAIN", 750.0, 135.0),
        ("AAAA", "NXDOMAIN", 250.0, 80.0),
    ] {
        let seen = f64::from(asked[&(qtype.to_owned(), rcode.to_owned())]);
        assert!((seen - expected).abs() < off, "{qtype} {rcode}: {seen}");
    }
}

#[test]
fn a_dataset_reads_what_was_generated() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("queries");
    generate::queries(&queries(), &path).expect("a file");
    let options = Options { cache_dir: Some(directory.path().join("cache")), ..Options::default() };
    let dataset = Dataset::open(&path, &options).expect("a dataset");
    assert_eq!(dataset.queries(), 20_000);
    let absent = dataset.iter().filter(|query| query.expected_rcode == Some(rcode::NXDOMAIN)).count();
    assert!((800..1200).contains(&absent), "{absent}");
    // An echo can meet none of these.
    let plain = dataset.checked(Check::Off);
    assert_eq!(plain.queries(), 20_000);
    assert!(plain.iter().all(|query| query.expected_rcode.is_none()));
}

#[test]
fn popular_names_are_asked_more_often() {
    let zipf = Queries { popularity: Popularity::Zipf(1.0), nxdomain_share: 0.0, ..queries() };
    let mut asked: HashMap<String, u32> = HashMap::new();
    for line in queries_text(&zipf).lines() {
        *asked.entry(line.split(' ').next().expect("a name").to_owned()).or_default() += 1;
    }
    let most = asked.values().max().copied().map(f64::from).expect("queries");
    // The first of 500 names gets 1 / H(500) = 14.7 % of 20,000.
    assert!((most - 2944.0).abs() < 251.0, "{most}");
}

#[test]
fn without_expectations_there_are_two_columns() {
    let plain = queries_text(&Queries { expected: false, ..queries() });
    assert!(plain.lines().all(|line| line.split(' ').count() == 2));
}

#[test]
fn the_root_can_be_an_origin() {
    let root = Zone { origin: ".".to_owned(), ..zone() };
    assert!(zone_text(&root).starts_with("$ORIGIN .\n"));
    let text = queries_text(&Queries { zone: root, ..queries() });
    assert!(
        text.lines()
            .all(|line| line.split(' ').next().is_some_and(|name| name.find('.') == Some(name.len() - 1)))
    );
}

#[test]
fn what_cannot_be_generated_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("out");
    let zone_error = |zone: Zone| generate::zone(&zone, &path).expect_err("a bad zone").to_string();
    let query_error =
        |queries: Queries| generate::queries(&queries, &path).expect_err("bad queries").to_string();
    for (error, expected) in [
        (zone_error(Zone { records: 0, ..zone() }), "0 records; expected 1 to 100000000"),
        (
            zone_error(Zone { origin: "a..b".to_owned(), ..zone() }),
            "bad origin \"a..b\", column 3: a label is empty",
        ),
        (
            zone_error(Zone { label_bytes: LabelBytes::Fixed(3), ..zone() }),
            "labels of 3 bytes; expected 4 to 63, so that there are enough different ones",
        ),
        (
            zone_error(Zone { origin: format!("{0}.{0}.{0}.{0}", "x".repeat(60)), ..zone() }),
            "the names would be up to 267 bytes long; a name has 255 at most",
        ),
        (query_error(Queries { count: 0, ..queries() }), "no queries are asked for; expected 1 at least"),
        (
            query_error(Queries { nxdomain_share: 1.5, ..queries() }),
            "a share of 1.5 for NXDOMAIN; expected 0 to 1",
        ),
        (
            query_error(Queries { types: vec![(1, 0.0)], ..queries() }),
            "expected one type at least, each with a weight above 0",
        ),
        (
            query_error(Queries { popularity: Popularity::Zipf(-1.0), ..queries() }),
            "a Zipf exponent of -1; expected 0 to 10",
        ),
    ] {
        assert_eq!(error, expected);
    }
    assert!(!path.exists());
}

#[test]
fn a_device_or_a_missing_directory_is_left_alone() {
    for (path, expected) in [
        ("/dev/null", "cannot write /dev/null: it exists and is no regular file"),
        ("/missing/file", "cannot write /missing/file: No such file or directory"),
    ] {
        let error = generate::zone(&zone(), Path::new(path)).expect_err("no file").to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}
