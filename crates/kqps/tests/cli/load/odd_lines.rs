//! Query files with lines that are no queries, or that look like something else.

use super::bench::{Bench, kqps, words};

#[test]
fn names_that_begin_with_a_hash_are_asked_and_reported() {
    let bench = Bench::new();
    let text = "; a comment\r\n# another\r\n#tag.example.test A\r\nwww.example.test TYPE65\r\n#note\r\n";
    std::fs::write(bench.queries(), text).unwrap();
    let output = bench.load(&["-q", "1", "-n", "1"]).output().unwrap();
    let (out, err) = words(&output);
    assert!(out.starts_with("Statistics:\n\n  Queries sent:         2\n"), "{out}{err}");
    let file = bench.queries();
    let wanted = format!(
        "kqps: 1 name in {0} begins with # and is asked, as dnsperf does; a comment begins with ; or with # and a \
         blank\nkqps: 1 line of {0} begins with #, is no query, and was taken for a comment\n",
        file.display()
    );
    assert_eq!(err, wanted);
}

#[test]
fn skipped_lines_are_reported_by_cause() {
    let bench = Bench::new();
    let text = "www.example.test IN A\nwww.example.test AAAAB\na..b A\nsend\nx\nwww.example.test A\n";
    std::fs::write(bench.queries(), text).unwrap();
    let output = bench.load(&["-q", "1", "-n", "1", "--skip-bad"]).output().unwrap();
    let (_, err) = words(&output);
    let causes = "(bad name: 1, no type: 1, unknown type: 1, class: 1, dynamic update: 1)";
    assert!(
        err.contains(&format!("5 bad queries were skipped in {} {causes}", bench.queries().display())),
        "{err}"
    );
    let file = bench.queries().display().to_string();
    for words in [
        "1:18: \"IN\" is a class",
        "2:18: unknown type \"AAAAB\"",
        "3:3: bad name",
        "4:1: this is a dynamic update",
        "5:2: expected a type",
    ] {
        assert!(err.contains(&format!("\nkqps: {file}:{words}")), "{words}: {err}");
    }
    let causes = bench.trial(&["-q", "1", "-n", "1", "--skip-bad"]).dataset.skipped_causes;
    assert_eq!((causes["class"], causes.values().sum::<u64>()), (1, 5));
    let output = bench.load(&["-q", "1", "-n", "1"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(words(&output).1.contains("queries:1:18: \"IN\" is a class"), "{}", words(&output).1);
}

/// Two bad lines more than are named.
#[test]
fn a_file_with_bad_lines_is_shown_and_played_with_the_first_of_them() {
    let bench = Bench::new();
    std::fs::write(bench.queries(), "a.test A\n".to_owned() + &"b.test AAAAB\n".repeat(7)).unwrap();
    let (file, load) = (bench.queries().display().to_string(), ["-q", "1", "-n", "1"]);
    let fault = "unknown type \"AAAAB\"; expected one such as A or TYPE65; did you mean AAAA?";
    let named = (2..7).map(|line| format!("kqps: {file}:{line}:8: {fault}\n"));
    let lines = named.collect::<String>() + &format!("kqps: {file}: and 2 more are bad\n");
    let refused = [kqps(&["show", &file]).output().unwrap(), bench.load(&load).output().unwrap()];
    for output in refused {
        assert_eq!((output.status.code(), words(&output)), (Some(2), (String::new(), lines.clone())));
    }
    let skipped = bench.load(&[&load[..], &["--skip-bad"]].concat()).output().unwrap();
    let counted = format!("kqps: 7 bad queries were skipped in {file} (unknown type: 7)\n");
    assert_eq!(words(&skipped).1, counted + &lines);
}
