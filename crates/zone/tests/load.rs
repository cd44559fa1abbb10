//! Files in, zones out: real files, many zones and big ones, with and without errors.

use std::fmt::Write as _;
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use kqps_message::name;
use kqps_zone::load::{Changes, LoadOptions, Loaded, Progress, Served, load};
use kqps_zone::source::{Source, Sources};
use kqps_zone::zones::{Entry, Zones};
use kqps_zone::{Asker, Outcome, Responder, ResponderSettings, Transport};

fn load_all(sources: &[Source], old: Option<&Zones>) -> Loaded {
    load(sources, old, &LoadOptions { threads: 2, progress: &|_| {} })
}

fn wire(text: &str) -> Vec<u8> {
    let mut wire = Vec::new();
    name::encode(text.as_bytes(), &mut wire).expect("a name");
    wire
}

/// The serial number of a zone; `None` if queries for it get SERVFAIL.
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

/// The report on each zone: what is served of it, and its errors and warnings.
fn reports(folder: &Path, loaded: &Loaded) -> Vec<(Served, Vec<String>)> {
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
fn the_file_or_its_name_gives_the_zone() {
    let folder = tempfile::tempdir().unwrap();
    for (file, text) in [
        ("a.example.zone", zone(1)),
        ("b.example", "$ORIGIN b.example.\n".to_owned() + &zone(2)),
        ("db.c", zone(3).replace('@', "c.example.").replace("NS ns", "NS ns.c.example.")),
        ("named", zone(4)),
    ] {
        fs::write(folder.path().join(file), text).unwrap();
    }
    let mut sources = Sources::read(folder.path()).unwrap().zones;
    sources[3].apex = Some(wire("d.example").into());
    let loaded = load_all(&sources, None);
    assert_eq!(reports(folder.path(), &loaded), []);
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
    let mut sources = Sources::read(folder.path()).unwrap().zones;
    let first = load_all(&sources, None).zones;

    fs::write(at("a.example"), zone(2) + "x A 192.0.2\ny A 192.0.2.2 z\n").unwrap();
    fs::write(at("b.example"), zone(2)).unwrap();
    // A new zone whose records make no zone, one without a file, and a second file of an existing zone.
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
    let reports = reports(folder.path(), &second);
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
                "c.example:2:1: the zone has no NS record at its apex",
                "c.example:4:1: x.c.example. has a CNAME record and others beside it",
            ],
        ),
        (Served::Nothing, vec!["cannot read none.example: No such file or directory (os error 2)"]),
    ];
    for ((served, remarks), expected) in reports.iter().zip(expected) {
        assert_eq!((*served, remarks.iter().map(String::as_str).collect()), expected);
    }
    let (served, remarks) = reports.last().unwrap();
    assert_eq!(*served, Served::Other);
    assert!(
        remarks.contains(
            &"again: left out, since b.example has the same zone and was named before it".to_owned()
        ),
        "{remarks:?}"
    );
}

/// The names of these files are not those of their zones, or are not valid names.
#[test]
fn a_file_that_names_no_zone_any_more_keeps_the_one_that_it_named() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let zone_named = |name: &str, serial: u32| format!("$ORIGIN {name}.\n{}", zone(serial));
    for broken in [
        String::new(),
        "$ORIGIN a..b\n".to_owned() + &zone(2),
        zone_named("a", 2).replace("host 2", "host"),
        // A file that names another zone and has an error after that is not believed either.
        zone_named("other", 2) + "x A y\n",
    ] {
        for file in ["db.a", "x..y.zone", "named.zone"] {
            fs::write(at(file), zone_named("a", 1)).unwrap();
            let sources = [Source { apex: None, path: at(file) }];
            let mut zones = load_all(&sources, None).zones;
            fs::write(at(file), &broken).unwrap();
            // A zone that was kept once is kept again.
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
            fs::write(at(file), zone_named("b", 3)).unwrap();
            let zones = load_all(&sources, Some(&zones)).zones;
            assert_eq!((serial(&zones, "b"), zones.len()), (Some(3), 1), "{file}");
        }
    }
    fs::write(at("a.zone"), zone(1)).unwrap();
    let sources = [Source { apex: None, path: at("a.zone") }];
    let zones = load_all(&sources, None).zones;
    fs::write(at("a.zone"), zone_named("other", 2) + "x A y\n").unwrap();
    let zones = load_all(&sources, Some(&zones)).zones;
    assert_eq!((serial(&zones, "a"), zones.len()), (Some(1), 1));
}

