//! Output of `kqps serve auth` about the zones that it loads: in words, with places, and with numbers that add
//! up.

use std::fs;
use std::io::{BufRead as _, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};

use kqps_kernel::process::{Signal, signal};

const ZONE: &str = "$TTL 60\n@ SOA ns host 1 1 1 1 1\n@ NS ns\nns A 192.0.2.1\n";

/// A server that prints words instead of JSON.
struct Talking {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Talking {
    fn start(zones: &std::path::Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_kqps"))
            .args(["serve", "auth", "--listen", "127.0.0.1:0", "--for", "60s", "--zones"])
            .arg(zones)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// The next lines, without their times and sizes of memory.
    fn next(&mut self, count: usize) -> Vec<String> {
        let lines = self.lines.by_ref().take(count).map(Result::unwrap);
        lines
            .map(|line| match (line.split_once(" in "), line.split_once(" MiB)")) {
                (Some((head, _)), Some((_, tail))) if line.starts_with("Loaded") => format!("{head}{tail}"),
                _ => line,
            })
            .collect()
    }

    fn stop(self) -> String {
        signal(self.child.id(), Signal::Terminate).unwrap();
        drop(self.lines);
        String::from_utf8(self.child.wait_with_output().unwrap().stderr).unwrap()
    }
}

#[test]
fn a_load_is_reported_in_numbers_and_a_zone_that_failed_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("one.test"), ZONE).unwrap();
    let mut server = Talking::start(folder.path());
    assert_eq!(server.next(1), ["Loaded 1 zone, 3 records"]);
    assert!(server.next(1)[0].starts_with("Listening on "));

    fs::write(at("two.test"), ZONE).unwrap();
    fs::write(at("bad.test"), format!("{ZONE}  A 192.0.2\n")).unwrap();
    signal(server.child.id(), Signal::HangUp).unwrap();
    let bad = at("bad.test").display().to_string();
    assert_eq!(
        server.next(2),
        [
            "Loaded 2 of 3 zones again, 6 records; 1 added, 0 changed, 1 unchanged, 0 removed".to_owned(),
            format!(
                "Zone bad.test. answers SERVFAIL: {bad}:5:5: expected an IPv4 address, found \"192.0.2\""
            ),
        ]
    );

    fs::write(at("one.test"), format!("{ZONE}x A 192.0.2.1\n\tCNAME y\n")).unwrap();
    fs::write(at("two.test"), ZONE.replace("192.0.2.1", "192.0.2.2")).unwrap();
    fs::remove_file(at("bad.test")).unwrap();
    signal(server.child.id(), Signal::HangUp).unwrap();
    let place = format!("{}:6:2", at("one.test").display());
    assert_eq!(
        server.next(2),
        [
            "Loaded 1 of 2 zones again, 6 records; 0 added, 1 changed, 0 unchanged, 0 removed".to_owned(),
            format!(
                "Zone one.test. keeps its old data: {place}: x.one.test. has a CNAME record and others beside it"
            ),
        ]
    );
    let errors = server.stop();
    assert!(errors.contains(&format!("kqps: {place}: x.one.test. has a CNAME")), "{errors}");
}

#[test]
fn a_set_with_several_ttls_is_warned_of_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.test");
    let sets =
        (0..25).fold(String::new(), |text, n| text + &format!("x{n} 900 MX 1 Mail\n   300 MX 1 mail\n"));
    fs::write(&path, format!("{ZONE}{sets}")).unwrap();
    let mut server = Talking::start(folder.path());
    assert_eq!(server.next(1), ["Loaded 1 zone, 28 records"]);
    assert!(server.next(1)[0].starts_with("Listening on "));
    let errors = server.stop();
    let lines: Vec<&str> = errors.lines().collect();
    let first = "the TTLs of x0.a.test. MX differ; the least, 300, is used for all";
    assert_eq!(lines[0], format!("kqps: warning: {}:6:4: {first}", path.display()));
    assert_eq!(lines[20..], [format!("kqps: {}: 5 more warnings not shown", path.display())]);
}

#[test]
fn a_configuration_that_includes_what_is_not_there_ends_with_status_2() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("named.conf");
    fs::write(&path, "options { };\n include \"zones.d/*.conf\";\n").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_kqps"))
        .args(["serve", "auth", "--listen", "127.0.0.1:0", "--for", "0s", "--zones"])
        .arg(&path)
        .output()
        .unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains(&format!("{}:2:10: no file matches the pattern", path.display())), "{errors}");
}
