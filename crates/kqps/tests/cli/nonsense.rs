//! Values that make no sense: every command refuses them in one line that says what to write.

use std::fs;
use std::path::Path;
use std::process::Output;

use tempfile::TempDir;

use crate::load::bench::kqps;

/// A folder with a file of queries, a zone and a folder.
fn folder() -> TempDir {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("queries"), "www.bench.test A\n").unwrap();
    fs::write(folder.path().join("zone"), "@ SOA a b 1 2 3 4 5\n@ NS a\na A 192.0.2.1\n").unwrap();
    fs::create_dir(folder.path().join("folder")).unwrap();
    folder
}

/// The status and stderr of a command. There must be no panic in it.
fn refused(folder: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let Output { status, stderr, stdout } = kqps(arguments).current_dir(folder).output().unwrap();
    let error = String::from_utf8(stderr).unwrap();
    assert!(stdout.is_empty() && !error.contains("panicked"), "{arguments:?}: {error}");
    (status.code(), error)
}

#[test]
fn nonsense_is_refused_with_what_to_write() {
    let folder = folder();
    let load = "load 127.0.0.1:9 -d queries";
    let find = "find 127.0.0.1:9 -d queries";
    let echo = "serve echo --for 0s --listen 127.0.0.1:0";
    let auth = "serve auth --zone a.test=zone --for 0s --listen 127.0.0.1:0";
    let front = "serve front --backend udp://127.0.0.1:9 --for 0s --listen 127.0.0.1:0";
    for (command, flags, wanted) in [
        (load, "-Q -5", "expected a rate in queries a second, such as 500"),
        (load, "-q -1", "expected a whole number, such as 8"),
        (load, "-q 9999999999999999999", "9000000000000000 at most"),
        (load, "-q 10G", "-q 10000000000: 32 sockets or connections can have 2097152 queries outstanding"),
        (load, "-m tcp -Q 10 -q 10G", "-q 10000000000: 8 sockets or connections can have 524288 queries"),
        (load, "-T 0", "-T 0: expected 1 to 1024 threads"),
        (load, "-T 1G", "-T 1000000000: expected 1 to 1024 threads"),
        (load, "-c 0", "-c 0: expected 1 to 16384 sockets"),
        (load, "-m tcp -c 1M", "-c 1000000: expected 1 to 131072 connections"),
        (load, "-m tcp -x 1 -c 100k", "-x 1: 100000 connections take a port each, and there are 65535"),
        (load, "-T 1024 -x 60000", "-x 60000: 16384 sockets take the ports from 60000 on"),
        (
            load,
            "-m tcp --queries-per-connection 1 -Q 10 -T 1024 -x 1",
            "-x 1: 131072 connections take a port each",
        ),
        (load, "-b 0", "expected a size above 0"),
        (load, "-n 0", "-n 0 would send nothing"),
        (load, "-l 0", "-l 0 would send nothing"),
        (load, "-Q 101M", "and 100M at most"),
        (load, "-m tcp --outstanding-per-connection 65537", "expected a whole number from 1 to 65536"),
        (load, "-l -1", "expected a duration, such as"),
        (load, "-l 1 --seed x", "expected a whole number from 0 to"),
        (load, "-p 0", "expected a whole number from 1 to 65535"),
        (load, "-p 65536", "expected a whole number from 1 to 65535"),
        (load, "-x 65536", "expected a whole number from 0 to 65535"),
        (load, "--subject-workers 0", "expected a whole number from 1 to 1024"),
        (load, "--drain 0", "--drain 0ns is shorter than -t (1s)"),
        (load, "--lag 1us", "--coalesce is 20µs, and --lag only 1µs"),
        ("load -d queries", "127.0.0.1:0", "port 0: expected 1 to 65535"),
        ("load -d queries", "127.0.0.1:65536", "port 65536: expected 1 to 65535"),
        ("load -d queries", "[::1", "expected ADDR, ADDR:PORT"),
        ("load -d queries", "0.0.0.0", "0.0.0.0 is the address of no single server"),
        ("find", "-d queries", "which server? Give a <TARGET>"),
        ("find", "", "which server? Give a <TARGET>"),
        (find, "-Q 5", "-Q: kqps find chooses the rates itself, between --min and --max"),
        (find, "-q 5", "kqps load has -q"),
        (find, "-l 5s", "--time-limit is that of the search"),
        (find, "-n 5", "--time-limit says how long"),
        (find, "--width 0", "--width 0%: expected 0.01% at least"),
        (find, "--min 10k --max 1k", "--min is 10,000, and --max 1,000: expected a --min below --max"),
        (find, "--loss 5", "did you mean 5%?"),
        (find, "--out queries", "queries: expected a folder"),
        ("run", "--out queries --subject kqps-auth", "queries: expected a folder"),
        ("run", "--budget 0", "--budget 0"),
        ("run", "--live 65536", "expected ADDR:PORT or a port alone"),
        ("run", "--linger 1m", "there is nothing to serve"),
        (find, "--metrics localhost:1", "such as 127.0.0.1:9153"),
        ("run", "--seed -1", "expected a whole number from 0 to"),
        ("run", "--budget -1", "expected a duration, such as"),
        ("compare --a kqps-auth --b kqps-auth", "--out queries", "queries: expected a folder"),
        ("compare", "--target udp://127.0.0.1:9", "expected two, one for each side, found 1"),
        ("gen zone -o new", "--seed x", "expected a whole number from 0 to"),
        ("gen zone -o new", "--recipe folder", "cannot read folder: Is a directory"),
        ("gen zone -o new", "--label-length 300", "expected a whole number from 1 to 63"),
        ("gen recipe", "foo", "there is no recipe"),
        (echo, "--threads 0", "expected a whole number from 1 to 1024"),
        (echo, "--threads -1", "expected a whole number from 1 to 1024"),
        (echo, "--buffer 0", "expected a size above 0"),
        (echo, "--buffer 2GiB", "expected 1GiB at most"),
        ("serve echo --for 0s", "--listen 127.0.0.1", "expected ADDR:PORT, such as 127.0.0.1:5300"),
        ("serve echo --for 0s", "--listen 127.0.0.1:65536", "with a port from 0 to 65535"),
        (auth, "--tcp-connections 99G", "expected a whole number from 1 to 4294967295"),
        (auth, "--payload 100", "expected 512 to 4096 bytes"),
        (auth, "--zone b.test=", "--zone b.test=: the file is missing"),
        (front, "--outstanding 99G", "expected a whole number from 1 to 65000"),
        (front, "--backend-buffer 0", "expected a size above 0"),
        (front, "--metrics 9153", "expected ADDR:PORT"),
        ("man", "serve eco", "did you mean `echo`? (known: echo, auth, cache, front, internet, status)"),
        ("man", "help", "`kqps` has no command `help`"),
    ] {
        let arguments: Vec<&str> = command.split(' ').chain(flags.split_whitespace()).collect();
        let (status, error) = refused(folder.path(), &arguments);
        let first = error.lines().next().unwrap_or_default();
        assert!(status == Some(2) && first.contains(wanted), "{arguments:?}: {status:?}, {error}");
    }
    let names: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 3, "nothing was made: {names:?}");
}

