//! The data of every type, in its own form and in that of RFC 3597.

use super::{read, records, texts};

const EXAMPLE: &str = "076578616d706c6500";

/// The examples of the RFCs that define the types, if there are any. Others are calculated by hand.
const SAMPLES: &[(&str, &str)] = &[
    ("A 192.0.2.1", "A c0000201"),
    ("AAAA 2001:db8::1", "AAAA 20010db8000000000000000000000001"),
    ("AAAA ::ffff:192.0.2.1", "AAAA 00000000000000000000ffffc0000201"),
    ("NS a", "NS 0161E"),
    ("MD a", "MD 0161E"),
    ("MF a", "MF 0161E"),
    ("MB a", "MB 0161E"),
    ("MG a", "MG 0161E"),
    ("MR a", "MR 0161E"),
    ("CNAME @", "CNAME E"),
    ("DNAME a.", "DNAME 016100"),
    ("PTR a", "PTR 0161E"),
    ("NSAP-PTR a", "NSAP-PTR 0161E"),
    ("SOA a b.c. 1 2h 3m 4 5", "SOA 0161E016201630000000001 00001c20 000000b4 00000004 00000005"),
    (
        "SOA a b ( 4294967295 ; serial\n1W 1D\n0 0 )",
        "SOA 0161E0162Effffffff 00093a80 00015180 00000000 00000000",
    ),
    ("HINFO \"a b\" c", "HINFO 03612062 0163"),
    ("MINFO a b", "MINFO 0161E0162E"),
    ("RP a .", "RP 0161E00"),
    ("MX 10 a", "MX 000a0161E"),
    ("AFSDB 1 a", "AFSDB 00010161E"),
    ("RT 1 a", "RT 00010161E"),
    ("KX 1 a", "KX 00010161E"),
    ("LP 1 a", "LP 00010161E"),
    ("PX 1 a b", "PX 00010161E0162E"),
    ("TXT a", "TXT 0161"),
    ("SPF \"v=spf1 -all\"", "SPF 0b763d73706631202d616c6c"),
    ("X25 311061700956", "X25 0c333131303631373030393536"),
    ("ISDN 15 \"00\"", "ISDN 023135 023030"),
    ("GPOS -32.6 116.8 10.0", "GPOS 052d33322e36 053131362e38 0431302e30"),
    ("SRV 1 2 53 a", "SRV 000100020035 0161E"),
    (
        "NAPTR 100 50 \"s\" \"z3950+I2L\" \"\" _z3950",
        "NAPTR 00640032 0173 097a333935302b49324c 00 065f7a33393530E",
    ),
    (
        "DS 60485 5 1 ( 2BB183AF5F22588179A5\n3B0A98631FAD1A292118 )",
        "DS ec45 05 01 2bb183af5f22588179a53b0a98631fad1a292118",
    ),
    ("DS 1 ECDSAP256SHA256 2 ab", "DS 0001 0d 02 ab"),
    ("CDS 0 0 0 00", "CDS 0000 00 00 00"),
    ("DLV 1 8 1 ab", "DLV 0001 08 01 ab"),
    (
        "SSHFP 2 1 123456789abcdef67890123456789abcdef67890",
        "SSHFP 02 01 123456789abcdef67890123456789abcdef67890",
    ),
    ("TLSA 1 1 2 92003ba3 4942dc74", "TLSA 01 01 02 92003ba34942dc74"),
    ("SMIMEA 3 0 0 aB", "SMIMEA 03 00 00 ab"),
    ("DNSKEY 256 3 RSASHA1 Zm9v YmFy", "DNSKEY 0100 03 05 666f6f626172"),
    ("CDNSKEY 0 3 0 AA==", "CDNSKEY 0000 03 00 00"),
    (
        "RRSIG A 5 3 86400 20030322173103 ( 20030220173103 2642\n a Zm9v )",
        "RRSIG 0001 05 03 00015180 3e7c9dd7 3e5510d7 0a52 0161E 666f6f",
    ),
    ("RRSIG TYPE65534 13 0 1h 1 0 0 . Zg==", "RRSIG fffe 0d 00 00000e10 00000001 00000000 0000 00 66"),
    ("NSEC a A MX RRSIG NSEC", "NSEC 0161E 0006400100000003"),
    ("NSEC .", "NSEC 00"),
    ("NSEC . CAA TYPE1 TYPE65280 A", "NSEC 00 000140 010140 ff0180"),
    (
        "NSEC3 1 1 12 aabbccdd ( 2vptu5timamqttgl4luu9kg21e0aor3s A RRSIG )",
        "NSEC3 01 01 000c 04aabbccdd 14 17f3df17b2b2adaef615257de4d2020b80ac6c7c 00064000 00000002",
    ),
    ("NSEC3 1 0 0 - 00", "NSEC3 01 00 0000 00 0100"),
    ("NSEC3PARAM 1 0 12 aabbccdd", "NSEC3PARAM 01 00 000c 04aabbccdd"),
    ("NSEC3PARAM 1 0 0 -", "NSEC3PARAM 01 00 0000 00"),
    ("CSYNC 66 3 A NS AAAA", "CSYNC 00000042 0003 000460000008"),
    ("ZONEMD 2018031500 1 1 FEBE3D4C E2EC2FFA", "ZONEMD 7848b78c 01 01 febe3d4ce2ec2ffa"),
    ("OPENPGPKEY Zm9v", "OPENPGPKEY 666f6f"),
    (
        "DHCID AAIBY2/AuCccgoJbsaxcQc9TUapptP69lOjxfNuVAA2kjEA=",
        "DHCID 000201636fc0b8271c82825bb1ac5c41cf5351aa69b4febd94e8f17cdb95000da48c40",
    ),
    ("CERT PGP 0 0 Zm9v", "CERT 0003 0000 00 666f6f"),
    ("CERT 65535 65535 RSASHA256 Zm9v", "CERT ffff ffff 08 666f6f"),
    ("CAA 128 tbs Unknown", "CAA 80 03746273 556e6b6e6f776e"),
    ("URI 10 1 \"ftp://a/b\"", "URI 000a0001 6674703a2f2f612f62"),
    ("EUI48 00-00-5e-00-53-2a", "EUI48 00005e00532a"),
    ("EUI64 00-00-5e-ef-10-00-00-2a", "EUI64 00005eef1000002a"),
    ("NID 10 0014:4fff:ff20:ee64", "NID 000a 00144fffff20ee64"),
    ("L32 10 10.1.2.0", "L32 000a 0a010200"),
    ("L64 10 2001:0DB8:1140:1000", "L64 000a 20010db811401000"),
    ("NID 10 14:4fff:0:e", "NID 000a 00144fff0000000e"),
    ("L64 10 2001:db8:0:0", "L64 000a 20010db800000000"),
    ("LOC 42 21 54 N 71 06 18 W -24m 30m", "LOC 00331613 89172dd0 70be15f0 00988d20"),
    ("APL 1:192.168.32.0/21 !1:192.168.38.0/28 2:ff00::/8", "APL 00011503c0a820 00011c83c0a826 00020801ff"),
    ("APL", "APL "),
    ("IPSECKEY 10 1 2 192.0.2.38 AQNR", "IPSECKEY 0a 01 02 c0000226 010351"),
    ("IPSECKEY 10 0 2 . AQNR", "IPSECKEY 0a 00 02 010351"),
    ("IPSECKEY 10 2 0 2001:db8::", "IPSECKEY 0a 02 00 20010db8000000000000000000000000"),
    ("IPSECKEY 10 3 2 a AQ NR", "IPSECKEY 0a 03 02 0161E 010351"),
    (
        "HIP 2 200100107B1A74DF365639CC39F1D578 AwEA a b.",
        "HIP 10 02 0003 200100107b1a74df365639cc39f1d578 030100 0161E 016200",
    ),
    // RFC 2874, section 3.1, and the output of BIND 9.18.
    ("A6 0 2001:db8::1", "A6 00 20010db8000000000000000000000001"),
    ("A6 64 ::1 a", "A6 40 0000000000000001 0161E"),
    ("A6 61 2001:db8:1:f::1 a", "A6 3d 070000000000000001 0161E"),
    ("A6 128 a", "A6 80 0161E"),
    ("WKS 192.0.2.1 tcp", "WKS c0000201 06"),
    ("WKS 192.0.2.1 TCP ( smtp 80\nDomain )", "WKS c0000201 06 00000040 00000400 000080"),
    ("WKS 192.0.2.1 17 53 0", "WKS c0000201 11 80000000000004"),
    ("NSAP 0x47.0005.80", "NSAP 4700058 0"),
    ("NSAP 0X47.0005.8.0.", "NSAP 47000580"),
    ("NXT a A NS TYPE127", "NXT 0161E 60000000000000000000000000000001"),
    ("NXT a", "NXT 0161E"),
    ("ATMA +61.200", "ATMA 01 3631323030"),
    ("ATMA 39.246f", "ATMA 00 39246f"),
    ("SINK 1 2 3", "SINK 010203"),
    ("SINK 1 2 3 Zm9v", "SINK 010203 666f6f"),
    ("DOA 0 1 2 \"\" -", "DOA 00000000 00000001 02 00"),
    ("DOA 0 1 2 image/gif Zm9v", "DOA 00000000 00000001 02 09696d6167652f676966 666f6f"),
    ("BRID Zm9v", "BRID 666f6f"),
    ("HHIT Zm9v", "HHIT 666f6f"),
    ("AMTRELAY 10 1 1 203.0.113.15", "AMTRELAY 0a 81 cb00710f"),
    ("AMTRELAY 128 0 3 a", "AMTRELAY 80 03 0161E"),
    ("AMTRELAY 10 0 0 .", "AMTRELAY 0a 00"),
    ("DSYNC CDS 1 5359 a", "DSYNC 003b 01 14ef 0161E"),
    ("DSYNC CDS NOTIFY 5359 a", "DSYNC 003b 01 14ef 0161E"),
    ("DSYNC CSYNC notify 53 a", "DSYNC 003e 01 0035 0161E"),
    // RFC 9460, appendix D.
    ("SVCB 0 foo.example.com.", "SVCB 0000 03666f6f076578616d706c6503636f6d00"),
    ("HTTPS 1 .", "HTTPS 0001 00"),
    ("SVCB 16 foo. port=53", "SVCB 0010 03666f6f00 0003 0002 0035"),
    ("SVCB 1 a. key667=hello", "SVCB 0001 016100 029b 0005 68656c6c6f"),
    ("SVCB 1 a. key667=\"hello\\210qoo\"", "SVCB 0001 016100 029b 0009 68656c6c6fd2716f6f"),
    (
        "SVCB 1 a. ipv6hint=\"2001:db8::1,2001:db8::53:1\"",
        "SVCB 0001 016100 0006 0020 20010db8000000000000000000000001 20010db8000000000000000000530001",
    ),
    (
        "SVCB 16 a. ( alpn=h2,h3-19 mandatory=ipv4hint,alpn\nipv4hint=192.0.2.1 )",
        "SVCB 0010 016100 0000 0004 00010004 0001 0009 026832 0568332d3139 0004 0004 c0000201",
    ),
    (r#"SVCB 16 a. alpn="f\\\\oo\\,bar,h2""#, "SVCB 0010 016100 0001 000c 08665c6f6f2c626172 026832"),
    (
        r#"SVCB 1 a. key0="\000\001" key1="\002h2" KEY3=\000\053 key4="\192\000\002\001""#,
        "SVCB 0001 016100 0000 0002 0001 0001 0003 026832 0003 0002 0035 0004 0004 c0000201",
    ),
    ("SVCB 1 a. alpn=h2 key2 key8=", "SVCB 0001 016100 0001 0003 026832 0002 0000 0008 0000"),
    (
        "HTTPS 1 . no-default-alpn alpn=h2 ech=Zm9v dohpath=/q{?dns} ohttp key65000",
        "HTTPS 0001 00 0001 0003 026832 0002 0000 0005 0003 666f6f 0007 0008 2f717b3f646e737d 0008 0000 fde8 0000",
    ),
];

/// Expands the abbreviation for the name `example.`, and removes the blanks.
fn expanded(data: &str) -> String {
    let (rtype, data) = data.split_once(' ').expect("a type");
    format!("{rtype} {}", data.replace(' ', "").replace('E', EXAMPLE))
}

#[test]
fn every_type_has_its_form() {
    for (text, expected) in SAMPLES {
        assert_eq!(
            records(&format!("x 1 {text}")),
            [format!("x.example. 1 {} @1", expanded(expected))],
            "{text}"
        );
    }
}

#[test]
fn every_type_is_also_taken_as_bytes() {
    for (_, expected) in SAMPLES {
        let expanded = expanded(expected);
        let (rtype, data) = expanded.split_once(' ').expect("a type");
        let record = format!("x.example. 1 {rtype} {data} @1");
        let bytes = data.len() / 2;
        assert_eq!(records(&format!("x 1 {rtype} \\# {bytes} {data}")), [record], "{expected}");
        // A byte less or more is not data of most types, and is never read as other data.
        for cut in (0..data.len()).step_by(2) {
            let text = format!("x 1 {rtype} \\# {} {}", cut / 2, &data[..cut]);
            let reading = read(text.as_bytes());
            let taken = [format!("x.example. 1 {rtype} {} @1", &data[..cut])];
            assert!(reading.errors.len() == 1 || super::shown(&reading) == taken, "{text}");
        }
    }
}

#[test]
fn unknown_types_are_bytes() {
    for (text, expected) in [
        ("TYPE65280 \\# 0", "TYPE65280 "),
        ("TYPE65280 \\# 3 01 0203", "TYPE65280 010203"),
        ("TYPE65280 \\# ( 3 01 ; one\n 02 0\n3 )", "TYPE65280 010203"),
        ("type731 \\# 1 fF", "TYPE731 ff"),
        ("A \\# 4 0A000001", "A 0a000001"),
        ("NULL \\# 1 00", "NULL 00"),
    ] {
        assert_eq!(records(&format!("x 1 {text}")), [format!("x.example. 1 {expected} @1")], "{text}");
    }
}

#[test]
fn bytes_that_are_no_data_of_their_type_are_refused() {
    for (text, column, what) in [
        ("A \\# 3 0a0000", 10, "these bytes are not valid data of type A"),
        ("A \\# 5 0a00000100", 10, "these bytes are not valid data of type A"),
        ("AAAA \\# 4 0a000001", 13, "these bytes are not valid data of type AAAA"),
        ("NS \\# 2 c00c", 11, "these bytes are not valid data of type NS"),
        ("NS \\# 4 0161c00c", 11, "these bytes are not valid data of type NS"),
        ("TXT \\# 2 0261", 12, "these bytes are not valid data of type TXT"),
        ("TXT \\# 0", 12, "these bytes are not valid data of type TXT"),
        ("NSEC \\# 4 00000100", 13, "these bytes are not valid data of type NSEC"),
        ("HTTPS \\# 11 0001000003000100000100", 14, "these bytes are not valid data of type HTTPS"),
        ("HTTPS \\# 8 0001000003000135", 14, "these bytes are not valid data of type HTTPS"),
        ("HTTPS \\# 10 000100000000030001ff", 14, "these bytes are not valid data of type HTTPS"),
        ("IPSECKEY \\# 4 0a000001", 17, "these bytes are not valid data of type IPSECKEY"),
        ("A \\# 5 0a000001", 10, "\\# announces 5 bytes, but 4 follow"),
        ("TYPE9999 \\# 1", 18, "expected hexadecimal digits, found the end of the record"),
        ("TYPE9999 1.2.3.4", 14, "data of type TYPE9999 is written as \\# LENGTH HEX (RFC 3597)"),
    ] {
        assert_eq!(
            texts(&read(format!("x 1 {text}").as_bytes()).errors),
            [format!("zone:1:{column}: {what}")],
            "{text}"
        );
    }
}

/// As in BIND 9.18.
#[test]
fn what_old_types_cannot_be_is_refused() {
    for (text, place) in [
        ("A6 129 a", "1:8"),
        ("A6 128 ::1 a", "1:16"),
        ("A6 0 ::1 a", "1:14"),
        ("A6 64 ::1", "1:14"),
        ("A6 64 a", "1:11"),
        ("WKS 192.0.2.1 256 1", "1:19"),
        ("WKS 192.0.2.1 foo 1", "1:19"),
        ("WKS 192.0.2.1 udp smtp", "1:23"),
        ("WKS 192.0.2.1 tcp 65536", "1:23"),
        ("NSAP 47", "1:10"),
        ("NSAP 0x", "1:10"),
        ("NSAP 0x4", "1:10"),
        ("NSAP 0x47 00", "1:15"),
        ("NXT a TYPE128", "1:11"),
        ("NXT a TYPE0", "1:11"),
        ("ATMA +", "1:10"),
        ("ATMA 3", "1:10"),
        ("ATMA .39", "1:10"),
        ("ATMA 39.", "1:10"),
        ("ATMA 39..24", "1:10"),
        ("ATMA 39 24", "1:13"),
        ("SINK 1 2", "1:13"),
        ("DOA 0 1 2 \"\"", "1:17"),
        ("DOA 0 1 2 \"\" - a", "1:20"),
    ] {
        let errors = texts(&read(format!("x 1 {text}").as_bytes()).errors);
        assert!(errors.len() == 1 && errors[0].starts_with(&format!("zone:{place}: ")), "{text}: {errors:?}");
    }
}
