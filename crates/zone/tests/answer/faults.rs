//! The errors and warnings of a zone, with their place.

use kqps_zone::Severity;

use super::support::{DO, Server, compile, zone};

const HEAD: &str = "example. 60 IN SOA ns.example. h.example. 1 2 3 4 5\n\
                    example. 60 IN NS ns.example.\n\
                    ns.example. 60 IN A 192.0.2.1\n";

/// Line, severity and text of each fault of a zone that begins with three good lines.
fn faults(more: &str) -> Vec<(u32, Severity, String)> {
    let compiled = compile("example.", &format!("{HEAD}{more}"), 2, 2);
    let has_errors = compiled.faults.iter().any(|fault| fault.severity() == Severity::Error);
    assert_eq!(compiled.zone.is_none(), has_errors);
    compiled.faults.iter().map(|fault| (fault.line, fault.severity(), fault.to_string())).collect()
}

#[track_caller]
fn check(more: &str, line: u32, severity: Severity, text: &str) {
    assert_eq!(faults(more), [(line, severity, text.to_owned())]);
}

#[test]
fn a_good_zone_has_none() {
    assert_eq!(faults(""), []);
    // Duplicates count once (RFC 2181, section 5), also those of a SOA record.
    assert_eq!(
        faults("ns.example. 60 IN A 192.0.2.1\nexample. 60 IN SOA ns.example. h.example. 1 2 3 4 5"),
        []
    );
    // RRSIG and NSEC may stand beside CNAME (RFC 4035, section 2.5).
    assert_eq!(faults("a.example. 60 IN CNAME ns.example.\na.example. 60 IN NSEC example. CNAME NSEC"), []);
}

#[test]
fn errors_are_found() {
    use Severity::Error;
    let cname = "a.example. 60 IN CNAME ns.example.\n";
    check(
        &format!("{cname}a.example. 60 IN TXT x"),
        5,
        Error,
        "a.example. has a CNAME record and others beside it",
    );
    check(
        &format!("{cname}a.example. 60 IN CNAME b.example."),
        5,
        Error,
        "a.example. has more than one CNAME record",
    );
    check(
        "a.example. 60 IN DNAME b.example.\na.example. 60 IN DNAME c.example.",
        5,
        Error,
        "a.example. has more than one DNAME record",
    );
    check("a.example.net. 60 IN A 192.0.2.1", 4, Error, "a.example.net. is not in this zone");
    check(
        "example. 60 IN SOA ns.example. h.example. 2 2 3 4 5",
        4,
        Error,
        "the zone has more than one SOA record",
    );
    check(
        "example. 60 IN SOA ns.example. h.example. 2 2 3 4 5\nexample. 60 IN SOA ns.example. h.example. 1 2 3 4 5",
        4,
        Error,
        "the zone has more than one SOA record",
    );
    check(
        "a.example. 60 IN SOA ns.example. h.example. 2 2 3 4 5",
        4,
        Error,
        "a SOA record stands at a.example., which is not the apex",
    );
    for (text, expected) in [
        ("", "the zone has no SOA record at its apex"),
        ("a.example. 60 IN A 192.0.2.1", "the zone has no SOA record at its apex"),
        (HEAD.lines().next().unwrap(), "the zone has no NS record at its apex"),
    ] {
        let compiled = compile("example.", text, 1, 1);
        assert!(compiled.zone.is_none());
        assert!(compiled.faults.iter().any(|fault| fault.to_string() == expected), "{:?}", compiled.faults);
    }
}

#[test]
fn warnings_are_found() {
    use Severity::Warning;
    check(
        "a.example. 60 IN A 192.0.2.1\na.example. 61 IN A 192.0.2.2",
        5,
        Warning,
        "the TTLs of a.example. A differ; the least, 60, is used for all",
    );
    check(
        "sub.example. 60 IN NS ns.sub.example.",
        4,
        Warning,
        "the name server ns.sub.example. is below a cut and has no glue",
    );
    check(
        "sub.example. 60 IN NS nowhere.example.",
        4,
        Warning,
        "the name server nowhere.example. has no address in this zone",
    );
    check(
        "sub.example. 60 IN NS ns.example.\na.sub.example. 60 IN A 192.0.2.1",
        5,
        Warning,
        "a.sub.example. is hidden by a delegation or DNAME record above it",
    );
    check(
        "d.example. 60 IN DNAME ns.example.\na.d.example. 60 IN TXT x",
        5,
        Warning,
        "a.d.example. is hidden by a delegation or DNAME record above it",
    );
    assert_eq!(faults("sub.example. 60 IN NS ns.sub.example.\nns.sub.example. 60 IN A 192.0.2.1"), []);
}

#[test]
fn only_the_first_are_reported() {
    let text: Vec<String> = (0..5000).map(|number| format!("a{number}.net. 60 IN A 192.0.2.1")).collect();
    let lines: Vec<u32> = faults(&text.join("\n")).iter().map(|fault| fault.0).collect();
    assert_eq!(lines, (4..24).collect::<Vec<u32>>());
}

/// A signature of a type with this TTL. Its other data do not matter here.
fn signature(covered: &str, ttl_s: u32, signer: &str) -> String {
    format!("a.example. {ttl_s} IN RRSIG {covered} 13 2 900 20460101000000 20260101000000 1 {signer} Zm9v\n")
}