#[test]
fn a_file_that_nothing_names_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let [none, empty] = ["none", "empty"].map(|name| folder.path().join(format!("{name}..x.zone")));
    fs::write(&empty, "").unwrap();
    let sources = [none, empty].map(|path| Source { apex: None, path });
    let loaded = load_all(&sources, None);
    assert!(loaded.zones.is_empty());
    let reports = reports(folder.path(), &loaded);
    assert_eq!(reports.iter().map(|(_, remarks)| remarks.len()).collect::<Vec<_>>(), [2, 1]);
    for ((served, remarks), name) in reports.iter().zip(["none", "empty"]) {
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
    let first = load_all(&Sources::read(folder.path()).unwrap().zones, None).zones;
    // The zone has moved to another file, which comes later.
    fs::write(at("a"), "").unwrap();
    fs::write(at("b"), "$ORIGIN a.\n".to_owned() + &zone(2)).unwrap();
    let second = load_all(&Sources::read(folder.path()).unwrap().zones, Some(&first));
    assert_eq!((serial(&second.zones, "a"), second.zones.len()), (Some(2), 1));
    assert_eq!(reports(folder.path(), &second).len(), 1);
    assert_eq!(second.reports[0].served, Served::Other);
}

#[test]
fn a_fault_is_reported_for_the_file_in_which_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    let last = "b.c. A 192.0.2.1\ng CNAME ns\n \t A 192.0.2.2\n";
    write("a.zone", &(zone(1) + "\n$INCLUDE one\nd.c. A 192.0.2.1\n$INCLUDE one e\n" + last));
    write("one", "\n\nx A 192.0.2.1\n$INCLUDE two\ny CNAME x\n\ny TXT t\n");
    write("two", "two.c. A 192.0.2.1\nd NS ns\nx.d A 192.0.2.1\n    TXT x\n");
    let loaded = load_all(&[Source { apex: None, path: folder.path().join("a.zone") }], None);
    let reports = reports(folder.path(), &loaded);
    let expected = [
        "two:1:1: two.c. is not in this zone",
        "one:7:1: y.a. has a CNAME record and others beside it",
        "a.zone:7:1: d.c. is not in this zone",
        "two:1:1: two.c. is not in this zone",
        "one:7:1: y.e.a. has a CNAME record and others beside it",
        "a.zone:9:1: b.c. is not in this zone",
        "a.zone:11:4: g.a. has a CNAME record and others beside it",
        "two:3:1: x.d.a. is hidden by a delegation or DNAME record above it",
        "two:2:1: the name server ns.e.a. has no address in this zone",
        "two:3:1: x.d.e.a. is hidden by a delegation or DNAME record above it",
    ];
    assert_eq!(reports[0].1, expected);
}

#[test]
fn what_is_not_shown_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.zone");
    let outside = |count: usize| "b.c. A 192.0.2.1\n".repeat(count);
    let differing = |count: u32| {
        (0..count).fold(String::new(), |text, n| text + &format!("x{n} 1 A 192.0.2.1\nx{n} 2 A 192.0.2.2\n"))
    };
    let large = |count: usize| "l 2147483648 A 192.0.2.1\n".repeat(count);
    for (more, errors, warnings) in [
        (outside(20), 0, 0),
        (outside(21), 1, 0),
        (outside(1000), 980, 0),
        (differing(20), 0, 0),
        (differing(21), 0, 1),
        (differing(100_000), 0, 99_980),
        (large(20), 0, 0),
        (large(21), 0, 1),
        (large(100_000), 0, 99_980),
    ] {
        fs::write(&path, zone(1) + &more).unwrap();
        let loaded = load_all(&[Source { apex: None, path: path.clone() }], None);
        let report = &loaded.reports[0];
        assert_eq!((report.more_errors, report.more_warnings), (errors, warnings));
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
    let sources = Sources::read(folder.path()).unwrap().zones;
    let seen = Mutex::new(Vec::new());
    let loaded = load(
        &sources,
        None,
        &LoadOptions { threads: 2, progress: &|progress| seen.lock().unwrap().push(progress) },
    );
    assert_eq!(reports(folder.path(), &loaded), []);
    assert_eq!(records(&loaded.zones), 301 * 3 + 400_000);
    assert_eq!(serial(&loaded.zones, "z299.example"), Some(299));
    assert_eq!(serial(&loaded.zones, "big.example"), Some(7));
    let seen = seen.into_inner().unwrap();
    let bytes = seen.iter().map(|progress| progress.bytes_done).max().unwrap();
    let all = Progress { zones_done: 301, zones: 301, bytes_done: bytes, bytes: Some(bytes) };
    assert!(seen.contains(&all), "{:?}", seen.last());
    assert!(seen.len() > 301 + 8, "a big file reports its progress in pieces");
}

