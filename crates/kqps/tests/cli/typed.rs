//! Words of other tools, and usual slips: kqps takes them, or its one line says what to type.

use std::fs;

use tempfile::TempDir;

use crate::load::bench::kqps;

/// A target at which nothing listens, and the file that goes with it.
const LOAD: &str = "load 127.0.0.1:9 -d queries";
const FIND: &str = "find 127.0.0.1:9 -d queries";

/// Command lines that kqps refuses, and words of the line that says what to type.
const REFUSED: &[(&str, &str, &str)] = &[
    // A thing in place of a command.
    ("", "127.0.0.1", "kqps find 127.0.0.1 -d FILE"),
    ("", "127.0.0.1:5300", "kqps load 127.0.0.1:5300 -d FILE"),
    ("", "::1", "kqps find ::1 -d FILE"),
    ("", "[::1]:53", "kqps find [::1]:53 -d FILE"),
    ("", "tcp://127.0.0.1:53", "kqps find tcp://127.0.0.1:53"),
    ("", "https://dns.example/dns-query", "kqps find https://dns.example/dns-query"),
    ("", "localhost", "kqps find localhost"),
    ("", "nsd", "kqps run --subject nsd"),
    ("", "kqps-auth", "kqps run --subject kqps-auth"),
    ("", "mine.toml", "kqps run mine.toml"),
    ("", "traffic.pcap", "kqps show traffic.pcap"),
    ("", "queries", "kqps gen"),
    ("", "here.queries", "kqps show here.queries"),
    ("", "bench", "kqps find"),
    ("", "benchmark", "kqps run --command"),
    ("", "test", "kqps alone measures this machine"),
    ("", "measure", "kqps alone"),
    ("", "start", "kqps alone"),
    ("", "query", "kqps load"),
    ("", "dig", "kqps load"),
    ("", "replay", "kqps load"),
    ("", "ping", "kqps load"),
    ("", "flame", "kqps load"),
    ("", "echo", "kqps serve"),
    ("", "internet", "kqps serve"),
    ("", "auth", "kqps serve"),
    ("", "server", "kqps serve"),
    ("", "generate", "kqps gen"),
    ("", "recipe", "kqps gen"),
    ("", "pcap", "kqps show"),
    ("", "stats", "kqps show"),
    ("", "studies", "kqps run STUDY"),
    ("", "diff", "kqps compare"),
    ("", "page", "kqps report"),
    ("", "list", "kqps history page"),
    ("", "doctor", "kqps probe"),
    ("", "resume", "kqps run --resume"),
    ("", "version", "kqps --version"),
    ("", "laod", "'load'"),
    ("", "fnd", "'find'"),
    ("history", "list", "kqps history check prints the changes"),
    ("history", "show", "kqps history page"),
    ("history", "ls", "kqps history page"),
    ("history", "log", "kqps history page"),
    ("history", "init", "kqps history add"),
    ("history", "chekc", "'check'"),
    ("serve", "authoritative", "kqps serve auth"),
    ("serve", "resolver", "kqps serve cache"),
    ("serve", "forwarder", "kqps serve cache"),
    ("serve", "proxy", "kqps serve front"),
    ("serve", "root", "kqps serve internet --server ADDR=FILE"),
    ("serve", "intrenet", "'internet'"),
    ("serve", "ehco", "'echo'"),
    ("host", "set", "kqps host apply"),
    ("host", "list", "kqps host status"),
    ("host", "revert", "kqps host undo"),
    // Flags of a load.
    (LOAD, "--concurrency 5", "-q is how many queries are outstanding"),
    (LOAD, "--vus 5", "-c how many sockets"),
    (LOAD, "--workers 5", "-T how many threads"),
    (LOAD, "--number 5", "-n is how many times"),
    (LOAD, "--requests 5", "-n is how many times"),
    (LOAD, "--iterations 5", "-l how long"),
    (LOAD, "--count 5", "-n is how many times"),
    (LOAD, "--loop 5", "-n is how many times"),
    (LOAD, "-z 10s", "-l 10s"),
    (LOAD, "-R 100", "-Q"),
    (LOAD, "-P tcp", "-m"),
    (LOAD, "--tcp", "-m"),
    (LOAD, "--tls", "tls://127.0.0.1"),
    (LOAD, "--doh", "-m"),
    (LOAD, "--quic", "-m"),
    (LOAD, "--ipv4", "-f inet"),
    (LOAD, "--ipv6", "-f inet6"),
    (LOAD, "--do", "-D"),
    (LOAD, "-k", "--insecure"),
    (LOAD, "--no-verify", "--ca FILE"),
    (LOAD, "--type AAAA", "query file"),
    (LOAD, "--qtype A", "query file"),
    (LOAD, "--name a.test", "query file"),
    (LOAD, "--pcap x", "-d takes captures"),
    (LOAD, "--replay x", "-d takes captures"),
    (LOAD, "-o x", "--json >FILE"),
    (LOAD, "--output x", "--out DIR"),
    (LOAD, "--output=x", "--json >FILE"),
    (LOAD, "--csv", "kqps export"),
    (LOAD, "--format json", "--json"),
    (LOAD, "--latency", "always printed"),
    (LOAD, "--histogram", "always printed"),
    (LOAD, "--prometheus 9153", "--metrics"),
    (LOAD, "--stage 5", "--steps 10k,20k,50k/5s"),
    (LOAD, "--stages 1..5", "--steps 10k,20k,50k/5s"),
    (LOAD, "--qps-flow x", "--course FILE those of a file"),
    (LOAD, "--slowloris", "--hostile KIND"),
    (LOAD, "--quiet", "2>/dev/null"),
    (LOAD, "--warmup 2s", "kqps load … -l 2s"),
    (LOAD, "--verbose", "kqps dnsperf prints every reply"),
    (LOAD, "-v", "kqps dnsperf prints every reply"),
    (LOAD, "-W", "2>&1"),
    (LOAD, "-O x=y", "--queries-per-connection"),
    (LOAD, "-H", "--help"),
    (LOAD, "-C 5", "-c"),
    (LOAD, "-X 5", "kqps find"),
    (LOAD, "--delay 5", "-Q"),
    (LOAD, "--pid 5", "--subject PID"),
    (LOAD, "--subject nsd", "pgrep -o nsd"),
    // Flags of a search.
    (FIND, "-Q 5", "between --min and --max"),
    (FIND, "--qps 5", "between --min and --max"),
    (FIND, "--rate 5", "between --min and --max"),
    (FIND, "-q 5", "kqps load has -q"),
    (FIND, "-l 5s", "--time-limit"),
    (FIND, "-n 5", "--time-limit"),
    (FIND, "--hostile idle", "kqps find takes attackers as a scenario"),
    (FIND, "-P tcp", "-m"),
    (FIND, "--concurrency 5", "-q is"),
    // Flags of other commands.
    ("run", "--study name-servers", "kqps run name-servers"),
    ("run", "--duration 5s", "--budget"),
    ("run", "--server 127.0.0.1", "--target udp://ADDR"),
    ("run", "-o x", "--out DIR"),
    ("run", "-Q 5", "kqps load plays one"),
    ("run", "--zone x", "--records"),
    ("run", "--subject nsdd", "did you mean `nsd`?"),
    ("compare", "--base x", "--a and --b"),
    ("compare", "--old x --new y", "--a and --b"),
    ("compare", "--threshold 2%", "--fail-on slower:2%"),
    ("history check", "--threshold 2%", "--fail-on slower:2%"),
    ("serve auth", "--port 53", "--listen ADDR:PORT"),
    ("serve echo", "-p 53", "--listen ADDR:PORT"),
    ("serve echo", "--workers 2", "--threads"),
    ("serve cache", "--upstream 127.0.0.1", "--forward ADDR"),
    ("serve front", "--upstream 127.0.0.1", "--backend udp://ADDR:PORT"),
    ("serve internet", "--listen 127.0.0.1:53", "--loopback PORT"),
    ("serve internet", "--netns box", "--namespace NAME"),
    ("serve internet", "--zone x", "--server ADDR=FILE"),
    ("serve internet", "--resolver unbound", "follows --"),
    ("serve internet", "--workers 2", "--threads"),
    ("serve internet", "--namespace a --loopback 5300", "cannot be used with"),
    ("serve internet", "--server test.zone", "expected ADDR"),
    // Flags where a command is missing are those of a run.
    ("", "--budgte 5m", "'--budget'"),
    ("", "--target 127.0.0.1", "--queries <FILE>"),
    ("", "--zone x", "--records"),
];