#[test]
fn each_set_is_warned_of_once() {
    use Severity::Warning;
    let a = |ttl_s: u32, last: u8| format!("a.example. {ttl_s} IN A 192.0.2.{last}\n");
    let differ = |rtype| format!("the TTLs of a.example. {rtype} differ; the least, 300, is used for all");
    for (text, line, expected) in [
        (a(900, 1) + &a(300, 2) + &a(600, 3), 5, differ("A")),
        (a(300, 1) + &a(900, 2) + &a(600, 3), 5, differ("A")),
        // A record that is there twice.
        (a(900, 1) + &a(300, 1), 5, differ("A")),
        (a(300, 1) + &a(900, 1), 5, differ("A")),
        // The TTL of signatures follows that of their set (RFC 4034, section 3).
        (a(900, 1) + &signature("A", 900, "example.") + &a(300, 2), 6, differ("A")),
        (
            a(300, 1) + &signature("A", 900, "example."),
            5,
            "the signatures of a.example. A have a greater TTL than the records; 300 is used".to_owned(),
        ),
        (a(900, 1) + &signature("A", 900, "example.") + &signature("A", 300, "EXAMPLE."), 6, differ("RRSIG")),
    ] {
        check(&text, line, Warning, &expected);
    }
    // Each signature has the TTL of what it covers.
    let text = a(900, 1) + "a.example. 300 IN TXT x\n" + &signature("A", 900, "example.");
    assert_eq!(faults(&(text + &signature("TXT", 300, "example."))), []);
}

#[test]
fn signatures_have_no_greater_ttl_than_what_they_cover() {
    let a = "a.example. 900 IN A 192.0.2.1\na.example. 300 IN A 192.0.2.2\n";
    for (text, a_ttl_s, signature_ttl_s) in [
        (a.to_owned() + &signature("A", 900, "example."), 300, 300),
        (signature("A", 900, "example.") + "a.example. 900 IN A 192.0.2.1\n", 900, 900),
        (signature("A", 300, "example.") + "a.example. 900 IN A 192.0.2.1\n", 900, 300),
        // Twice the same, except for the case of the signer's name.
        (signature("A", 900, "Example.") + &signature("A", 600, "example.") + a, 300, 300),
    ] {
        let server = &mut Server::new([zone("example.", &format!("{HEAD}{text}"))]);
        let shown = server.ask("a.example. A", &DO);
        let ttls = |rtype: &str| {
            let lines = shown.lines().filter(|line| line.split(' ').nth(3) == Some(rtype));
            lines.map(|line| line.split(' ').nth(2).unwrap().parse().unwrap()).collect::<Vec<u32>>()
        };
        assert!(ttls("A").iter().all(|&ttl_s| ttl_s == a_ttl_s), "{shown}");
        assert_eq!(ttls("RRSIG"), [signature_ttl_s], "{shown}");
    }
}

/// RFC 4034, section 6.2: records that differ only in the case of a name are one record.
#[test]
fn the_case_of_names_makes_no_second_record() {
    for (one, other, count) in [
        ("MX 10 Mail.example.", "MX 10 mail.EXAMPLE.", 1),
        ("SRV 1 2 3 Mail.example.", "SRV 1 2 3 mail.example.", 1),
        ("RP A.example. B.example.", "RP a.example. b.example.", 1),
        ("NAPTR 1 2 \"U\" \"\" \"\" X.", "NAPTR 1 2 \"U\" \"\" \"\" x.", 1),
        ("NAPTR 1 2 \"U\" \"\" \"\" x.", "NAPTR 1 2 \"u\" \"\" \"\" x.", 2),
        ("MINFO A. B.", "MINFO a. b.", 1),
        ("NS A.elsewhere.", "NS a.elsewhere.", 1),
        ("PTR A.elsewhere.", "PTR a.elsewhere.", 1),
        ("TXT a", "TXT A", 2),
        ("HINFO a b", "HINFO A b", 2),
        ("CAA 0 issue a", "CAA 0 issue A", 2),
        // A type that is newer than RFC 3597.
        ("SVCB 1 A.", "SVCB 1 a.", 2),
    ] {
        let text = format!("{HEAD}x.example. 60 IN {one}\nX.example. 60 IN {other}\n");
        let compiled = compile("example.", &text, 2, 1);
        assert_eq!(compiled.zone.map(|zone| zone.records()), Some(3 + count), "{one}");
    }
    // Many records, each of them twice.
    let set = |name: &str| {
        (0..50).fold(String::new(), |text, n| text + &format!("x.example. 60 IN MX {n} {name}.example.\n"))
    };
    let compiled = compile("example.", &format!("{HEAD}{}{}", set("Mail"), set("mail")), 2, 1);
    assert_eq!(compiled.zone.map(|zone| zone.records()), Some(53));
    // If there must be only one, two equal ones count as one.
    for pair in [
        "a.example. 60 IN CNAME X.\na.example. 60 IN CNAME x.",
        "a.example. 60 IN DNAME X.\na.example. 60 IN DNAME x.",
        "example. 60 IN SOA NS.example. H.example. 1 2 3 4 5",
    ] {
        assert_eq!(faults(pair), [], "{pair}");
    }
}
