//! Studies with attacks beside good clients.

use std::process::{Command, Stdio};

use kqps_observation::Store;
use kqps_observation::run::{Purpose, Role};
use kqps_verdict::judge::judge;

/// An echo beside an attack with a rate, and one whose attack is searched.
const STUDY: &str = r#"
name = "attack"
title = "Attacks"
question = "Does it work?"
repetitions = 1
fixed = { "player.timeout_s" = 0.1 }

[[experiment]]
name = "rates"
title = "At a rate"
load = { rates_qps = [1000], seconds = 0.3 }
factors = { scenario = ["none", "one-name=2k"] }
[[experiment.table]]
title = "Answered"
rows = ["scenario"]
show = ["median", "lost"]

[[experiment]]
name = "searched"
title = "Searched"
load = { search = "quick", keep = 0.99 }
fixed = { good_rate = 500 }
factors = { scenario = ["random-names"] }
"#;

#[test]
fn an_attack_is_a_factor_and_its_rate_is_searched() {
    let folder = tempfile::tempdir().unwrap();
    let (file, out) = (folder.path().join("study.toml"), folder.path().join("out"));
    std::fs::write(&file, STUDY).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_kqps"));
    command.arg("run").arg(&file).args(["--records", "200", "--seed", "5", "--out"]).arg(&out);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    // A figure may be refused on a busy host.
    assert!(matches!(output.status.code(), Some(0 | 3)), "{:?}: {said}", output.status);
    let run = Store::read(&out.join("run.sqlite")).unwrap_or_else(|error| panic!("{error}: {said}"));
    assert!((run.goal_facts.as_ref().unwrap().loss - 0.01).abs() < 1e-9);
    let of_cell = |index: usize| run.trials_of(index).filter_map(|one| Some((one.purpose, one.measured()?)));
    let mut seen = Vec::new();
    for (index, cell) in run.cells.iter().enumerate().filter(|(_, cell)| cell.role == Role::Subject) {
        let word = cell.factors.word("scenario").unwrap();
        let mut trials = 0;
        for (purpose, trial) in of_cell(index).filter(|(purpose, _)| *purpose != Purpose::WarmUp) {
            trials += 1;
            if word == "none" {
                assert!(trial.classes.is_empty());
                continue;
            }
            let [good, attack] = &trial.classes[..] else { panic!("{word}: {}", trial.classes.len()) };
            let is_searched = word == "random-names";
            assert_eq!(attack.is_sought, is_searched, "{word}, {purpose:?}");
            let intended_qps = attack.trial.load.intended_qps;
            assert!(is_searched || intended_qps == Some(2000.0), "{intended_qps:?}");
            assert!(is_searched || good.trial.load.intended_qps == Some(1000.0));
            let intended = [good, attack].map(|class| class.trial.accounts.intended);
            assert!(intended.iter().all(|count| *count > 0), "{word}, {purpose:?}: {intended:?}");
        }
        assert!(trials > 0, "{word}: {said}");
        seen.push(word);
    }
    assert_eq!(seen, ["none", "one-name=2k", "random-names"]);
    let verdict = judge(&run);
    let searched = verdict.subjects.iter().find(|cell| cell.name.contains("random-names")).unwrap();
    assert!(searched.ceiling.is_none() && searched.share.is_none());
    assert!(out.join("report.html").exists(), "{said}");
}
