//! Files in, zones out: real files, many zones and big ones, right and wrong.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::Mutex;

use kqps_message::name;
use kqps_zone::load::{LoadOptions, Loaded, Progress, Served, load};
use kqps_zone::source::{Source, Sources};
use kqps_zone::zones::{Entry, Zones};

fn load_all(sources: &[Source], old: Option<&Zones>) -> Loaded {
    load(sources, old, &LoadOptions { threads: 2, progress: &|_| {} })
}

fn wire(text: &str) -> Vec<u8> {
    let mut wire = Vec::new();
    name::encode(text.as_bytes(), &mut wire).expect("a name");
    wire
}

/// The serial number of a zone; None where queries for it get SERVFAIL.
#[track_caller]
fn serial(zones: &Zones, apex: &str) -> Option<u32> {
    match zones.get(&wire(apex)).expect("the zone is known") {
        Entry::Loaded(zone) => Some(zone.serial()),
        Entry::Broken(_) => None,
    }
}

fn records(zones: &Zones) -> u64 {
    let loaded = |entry: &Entry| if let Entry::Loaded(zone) = entry { zone.records() } else { 0 };
    zones.iter().map(loaded).sum()
}

fn zone(serial: u32) -> String {
    format!("$TTL 60\n@ SOA ns host {serial} 1 1 1 1\n@ NS ns\nns A 192.0.2.1\n")
}

/// What is said of each zone: what is served of it, and its errors and warnings.
fn told(folder: &Path, loaded: &Loaded) -> Vec<(Served, Vec<String>)> {
    let prefix = format!("{}/", folder.display());
    let reports = loaded.reports.iter();
    reports
        .map(|report| {
            let remarks = report.errors.iter().chain(&report.warnings);
            (report.served, remarks.map(|remark| remark.to_string().replace(&prefix, "")).collect())
        })
        .collect()
}

#[test]
fn the_file_or_its_name_tells_the_zone() {
    let folder = tempfile::tempdir().unwrap();
    for (file, text) in [
        ("a.example.zone", zone(1)),
        ("b.example", "$ORIGIN b.example.\n".to_owned() + &zone(2)),
        ("db.c", zone(3).replace('@', "c.example.").replace("NS ns", "NS ns.c.example.")),
        ("named", zone(4)),
    ] {
        fs::write(folder.path().join(file), text).unwrap();
    }
    let mut sources = Sources::of(folder.path()).unwrap().zones;
    sources[3].apex = Some(wire("d.example").into());
    let loaded = load_all(&sources, None);
    assert_eq!(told(folder.path(), &loaded), []);
    assert_eq!((loaded.zones.len(), records(&loaded.zones)), (4, 12));
    for (apex, expected) in [("A.example", 1), ("b.example", 2), ("c.example", 3), ("d.example", 4)] {
        assert_eq!(serial(&loaded.zones, apex), Some(expected));
    }
}

#[test]
fn a_broken_file_keeps_the_old_zone_or_breaks_it() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("a.example"), zone(1)).unwrap();
    fs::write(at("b.example"), zone(1)).unwrap();
    let mut sources = Sources::of(folder.path()).unwrap().zones;
    let first = load_all(&sources, None).zones;

    fs::write(at("a.example"), zone(2) + "x A 192.0.2\ny A 192.0.2.2 z\n").unwrap();
    fs::write(at("b.example"), zone(2)).unwrap();
    // A new one whose records make no zone, one without a file, and one that there is already.
    fs::write(at("c.example"), "$TTL 60\n@ SOA ns host 2 1 1 1 1\nx CNAME y\nx A 192.0.2.1\n").unwrap();
    fs::write(at("again"), "B.EXAMPLE. 60 SOA . . 9 1 1 1 1\n").unwrap();
    for file in ["c.example", "none.example", "again"] {
        sources.push(Source { apex: None, path: at(file) });
    }
    let second = load_all(&sources, Some(&first));
    assert_eq!(serial(&second.zones, "a.example"), Some(1));
    assert_eq!(serial(&second.zones, "b.example"), Some(2));
    assert_eq!(serial(&second.zones, "c.example"), None);
    assert_eq!(serial(&second.zones, "none.example"), None);
    assert_eq!(second.zones.len(), 4);
    let told = told(folder.path(), &second);
    let expected = [
        (
            Served::Old,
            vec![
                "a.example:5:5: expected an IPv4 address, found \"192.0.2\"",
                "a.example:6:15: expected the end of the record, found \"z\"",
            ],
        ),
        (
            Served::Nothing,
            vec![
                "c.example: the zone has no NS record at its apex",
                "c.example:4: x.c.example. has a CNAME record and others beside it",
            ],
        ),
        (Served::Nothing, vec!["cannot read none.example: No such file or directory (os error 2)"]),
    ];
    for ((served, remarks), expected) in told.iter().zip(expected) {
        assert_eq!((*served, remarks.iter().map(String::as_str).collect()), expected);
    }
    let (served, remarks) = told.last().unwrap();
    assert_eq!(*served, Served::Other);
    assert!(
        remarks.contains(&"again: this is the zone of b.example again; that file is served".to_owned()),
        "{remarks:?}"
    );
}

