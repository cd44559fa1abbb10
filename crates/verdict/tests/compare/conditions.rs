//! Cells of two runs: what must agree, and what is reported if it does not.

use kqps_observation::fingerprint::BinaryFacts;
use kqps_observation::run::CellLoad;
use kqps_observation::{Factors, Run, Trial};
use kqps_verdict::compare::{Case, Figure, between_runs};

use super::facts::{alter, is, run, thread};

fn with(change: impl FnOnce(&mut Run)) -> Run {
    let mut run = run(&[&[100.0; 6]]);
    let cell = &mut run.cells[0];
    let words = [("player.window", "500"), ("dataset.records", "1000"), ("path", "loopback")];
    cell.factors = Factors::read(words.map(|(name, word)| (name.to_owned(), word.to_owned()))).unwrap();
    change(&mut run);
    run
}

fn between(b: &Run) -> Result<Case, String> {
    between_runs((&with(|_| ()), 0), (b, 0), Figure::AnsweredRate)
}

/// The doubts of a comparison with a run that was changed by `change`, without the doubt about sessions.
fn doubts(change: impl FnOnce(&mut Run)) -> Vec<String> {
    let case = between(&with(change)).unwrap();
    assert_eq!(case.refusals, 0);
    assert!(case.doubts[0].contains("different sessions"), "{:?}", case.doubts);
    case.doubts[1..].to_vec()
}

fn factor(run: &mut Run, name: &str, value: &str) {
    run.cells[0].factors.set(name, value).unwrap();
}

#[test]
fn blocks_are_paired_by_number() {
    let halved = with(|run| alter(run, 0, |_, trial| trial.load.answered_qps = 50.0));
    is(&between(&halved).unwrap().blocks, &[0.5; 6]);
}

#[test]
fn where_nothing_is_known_to_differ_the_session_is_what_is_compared() {
    let found = doubts(|_| ());
    assert_eq!(found, ["no program is known to differ: this compares the hosts and the sessions"]);
}

#[test]
fn what_was_not_asked_the_same_is_not_compared() {
    type Change = fn(&mut Run);
    let trial: fn(&mut Run, fn(&mut Trial)) = |run, change| alter(run, 0, |_, trial| change(trial));
    let cases: [(Change, &str); 7] = [
        (
            |run| run.cells[0].load = CellLoad::Closed(2.0),
            "the load differs: a closed loop of 1 s and a closed loop of 2 s",
        ),
        (|run| factor(run, "player.window", "50"), "player.window differs: 500 and 50"),
        (|run| factor(run, "dataset.records", "10"), "dataset.records differs: 1000 and 10"),
        (
            |run| alter(run, 0, |_, trial| trial.players.first.io = "gso".into()),
            "the player's I/O differs:  and gso",
        ),
        (
            |run| alter(run, 0, |_, trial| trial.players.first.sockets = 9),
            "the number of the player's sockets differs: 0 and 9",
        ),
        (
            |run| alter(run, 0, |_, trial| trial.load.timeout_s = 0.5),
            "the timeout in seconds differs: 0 and 0.5",
        ),
        (
            |run| alter(run, 0, |_, trial| trial.dataset.queries = 7),
            "the number of queries in the dataset differs: 0 and 7",
        ),
    ];
    for (change, reason) in cases {
        assert_eq!(between(&with(change)), Err(reason.to_owned()));
    }
    let mut searched = [with(|_| ()), with(|_| ())];
    for run in &mut searched {
        run.cells[0].load = CellLoad::Search;
    }
    searched[0].goal = "default".into();
    searched[1].goal = "quick".into();
    let refused = between_runs((&searched[0], 0), (&searched[1], 0), Figure::ReliableRate).unwrap_err();
    let wanted = "the goal of the search differs: default (trials of 1 s, 21 s in sum, loss 0.0001, exceeded 0.5, \
                  width 0.01) and quick (trials of 0.5 s, 3 s in sum, loss 0.001, exceeded 0.5, width 0.02)";
    assert_eq!(refused, wanted);
    let both = between(&with(|run| {
        trial(run, |trial| trial.load.burst = 4);
        factor(run, "player.window", "50");
    }));
    assert_eq!(both, Err("player.window differs: 500 and 50; the greatest burst differs: 0 and 4".into()));
}

#[test]
fn other_queries_of_one_seed_are_not_compared_and_those_of_another_are_a_doubt() {
    let hashed = |seed: u64, hash: &str| {
        with(|run| {
            run.seed = seed;
            alter(run, 0, |_, trial| trial.dataset.hash = hash.into());
        })
    };
    let between = |a: &Run, b: &Run| between_runs((a, 0), (b, 0), Figure::AnsweredRate);
    let refused = between(&hashed(1, "abc"), &hashed(1, "def"));
    assert_eq!(refused, Err("the queries differ although their seed is the same".into()));
    let doubts = between(&hashed(1, "abc"), &hashed(2, "def")).unwrap().doubts;
    assert!(
        doubts.iter().any(|doubt| doubt.ends_with("are of the same kind but not equal: 1 and 2")),
        "{doubts:?}"
    );
    assert_eq!(between(&hashed(1, "abc"), &hashed(1, "abc")).unwrap().doubts.len(), 2);
}

#[test]
fn everything_else_that_differs_is_named() {
    let found = doubts(|run| {
        let cell = &mut run.cells[0];
        (cell.workers, cell.subject_cpus) = (2, vec![1, 2]);
        factor(run, "path", "veth");
        factor(run, "tcp", "on");
        let host = &mut run.fingerprint;
        (host.cpu_model, host.kernel) = ("Other".into(), "6.9".into());
        (host.governor, host.turbo) = (Some("powersave".into()), Some(true));
        host.clock_source = Some("hpet".into());
        host.sysctls.insert("net.core.rmem_max".into(), "1".into());
        host.sysctls.insert("net.core.netdev_rss_key".into(), "random".into());
        run.kqps_version = "2".into();
    });
    let wanted = [
        "the number of workers of cell 0 differs: 0 and 2",
        "the subject's cores of cell 0 differs: any and 1,2",
        "the path of cell 0 differs: loopback and veth",
        "tcp of cell 0 differs: not recorded and on",
        "the CPU model differs:  and Other",
        "the kernel differs:  and 6.9",
        "the clock source differs: unknown and hpet",
        "the governor differs: unknown and powersave",
        "turbo differs: unknown and on",
        "net.core.rmem_max differs: not recorded and 1",
        "kqps itself differs:  and 2",
    ];
    assert_eq!(found, wanted);
}

#[test]
fn the_subjects_own_program_is_what_is_compared() {
    let built = |version: &str| {
        with(|run| {
            let version = Some(version.to_owned());
            let facts = BinaryFacts { version, blake3: Some("0123456789".into()), ..BinaryFacts::default() };
            run.fingerprint.binaries.insert("nsd".into(), facts);
        })
    };
    let case = between_runs((&built("4.6"), 0), (&built("4.8"), 0), Figure::AnsweredRate).unwrap();
    let wanted = "these programs differ between the runs, and only a difference of the subjects is intended: nsd \
                  (4.6, binary 01234567 and 4.8, binary 01234567)";
    assert_eq!(case.doubts[1], wanted);
}

#[test]
fn the_objections_to_cells_of_one_name_say_which_cell_they_mean() {
    let busy = with(|run| alter(run, 0, |_, trial| trial.players.first.per_thread = vec![thread(1.0)]));
    let case = between(&busy).unwrap();
    assert_eq!(case.refusals, 1);
    assert!(case.doubts[0].contains("in 6 of 6 trials of cell 0 (B)"), "{:?}", case.doubts);
}