/// The answer to a question about `a.`, as TTL and data of each record.
fn answer(zones: &Zones, qname: &str, qtype: u16) -> Vec<(u32, Vec<u8>)> {
    let mut message = vec![0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    message.extend(wire(qname));
    message.extend([&qtype.to_be_bytes()[..], &[0, 1]].concat());
    let (query_bytes, mut at) = (message.len(), message.len());
    message.resize(65_535, 0);
    let asker =
        Asker { address: Ipv4Addr::LOCALHOST.into(), transport: Transport::Tcp, now_s: 0, idle_ds: None };
    let mut responder = Responder::new(ResponderSettings::default());
    let Outcome::Reply(bytes) = responder.respond(zones, &mut message, query_bytes, &asker) else {
        panic!("no reply")
    };
    let number =
        |at: usize, bytes: usize| message[at..at + bytes].iter().fold(0, |n, &b| n << 8 | usize::from(b));
    let mut records = Vec::new();
    for _ in 0..number(6, 2) {
        // Every owner is a pointer to the question.
        let (ttl_s, length) = (number(at + 6, 4) as u32, number(at + 10, 2));
        records.push((ttl_s, message[at + 12..at + 12 + length].to_vec()));
        at += 12 + length;
    }
    assert!(at <= bytes);
    records
}

/// RFC 2181, section 5.2.
#[test]
fn a_set_has_the_least_of_its_ttls_wherever_its_records_are() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("high", "\ndup 900 A 192.0.2.1\nset 900 A 192.0.2.1\n");
    write("low", "dup 300 A 192.0.2.1\nset 300 A 192.0.2.2\n");
    for (order, first, second) in
        [(["high", "low"], "low:1:1", "low:2:1"), (["low", "high"], "high:2:1", "high:3:1")]
    {
        write("a.zone", &format!("{}$INCLUDE {}\n$INCLUDE {}\n", zone(1), order[0], order[1]));
        let loaded = load_all(&[Source { apex: None, path: folder.path().join("a.zone") }], None);
        let differ =
            |place, name| format!("{place}: the TTLs of {name}.a. A differ; the least, 300, is used for all");
        assert_eq!(
            reports(folder.path(), &loaded),
            [(Served::New, vec![differ(first, "dup"), differ(second, "set")])]
        );
        assert_eq!(answer(&loaded.zones, "dup.a", 1), [(300, vec![192, 0, 2, 1])]);
        let ttls: Vec<u32> = answer(&loaded.zones, "set.a", 1).iter().map(|(ttl_s, _)| *ttl_s).collect();
        assert_eq!(ttls, [300, 300]);
    }
}

/// The records of the sets are megabytes apart, so different threads read them.
#[test]
fn records_far_apart_are_of_one_set() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.zone");
    let filler = (0..150_000).fold(String::new(), |text, n| text + &format!("filler{n} A 192.0.2.1\n"));
    let text = format!(
        "{}m 900 MX 10 Mail\n{filler}M 300 MX 10 mail\n  mX 10 MAIL\n{filler}m 600 MX 20 mail\n",
        zone(1)
    );
    fs::write(&path, text).unwrap();
    let loaded = load_all(&[Source { apex: None, path }], None);
    let differ = "a.zone:150006:1: the TTLs of M.a. MX differ; the least, 60, is used for all".to_owned();
    assert_eq!(reports(folder.path(), &loaded), [(Served::New, vec![differ])]);
    // The first of three equal records is kept.
    let answer = answer(&loaded.zones, "m.a", 15);
    let kept: Vec<(u32, u8)> = answer.iter().map(|(ttl_s, data)| (*ttl_s, data[1])).collect();
    assert_eq!((kept, answer[0].1.get(2..7)), (vec![(60, 10), (60, 20)], Some(&b"\x04Mail"[..])));
}

