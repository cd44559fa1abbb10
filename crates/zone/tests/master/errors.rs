//! The errors of master files, with line and column.

use super::{read, shown, texts};

#[track_caller]
fn refused(text: &str, expected: &str) {
    let reading = read(text.as_bytes());
    assert_eq!(texts(&reading.errors), [format!("zone:{expected}")], "{text}");
    assert!(!reading.more_errors);
}

#[test]
fn each_error_has_its_place_and_says_what_was_expected() {
    let long = "x".repeat(64);
    for (text, expected) in [
        ("a", "1:2: expected a TTL, a class or a type, found the end of the record"),
        ("a 1", "1:4: expected a class or a type, found the end of the record"),
        ("a IN ; 1", "1:9: expected a TTL or a type, found the end of the record"),
        ("a 1 IN", "1:7: expected a type, found the end of the record"),
        ("a FOO 10.0.0.1", "1:3: expected a TTL, a class or a type, found \"FOO\""),
        ("a 1 1 A 10.0.0.1", "1:5: expected a class or a type, found \"1\""),
        ("a IN IN A 10.0.0.1", "1:6: expected a TTL or a type, found \"IN\""),
        ("a \"A\" 10.0.0.1", "1:3: expected a TTL, a class or a type, found a quoted string"),
        ("\"a\" 1 A 10.0.0.1", "1:1: expected the name of an owner, found a quoted string"),
        ("a 1x A 10.0.0.1", "1:3: expected a TTL in seconds, or with units as in 1h30m, found \"1x\""),
        (
            "a 4294967296 A 10.0.0.1",
            "1:3: expected a TTL in seconds, or with units as in 1h30m, found \"4294967296\"",
        ),
        ("a CH TXT x", "1:3: the class is \"CH\", and only IN is served"),
        ("a 1 CLASS255 A 10.0.0.1", "1:5: the class is \"CLASS255\", and only IN is served"),
        ("a 1 AXFR x", "1:5: AXFR is a type of questions and messages; a zone cannot have records of it"),
        ("a 1 OPT x", "1:5: OPT is a type of questions and messages; a zone cannot have records of it"),
        ("a A 10.0.0.1", "1:1: the record has no TTL, there is no $TTL, and no record before it has one"),
        (
            " 1 A 10.0.0.1",
            "1:2: this line begins with a blank, but no record before it has an owner to inherit",
        ),
        ("a..b 1 A 10.0.0.1", "1:3: a label is empty"),
        (&format!("{long} 1 A 10.0.0.1"), "1:64: a label is longer than 63 bytes"),
        (r"a\256 1 A 10.0.0.1", r"1:2: an escape is above \255"),
        (r"a\25 1 A 10.0.0.1", "1:2: a backslash and a digit must be followed by two more digits"),
        ("a 1 NS b..c", "1:10: a label is empty"),
        ("a 1 A", "1:6: expected an IPv4 address, found the end of the record"),
        ("a 1 A 10.0.0.256", "1:7: expected an IPv4 address, found \"10.0.0.256\""),
        ("a 1 A 10.0.0.1 b", "1:16: expected the end of the record, found \"b\""),
        ("a 1 AAAA ::1::", "1:10: expected an IPv6 address, found \"::1::\""),
        ("a 1 MX 65536 b", "1:8: expected a number from 0 to 65535, found \"65536\""),
        ("a 1 MX -1 b", "1:8: expected a number from 0 to 65535, found \"-1\""),
        ("a 1 MX 1 \"b\"", "1:10: expected a name, found a quoted string"),
        (
            "a 1 SOA b c 1 2 3 4",
            "1:20: expected a period in seconds, or with units as in 1h30m, found the end of the record",
        ),
        ("a 1 SOA b c (\n1 2 3\n4 5 6 )", "3:5: expected the end of the record, found \"6\""),
        ("a 1 TXT", "1:8: expected a string, found the end of the record"),
        (
            &format!("a 1 TXT b {}", "x".repeat(256)),
            "1:11: a string has at most 255 bytes, and this one has more",
        ),
        (r"a 1 TXT b\300", r"1:10: an escape is above \255"),
        ("a 1 CAA 0 is-sue x", "1:11: expected a tag of letters and digits, found \"is-sue\""),
    ] {
        refused(text, expected);
    }
}