/// The names of these files are not those of their zones, or are no names.
#[test]
fn a_file_that_tells_no_zone_any_more_keeps_the_one_that_it_told() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let told = |name: &str, serial: u32| format!("$ORIGIN {name}.\n{}", zone(serial));
    for broken in [
        String::new(),
        "$ORIGIN a..b\n".to_owned() + &zone(2),
        told("a", 2).replace("host 2", "host"),
        // Nor is one believed that tells another zone and is wrong after that.
        told("other", 2) + "x A y\n",
    ] {
        for file in ["db.a", "x..y.zone", "named.zone"] {
            fs::write(at(file), told("a", 1)).unwrap();
            let sources = [Source { apex: None, path: at(file) }];
            let mut zones = load_all(&sources, None).zones;
            fs::write(at(file), &broken).unwrap();
            // What is kept is not forgotten when it is kept once more.
            for _ in 0..2 {
                let again = load_all(&sources, Some(&zones));
                assert_eq!(
                    again.reports.iter().map(|report| report.served).collect::<Vec<_>>(),
                    [Served::Old]
                );
                zones = again.zones;
                assert_eq!((serial(&zones, "a"), zones.len()), (Some(1), 1), "{file}: {broken}");
            }
            fs::remove_file(at(file)).unwrap();
            let zones = load_all(&sources, Some(&zones)).zones;
            assert_eq!((serial(&zones, "a"), zones.len()), (Some(1), 1), "{file}");
            fs::write(at(file), told("b", 3)).unwrap();
            let zones = load_all(&sources, Some(&zones)).zones;
            assert_eq!((serial(&zones, "b"), zones.len()), (Some(3), 1), "{file}");
        }
    }
    fs::write(at("a.zone"), zone(1)).unwrap();
    let sources = [Source { apex: None, path: at("a.zone") }];
    let zones = load_all(&sources, None).zones;
    fs::write(at("a.zone"), told("other", 2) + "x A y\n").unwrap();
    let zones = load_all(&sources, Some(&zones)).zones;
    assert_eq!((serial(&zones, "a"), zones.len()), (Some(1), 1));
}

#[test]
fn a_file_that_nothing_names_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let [none, empty] = ["none", "empty"].map(|name| folder.path().join(format!("{name}..x.zone")));
    fs::write(&empty, "").unwrap();
    let sources = [none, empty].map(|path| Source { apex: None, path });
    let loaded = load_all(&sources, None);
    assert!(loaded.zones.is_empty());
    let told = told(folder.path(), &loaded);
    assert_eq!(told.iter().map(|(_, remarks)| remarks.len()).collect::<Vec<_>>(), [2, 1]);
    for ((served, remarks), name) in told.iter().zip(["none", "empty"]) {
        let last = remarks.last().unwrap();
        assert_eq!(*served, Served::Nothing);
        assert!(last.starts_with(&format!("{name}..x.zone: queries for this zone are refused")), "{last}");
    }
}

#[test]
fn a_broken_file_gives_way_to_a_whole_one() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("a"), zone(1)).unwrap();
    let first = load_all(&Sources::of(folder.path()).unwrap().zones, None).zones;
    // The zone has moved to another file, which comes later.
    fs::write(at("a"), "").unwrap();
    fs::write(at("b"), "$ORIGIN a.\n".to_owned() + &zone(2)).unwrap();
    let second = load_all(&Sources::of(folder.path()).unwrap().zones, Some(&first));
    assert_eq!((serial(&second.zones, "a"), second.zones.len()), (Some(2), 1));
    assert_eq!(told(folder.path(), &second).len(), 1);
    assert_eq!(second.reports[0].served, Served::Other);
}

