//! Flags that do not go together, and the counts while it runs.

use std::process::Stdio;

use kqps_server::Report;

use super::upstream::{Upstream, address};
use super::{asks, cache, stop};
use crate::auth::dns::{A, ask};
use crate::front::status::status;
use crate::serve::running::serve_as;

fn refused(arguments: &[&str]) -> String {
    let command = &mut serve_as("cache", arguments);
    let output = command.args(["--for", "0s"]).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn what_cannot_work_is_an_error_that_says_why() {
    // An address and a port that no other test takes meanwhile.
    let own = "127.53.0.77:5377";
    for (arguments, why) in [
        (&[][..], "--forward <ADDR[:PORT]>|--stub <ZONE=ADDR[:PORT]>"),
        (&["--forward", "localhost"], "is no address"),
        (&["--stub", "127.0.0.1"], "expected ZONE=ADDR"),
        (&["--forward", "127.0.0.1:9", "--min-ttl", "2h", "--max-ttl", "1h"], "--min-ttl is longer"),
        (&["--forward", "127.0.0.1:9", "--max-ttl", "1500ms"], "expected whole seconds"),
        (&["--forward", "127.0.0.1:9", "--memory", "10k"], "expected 1MiB at least"),
        (&["--forward", "127.0.0.1:9", "--memory", "1000000GiB"], "that this machine has"),
        (&["--forward", "127.0.0.1:9", "--processes", "2"], "use --threads"),
        (
            &["--forward", "127.0.0.1:9", "--cache", "split", "--threads", "2", "--memory", "1MiB"],
            "use --memory 2MiB or more",
        ),
        (&["--forward", "127.0.0.1:9", "--no-tcp", "--tcp-idle", "1s"], "is about connections"),
        (&["--forward", own, "--listen", own], "is an address of this cache"),
    ] {
        let errors = refused(arguments);
        assert!(errors.contains(why), "{arguments:?}: {errors}");
    }
}

#[test]
fn counts_can_be_read_while_it_runs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("status");
    let upstream = Upstream::new(|asked| vec![address(&asked.query, 300, 7)]);
    let server = cache(&[&upstream.flag()], &["--status", path.to_str().unwrap()]);
    for id in 0..4 {
        ask(server.addresses[0], &asks(id, "www.example.test", A));
    }
    let output = status(&path, &["--json"]);
    assert!(output.status.success(), "{output:?}");
    let report: Report = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((report.received, report.answered), (4, 4), "{report:?}");
    let counts = report.cache.unwrap();
    assert_eq!((counts.hits, counts.misses, counts.entries), (3, 1, 1), "{report:?}");
    assert!(report.back_ends.len() == 1 && counts.memory_bytes > 0, "{report:?}");
    let words = String::from_utf8(status(&path, &[]).stdout).unwrap();
    assert!(words.contains("Cache: 3 hits, 1 miss, 1 kept in "), "{words}");
    stop(server);
}