#[test]
fn what_became_of_zones_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in ["same", "other", "broken", "gone", "wrong"] {
        fs::write(at(name), zone(1)).unwrap();
    }
    fs::write(at("wrong"), "x").unwrap();
    let first = load_all(&Sources::read(folder.path()).unwrap().zones, None);
    assert_eq!(first.changes, Changes { added: 4, ..Changes::default() });
    // A zone with its names in another order is unchanged; one with another address is changed, whatever the serial. A
    // zone that was never served is not removed.
    fs::write(at("same"), "$TTL 60\n@ NS ns\nns A 192.0.2.1\n@ SOA ns host 1 1 1 1 1\n").unwrap();
    fs::write(at("other"), zone(1).replace("192.0.2.1", "192.0.2.2")).unwrap();
    fs::write(at("broken"), zone(2) + "x A y\n").unwrap();
    fs::write(at("new"), zone(1)).unwrap();
    fs::remove_file(at("gone")).unwrap();
    fs::remove_file(at("wrong")).unwrap();
    let mut sources = Sources::read(folder.path()).unwrap().zones;
    for source in &mut sources {
        source.apex = source.file_name();
    }
    let second = load_all(&sources, Some(&first.zones));
    assert_eq!(second.changes, Changes { added: 1, changed: 1, unchanged: 1, removed: 1 });
    let report = &second.reports[0];
    assert_eq!((report.served, report.apex.as_deref()), (Served::Old, Some(&wire("broken")[..])));
    let same = |zones: &Zones| match zones.get(&wire("same")) {
        Some(Entry::Loaded(zone)) => Arc::clone(zone),
        other => panic!("{other:?}"),
    };
    assert!(Arc::ptr_eq(&same(&first.zones), &same(&second.zones)), "its memory is kept");
}

/// A byte order mark is not part of a name (RFC 3629, section 6), and CRLF ends lines as LF does.
#[test]
fn files_as_editors_leave_them_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
    let marked = |text: &str| format!("\u{feff}{}", text.replace('\n', "\r\n")).into_bytes();
    write("a", &marked(&(zone(1) + "$INCLUDE \"included\"\n$INCLUDE included sub\n")));
    write("included", &marked("marked A 192.0.2.9\n\u{feff}inside A 192.0.2.8\ntext TXT \"a\" (\n b )\n"));
    write("list", &marked("a a ; one\n# two\n"));
    let loaded = load_all(&Sources::read(&folder.path().join("list")).unwrap().zones, None);
    assert_eq!(reports(folder.path(), &loaded), []);
    for name in ["marked.a", "marked.sub.a"] {
        assert_eq!(answer(&loaded.zones, name, 1), [(60, vec![192, 0, 2, 9])]);
    }
    // Inside a file it is not a byte order mark.
    assert_eq!(answer(&loaded.zones, "\\239\\187\\191inside.a", 1).len(), 1);
    assert_eq!(answer(&loaded.zones, "text.a", 16), [(60, b"\x01a\x01b".to_vec())]);

    let utf_16 = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    let encoding = "the file is encoded in UTF-16, as its byte order mark shows; save it as UTF-8";
    write("included", &utf_16("\u{feff}marked A 192.0.2.9\n"));
    let loaded = load_all(&Sources::read(&folder.path().join("list")).unwrap().zones, None);
    let errors = [5, 6].map(|line| format!("a:{line}:10: cannot include \"included\": {encoding}"));
    assert_eq!(reports(folder.path(), &loaded)[0].1, errors);
    write("a", &utf_16(&format!("\u{feff}{}", zone(1))));
    let loaded = load_all(&Sources::read(&folder.path().join("list")).unwrap().zones, None);
    assert_eq!(reports(folder.path(), &loaded)[0].1, [format!("a:1:1: {encoding}")]);
    write("list", &utf_16("\u{feff}a a\n"));
    let list = folder.path().join("list");
    assert_eq!(Sources::read(&list).unwrap_err().to_string(), format!("{}:1:1: {encoding}", list.display()));
}
