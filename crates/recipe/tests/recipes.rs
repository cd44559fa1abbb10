//! Recipes as files: which are read, which are refused and where, and the output of the built-in ones.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use kqps_recipe::{Popularity, Recipe};

fn named(name: &str, settings: &[&str]) -> Recipe {
    let settings: Vec<String> = settings.iter().map(ToString::to_string).collect();
    Recipe::named(name, &settings).unwrap_or_else(|error| panic!("{error}"))
}

/// A built-in recipe, made small.
fn small(name: &str) -> Recipe {
    match name {
        "hosting" | "resolver" => named(name, &["zones=20", "queries.expect=\"answers\""]),
        "windows-mix" => named(name, &["zones=2", "records=100", "queries.expect=answers"]),
        "attack" => named(name, &["zones=5", "records=50", "queries.expect=answers"]),
        _ => named(name, &["records=200", "queries.expect=answers"]),
    }
}

/// The zones and the queries of a recipe, in a folder.
fn written(recipe: &Recipe, count: u64) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    kqps_recipe::zones(recipe, &folder.path().join("out")).expect("zones");
    kqps_recipe::queries(recipe, count, &folder.path().join("queries")).expect("queries");
    folder
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every zone with its file's text, in the order of the list.
fn zones(folder: &Path) -> Vec<(String, String)> {
    let out = folder.join("out");
    read(&out.join(kqps_recipe::LIST))
        .lines()
        .map(|line| line.split_once(' ').expect("two columns"))
        .map(|(origin, file)| (origin.to_owned(), read(&out.join(file))))
        .collect()
}

#[test]
fn what_the_recipes_give_never_changes() {
    let mut hashes = String::new();
    for name in kqps_recipe::recipe_names() {
        let folder = written(&small(name), 1000);
        let mut zones_hash = blake3::Hasher::new();
        for (origin, text) in zones(folder.path()) {
            zones_hash.update(origin.as_bytes()).update(text.as_bytes());
        }
        let queries = blake3::hash(read(&folder.path().join("queries")).as_bytes());
        let (zones, queries) = (zones_hash.finalize().to_hex(), queries.to_hex());
        writeln!(hashes, "{name} {} {}", &zones[..16], &queries[..16]).expect("a line");
    }
    assert_eq!(hashes, include_str!("generated/recipes.txt"));
}

/// The content of a zone, read from its file: the types at each name, in lower case and absolute.
struct Content {
    names: HashMap<String, HashSet<String>>,
    /// All names that have a name below them.
    parents: HashSet<String>,
}

/// A name and all above it but the root, the longest first.
fn with_ancestors(name: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(name), |name| {
        name.split_once('.').map(|(_, rest)| rest).filter(|rest| !rest.is_empty())
    })
}

impl Content {
    fn parse(origin: &str, text: &str) -> Self {
        let suffix = if origin == "." { ".".to_owned() } else { format!(".{origin}") };
        let mut names: HashMap<String, HashSet<String>> = HashMap::new();
        for line in text.lines().filter(|line| !line.starts_with(['$', ';'])) {
            let (owner, rest) = line.split_once(" IN ").expect("owner, class");
            let rtype = rest.split(' ').next().expect("a type").to_owned();
            let owner = if owner == "@" { origin.to_owned() } else { format!("{owner}{suffix}") };
            names.entry(owner.to_lowercase()).or_default().insert(rtype);
        }
        let parents = names.keys().flat_map(|name| with_ancestors(name).skip(1)).map(str::to_owned).collect();
        Self { names, parents }
    }