/// A folder with a file of queries.
fn folder() -> TempDir {
    let folder = TempDir::new().unwrap();
    for file in ["queries", "here.queries"] {
        fs::write(folder.path().join(file), "www.bench.test A\n").unwrap();
    }
    folder
}

#[test]
fn a_word_of_another_tool_is_answered_with_the_word_to_type() {
    let folder = folder();
    for (command, typed, wanted) in REFUSED {
        // A server that is not refused ends at once.
        let ends = if command.starts_with("serve ") { "--for 0s" } else { "" };
        let words: Vec<&str> = [command, ends, typed]
            .into_iter()
            .flat_map(|words| words.split(' '))
            .filter(|word| !word.is_empty())
            .collect();
        let output = kqps(&words).current_dir(folder.path()).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && output.stdout.is_empty(), "{words:?}: {error}");
        assert!(error.contains(wanted), "{words:?}: expected {wanted}: {error}");
        assert!(!error.contains("use '-- "), "{words:?}: {error}");
    }
}

#[test]
fn flags_with_one_meaning_are_taken() {
    let folder = folder();
    // Nothing listens, so a load that is played ends with status 1.
    for (command, typed) in [
        (LOAD, "--qps 100 -l 100ms -t 50ms"),
        (LOAD, "--rps 100 --time 100ms -t 50ms"),
        (LOAD, "--clients 2 --protocol udp -t 50ms"),
        ("load 127.0.0.1:9", "--file queries --edns0 -t 50ms"),
        ("load", "--resolver 127.0.0.1 -p 9 --datafile queries --source 127.0.0.1 -t 50ms"),
    ] {
        let words: Vec<&str> = command.split(' ').chain(typed.split(' ')).collect();
        let output = kqps(&words).current_dir(folder.path()).output().unwrap();
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(output.status.code() == Some(1) && said.contains("Nothing listens"), "{words:?}: {said}");
    }
    let output =
        kqps(&["--dry-run", "--subject", "kqps-auth", "--time", "1m", "--no-install"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn an_authoritative_server_asks_for_either_kind_of_zone() {
    let output = kqps(&["serve", "auth"]).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("--zone <") && error.contains("--zones <"), "{error}");
}
