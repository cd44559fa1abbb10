//! The store as the lab uses it: what was committed is there, whatever happens next.

use std::fs;
use std::path::{Path, PathBuf};

use kqps_observation::factors::Names;
use kqps_observation::network::UdpFacts;
use kqps_observation::question::Path as PathKind;
use kqps_observation::run::{Outcome, Purpose, Role};
use kqps_observation::store::Claim;
use kqps_observation::trial::Transport;
use kqps_observation::{Cell, GoalFacts, Run, RunTrial, SCHEMA, Store, StoreError, Trial};
use tempfile::TempDir;

fn a_run() -> Run {
    let cell = |name: &str, role| Cell { name: name.into(), role, workers: 1, ..Cell::default() };
    Run {
        schema: SCHEMA,
        study: "default".into(),
        command: vec!["kqps".into(), "run".into()],
        started_unix_ms: 1_763_763_000_123,
        budget_s: Some(120.0),
        goal_facts: Some(GoalFacts { final_s: 0.5, loss: 0.001, p99_us: Some(200), ..GoalFacts::default() }),
        seed: u64::MAX / 3,
        cells: vec![cell("echo mmsg", Role::EchoCeiling), cell("nsd", Role::Subject)],
        ..Run::default()
    }
}

fn a_trial(number: u64, start: u64) -> RunTrial {
    let mut trial = Trial { schema: SCHEMA, kind: "trial".into(), ..Trial::default() };
    trial.accounts.intended = u64::MAX;
    trial.load.answered_qps = 99_999.700_000_000_1 / 3.0;
    trial.latency_us.p99 = Some(210);
    RunTrial {
        number,
        cell: (number % 2) as u32,
        block: 1,
        start,
        purpose: Purpose::Retest,
        outcome: Outcome::Measured(Box::new(trial)),
    }
}

fn a_failure(number: u64, start: u64) -> RunTrial {
    let outcome =
        Outcome::Failed { reason: "nsd ended".into(), output: vec!["error: \u{1F4A5} 'quoted'".into()] };
    RunTrial { outcome, ..a_trial(number, start) }
}

fn store_in(folder: &TempDir) -> PathBuf {
    folder.path().join("run.sqlite")
}

#[test]
fn what_was_committed_is_read_as_it_was() {
    let folder = TempDir::new().unwrap();
    let path = store_in(&folder);
    let store = Store::create(&path, &a_run()).unwrap();
    assert_eq!((store.next_number().unwrap(), store.next_start().unwrap()), (1, 1));
    let trials = vec![a_trial(1, 1), a_failure(2, 1), a_trial(3, 2)];
    for trial in &trials {
        store.commit(trial).unwrap();
    }
    store.add_skipped("uring", "the kernel forbids it").unwrap();
    let mut wanted = Run { trials, ..a_run() };
    wanted.skipped.insert("uring".into(), "the kernel forbids it".into());
    assert_eq!(store.run().unwrap(), wanted);
    store.remove_skipped("uring").unwrap();
    assert!(store.run().unwrap().skipped.is_empty());
    store.add_skipped("uring", "the kernel forbids it").unwrap();
    // Others may read the store while it is being written.
    assert_eq!(Store::read(&path).unwrap(), wanted);
    assert_eq!(Store::count_trials(&path).unwrap(), 3);
    drop(store);

    let resumed = Store::open(&path).unwrap();
    assert_eq!((resumed.next_number().unwrap(), resumed.next_start().unwrap()), (4, 3));
    resumed.finish(1_763_763_999_000).unwrap();
    wanted.finished_unix_ms = Some(1_763_763_999_000);
    drop(resumed);
    assert_eq!(Store::read(&path).unwrap(), wanted);
    assert_eq!(Store::count_trials(&path).unwrap(), 3);
    assert!(Store::count_trials(&folder.path().join("none")).is_err());
    let files: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(files, ["run.sqlite"], "a finished run is one file");
}

#[test]
fn a_number_is_given_once() {
    let folder = TempDir::new().unwrap();
    let store = Store::create(&store_in(&folder), &a_run()).unwrap();
    store.commit(&a_trial(1, 1)).unwrap();
    let again = store.commit(&a_failure(1, 1)).unwrap_err();
    assert!(matches!(again, StoreError::Duplicate { number: 1, .. }), "{again}");
    let nowhere = store.commit(&RunTrial { cell: 2, ..a_trial(2, 1) }).unwrap_err();
    assert!(matches!(nowhere, StoreError::NoSuchCell { cell: 2, cells: 2, .. }), "{nowhere}");
    assert_eq!(store.run().unwrap().trials, [a_trial(1, 1)]);
}

