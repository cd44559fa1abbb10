//! Compares with two other readers of the same files: `domain`, and BIND's `named-compilezone`.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use domain::base::iana::Class;
use domain::base::name::ToName as _;
use domain::base::rdata::ComposeRecordData as _;
use domain::zonefile::inplace::{Entry, Zonefile};
use kqps_skips::{Capability, skip};
use kqps_zone::master::{self, Options, Reading};

use super::{ALONE, EXAMPLE};

/// A record in the form of all readers: owner in wire form and lower case, TTL, type, data.
type Plain = (Vec<u8>, u32, u16, Vec<u8>);

/// Data of the types that both others know.
const COMMON: &[&str] = &[
    "A 192.0.2.1",
    "AAAA 2001:db8::192.0.2.1",
    "NS a",
    "NS b.c.",
    "PTR a",
    "MX 10 a.b",
    "TXT a \"b c\" \"\\\"\\\\\" \\065\\010z \"\"",
    "TXT \"semicolon; and (parentheses)\"",
    "HINFO \"a b\" c",
    "MINFO a .",
    "RP a b.",
    "SRV 1 2 65535 a",
    "DNAME a",
    "NAPTR 100 50 \"s\" \"z3950+I2L\" \"\" _z3950",
    "CAA 0 issue \"ca.example; x=1\"",
    "DS 60485 5 1 2BB183AF5F22588179A5 3B0A98631FAD1A292118",
    "CDS 60485 5 1 2BB183AF5F22588179A53B0A98631FAD1A292118",
    "DNSKEY 256 3 5 AQPSKmynfzW4kyBv015MUG2DeIQ3 Cbl+BBZH4b/0PY1kxkmvHjcZc8no",
    "CDNSKEY 257 3 13 AQPSKmynfzW4kyBv015MUG2DeIQ3Cbl+BBZH4b/0PY1kxkmvHjcZc8no",
    "RRSIG A 5 8 86400 20030322173103 20030220173103 2642 a oJB1W6WNGv+ldvQ3WDG0MQkg5IEhjRip8WTr",
    "NSEC a.b A MX RRSIG NSEC TYPE1234",
    "NSEC3 1 1 12 aabbccdd 2vptu5timamqttgl4luu9kg21e0aor3s MX RRSIG CAA",
    "NSEC3 1 0 0 - 2vptu5timamqttgl4luu9kg21e0aor3s",
    "NSEC3PARAM 1 0 12 aabbccdd",
    "SSHFP 2 1 123456789abcdef67890123456789abcdef67890",
    "TLSA 3 1 1 92003ba34942dc74152e2f2c408d29eca5a520e7f2e06bb944f4dca346baf63c",
    "OPENPGPKEY AQPSKmynfzW4kyBv015MUG2DeIQ3",
    "ZONEMD 2018031500 1 1 \
     FEBE3D4CE2EC2FFA4BA99D46CD69D6D29711E55217057BEE7EB1A7B641A47BA7FED2DD5B97AE499FAFA4F22C6BD647DE",
    "HTTPS 1 . alpn=h2,h3 ipv4hint=192.0.2.1,192.0.2.2 ipv6hint=2001:db8::1",
    "SVCB 16 a port=53 key65000=abc mandatory=port",
    "SVCB 0 a.b.",
    "TYPE65280 \\# 3 abcdef",
    "TYPE65281 \\# 0",
    "A \\# 4 c0000203",
];

