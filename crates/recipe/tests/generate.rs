//! Generated zones and query files: the same for the same seed, with the right counts, and consistent with
//! each other.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;

use kqps_dataset::{Check, Dataset, Options};
use kqps_message::{rcode, rtype};
use kqps_recipe::{Expect, Labels, Outcomes, Popularity, Recipe, RecipeQueries, Type};

const COUNT: u64 = 20_000;

fn outcomes(nxdomain: f64) -> Outcomes {
    Outcomes { noerror: 1.0 - nxdomain, nxdomain, ..Outcomes::default() }
}

fn recipe() -> Recipe {
    Recipe { origin: "Example.test".to_owned(), records: 500, seed: 3, queries: asked(), ..Recipe::default() }
}

fn asked() -> RecipeQueries {
    RecipeQueries {
        types: [(Type(rtype::A), 3.0), (Type(rtype::AAAA), 1.0)].into(),
        outcomes: outcomes(0.05),
        seed: 4,
        ..RecipeQueries::default()
    }
}

fn asking(asked: RecipeQueries) -> Recipe {
    Recipe { queries: asked, ..recipe() }
}

fn written(write: impl FnOnce(&Path) -> Result<(), kqps_recipe::GenerateError>) -> String {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("out");
    write(&path).expect("a file");
    assert_eq!(fs::read_dir(directory.path()).expect("the directory").count(), 1, "nothing else is left");
    fs::read_to_string(path).expect("the file")
}

fn zone_text(recipe: &Recipe) -> String {
    written(|path| kqps_recipe::zone(recipe, path))
}

fn queries_text(recipe: &Recipe) -> String {
    queries_of(recipe, COUNT)
}

fn queries_of(recipe: &Recipe, count: u64) -> String {
    written(|path| kqps_recipe::queries(recipe, count, path))
}

#[test]
fn a_seed_decides_everything() {
    assert_eq!(zone_text(&recipe()), zone_text(&recipe()));
    assert_eq!(queries_text(&recipe()), queries_text(&recipe()));
    assert_ne!(zone_text(&recipe()), zone_text(&Recipe { seed: 5, ..recipe() }));
    assert_ne!(queries_text(&recipe()), queries_text(&asking(RecipeQueries { seed: 5, ..asked() })));
}

#[test]
fn what_a_seed_gives_never_changes() {
    let small =
        Recipe { records: 3, queries: RecipeQueries { outcomes: outcomes(0.5), ..asked() }, ..recipe() };
    assert_eq!(zone_text(&small), include_str!("generated/zone.txt"));
    assert_eq!(queries_of(&small, 6), include_str!("generated/queries.txt"));
}