#[test]
fn nothing_is_stored_that_could_not_be_read_again() {
    let folder = TempDir::new().unwrap();
    let store = Store::create(&store_in(&folder), &a_run()).unwrap();
    let mut trial = Trial::default();
    trial.load.offered_qps = f64::NAN;
    let bad = RunTrial { outcome: Outcome::Measured(Box::new(trial)), ..a_trial(1, 1) };
    let error = store.commit(&bad).unwrap_err();
    assert!(matches!(error, StoreError::Unwritable { .. }), "{error}");
    assert!(error.to_string().contains("trial 1"), "{error}");
    store.commit(&a_trial(1, 1)).unwrap();
    assert_eq!(store.run().unwrap().trials, [a_trial(1, 1)]);
}

#[test]
fn one_writer_in_a_folder() {
    let folder = TempDir::new().unwrap();
    let path = store_in(&folder);
    let store = Store::create(&path, &a_run()).unwrap();
    for second in [Store::open(&path), Store::create(&folder.path().join("other.sqlite"), &a_run())] {
        let error = second.unwrap_err();
        assert!(matches!(error, StoreError::Locked { .. }), "{error}");
    }
    drop(store);
    Store::open(&path).unwrap();
}

/// The lock of a killed kqps ends late if it was just starting a program, which holds the descriptors until
/// it begins.
#[test]
fn a_lock_that_is_about_to_end_is_waited_for() {
    let folder = TempDir::new().unwrap();
    let path = store_in(&folder);
    drop(Store::create(&path, &a_run()).unwrap());
    let held = fs::File::open(folder.path()).unwrap();
    held.lock().unwrap();
    let holder = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(50));
        drop(held);
    });
    Store::open(&path).unwrap();
    holder.join().unwrap();
}

/// The error of opening a path, which must be the same for writing and for reading.
fn refused(path: &Path) -> StoreError {
    let error = Store::open(path).unwrap_err();
    assert_eq!(Store::read(path).unwrap_err().to_string(), error.to_string());
    error
}

#[test]
fn what_is_not_a_store_is_called_so() {
    let folder = TempDir::new().unwrap();
    let in_folder = |name: &str| folder.path().join(name);
    assert!(matches!(refused(folder.path()), StoreError::Directory { .. }));
    assert!(matches!(refused(&in_folder("none.sqlite")), StoreError::Io { .. }));

    fs::write(in_folder("text"), "name type\n".repeat(1000)).unwrap();
    assert!(matches!(refused(&in_folder("text")), StoreError::NotAStore { .. }));
    assert_eq!(fs::read_to_string(in_folder("text")).unwrap().len(), 10_000);

    fs::write(in_folder("empty"), "").unwrap();
    assert!(refused(&in_folder("empty")).to_string().ends_with("it is empty, its run never began"));

    Store::create(&in_folder("empty"), &a_run()).unwrap();

    let other = rusqlite::Connection::open(in_folder("other")).unwrap();
    other.execute_batch("CREATE TABLE trials (a)").unwrap();
    assert!(refused(&in_folder("other")).to_string().ends_with("it is a database of another program"));

    let store = Store::create(&in_folder("run.sqlite"), &a_run()).unwrap();
    drop(store);
    let again = Store::create(&in_folder("run.sqlite"), &a_run()).unwrap_err();
    assert!(matches!(again, StoreError::Exists { .. }), "{again}");

    let missing = Store::create(&in_folder("no/such/run.sqlite"), &a_run()).unwrap_err();
    assert!(matches!(missing, StoreError::Io { .. }), "{missing}");
}

#[test]
fn a_newer_record_is_refused_and_a_broken_one_named() {
    let folder = TempDir::new().unwrap();
    let path = store_in(&folder);
    Store::create(&path, &a_run()).unwrap().commit(&a_trial(1, 1)).unwrap();
    let change = |sql: &str| rusqlite::Connection::open(&path).unwrap().execute_batch(sql).unwrap();

    change("UPDATE trials SET record = json_set(record, '$.cell', 9)");
    let error = refused(&path);
    assert!(
        error.to_string().contains("trial 1 cannot be read: it is of cell 9, and the run has 2 cells"),
        "{error}"
    );

    change("UPDATE trials SET schema = 99");
    let error = refused(&path);
    assert!(matches!(error, StoreError::Newer { found: 99, known: SCHEMA, .. }), "{error}");
    assert!(error.to_string().contains("newer kqps"), "{error}");

    change("UPDATE trials SET schema = 1, record = '{\"number\":1}'");
    let error = refused(&path);
    assert!(error.to_string().contains("trial 1 cannot be read: missing field `cell`"), "{error}");

    change("PRAGMA user_version = 2");
    assert!(matches!(refused(&path), StoreError::Newer { found: 2, known: 1, .. }));
}