/// Data of types that BIND knows and `domain` does not, and names in a form that only BIND knows.
const BIND: &[&str] = &[
    "PTR @",
    "SVCB 1 @",
    "AFSDB 1 a",
    "RT 1 a",
    "KX 1 a",
    "PX 1 a b",
    "X25 311061700956",
    "ISDN 15 \"00\"",
    "GPOS -32.6 116.8 10.0",
    "SPF \"v=spf1 -all\"",
    "SMIMEA 3 0 0 ab",
    "CSYNC 66 3 A NS AAAA",
    "DHCID AAIBY2/AuCccgoJbsaxcQc9TUapptP69lOjxfNuVAA2kjEA=",
    "CERT PGP 0 0 Zm9v",
    "CERT 65534 65535 RSASHA256 Zm9v",
    "URI 10 1 \"ftp://a/b\"",
    "EUI48 00-00-5e-00-53-2a",
    "EUI64 00-00-5e-ef-10-00-00-2a",
    "NID 10 0014:4fff:ff20:ee64",
    "L32 10 10.1.2.0",
    "L64 10 2001:0DB8:1140:1000",
    "LP 10 a",
    "LOC 42 21 54 N 71 06 18 W -24m 30m",
    "LOC 52 14 05.123 N 0 E 10.50m 0.00m 1m 100m",
    "LOC 90 N 179 59 59.999 W -100000m 90000000m",
    "APL 1:192.168.32.0/21 !1:192.168.38.0/28 2:ff00::/8",
    "IPSECKEY 10 1 2 192.0.2.38 AQNRU3mG7TVTO2BkR47usntb102uFJtu",
    "IPSECKEY 10 3 2 a. AQNRU3mG7TVTO2BkR47usntb102uFJtu",
    "HIP 2 200100107B1A74DF365639CC39F1D578 AQNRU3mG7TVTO2BkR47usntb102uFJtu a b.",
    "AMTRELAY 10 1 3 a",
    "TALINK a b",
    "NINFO a b",
    "RKEY 0 3 5 AQPSKmynfzW4kyBv015MUG2DeIQ3",
    "DLV 60485 5 1 2BB183AF5F22588179A53B0A98631FAD1A292118",
    "TA 60485 5 1 2BB183AF5F22588179A53B0A98631FAD1A292118",
    "DNSKEY 256 3 ECDSAP256SHA256 AQPSKmynfzW4kyBv015MUG2DeIQ3Cbl+BBZH4b/0PY1kxkmvHjcZc8no",
    "SVCB 1 a. ( alpn=\"h2,h3-19\" no-default-alpn\nech=Zm9v dohpath=/q{?dns} )",
    "MB a",
    "MG a",
    "MR a",
    "NSAP-PTR a",
    "A6 0 2001:db8::1",
    "A6 61 2001:db8:1:f::1 a",
    "A6 127 ::3 a.b",
    "A6 128 a.",
    "WKS 192.0.2.1 TCP ( smtp 80\ndomain )",
    "WKS 192.0.2.1 17 53 65535 0",
    "WKS 192.0.2.1 tcp",
    "NSAP 0x47.0005.80.005a00.0000.0001.e133.ffffff000161.00",
    "ATMA +61200000000",
    "ATMA 39.246f.00000e7c9c031200.0100.01.000012345678.00",
    "SINK 1 0 0",
    "SINK 1 2 3 aGVs bG8=",
    "DOA 0 1 2 \"\" aHR0cHM6Ly93d3cuaXNjLm9yZy8=",
    "DOA 1234567890 1234567890 1 \"image/gif\" -",
    "NXT a A NS TYPE127",
    "EID 0a0b",
    "NIMLOC 0a0b",
    "SIG A 5 8 86400 20030322173103 20030220173103 2642 a oJB1W6WNGv+ldvQ3WDG0MQkg5IEhjRip8WTr",
    "KEY 256 3 5 AQPSKmynfzW4kyBv015MUG2DeIQ3",
];