#[test]
fn each_error_in_long_data_has_its_place() {
    for (text, expected) in [
        ("a 1 DS 1 8 1 abc", "1:17: the number of hexadecimal digits is odd"),
        ("a 1 DS 1 8 1 ab xy", "1:17: expected hexadecimal digits, found \"xy\""),
        (
            "a 1 DS 1 RSA 1 ab",
            "1:10: expected the number or the mnemonic of a DNSSEC algorithm, found \"RSA\"",
        ),
        ("a 1 DNSKEY 1 3 8 Zm9", "1:21: the bytes in base 64 end in the middle of a group of four"),
        (
            "a 1 RRSIG A 8 1 1 20230229000000 1 1 . Zg==",
            "1:19: expected a time as YYYYMMDDHHmmSS or in seconds since 1970, found \"20230229000000\"",
        ),
        ("a 1 IPSECKEY 10 0 0 . AQNR", "1:23: expected the end of the record, found \"AQNR\""),
        ("a 1 IPSECKEY 10 0 2 .", "1:22: expected bytes in base 64 (RFC 4648), found the end of the record"),
        ("a 1 L64 1 1:2:3:00004", "1:11: expected 64 bits as in 2001:0DB8:1140:1000, found \"1:2:3:00004\""),
        ("a 1 DSYNC CDS SCAN 1 b", "1:15: expected the number of a scheme, or NOTIFY, found \"SCAN\""),
        ("a 1 NSEC b A FOO", "1:14: expected a type, found \"FOO\""),
        ("a 1 NSEC3 1 0 1 abc 00", "1:17: expected an even number of hexadecimal digits, found \"abc\""),
        ("a 1 SVCB 1 . port=1 port=2", "1:21: this key stands twice"),
        ("a 1 SVCB 1 . port", "1:14: expected = and a value, found the end of the record"),
        ("a 1 SVCB 1 . ohttp=1", "1:20: this key has no value"),
        ("a 1 SVCB 1 . no-default-alpn", "1:14: no-default-alpn demands alpn"),
        ("a 1 SVCB 1 . mandatory=port", "1:14: a mandatory key is missing"),
        ("a 1 SVCB 1 . mandatory=port,port port=1", "1:24: a key is mandatory twice"),
        (
            "a 1 SVCB 1 . foo=1",
            "1:14: expected a parameter as in port=53, or the end of the record, found \"foo=1\"",
        ),
        (
            "a 1 SVCB 1 . key65535=1",
            "1:14: expected a parameter as in port=53, or the end of the record, found \"key65535=1\"",
        ),
        (
            "a 1 SVCB 1 . ipv4hint=1.2.3.4,1.2.3",
            "1:31: expected IPv4 addresses with commas between, found \"1.2.3\"",
        ),
        ("a 1 SVCB 1 . key3=1", "1:19: these bytes are no value of this key"),
        ("a 1 SVCB 1 . key0=\\000\\001\\001", "1:19: these bytes are no value of this key"),
        ("a 1 SVCB 1 . key0=\\000\\003\\000\\001", "1:19: these bytes are no value of this key"),
        ("a 1 SVCB 1 . key1=\\003h2", "1:19: these bytes are no value of this key"),
        ("a 1 SVCB 1 . key1=\"\\002h2\\000\"", "1:19: these bytes are no value of this key"),
        ("a 1 SVCB 1 . key4=abc", "1:19: these bytes are no value of this key"),
        ("a 1 SVCB 1 . key8=1", "1:19: these bytes are no value of this key"),
        ("a 1 SVCB 1 . key0=\\000\\003", "1:14: a mandatory key is missing"),
        ("a 1 SVCB 1 . port=1 key3=\\000\\001", "1:21: this key stands twice"),
        ("a 1 SVCB 1 . alpn=h2,,h3", "1:19: a protocol's name has 1 to 255 bytes"),
    ] {
        refused(text, expected);
    }
}

#[test]
fn each_error_of_structure_has_its_place() {
    for (text, expected) in [
        ("a 1 A 10.0.0.1 )", "1:16: this parenthesis closes one that was never opened"),
        ("a 1 A (10.0.0.1\n\nb 1 A 10.0.0.2\n", "1:7: this parenthesis is never closed"),
        ("a 1 TXT b \"c\n\n", "1:11: this quotation mark is never closed"),
        ("$ORIGIN", "1:8: expected a name, found the end of the record"),
        ("$ORIGIN a b", "1:11: expected the end of the record, found \"b\""),
        ("$TTL x", "1:6: expected a TTL in seconds, or with units as in 1h30m, found \"x\""),
        ("$FOO x", "1:1: expected $ORIGIN, $TTL, $INCLUDE or $GENERATE, found \"$FOO\""),
        ("$GENERATE 2-1 a$ 1 A 10.0.0.1", "1:11: expected a range as in 1-254 or 0-100/2, found \"2-1\""),
        ("$GENERATE 1-2/0 a$ 1 A 10.0.0.1", "1:11: expected a range as in 1-254 or 0-100/2, found \"1-2/0\""),
        (
            "$GENERATE 0-1 a${-1,0,x} 1 A 10.0.0.1",
            "1:15: the offset makes a number negative, which only the radix d can show",
        ),
        (
            "$GENERATE 1-1 a 1 A 10.0.0.1\n 1 A 10.0.0.2",
            "2:2: this line begins with a blank, but no record before it has an owner to inherit",
        ),
        (
            "$GENERATE 0-1 a${0,1,q} 1 A 10.0.0.1",
            "1:15: expected ${OFFSET,WIDTH,RADIX} with a radix of d, o, x, X, n or N, found \"a${0,1,q}\"",
        ),
        ("$GENERATE 0-1 a$ 1 A 10.0.0.$$", "1:22: expected an IPv4 address, found \"10.0.0.$\""),
        ("$GENERATE 0-1 a$ 1 A", "1:21: expected a pattern for the data, found the end of the record"),
        ("$GENERATE 250-256 a 1 A 10.0.0.$", "1:25: expected an IPv4 address, found \"10.0.0.256\""),
    ] {
        refused(text, expected);
    }
}

#[test]
fn reading_goes_on_after_an_error() {
    let reading =
        read(b"a 1 A x\nb 1 A ( y\nz ) z\nc 1 A 10.0.0.1\n 1 q \"(\"\nd..e 1 A 1.1.1.1\n 1 A 10.0.0.2\n");
    let places: Vec<_> = reading.errors.iter().map(|error| (error.line, error.column)).collect();
    assert_eq!(places, [(1, 7), (2, 9), (5, 4), (6, 3)]);
    assert_eq!(shown(&reading), ["c.example. 1 A 0a000001 @4", "example. 1 A 0a000002 @7"]);
}

#[test]
fn twenty_errors_are_enough() {
    for (wrong, more) in [(20, false), (21, true), (5000, true)] {
        let reading = read("a 1 A x\n".repeat(wrong).as_bytes());
        assert_eq!(reading.errors.len(), 20);
        assert_eq!(reading.errors[19].line, 20);
        assert_eq!(reading.more_errors, more);
    }
}
