//! The format around the data: owners, TTLs, classes, lines, comments, escapes.

use super::{read, records, texts};

#[test]
fn entries_have_their_parts_in_every_order() {
    for (text, expected) in [
        ("a 1 IN A 10.0.0.1", "a.example. 1 A 0a000001 @1"),
        ("a IN 1 A 10.0.0.1", "a.example. 1 A 0a000001 @1"),
        ("a 1 A 10.0.0.1\n", "a.example. 1 A 0a000001 @1"),
        ("a.b. 1 a 10.0.0.1", "a.b. 1 A 0a000001 @1"),
        ("a 1 cLaSs1 TYPE1 10.0.0.1", "a.example. 1 A 0a000001 @1"),
        ("@ 1 in NS @", "example. 1 NS 076578616d706c6500 @1"),
        (". 1 NS .", ". 1 NS 00 @1"),
        ("* 1 A 10.0.0.1", "*.example. 1 A 0a000001 @1"),
        ("MX 1 MX 1 MX", "MX.example. 1 MX 0001024d58076578616d706c6500 @1"),
        ("1 1 A 1.1.1.1", "1.example. 1 A 01010101 @1"),
        ("in 1 IN CNAME in", "in.example. 1 CNAME 02696e076578616d706c6500 @1"),
        ("a\t1\t \tA  10.0.0.1 \t\r\n", "a.example. 1 A 0a000001 @1"),
        ("\n \n\t; nothing\n;\r\n\r\na 1 A 10.0.0.1", "a.example. 1 A 0a000001 @6"),
        ("a 1 A 10.0.0.1;comment (\"", "a.example. 1 A 0a000001 @1"),
        ("\u{feff}a 1 A 10.0.0.1", "a.example. 1 A 0a000001 @1"),
    ] {
        assert_eq!(records(text), [expected], "{text}");
    }
}

#[test]
fn parentheses_join_lines() {
    for text in [
        "a 1 A ( 10.0.0.1 )",
        "a ( 1 ; one )\n IN\n\nA)10.0.0.1",
        "a ((1) (A\n)10.0.0.1 )",
        "( a 1 A 10.0.0.1\n)",
        "a 1 A (\n10.0.0.1\n\n)\n",
    ] {
        assert_eq!(records(text), ["a.example. 1 A 0a000001 @1"], "{text}");
    }
    assert_eq!(
        records("a (\n1 A 10.0.0.1 )\nb 2 A 10.0.0.2"),
        ["a.example. 1 A 0a000001 @1", "b.example. 2 A 0a000002 @3"]
    );
}

#[test]
fn a_blank_stands_for_the_owner_before() {
    assert_eq!(
        records(
            "$ORIGIN b.example.\na 1 A 10.0.0.1\n$ORIGIN c.\n\t2 A 10.0.0.2\n ( 3\nA 10.0.0.3 )\n@ 4 A 10.0.0.4"
        ),
        [
            "a.b.example. 1 A 0a000001 @2",
            "a.b.example. 2 A 0a000002 @4",
            "a.b.example. 3 A 0a000003 @5",
            "c. 4 A 0a000004 @7"
        ]
    );
}

#[test]
fn names_and_strings_have_escapes() {
    for (text, expected) in [
        (r"\@ 1 A 10.0.0.1", r"\@.example. 1 A 0a000001 @1"),
        (r"a\.b 1 A 10.0.0.1", r"a\.b.example. 1 A 0a000001 @1"),
        (r"a\032\\\(\;\) 1 A 10.0.0.1", r"a\032\\\(\;\).example. 1 A 0a000001 @1"),
        (r"\$ORIGIN 1 A 10.0.0.1", r"\$ORIGIN.example. 1 A 0a000001 @1"),
        ("\u{e9} 1 A 10.0.0.1", r"\195\169.example. 1 A 0a000001 @1"),
        (r#"a 1 TXT b "c d" "" "\"\\" \065\ z"#, "a.example. 1 TXT 0162036320640002225c0341207a @1"),
        ("a 1 TXT \"b\nc;(\"", "a.example. 1 TXT 05620a633b28 @1"),
        ("a 1 TXT b\"c\"d", "a.example. 1 TXT 016201630164 @1"),
        ("a 1 TXT (b ;c\n\"d\" )", "a.example. 1 TXT 01620164 @1"),
        (
            r#"a 1 CAA 0 issue "ca.example\; x=1""#,
            "a.example. 1 CAA 0005697373756563612e6578616d706c653b20783d31 @1",
        ),
    ] {
        assert_eq!(records(text), [expected], "{text}");
    }
}

#[test]
fn ttls_have_units_and_defaults() {
    let soa = |ttl| format!("@ {ttl} SOA . . 1 1h 15m 2w 5m\n");
    for (text, expected) in [
        // RFC 2308, section 4: $TTL, also after a record with a TTL of its own.
        ("$TTL 2h\na A 10.0.0.1\na 5 A 10.0.0.2\na A 10.0.0.3\n".to_owned(), [7200, 5, 7200].as_slice()),
        // RFC 1035, section 5.1: else the last explicit TTL.
        (
            "a 1h30m A 10.0.0.1\na A 10.0.0.2\na 1W A 10.0.0.3\n$TTL 4\na A 10.0.0.4".to_owned(),
            &[5400, 5400, 604_800, 4],
        ),
        // Else the SOA record's MINIMUM.
        (soa("") + "a A 10.0.0.1\na 7 A 10.0.0.2\na A 10.0.0.3", &[300, 300, 7, 300]),
        (soa("9") + "a A 10.0.0.1\na 7 A 10.0.0.2\na A 10.0.0.3", &[9, 9, 7, 7]),
        ("$TTL 3\n".to_owned() + &soa(""), &[3]),
        ("a 0 A 10.0.0.1\na 2147483647 A 10.0.0.1".to_owned(), &[0, 2_147_483_647]),
    ] {
        let ttls: Vec<u32> = records(&text)
            .iter()
            .map(|record| record.split(' ').nth(1).expect("a TTL").parse().expect("a number"))
            .collect();
        assert_eq!(ttls, expected, "{text}");
    }
}

#[test]
fn a_ttl_above_31_bits_is_0_with_a_warning() {
    let reading = read(b"$TTL 2147483648\na A 10.0.0.1\nb 4294967295 A 10.0.0.1");
    assert_eq!(super::shown(&reading), ["a.example. 0 A 0a000001 @2", "b.example. 0 A 0a000001 @3"]);
    let rule = "this TTL is above 2147483647 and counts as 0 (RFC 2181, section 8)";
    assert_eq!(texts(&reading.warnings), [format!("zone:1:6: {rule}"), format!("zone:3:3: {rule}")]);
}
