//! `kqps host advise` as a user runs it.

use std::process::{Command, Output};

fn advise(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kqps")).args(["host", "advise"]).args(args).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn this_host_has_layouts_on_cores_that_may_be_used() {
    let output = advise(&["--json", "--workers", "1"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let advice: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&advice["kind"], &advice["ask"]["workers"]), (&"advice".into(), &1.into()));
    let allowed = kqps_kernel::affinity::allowed().unwrap();
    let layouts = advice["layouts"].as_array().unwrap();
    assert!(!layouts.is_empty());
    for layout in layouts {
        let workers = layout["worker_cpus"].as_array().unwrap();
        assert_eq!(workers.len(), 1, "{layout}");
        let used = workers.iter().chain(layout["queue_cpus"].as_array().unwrap());
        assert!(used.map(|cpu| cpu.as_u64().unwrap() as u32).all(|cpu| allowed.contains(&cpu)), "{layout}");
    }
    for piece in advice["pieces"].as_array().unwrap() {
        for words in ["reason", "source", "cost"] {
            assert!(!piece[words].as_str().unwrap().is_empty(), "{piece}");
        }
    }
}

#[test]
fn words_and_commands_name_the_cores_of_the_server() {
    let words = String::from_utf8(advise(&[]).stdout).unwrap();
    for wanted in ["Layouts, the most promising first:", "source:", "costs:", "taskset -c "] {
        assert!(words.contains(wanted), "no {wanted} in:\n{words}");
    }
    let plain = String::from_utf8(advise(&["--plain"]).stdout).unwrap();
    assert!(plain.lines().any(|line| line.starts_with("# Start the server with ")), "{plain}");
    assert!(!plain.contains("kqps host"), "{plain}");
}

#[test]
fn a_subject_with_one_socket_has_the_layout_for_it() {
    let output = advise(&["--json", "--for", "nsd sockets=shared workers=1"]);
    let advice: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&advice["ask"]["one_socket"], &advice["ask"]["workers"]), (&true.into(), &1.into()));
    assert_eq!(advice["layouts"][0]["kind"], "neighbours");
}

#[test]
fn what_is_not_there_is_one_sentence() {
    let cases: [(&[&str], &str); 4] = [
        (&["--device", "no-such-device"], "no device is called `no-such-device`"),
        (&["--for", "nds"], "did you mean `nsd`?"),
        (&["--run", "/no/such/folder"], "expected the folder of a run"),
        (&["--workers", "0"], "expected a whole number from 1"),
    ];
    for (args, wanted) in cases {
        let output = advise(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(wanted), "{args:?}: {}", stderr(&output));
    }
}