    /// The outcome of a query by RFC 1034, section 4.3.2, as far as these zones need it.
    fn outcome(&self, origin: &str, qname: &str, qtype: &str) -> &'static str {
        let mut labels: Vec<&str> = Vec::new();
        let mut above = qname;
        // Every name from the query's up to the apex.
        let mut names = Vec::new();
        while above != origin && !above.is_empty() {
            names.push(above.to_owned());
            let (label, rest) = above.split_once('.').expect("a dot");
            labels.push(label);
            above = if rest.is_empty() { "." } else { rest };
        }
        for name in names.iter().rev() {
            let is_cut = self.names.get(name).is_some_and(|types| types.contains("NS"));
            if is_cut && !(qtype == "DS" && name == qname) {
                return "referral";
            }
        }
        if let Some(types) = self.names.get(qname) {
            let found = types.contains(qtype) || types.contains("CNAME");
            return if found { "NOERROR" } else { "NODATA" };
        }
        if self.parents.contains(qname) {
            return "NODATA";
        }
        let mut wildcards = names.iter().skip(1).map(|name| format!("*.{name}"));
        match wildcards.find_map(|name| self.names.get(&name)) {
            Some(types) if types.contains(qtype) => "NOERROR",
            Some(_) => "NODATA",
            None => "NXDOMAIN",
        }
    }
}

#[test]
fn every_query_comes_to_what_its_recipe_says() {
    for name in kqps_recipe::recipe_names() {
        let recipe = small(name);
        let folder = written(&recipe, 4000);
        let zones = zones(folder.path());
        let broken: HashSet<&str> = zones
            .iter()
            .filter(|(_, text)| text.contains("broken by intent"))
            .map(|(origin, _)| &**origin)
            .collect();
        assert_eq!(broken.len() as u64, recipe.broken);
        let origins: HashMap<String, &str> =
            zones.iter().map(|(origin, _)| (origin.to_lowercase(), &**origin)).collect();
        let contents: HashMap<&str, Content> = zones
            .iter()
            .filter(|(origin, _)| !broken.contains(&**origin))
            .map(|(origin, text)| (&**origin, Content::parse(origin, text)))
            .collect();
        let mut seen: BTreeMap<&str, u32> = BTreeMap::new();
        for line in read(&folder.path().join("queries")).lines() {
            let columns: Vec<&str> = line.split(' ').collect();
            let (qname, qtype) = (columns[0].to_lowercase(), columns[1]);
            let rcode = columns
                .iter()
                .find(|column| matches!(**column, "NOERROR" | "NXDOMAIN" | "SERVFAIL" | "REFUSED"));
            let home = with_ancestors(&qname).chain(["."]).find_map(|name| origins.get(name).copied());
            let outcome = match home {
                None => "REFUSED",
                Some(origin) if broken.contains(origin) => "SERVFAIL",
                Some(origin) => contents[origin].outcome(origin, &qname, qtype),
            };
            let wanted = match outcome {
                "NODATA" | "referral" => "NOERROR",
                other => other,
            };
            // Whether there is a key is known only once the zone is signed.
            if qtype != "DNSKEY" {
                assert_eq!(rcode, Some(&wanted), "{name}: {line} comes to {outcome}");
                *seen.entry(outcome).or_default() += 1;
            }
        }
        for (outcome, weight) in recipe.queries.outcomes.weights() {
            let share = (1.0 - recipe.queries.attack.share) * weight;
            assert_eq!(
                seen.contains_key(outcome),
                share > 0.0 || outcome == "NXDOMAIN" && name == "attack",
                "{name}: {seen:?}"
            );
        }
    }
}

#[test]
fn the_mix_of_study_3_has_its_shares_exactly() {
    let folder = written(&named("windows-mix", &["records=1000"]), 200_000);
    let mut seen: BTreeMap<(String, String), u64> = BTreeMap::new();
    for line in read(&folder.path().join("queries")).lines() {
        let [_, qtype, rcode] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("three columns: {line}")
        };
        *seen.entry((qtype.to_owned(), rcode.to_owned())).or_default() += 1;
    }
    let types = [("A", 60), ("CNAME", 20), ("SRV", 10), ("MX", 4), ("TXT", 3), ("NS", 3)];
    let rcodes = [("NOERROR", 60), ("NXDOMAIN", 5), ("SERVFAIL", 35)];
    let each = |(qtype, one): (&str, u64)| {
        rcodes.map(|(rcode, other)| ((qtype.to_owned(), rcode.to_owned()), 200_000 * one * other / 10_000))
    };
    assert_eq!(seen, types.into_iter().flat_map(each).collect());
}