#[test]
fn queries_are_answered_by_the_zone_as_expected() {
    let text = zone_text(&recipe());
    let names: HashSet<String> = text
        .lines()
        .filter_map(|line| line.split_once(" IN A 198."))
        .map(|(label, _)| format!("{label}.Example.test."))
        .collect();
    assert_eq!(names.len(), 500 + 2);
    let mut asked = HashMap::new();
    for line in queries_text(&recipe()).lines() {
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
    let answers = asking(RecipeQueries { expect: Expect::Answers, edns: 0.5, dnssec: 0.25, ..asked() });
    kqps_recipe::queries(&answers, COUNT, &path).expect("a file");
    let options = Options { cache_dir: Some(directory.path().join("cache")), ..Options::default() };
    let dataset = Dataset::open(&path, &options).expect("a dataset");
    assert_eq!((dataset.queries(), dataset.answers()), (COUNT, COUNT));
    let absent = dataset.iter().filter(|query| query.expected_rcode == Some(rcode::NXDOMAIN)).count();
    assert!((800..1200).contains(&absent), "{absent}");
    assert!(dataset.iter().all(|query| query.expected_answer.is_some() && query.expected_rcode.is_some()));
    assert_eq!(dataset.query(dataset.position(COUNT - 1)), dataset.iter().last().expect("a last one"));
    let with_edns = dataset.iter().filter(|query| query.message.len() > 12 + query.question_bytes).count();
    assert!((9_500..10_500).contains(&with_edns), "{with_edns}");
    // An echo can meet none of these expectations.
    let plain = dataset.checked(Check::Off);
    assert_eq!(plain.queries(), COUNT);
    assert!(plain.iter().all(|query| query.expected_rcode.is_none() && query.expected_answer.is_none()));
}

#[test]
fn popular_names_are_asked_more_often() {
    let zipf = Popularity::Zipf(1.0);
    let (most, _) = most_asked(zipf);
    // The first of 500 names gets 1 / H(500) = 14.7 % of 20,000.
    assert!((most - 2944.0).abs() < 251.0, "{most}");

    let directory = tempfile::tempdir().expect("a directory");
    let ranks = directory.path().join("ranks");
    fs::write(&ranks, "\u{feff}  700 www.example.com\r\n200\r\n100 rest\n").expect("a file");
    let (most, names) = most_asked(Popularity::Ranks(ranks));
    assert!((most - 14_000.0).abs() < 324.0, "{most}");
    assert_eq!(names, 3);
}

/// How often the most popular name was asked for, and how many names were.
fn most_asked(popularity: Popularity) -> (f64, usize) {
    let recipe = asking(RecipeQueries { popularity, outcomes: outcomes(0.0), ..asked() });
    let mut times: HashMap<String, u32> = HashMap::new();
    for line in queries_text(&recipe).lines() {
        *times.entry(line.split(' ').next().expect("a name").to_owned()).or_default() += 1;
    }
    // The zone has no AAAA records, so AAAA queries ask for A's names: the two sets are the same.
    (times.values().max().copied().map(f64::from).expect("queries"), times.len())
}

#[test]
fn without_expectations_there_are_two_columns() {
    let plain = queries_text(&asking(RecipeQueries { expect: Expect::Nothing, ..asked() }));
    assert!(plain.lines().all(|line| line.split(' ').count() == 2));
}

#[test]
fn the_root_can_be_an_origin() {
    let root = Recipe { origin: ".".to_owned(), ..recipe() };
    assert!(zone_text(&root).starts_with("$ORIGIN .\n"));
    assert!(
        queries_text(&root)
            .lines()
            .all(|line| line.split(' ').next().is_some_and(|name| name.find('.') == Some(name.len() - 1)))
    );
}

#[test]
fn what_cannot_be_generated_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("out");
    let zone_error = |recipe: Recipe| kqps_recipe::zone(&recipe, &path).expect_err("a bad zone").to_string();
    let query_error = |asked: RecipeQueries| {
        kqps_recipe::queries(&asking(asked), 9, &path).expect_err("bad queries").to_string()
    };
    let label_bytes = |label_bytes| Labels { label_bytes: Some(label_bytes), ..Labels::default() };
    let ranks = directory.path().join("ranks");
    fs::write(&ranks, "9 a\n\n").expect("a file");
    for (error, expected) in [
        (zone_error(Recipe { records: 0, ..recipe() }), "0 records; expected 1 to 100000000"),
        (
            zone_error(Recipe { origin: "a..b".to_owned(), ..recipe() }),
            "bad origin \"a..b\", column 3: a label is empty",
        ),
        (
            zone_error(Recipe { names: label_bytes(3), ..recipe() }),
            "labels of 3 bytes; expected 4 to 63, so that there are enough different ones",
        ),
        (
            zone_error(Recipe { origin: format!("{0}.{0}.{0}.{0}", "x".repeat(60)), ..recipe() }),
            "the names would be up to 277 bytes long; a name has 255 at most",
        ),
        (
            zone_error(Recipe { zones: 2, ..recipe() }),
            "the recipe has 2 zones, which are written into a folder of their own",
        ),
        (
            query_error(RecipeQueries { outcomes: outcomes(1.5), ..asked() }),
            "a weight of -0.5 for NOERROR in outcomes; expected a number of 0 or more",
        ),
        (query_error(RecipeQueries { edns: 1.5, ..asked() }), "a share of 1.5 for edns; expected 0 to 1"),
        (
            query_error(RecipeQueries { types: [(Type(1), 0.0)].into(), ..asked() }),
            "expected at least one type, each with a weight above 0",
        ),
        (
            query_error(RecipeQueries { popularity: Popularity::Zipf(-1.0), ..asked() }),
            "a Zipf exponent of -1; expected 0 to 10",
        ),
        (
            query_error(RecipeQueries { popularity: Popularity::Ranks(ranks.clone()), ..asked() }),
            &format!("{}:2:1: expected a number above 0, found \"\"", ranks.display()),
        ),
    ] {
        assert_eq!(error, expected);
    }
    let none = kqps_recipe::queries(&recipe(), 0, &path).expect_err("no queries").to_string();
    assert_eq!(none, "the number of queries is 0; expected at least 1");
    assert!(!path.exists());
}

#[test]
fn a_device_or_a_missing_directory_is_left_alone() {
    for (path, expected) in [
        ("/dev/null", "cannot write /dev/null: it exists and is not a regular file"),
        ("/missing/file", "cannot write /missing/file: No such file or directory"),
    ] {
        let error = kqps_recipe::zone(&recipe(), Path::new(path)).expect_err("no file").to_string();
        assert!(error.starts_with(expected), "{error}");
    }
    for (path, expected) in [
        ("/dev/null", "cannot write /dev/null: it exists and is not a folder"),
        ("/usr", "cannot write /usr: it exists and is not empty"),
    ] {
        let error = kqps_recipe::zones(&recipe(), Path::new(path)).expect_err("no folder").to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}
