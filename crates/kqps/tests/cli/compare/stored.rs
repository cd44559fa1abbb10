//! `kqps compare` of stored runs. The tests write them with known figures, and play no load.

use std::path::Path;

use kqps_observation::run::{CellLoad, Outcome, Purpose};
use kqps_observation::{Accounts, Cell, Factors, Run, RunTrial, SCHEMA, Store, Trial};

use super::{kqps, printed_comparisons, stderr};

/// Blocks of each run: enough for a verdict, and for a comparison of cells with themselves.
const BLOCKS: u32 = 12;

/// Stores a run of echoes, each with its I/O model and its answered rate.
fn store(folder: &Path, echoes: &[(&str, f64)]) {
    let cell = |&(io, _): &(&str, f64)| Cell {
        name: format!("models: io={io}"),
        load: CellLoad::Closed(1.0),
        subject: "echo".into(),
        io: io.into(),
        workers: 1,
        factors: Factors::read([("io".to_string(), io.to_string()), ("sockets".into(), "shared".into())])
            .unwrap(),
        ..Cell::default()
    };
    let cells: Vec<Cell> = echoes.iter().map(cell).collect();
    let run =
        Run { schema: SCHEMA, study: "models".into(), blocks: BLOCKS, seed: 1, cells, ..Run::default() };
    std::fs::create_dir(folder).unwrap();
    let store = Store::create(&folder.join("run.sqlite"), &run).unwrap();
    let starts =
        (0..BLOCKS).flat_map(|block| echoes.iter().zip(0..).map(move |(echo, cell)| (block, cell, echo.1)));
    for (number, (block, cell, rate_qps)) in (1..).zip(starts) {
        // Starts differ by up to 0.2 %.
        let spread = f64::from((block * block * 3 + block * 5 + cell * 2) % 9) / 8.0 * 0.002;
        let answered_qps = rate_qps * (1.0 + spread);
        let answered = answered_qps as u64;
        let mut trial = Trial { schema: SCHEMA, kind: "trial".into(), ..Trial::default() };
        trial.accounts =
            Accounts { intended: answered, sent: answered, correct: answered, ..Accounts::default() };
        (trial.load.answered_qps, trial.load.duration_s) = (answered_qps, 1.0);
        let outcome = Outcome::Measured(Box::new(trial));
        store
            .commit(&RunTrial { number, cell, block, start: number, purpose: Purpose::Closed, outcome })
            .unwrap();
    }
}

#[test]
fn cells_of_a_run_that_differ_in_a_factor_are_compared() {
    let home = tempfile::tempdir().unwrap();
    let run = home.path().join("run");
    store(&run, &[("blocking", 100_000.0), ("mmsg", 110_000.0), ("poll", 95_000.0)]);
    let compare = |factor: &str, more: &[&str]| {
        let mut command =
            kqps(&[run.to_str().unwrap(), "--json", "--factor", factor, "--fail-on", "slower:2%"]);
        let output = command.args(more).output().unwrap();
        let rows: Vec<[String; 4]> = printed_comparisons(&output)
            .iter()
            .map(|one| {
                let word = |key: &str| one[key].as_str().unwrap().to_string();
                let ratio = one["ratio"]["median"].as_f64().unwrap();
                [word("a"), word("b"), word("outcome"), format!("{ratio:.2}")]
            })
            .collect();
        (rows, output.status.code(), stderr(&output))
    };
    let one = |a: &str, b: &str, outcome: &str, ratio: &str| {
        [format!("models: io={a}"), format!("models: io={b}"), outcome.to_string(), ratio.to_string()]
    };

    let (faster, status, error) = compare("io=blocking,mmsg", &[]);
    assert_eq!((faster, status), (vec![one("blocking", "mmsg", "faster", "1.10")], Some(0)), "{error}");
    let (slower, status, error) = compare("io=mmsg,blocking", &[]);
    assert_eq!((slower, status), (vec![one("mmsg", "blocking", "slower", "0.91")], Some(3)), "{error}");
    assert!(error.contains("--fail-on slower:2% holds"), "{error}");
    // All pairs, in the order of the cells.
    let (all, status, error) = compare("io", &[]);
    let expected = vec![
        one("blocking", "mmsg", "faster", "1.10"),
        one("blocking", "poll", "slower", "0.95"),
        one("mmsg", "poll", "slower", "0.86"),
    ];
    assert_eq!((all, status), (expected, Some(3)), "{error}");

    let (none, status, error) = compare("sockets", &[]);
    assert_eq!((none.len(), status), (0, Some(2)), "{error}");
    assert!(error.contains("the run varies: io"), "{error}");
    let (_, status, error) = compare("io=blocking", &[]);
    assert_eq!(status, Some(2), "{error}");
    assert!(error.contains("expected NAME or NAME=A,B"), "{error}");
    let itself = ["--a", "models: io=poll", "--b", "models: io=poll"];
    let output = kqps(&[run.to_str().unwrap()]).args(itself).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("differs from itself in nothing"), "{}", stderr(&output));
}

#[test]
fn cells_of_the_same_name_in_two_runs_are_compared_with_a_warning() {
    let home = tempfile::tempdir().unwrap();
    let [before, after, other] = ["before", "after", "other"].map(|name| home.path().join(name));
    store(&before, &[("blocking", 100_000.0), ("mmsg", 110_000.0), ("poll", 95_000.0)]);
    store(&after, &[("mmsg", 110_000.0), ("blocking", 96_000.0)]);
    store(&other, &[("event", 1000.0)]);
    let compare = |a: &Path, b: &Path, more: &[&str]| {
        kqps(&[a.to_str().unwrap(), b.to_str().unwrap()]).args(more).output().unwrap()
    };

    let output = compare(&before, &after, &["--json", "--fail-on", "slower:2%"]);
    let comparisons = printed_comparisons(&output);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let outcomes: Vec<_> = comparisons.iter().map(|one| one["outcome"].as_str().unwrap()).collect();
    // Cells that only one run has are left out.
    assert_eq!(outcomes, ["slower", "equivalent"], "{comparisons:?}");
    assert_eq!(comparisons[0]["a"], format!("models: io=blocking of {}", before.display()));
    assert_eq!(comparisons[0]["b"], format!("models: io=blocking of {}", after.display()));
    let by_less = compare(&before, &after, &["--fail-on", "slower:5%"]);
    assert_eq!(by_less.status.code(), Some(0), "4 % are fewer than 5: {}", stderr(&by_less));
    let words = String::from_utf8_lossy(&by_less.stdout).into_owned();
    assert!(words.contains("Warning: A and B were measured in different sessions"), "{words}");

    for (b, more, expected) in [
        (&other, &[] as &[&str], "no cell of the same name"),
        (&after, &["--factor", "io"], "leave out --factor"),
        (&before, &[], "are the same run"),
    ] {
        let output = compare(&before, b, more);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains(expected), "{}", stderr(&output));
    }
}