#[test]
fn many_zones_lie_in_folders_and_are_listed() {
    let recipe = named("hosting", &["zones=10_001", "records=1", "queries.alias=0", "queries.wildcard=0"]);
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out");
    kqps_recipe::zones(&recipe, &out).expect("zones");
    let listed = read(&out.join("zones.list"));
    assert_eq!(listed.lines().count(), 10_001);
    let files: HashSet<&str> = listed.lines().filter_map(|line| line.split(' ').nth(1)).collect();
    assert_eq!(files.len(), 10_001);
    assert!(files.iter().all(|file| file.split('/').count() == 3 && out.join(file).exists()));
    for (catalogue, form) in [
        ("named.zones", "zone \"{zone}\" { type primary; file \"{file}\""),
        ("nsd.zones", "    name: \"{zone}\"\n    zonefile: \"{file}\"\n"),
        ("knot.zones", "  - domain: \"{zone}\"\n    file: \"{file}\"\n"),
    ] {
        let text = read(&out.join(catalogue));
        for line in listed.lines().step_by(1000) {
            let (zone, file) = line.split_once(' ').expect("two columns");
            let form = form.replace("{zone}", zone).replace("{file}", &out.join(file).display().to_string());
            assert!(text.contains(&form), "{catalogue}: {form}");
        }
    }
    assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 1, "nothing else is left");
}

#[test]
fn shares_of_the_way_of_asking_are_kept() {
    const COUNT: f64 = 50_000.0;
    let shares = ["queries.edns=0.5", "queries.dnssec=0.2", "queries.mixed_case=0.3"];
    let recipe = named("attack", &[&shares[..], &["records=100", "queries.attack.share=0.4"]].concat());
    let folder = written(&recipe, COUNT as u64);
    let (mut flags, mut mixed, mut attacks) = (HashMap::new(), 0.0, 0.0);
    for line in read(&folder.path().join("queries")).lines() {
        let columns: Vec<&str> = line.split(' ').collect();
        let flag = columns.iter().find(|column| matches!(**column, "E" | "D")).unwrap_or(&"");
        *flags.entry((*flag).to_owned()).or_insert(0.0) += 1.0;
        mixed += f64::from(u8::from(columns[0].bytes().any(|letter| letter.is_ascii_uppercase())));
        let first = columns[0].split('.').next().expect("a label");
        attacks += f64::from(u8::from(!first.bytes().any(|letter| letter.is_ascii_digit())));
    }
    let near =
        |seen: f64, share: f64| (seen - COUNT * share).abs() < 5.0 * (COUNT * share * (1.0 - share)).sqrt();
    for (what, seen, share) in
        [("D", flags["D"], 0.2), ("E", flags["E"], 0.3), ("mixed", mixed, 0.3), ("attack", attacks, 0.4)]
    {
        assert!(near(seen, share), "{what}: {seen}");
    }
}