/// Entries with different owners, in every form that the format allows. `units` is whether TTLs may have
/// units, and data their shortest forms.
fn entries(random: &mut fastrand::Rng, data: &[&str], count: usize, units: bool) -> String {
    let mut text = String::new();
    for number in 0..count {
        let data = random.choice(data).copied().unwrap_or_default();
        let owner = match random.u32(0..8) {
            // BIND requires the owner of an NSEC3 record to look like a hash.
            _ if data.starts_with("NSEC3 ") => format!("{number:032}"),
            0 => format!("a\\.b\\@{number}"),
            1 => format!("\\104\\200-{number}"),
            2 => format!("H{number}.Sub"),
            // RFC 4592, sections 4.2 and 4.4: BIND refuses these two types at a wildcard.
            3 if !data.starts_with("NS ") && !data.starts_with("DNAME ") => format!("*.w{number}.example."),
            _ => format!("h{number}"),
        };
        let ttl = match random.u32(0..3) {
            0 if units => *random.choice(&["1h", "2H30M", "1w2d3h4m5s", "0", "90s"]).unwrap_or(&"1"),
            0 => "0",
            1 => "86400",
            _ => "300",
        };
        let heading = match random.u32(0..4) {
            0 => format!("{ttl} IN"),
            1 => format!("IN {ttl}"),
            _ => ttl.to_owned(),
        };
        let data = folded(random, data);
        let _ = write!(text, "{owner}\t{heading} {data}");
        text += *random.choice(&["\n", " ; comment \"(\n", "\n\n", "\t\n; comment\n"]).unwrap_or(&"\n");
        if random.u32(0..10) == 0 {
            let origin = *random.choice(&["example.", "o.example.", "p.o.example."]).unwrap_or(&".");
            let _ = writeln!(text, "$ORIGIN {origin}");
        }
    }
    text
}

/// The given data, perhaps over several lines.
fn folded(random: &mut fastrand::Rng, data: &str) -> String {
    let Some((rtype, rest)) = data.split_once(' ').filter(|(_, rest)| !rest.contains(['"', '(', '\\']))
    else {
        return data.to_owned();
    };
    match random.u32(0..4) {
        0 => format!("{rtype} ( {} )", rest.replace(' ', " ; a comment )\n\t")),
        1 => format!("{rtype} (\n{rest}\n)"),
        _ => data.to_owned(),
    }
}

fn plain(reading: &Reading) -> BTreeSet<Plain> {
    let records = reading.batches.iter().flat_map(|batch| batch.records());
    records
        .map(|(_, record)| {
            (record.owner.to_ascii_lowercase(), record.ttl_s, record.rtype, record.data.to_vec())
        })
        .collect()
}

/// With one TTL for all records of one owner and type, the lowest, as in BIND.
fn levelled(records: &BTreeSet<Plain>) -> BTreeSet<Plain> {
    let lowest = |owner: &[u8], rtype| {
        let same = records.iter().filter(|record| record.0 == owner && record.2 == rtype);
        same.map(|record| record.1).min().unwrap_or_default()
    };
    let all = records.iter();
    all.map(|(owner, _, rtype, data)| (owner.clone(), lowest(owner, *rtype), *rtype, data.clone())).collect()
}

#[track_caller]
fn same(text: &str, ours: &BTreeSet<Plain>, theirs: &BTreeSet<Plain>) {
    let differing: Vec<_> = ours.symmetric_difference(theirs).take(4).collect();
    assert!(differing.is_empty(), "{differing:?}\n{text}");
}

const SOA: &str = "@ 3600 IN SOA a b 1 7200 3600 604800 300\n@ 3600 IN NS ns.elsewhere.\n";

#[test]
fn domain_reads_the_same_records() {
    let mut random = fastrand::Rng::with_seed(4);
    for _ in 0..20 {
        let text = SOA.to_owned() + &entries(&mut random, COMMON, 100, false);
        let reading = super::read(text.as_bytes());
        assert_eq!(super::texts(&reading.errors), [""; 0], "{text}");
        let mut file = Zonefile::from(text.as_bytes());
        file.set_origin("example.".parse().expect("a name"));
        file.set_default_class(Class::IN);
        let mut theirs = BTreeSet::new();
        while let Some(entry) = file.next_entry().expect("an entry") {
            let Entry::Record(record) = entry else { panic!("nothing is included") };
            let owner = record.owner().to_vec().as_slice().to_ascii_lowercase();
            let mut data = Vec::new();
            record.data().compose_rdata(&mut data).expect("there is room");
            theirs.insert((owner, record.ttl().as_secs(), record.rtype().to_int(), data));
        }
        same(&text, &plain(&reading), &theirs);
    }
}