#[test]
fn a_fault_is_told_of_the_file_in_which_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    let last = "b.c. A 192.0.2.1\ng CNAME ns\ng A 192.0.2.2\n";
    write("a.zone", &(zone(1) + "\n$INCLUDE one\nd.c. A 192.0.2.1\n$INCLUDE one e\n" + last));
    write("one", "\n\nx A 192.0.2.1\n$INCLUDE two\ny CNAME x\n\ny TXT t\n");
    write("two", "two.c. A 192.0.2.1\nd NS ns\nx.d TXT x\n");
    let loaded = load_all(&[Source { apex: None, path: folder.path().join("a.zone") }], None);
    let told = told(folder.path(), &loaded);
    let expected = [
        "two:1: two.c. is not in this zone",
        "one:7: y.a. has a CNAME record and others beside it",
        "a.zone:7: d.c. is not in this zone",
        "two:1: two.c. is not in this zone",
        "one:7: y.e.a. has a CNAME record and others beside it",
        "a.zone:9: b.c. is not in this zone",
        "a.zone:11: g.a. has a CNAME record and others beside it",
        "two:3: x.d.a. is hidden by a delegation or DNAME record above it",
        "two:2: the name server ns.e.a. has no address in this zone",
        "two:3: x.d.e.a. is hidden by a delegation or DNAME record above it",
    ];
    assert_eq!(told[0].1, expected);
}

#[test]
fn that_there_is_more_than_is_told_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.zone");
    let outside = |count: usize| "b.c. A 192.0.2.1\n".repeat(count);
    let differing = |count: u32| {
        (0..count).fold(String::new(), |text, n| text + &format!("x{n} 1 A 192.0.2.1\nx{n} 2 A 192.0.2.2\n"))
    };
    let large = |count: usize| "l 2147483648 A 192.0.2.1\n".repeat(count);
    for (more, errors, warnings) in [
        (outside(20), false, false),
        (outside(21), true, false),
        (differing(20), false, false),
        (differing(21), false, true),
        (large(20), false, false),
        (large(21), false, true),
    ] {
        fs::write(&path, zone(1) + &more).unwrap();
        let loaded = load_all(&[Source { apex: None, path: path.clone() }], None);
        let report = &loaded.reports[0];
        assert_eq!((report.more_errors, report.more_warnings), (errors, warnings), "{more}");
        assert_eq!(report.errors.len().max(report.warnings.len()), 20);
    }
}

#[test]
fn many_zones_and_big_ones_are_loaded_side_by_side() {
    let folder = tempfile::tempdir().unwrap();
    for number in 0..300 {
        fs::write(folder.path().join(format!("z{number}.example")), zone(number)).unwrap();
    }
    let mut big = zone(7);
    for number in 0..400_000 {
        let _ = writeln!(big, "host{number} A 10.{}.{}.{}", number >> 16, number >> 8 & 255, number & 255);
    }
    fs::write(folder.path().join("big.example"), &big).unwrap();
    let sources = Sources::of(folder.path()).unwrap().zones;
    let seen = Mutex::new(Vec::new());
    let loaded = load(
        &sources,
        None,
        &LoadOptions { threads: 2, progress: &|progress| seen.lock().unwrap().push(progress) },
    );
    assert_eq!(told(folder.path(), &loaded), []);
    assert_eq!(records(&loaded.zones), 301 * 3 + 400_000);
    assert_eq!(serial(&loaded.zones, "z299.example"), Some(299));
    assert_eq!(serial(&loaded.zones, "big.example"), Some(7));
    let seen = seen.into_inner().unwrap();
    let bytes = seen.iter().map(|progress| progress.bytes_done).max().unwrap();
    let all = Progress { zones_done: 301, zones: 301, bytes_done: bytes, bytes: Some(bytes) };
    assert!(seen.contains(&all), "{:?}", seen.last());
    assert!(seen.len() > 301 + 8, "a big file is told of in pieces");
}
