//! The JSON that the program printed, and whether it is the result of a measurement.

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use super::tree::Tree;

/// Warnings that speak of the host and not of the program. With one of them, a figure may be refused.
const OF_HOST: [&str; 7] =
    ["noisy-host", "uneven", "drifted", "no-steady-state", "irregular", "lagging", "late-player"];

/// Measures a subject by these words of a tree, and prints the verdict.
pub(super) fn run(tree: &Tree, words: &[&str], subject: &str) -> Result<()> {
    let output = tree.run(words)?;
    let (text, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    // A busy host may refuse the figure, which is a result as well.
    let verdict = of_run(&text, subject)
        .with_context(|| format!("{}: {}\n{text}{said}", words.join(" "), output.status))?;
    eprintln!("{}: {verdict}", words.join(" "));
    Ok(())
}

/// The verdict on a run (`docs/schema/run.json`), in a line. An error unless the echo has a rate, and the subject has a
/// figure, or answered some load on a host that is too busy for a figure.
fn of_run(text: &str, subject: &str) -> Result<String> {
    let run: Value = serde_json::from_str(text).context("the run's JSON cannot be read")?;
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let verdict = &run["verdict"];
    let echo = list(&verdict["ceilings"]["echoes"]).into_iter().next().context("no echo was measured")?;
    ensure!(!echo["figure_qps"].is_null(), "the echo has no rate: {}", echo["failures"]);
    let cells = list(&verdict["subjects"]);
    let is_asked = |cell: &&Value| cell["name"].as_str().is_some_and(|name| name.starts_with(subject));
    let cell = cells.iter().find(is_asked).with_context(|| format!("no cell is of {subject}"))?;
    let (name, grade) = (&cell["name"], &cell["grade"]);
    if !cell["figure_qps"].is_null() {
        return Ok(format!("{name}: {}, grade {grade}", cell["figure_qps"]));
    }
    let codes: Vec<String> =
        list(&cell["warnings"]).iter().filter_map(|one| one["code"].as_str().map(str::to_owned)).collect();
    let spoiled = |kind: &str| cell["spoiled"][kind].as_u64().unwrap_or(0);
    let (of, shifted, withheld) = (spoiled("of"), spoiled("shifted"), spoiled("withheld"));
    let is_spoiled = of > 0 && shifted + withheld >= of;
    let is_of_host = |code: &String| OF_HOST.contains(&code.as_str());
    let has_answered = |start: &Value| start["failure"].is_null() && has_rate(&start["bounds"]);
    if list(&cell["starts"]).iter().any(has_answered) && (is_spoiled || codes.iter().any(is_of_host)) {
        let counts = format!(
            ", of {of} trials {shifted} as cores changed their speed, {withheld} as one was withheld"
        );
        let spoiled = if is_spoiled { &*counts } else { "" };
        return Ok(format!("{name}: no figure on this host, by {}{spoiled}", codes.join(", ")));
    }
    bail!("{name} has no figure: {}", cell["reasons"])
}

/// Whether the bounds of a search have a load that met its goal. The subject then gave right answers.
fn has_rate(bounds: &Value) -> bool {
    ["lower_qps", "met_qps", "throughput_qps"].iter().any(|rate| bounds[rate].as_f64() > Some(0.0))
}

/// The accounts of a load (`docs/schema/trial.json`), in a line. An error unless every query was sent and answered.
pub(super) fn of_load(text: &str) -> Result<String> {
    let trial: Value = serde_json::from_str(text).context("the load's JSON cannot be read")?;
    let count = |bucket: &str| trial["accounts"][bucket].as_u64();
    let (intended, sent) = (count("intended"), count("sent"));
    // An answer after the timeout is one too.
    let answered = count("correct").zip(count("late")).map(|(correct, late)| correct + late);
    ensure!(sent > Some(0) && answered == sent, "not every query was answered: {}", trial["accounts"]);
    Ok(format!("{} queries of {} sent, all answered", sent.unwrap_or(0), intended.unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_run_needs_a_rate_or_a_reason_of_the_host() {
        let run = |echo: Value, figure: Value, met_qps: Option<f64>, code: &str, shifted: u64| {
            let cell = json!({
                "name": "nsd 4.12", "figure_qps": figure, "grade": "F", "warnings": [{ "code": code }],
                "reasons": ["it is so"], "spoiled": { "of": 1, "shifted": shifted, "withheld": 0 },
                "starts": [{ "failure": null, "bounds": { "trials": 9, "met_qps": met_qps } }],
            });
            let verdict = json!({ "ceilings": { "echoes": [{ "figure_qps": echo }] }, "subjects": [cell] });
            json!({ "verdict": verdict }).to_string()
        };
        let figure = || json!({ "mean": 9.0 });
        assert!(of_run(&run(figure(), figure(), Some(9.0), "wrong-answers", 0), "nsd").is_ok());
        let noisy = run(figure(), Value::Null, Some(9.0), "noisy-host", 0);
        assert!(of_run(&noisy, "nsd").unwrap().ends_with("by noisy-host"));
        let slow = run(figure(), Value::Null, Some(9.0), "player-limited", 1);
        assert!(
            of_run(&slow, "nsd")
                .unwrap()
                .ends_with("of 1 trials 1 as cores changed their speed, 0 as one was withheld")
        );
        for (text, subject) in [
            (noisy.as_str(), "knot"),
            (&run(figure(), Value::Null, Some(9.0), "wrong-answers", 0), "nsd"),
            (&run(figure(), Value::Null, None, "noisy-host", 1), "nsd"),
            (&run(Value::Null, figure(), Some(9.0), "noisy-host", 1), "nsd"),
        ] {
            assert!(of_run(text, subject).is_err(), "{text}");
        }
    }

    #[test]
    fn a_load_needs_an_answer_to_every_query() {
        let load = |sent: u64, correct: u64| {
            json!({ "accounts": { "intended": 9, "sent": sent, "correct": correct, "late": 0 } }).to_string()
        };
        assert_eq!(of_load(&load(9, 9)).unwrap(), "9 queries of 9 sent, all answered");
        assert!(of_load(&load(9, 8)).is_err() && of_load(&load(0, 0)).is_err());
    }
}
