//! What is wrong with a zone, and on which line.

use kqps_zone::Severity;

use crate::support::compile;

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
    // Duplicates count once (RFC 2181, section 5), and so does a SOA record that stands twice.
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
        "the TTLs of a.example. A differ; the lowest is used",
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
fn only_the_first_are_told() {
    let text: Vec<String> = (0..5000).map(|number| format!("a{number}.net. 60 IN A 192.0.2.1")).collect();
    let lines: Vec<u32> = faults(&text.join("\n")).iter().map(|fault| fault.0).collect();
    assert_eq!(lines, (4..24).collect::<Vec<u32>>());
}