#[test]
fn records_of_the_first_schema_stay_readable() {
    let folder = TempDir::new().unwrap();
    let path = store_in(&folder);
    let dump = include_str!("fixtures/schema1.sql");
    rusqlite::Connection::open(&path).unwrap().execute_batch(dump).unwrap();
    let run = Store::read(&path).unwrap();
    assert_eq!((run.study.as_str(), run.cells.len(), run.trials.len()), ("default", 2, 3));
    // Facts that later versions store are absent.
    assert_eq!(run.goal_facts, None);
    assert_eq!(run.fingerprint.sysctls["net.core.rmem_max"], "212992");
    let trial = run.trials[1].measured().unwrap();
    trial.accounts.check().unwrap();
    assert_eq!(trial.accounts.lost, 10);
    assert_eq!(trial.subject.as_ref().unwrap().threads[0].name, "nsd: server 1");
    assert!(matches!(&run.trials[2].outcome, Outcome::Failed { reason, .. } if reason == "nsd ended"));
    assert_eq!(Store::open(&path).unwrap().next_number().unwrap(), 4);
}

#[test]
fn a_folder_that_is_claimed_for_a_store_cannot_be_claimed_again() {
    let folder = TempDir::new().unwrap();
    let path = store_in(&folder);
    let claim = Claim::new(&path).unwrap();
    assert!(matches!(Claim::new(&path), Err(StoreError::Locked { .. })));
    drop(claim.create(&a_run()).unwrap());
    assert!(matches!(Claim::new(&path), Err(StoreError::Exists { .. })));
}

/// The study of schemas 2 and 3: two experiments of the echo, and a canary.
#[test]
fn records_of_the_second_and_third_schema_stay_readable() {
    for dump in [include_str!("fixtures/schema2.sql"), include_str!("fixtures/schema3.sql")] {
        let folder = TempDir::new().unwrap();
        let path = store_in(&folder);
        rusqlite::Connection::open(&path).unwrap().execute_batch(dump).unwrap();
        let run = Store::read(&path).unwrap();
        assert_eq!((run.study.as_str(), run.cells.len()), ("small", 5));
        let rates = run.cells.iter().position(|cell| cell.experiment == "rates").unwrap();
        let factors = &run.cells[rates].factors;
        assert_eq!(factors.player().timeout_s, Some(0.25));
        assert_eq!((factors.path().kind, factors.path().queues), (Some(PathKind::Veth), Some(1)));
        assert_eq!(factors.dataset().names, Some(Names::One));
        let of_rates: Vec<&Trial> = run.trials_of(rates).filter_map(RunTrial::measured).collect();
        assert!(!of_rates.is_empty());
        for trial in run.trials.iter().filter_map(RunTrial::measured) {
            trial.accounts.check().unwrap();
            assert_eq!((trial.transport, trial.lost_causes.len()), (Transport::Udp, 0));
            assert_eq!(trial.players.iter().map(|player| player.threads).collect::<Vec<_>>(), [1]);
            let udp = |counter: fn(&UdpFacts) -> u64| trial.hosts.first.network.udp(counter);
            assert!(udp(|udp| udp.out_datagrams) > 0);
        }
        // A run goes on in the present schema.
        let store = Store::open(&path).unwrap();
        let number = store.next_number().unwrap();
        store.commit(&RunTrial { cell: 0, ..a_trial(number, 99) }).unwrap();
        store.finish(1).unwrap();
        assert_eq!(store.run().unwrap().trials.len(), run.trials.len() + 1);
    }
}

#[test]
fn a_malformed_factor_is_an_error_and_not_a_default() {
    let folder = TempDir::new().unwrap();
    let path = store_in(&folder);
    rusqlite::Connection::open(&path).unwrap().execute_batch(include_str!("fixtures/schema3.sql")).unwrap();
    let change =
        "UPDATE cells SET record = replace(record, '\"player.sockets\":\"1\"', '\"player.sockets\":\"one\"')";
    rusqlite::Connection::open(&path).unwrap().execute_batch(change).unwrap();
    let error = refused(&path).to_string();
    assert!(
        error.contains(
            "cell 0 cannot be read: factor `player.sockets`: expected a number from 1 on, found `one`"
        ),
        "{error}"
    );
}
