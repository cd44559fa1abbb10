//! `kqps compare` of stored runs. The tests write them with known figures, and play no load.

use std::path::Path;

use kqps_observation::run::{CellLoad, Outcome, Purpose};
use kqps_observation::{Accounts, Cell, Factors, Run, RunTrial, SCHEMA, Store, Trial};

use super::{kqps, printed_comparisons, stderr};

/// Blocks of each run: enough for a verdict, and for a comparison of cells with themselves.
const BLOCKS: u32 = 12;

/// Stores a run of echoes, each with its I/O model and its answered rate. Starts differ by up to 0.2 %.
fn store(folder: &Path, echoes: &[(&str, f64)]) {
    store_with(folder, echoes, BLOCKS, 0.002);
}

/// Stores a run of so many blocks, in which starts differ by up to this share. An echo without a rate has no trial.
fn store_with(folder: &Path, echoes: &[(&str, f64)], blocks: u32, by: f64) {
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
    let run = Run { schema: SCHEMA, study: "models".into(), blocks, seed: 1, cells, ..Run::default() };
    std::fs::create_dir(folder).unwrap();
    let store = Store::create(&folder.join("run.sqlite"), &run).unwrap();
    let starts =
        (0..blocks).flat_map(|block| echoes.iter().zip(0..).map(move |(echo, cell)| (block, cell, echo.1)));
    for (number, (block, cell, rate_qps)) in (1..).zip(starts).filter(|(_, (.., rate_qps))| *rate_qps > 0.0) {
        let spread = f64::from((block * block * 3 + block * 5 + cell * 2) % 9) / 8.0 * by;
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

/// Equals: the condition and the MDE decide if the comparison shows that nothing became slower.
#[test]
fn equals_with_an_mde_above_the_condition_or_five_percent_are_inconclusive() {
    let home = tempfile::tempdir().unwrap();
    let echoes = [("blocking", 100_000.0), ("mmsg", 100_000.0)];
    let compared = |name: &str, by: f64, flags: &[&str]| {
        let run = home.path().join(name);
        if !run.exists() {
            store_with(&run, &echoes, BLOCKS, by);
        }
        let output = kqps(&[run.to_str().unwrap(), "--json", "--factor", "io"]).args(flags).output().unwrap();
        let one = printed_comparisons(&output).remove(0);
        let outcome = one["outcome"].as_str().unwrap().to_owned();
        (outcome, one["mde"].as_f64().unwrap(), output.status.code().unwrap(), stderr(&output))
    };
    let gate = ["--fail-on", "slower:2%"];
    let lenient = ["--fail-on", "slower:2%", "--allow-inconclusive"];

    let (outcome, mde, status, error) = compared("quiet", 0.002, &gate);
    assert!(
        mde < 0.02 && (outcome.as_str(), status) == ("equivalent", 0),
        "{outcome} {mde} {status} {error}"
    );
    let (outcome, mde, status, error) = compared("middling", 0.05, &gate);
    assert!((0.02..0.05).contains(&mde), "{mde}");
    assert_eq!((outcome.as_str(), status), ("inconclusive", 3), "{error}");
    assert!(error.contains("--fail-on cannot be judged") && error.contains("counts as failed"), "{error}");
    let (outcome, _, status, error) = compared("middling", 0.05, &lenient);
    assert_eq!((outcome.as_str(), status), ("inconclusive", 0), "{error}");
    assert!(error.contains("--allow-inconclusive lets them pass"), "{error}");
    for flags in [&[] as &[&str], &["--fail-on", "slower"], &["--fail-on", "slower:5%"]] {
        let (outcome, _, status, error) = compared("middling", 0.05, flags);
        assert_eq!((outcome.as_str(), status), ("equivalent", 0), "{flags:?}: {error}");
    }
    for (flags, wanted) in
        [(&[] as &[&str], 0), (&["--fail-on", "slower:90%"], 3), (&["--fail-on", "slower"], 3)]
    {
        let (outcome, mde, status, error) = compared("noisy", 0.6, flags);
        assert!(mde > 0.05, "{mde}");
        assert_eq!((outcome.as_str(), status), ("inconclusive", wanted), "{flags:?}: {error}");
    }
    let run = home.path().join("noisy");
    let output = kqps(&[run.to_str().unwrap(), "--factor", "io"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("cannot see a difference of less than") && !said.contains("equivalent"), "{said}");
}

/// A default run of two minutes has two blocks.
#[test]
fn too_few_blocks_have_no_interval_and_say_how_to_get_more() {
    let home = tempfile::tempdir().unwrap();
    let [few, none] = ["few", "none"].map(|name| home.path().join(name));
    store_with(&few, &[("blocking", 100_000.0), ("mmsg", 120_000.0), ("poll", 90_000.0)], 2, 0.3);
    store_with(&none, &[("blocking", 100_000.0), ("mmsg", 0.0)], 2, 0.002);
    let output = kqps(&[few.to_str().unwrap(), "--factor", "io", "--fail-on", "slower:2%"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(!said.contains(" to ") && said.contains("unknown: too few blocks"), "{said}");
    let error = stderr(&output);
    let wanted = "There is no verdict and no interval below 6 blocks. The run has 2 blocks.";
    assert!(
        error.contains(wanted) && error.contains("--budget") && error.contains("repetitions = 6"),
        "{error}"
    );

    let output = kqps(&[none.to_str().unwrap(), "--factor", "io"]).output().unwrap();
    let error = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("no block has a rate of both cells from their own starts"), "{error}");
    assert!(error.contains("The run has 2 blocks.") && error.contains("--budget"), "{error}");
}