#[test]
fn a_socket_that_cannot_be_is_refused_with_the_reason() {
    let folder = folder();
    let long = "a".repeat(200);
    for (flag, value, wanted) in [
        ("--status", "folder", "choose another path"),
        ("--status", &long, "107 bytes at most"),
        ("--metrics", "192.0.2.1:9", "this host has no such address"),
    ] {
        let words = ["serve", "front", "--backend", "udp://127.0.0.1:9", "--listen", "127.0.0.1:0"];
        let (status, error) = refused(folder.path(), &[&words[..], &[flag, value]].concat());
        assert!(status == Some(1) && error.contains(wanted), "{flag} {value}: {error}");
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = listener.local_addr().unwrap().to_string();
    for (command, flag, value, wanted) in [
        ("load", "--metrics", "192.0.2.1:9", "this host has no such address"),
        ("load", "--live", taken.as_str(), "another program listens there; choose another port"),
        ("find", "--metrics", taken.as_str(), "another program listens there; choose another port"),
    ] {
        let words = [command, "127.0.0.1:9", "-d", "queries", flag, value];
        let (status, error) = refused(folder.path(), &words);
        assert!(status == Some(1) && error.lines().count() == 1, "{command} {flag} {value}: {error}");
        assert!(error.contains(&format!("{flag} {value}: {wanted}")), "{command}: {error}");
    }
}

/// A name with a line feed, whose second part would look like a line of its own.
const TWO_LINES: &str = "a\nforged: b";

#[test]
fn a_line_feed_in_a_name_makes_no_second_line() {
    let folder = folder();
    let file = format!("{TWO_LINES}.zone");
    fs::write(folder.path().join(&file), "@ BAD\n").unwrap();
    for arguments in [
        &["load", TWO_LINES, "-d", "queries"][..],
        &["load", "127.0.0.1:9", "-d", TWO_LINES],
        &["load", "127.0.0.1:9", "-d", "queries", "-Q", TWO_LINES],
        &["load", "127.0.0.1:9", "-d", "queries", &format!("--rate={TWO_LINES}")],
        &["run", TWO_LINES],
        &["run", "--command", TWO_LINES],
        &["run", "--resume", "--out", TWO_LINES],
        &["report", TWO_LINES],
        &["compare", TWO_LINES],
        &["man", TWO_LINES],
        &["gen", "recipe", TWO_LINES],
        &["gen", "zone", "--recipe", TWO_LINES, "-o", "new"],
        &["serve", "auth", "--zone", TWO_LINES],
        &["serve", "auth", "--zone", &file],
        &["serve", "auth", "--zones", TWO_LINES],
        &["serve", "status", TWO_LINES],
        &["serve", "front", "--backend", TWO_LINES],
        &[TWO_LINES],
    ] {
        let (status, error) = refused(folder.path(), arguments);
        assert!(matches!(status, Some(1 | 2)), "{arguments:?}: {error}");
        assert!(!error.lines().any(|line| line.starts_with("forged")), "{arguments:?}: {error}");
        assert!(error.contains(r"a\x0aforged") || error.contains(r"a\nforged"), "{arguments:?}: {error}");
    }
}

#[test]
fn a_line_feed_in_a_name_stays_in_its_line_where_nothing_is_wrong() {
    let folder = folder();
    let backend = format!("{}=udp://127.0.0.1:9", TWO_LINES.replace(':', ""));
    let front = ["serve", "front", "--for", "0s", "--listen", "127.0.0.1:0", "--backend", &backend];
    let zone = ["gen", "zone", "--records", "1", "-o", "new", "--origin", "a\nforged"];
    // kqps names two commands by the words in which they differ.
    let commands = ["a\nforged", "b"].map(|word| format!("sh -c '{word}' {{port}}"));
    let plan = ["run", "--dry-run", "--echo", "mmsg", "--command", &commands[0], "--command", &commands[1]];
    for arguments in [&front[..], &zone, &plan] {
        let output = kqps(arguments).current_dir(folder.path()).output().unwrap();
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(output.status.success() && said.contains(r"a\x0aforged"), "{said}");
        assert!(!said.lines().any(|line| line.starts_with("forged")), "{said}");
    }
}

#[test]
fn a_command_below_another_has_a_page_of_its_own() {
    let folder = folder();
    for (words, title) in [
        (&["man"][..], ".TH kqps 1"),
        (&["man", "load"], ".TH kqps-load 1"),
        (&["man", "serve", "echo"], ".TH kqps-serve-echo 1"),
        (&["man", "gen", "zone"], ".TH kqps-gen-zone 1"),
    ] {
        let output = kqps(words).current_dir(folder.path()).output().unwrap();
        let page = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && page.contains(title), "{words:?}: {page:.200}");
        for section in [".SH NAME", ".SH SYNOPSIS", ".SH EXAMPLES", ".SH \"EXIT STATUS\""] {
            assert!(page.contains(&format!("\n{section}\n")), "{words:?} {section}: {page}");
        }
        let called = words.iter().skip(1).fold("kqps".to_owned(), |called, word| called + " " + word);
        assert!(page.contains(&format!(r"\fB{called}\fR")), "{called}: {page}");
        assert!(!page.contains(".SH EXTRA"), "{page}");
    }
}