#[test]
fn a_bad_recipe_is_refused_with_its_place() {
    for (text, expected) in [
        ("zones = 2\nzoness = 3\n", "x.toml:2:1: unknown field `zoness`, expected one of "),
        ("zoness = 3\n", "; did you mean `zones`?"),
        ("[contents]\nAAA = 1\n", "; did you mean `AAAA`?"),
        ("[queries]\ntypes = { AAAAA = 1 }\n", "x.toml:2:"),
        (
            "[queries]\ntypes = { AAAAA = 1 }\n",
            "unknown type \"AAAAA\"; expected one such as A or TYPE65; did you mean `AAAA`?",
        ),
        ("[queries]\ntypes = { AXFR = 1 }\n", "AXFR is not a type of data"),
        ("[queries]\nexpect = \"answer\"\n", "x.toml:2:10: unknown variant `answer`"),
        ("[queries]\npopularity = { zip = 1.0 }\n", "; did you mean `zipf`?"),
        ("\n  records = 0\n", "x.toml:2:3: 0 records; expected 1 to 100000000"),
        ("chain = 9\n", "x.toml:1:1: 9 CNAMEs in a chain; expected 1 to 8"),
        (
            "[queries]\noutcomes = { NOERROR = 1, SERVFAIL = 1 }\n",
            "x.toml:2:27: SERVFAIL needs zones that do not load: broken = 1",
        ),
        ("[queries]\noutcomes = { referral = 1 }\n", "referral needs delegations in the contents"),
        ("[queries]\nalias = 0.5\n", "x.toml:2:1: alias needs CNAMEs in the contents"),
        ("[queries]\nwildcard = 0.5\n", "wildcard needs wildcards in the contents"),
        ("[queries]\nempty = 0.5\n", "empty needs names of more than one label: depth = [1, 1]"),
        ("[queries]\nedns = 2\n", "x.toml:2:1: a share of 2 for edns; expected 0 to 1"),
        ("[queries.attack]\nzones = 2\n", "2 attacked zones; expected 1 to 1"),
        ("[contents]\nA = -1\n", "a weight of -1 for A in contents; expected a number of 0 or more"),
        ("origin = \".\"\n[queries]\noutcomes = { REFUSED = 1 }\n", "REFUSED needs names outside the zones"),
        (
            "origin = \".\"\n[contents]\ndelegation = 1\n[delegations]\nglue = 0.5\n",
            "x.toml:5:1: glue needs to be 1 in the root",
        ),
        ("origin = \"a..b\"\n", "x.toml:1:1: bad origin \"a..b\", column 3: a label is empty"),
        ("[names]\nlabel_bytes = 3\n", "x.toml:2:1: labels of 3 bytes"),
    ] {
        let error = Recipe::read("x.toml", text).expect_err(text).to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn settings_replace_what_a_recipe_says() {
    let recipe = named(
        "windows-mix",
        &["zones=10", "records = 500", "queries.types={ A = 1, TYPE65 = 2 }", "origin=a.test"],
    );
    assert_eq!((recipe.zones, recipe.records, &*recipe.origin), (10, 500, "a.test"));
    assert_eq!(recipe.queries.types.len(), 2);
    assert_eq!(recipe.broken, 1, "the rest stays");
    let error = |setting: &str| {
        let settings = [setting.to_owned()];
        Recipe::named("tiny", &settings).expect_err(setting).to_string()
    };
    for (setting, expected) in [
        ("zones", "\"zones\"; expected KEY=VALUE, such as zones=10 or queries.edns=0.5"),
        ("zonse=3", "zonse=3: unknown field `zonse`"),
        ("zonse=3", "did you mean `zones`?"),
        ("zones=many", "zones=many: invalid type: string \"many\""),
        ("zones.a=1", "zones.a=1: "),
        ("records=0", "records=0: 0 records; expected 1 to 100000000"),
        ("records.a=1", "records.a=1: `records` is no table"),
    ] {
        assert!(error(setting).contains(expected), "{setting}: {}", error(setting));
    }
}

#[test]
fn a_recipe_is_found_by_name_or_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("mine.toml");
    fs::write(&file, "[queries]\npopularity = { ranks = \"ranks.txt\" }\n").expect("a file");
    let recipe = named(&file.display().to_string(), &[]);
    assert_eq!(recipe.queries.popularity, Popularity::Ranks(folder.path().join("ranks.txt")));
    let error = Recipe::named("window-mix", &[]).expect_err("no such recipe").to_string();
    assert!(
        error.starts_with("there is no recipe and no file \"window-mix\"; the recipes are tiny, root, tld, "),
        "{error}"
    );
    assert!(error.ends_with("did you mean `windows-mix`?"), "{error}");
    fs::write(&file, "zones = ").expect("a file");
    let error = Recipe::named(&file.display().to_string(), &[]).expect_err("a bad file").to_string();
    assert!(error.starts_with(&format!("{}:1:", file.display())), "{error}");
}