#[test]
fn bind_reads_the_same_records() {
    let folder = tempfile::tempdir().expect("a directory");
    let mut random = fastrand::Rng::with_seed(5);
    let known: Vec<&str> = COMMON.iter().chain(BIND).copied().collect();
    fs::write(folder.path().join("more"), " A 192.0.2.7\n$TTL 7\nmore A 192.0.2.8\n@ TXT more\n")
        .expect("a file");
    for round in 0..10 {
        let directives = "$TTL 1d\nlast A 192.0.2.6\n$INCLUDE more inc.example.\n A 192.0.2.9\n$TTL 1d\n\
            $GENERATE 1-20/3 g$-${0,3}-${-1,4,x}.${5,7,N} A 192.0.2.$\n\
            $GENERATE 0-7 \\$$.gg MX \"$ mail${10,0,o}\"\n$GENERATE 250-258 ${0,5,n}.${0,7,X} 1h CNAME $.a\n";
        let text =
            SOA.to_owned() + &entries(&mut random, &known, 300, true) + "$ORIGIN example.\n" + directives;
        let path = folder.path().join("zone");
        fs::write(&path, &text).expect("a file");
        let open = |path: &Path| fs::read(path);
        let reading = master::read(text.as_bytes(), &path, EXAMPLE, &Options { open: &open, ..ALONE });
        assert_eq!(super::texts(&reading.errors), [""; 0], "{text}");
        let raw = folder.path().join("raw");
        let compiled = Command::new("named-compilezone")
            .args(["-i", "none", "-k", "ignore", "-F", "raw", "-o"])
            .args([&raw, Path::new("example."), &path])
            .current_dir(folder.path())
            .output();
        let Ok(compiled) = compiled else {
            return skip(Capability::Programs, "there is no named-compilezone (Debian package bind9-utils)");
        };
        let said = String::from_utf8_lossy(&compiled.stderr).into_owned()
            + &String::from_utf8_lossy(&compiled.stdout);
        assert!(compiled.status.success(), "round {round}: {said}\n{text}");
        same(&text, &levelled(&plain(&reading)), &raw_records(&fs::read(raw).expect("a file")));
    }
}

/// The unread rest of a file in BIND's raw format (version 1; lib/dns/masterdump.c of BIND 9).
struct Raw<'a>(&'a [u8]);

impl Raw<'_> {
    fn bytes(&mut self, count: usize) -> Vec<u8> {
        let (taken, left) = self.0.split_at_checked(count).expect("the file is whole");
        self.0 = left;
        taken.to_vec()
    }

    fn number(&mut self, bytes: usize) -> u32 {
        self.bytes(bytes).iter().fold(0, |value, &byte| value << 8 | u32::from(byte))
    }
}

fn raw_records(file: &[u8]) -> BTreeSet<Plain> {
    let mut raw = Raw(file);
    let mut records = BTreeSet::new();
    assert_eq!((raw.number(4), raw.number(4)), (2, 1), "the format and its version");
    let _time_flags_serial_transfer = raw.bytes(16);
    while !raw.0.is_empty() {
        let _bytes_class = raw.bytes(6);
        let rtype = raw.number(2) as u16;
        let _covers = raw.number(2);
        let ttl_s = raw.number(4);
        let count = raw.number(4);
        let owner_bytes = raw.number(2) as usize;
        let owner = raw.bytes(owner_bytes).to_ascii_lowercase();
        for _ in 0..count {
            let data_bytes = raw.number(2) as usize;
            records.insert((owner.clone(), ttl_s, rtype, raw.bytes(data_bytes)));
        }
    }
    records
}
