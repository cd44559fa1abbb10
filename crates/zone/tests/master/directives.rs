//! `$ORIGIN`, `$INCLUDE` and `$GENERATE`.

use std::io;
use std::path::Path;

use kqps_zone::master::{self, Options, Reading};

use super::{ALONE, EXAMPLE, records, shown, texts};

#[test]
fn origins_may_be_relative() {
    assert_eq!(
        records(
            "$ORIGIN a\n@ 1 A 10.0.0.1\n$origin b\n@ 1 A 10.0.0.2\n$ORIGIN .\nc 1 A 10.0.0.3 ; $ORIGIN x."
        ),
        ["a.example. 1 A 0a000001 @2", "b.a.example. 1 A 0a000002 @4", "c. 1 A 0a000003 @6"]
    );
}

/// Reads files that exist only in `files`.
fn read_files(files: &[(&str, &str)]) -> Reading {
    let open = |path: &Path| {
        let file = files.iter().find(|(name, _)| Path::new(name) == path);
        file.map(|(_, text)| text.as_bytes().to_vec()).ok_or(io::Error::from(io::ErrorKind::NotFound))
    };
    let (name, text) = files[0];
    master::read(text.as_bytes(), Path::new(name), EXAMPLE, &Options { open: &open, ..ALONE })
}

#[test]
fn an_included_file_leaves_origin_and_owner_as_they_were() {
    let reading = read_files(&[
        (
            "zones/main",
            "$TTL 9\na A 10.0.0.1\n$INCLUDE sub/one ; comment\n A 10.0.0.2\n$include \"./two\" x\n A 10.0.0.3\nb A 10.0.0.4",
        ),
        ("zones/sub/one", " A 10.1.0.1\n$TTL 5\n$ORIGIN one.\nb A 10.1.0.2\n$INCLUDE ../two"),
        ("zones/two", "@ A 10.2.0.1\nc A 10.2.0.2"),
    ]);
    assert_eq!(texts(&reading.errors), [""; 0]);
    let expected = [
        "a.example. 9 A 0a000001 @2",
        "a.example. 9 A 0a010001 @zones/sub/one:1",
        "b.one. 5 A 0a010002 @zones/sub/one:4",
        "one. 5 A 0a020001 @zones/two:1",
        "c.one. 5 A 0a020002 @zones/two:2",
        "a.example. 5 A 0a000002 @4",
        "x.example. 5 A 0a020001 @zones/two:1",
        "c.x.example. 5 A 0a020002 @zones/two:2",
        "a.example. 5 A 0a000003 @6",
        "b.example. 5 A 0a000004 @7",
    ];
    assert_eq!(shown(&reading), expected);
}

#[test]
fn what_is_wrong_in_an_included_file_is_reported_for_that_file() {
    let reading = read_files(&[
        ("main", "$INCLUDE d/one\n$INCLUDE none\n$INCLUDE\nx 1 A 10.0.0.1"),
        ("d/one", "\na 1 A 10.0.0\n$INCLUDE ../main\n$INCLUDE ./one\n$INCLUDE two\n"),
        ("d/two", "a 1 A ("),
    ]);
    assert_eq!(
        texts(&reading.errors),
        [
            "d/one:2:7: expected an IPv4 address, found \"10.0.0\"",
            "d/one:3:10: cannot include \"../main\": it would include itself",
            "d/one:4:10: cannot include \"./one\": it would include itself",
            "d/two:1:7: this parenthesis is never closed",
            "main:2:10: cannot include \"none\": entity not found",
            "main:3:9: expected the name of a file, found the end of the record",
        ]
    );
}

#[test]
fn files_are_not_included_without_end() {
    // Every file includes another one, as links in a file system can make it.
    let open = |path: &Path| Ok(format!("$INCLUDE {}x\n", path.display()).into_bytes());
    let options = Options { open: &open, ..ALONE };
    let reading = master::read(b"$INCLUDE x", Path::new("x0"), EXAMPLE, &options);
    let [error] = &texts(&reading.errors)[..] else { panic!("{:?}", reading.errors) };
    assert!(error.ends_with("files are included 16 deep already"), "{error}");
}

#[test]
fn generate_makes_a_record_for_each_number() {
    for (text, expected) in [
        (
            "$GENERATE 1-3 h$ 5 A 10.0.0.$\n",
            &["h1.example. 5 A 0a000001 @1", "h2.example. 5 A 0a000002 @1", "h3.example. 5 A 0a000003 @1"][..],
        ),
        (
            "$GENERATE 0-5/3 $ IN 1 CNAME $.a.",
            &["0.example. 1 CNAME 0130016100 @1", "3.example. 1 CNAME 0133016100 @1"],
        ),
        // The manual's example: the text in quotation marks is the data.
        ("$GENERATE 7-7 a-$ 1 MX \"0 .\"", &["a-7.example. 1 MX 000000 @1"]),
        ("$GENERATE 7-7 a 1 MX $ $.", &["a.example. 1 MX 0007013700 @1"]),
        ("$GENERATE 7-7 a 1 TXT \"b \\\"c $\\\"\"", &["a.example. 1 TXT 016203632037 @1"]),
        ("$GENERATE 7-7 a 1 TXT \"b $\" c", &["a.example. 1 TXT 036220370163 @1"]),
        ("$GENERATE 7-7 a$$-\\$-$ 1 A 10.0.0.1", &[r"a\$-\$-7.example. 1 A 0a000001 @1"]),
        (
            "$GENERATE 20-20 a${0}.${-19}.${5,4}.${0,3,d} 1 A 10.0.0.1",
            &["a20.1.0025.020.example. 1 A 0a000001 @1"],
        ),
        ("$GENERATE 1-1 a${-5}.${-5,4,d} 1 A 10.0.0.1", &["a-4.-004.example. 1 A 0a000001 @1"]),
        (
            "$GENERATE 171-171 ${0,0,x}.${0,4,X}.${0,0,o} 1 A 10.0.0.1",
            &["ab.00AB.253.example. 1 A 0a000001 @1"],
        ),
        ("$GENERATE 171-171 ${0,0,n}.${0,5,N}.z 1 A 10.0.0.1", &["b.a.B.A.0.z.example. 1 A 0a000001 @1"]),
        // An even width ends with a dot, as in BIND.
        ("$GENERATE 1-1 ${0,4,n} 1 A 10.0.0.1", &["1.0. 1 A 0a000001 @1"]),
        (
            "b 1 A 10.0.0.1\n$GENERATE 1-1 @ 1 TYPE65280 \\# 1 0$\n  2 A 10.0.0.2",
            &["b.example. 1 A 0a000001 @1", "example. 1 TYPE65280 01 @2", "b.example. 2 A 0a000002 @3"],
        ),
        (
            "$TTL 8\n$GENERATE 1-1 a$ A ( 10.0.0.$ ; one\n)\nb A 10.0.0.1",
            &["a1.example. 8 A 0a000001 @2", "b.example. 8 A 0a000001 @4"],
        ),
    ] {
        assert_eq!(records(text), expected, "{text}");
    }
}

#[test]
fn generate_makes_no_more_than_is_allowed() {
    let options = Options { generated_max: 10, ..ALONE };
    let read = |text: &str| master::read(text.as_bytes(), Path::new("zone"), EXAMPLE, &options);
    assert_eq!(shown(&read("$GENERATE 0-9 $ 1 A 10.0.0.$")).len(), 10);
    assert_eq!(
        texts(&read("$GENERATE 0-2147483647/2 $ 1 A 10.0.0.$").errors),
        ["zone:1:11: these are more records than one directive may make"]
    );
}
