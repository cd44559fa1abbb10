//! Loads along a course of the rate, and their pages.

use kqps_observation::Trial;
use kqps_observation::moments::Moment;

use crate::load::bench::{Bench, kqps, words};

/// The queries due in each moment, beside the area below the course. `area` returns the queries until a second.
fn assert_along(trial: &Trial, area: impl Fn(f64) -> f64) {
    assert!(!trial.moments.is_empty());
    for moment in &trial.moments {
        let due = area(moment.at_s + moment.seconds) - area(moment.at_s);
        let found = moment.intended as f64;
        assert!((found - due).abs() <= 2.0, "at {} s: {found} due, and the area is {due}", moment.at_s);
        assert!(moment.sent <= moment.intended && moment.answered <= moment.sent, "{moment:?}");
    }
    let sum = |of: fn(&Moment) -> u64| trial.moments.iter().map(of).sum::<u64>();
    assert_eq!(sum(|moment| moment.intended), trial.accounts.intended);
    assert_eq!(sum(|moment| moment.sent), trial.accounts.sent);
    assert_eq!(sum(|moment| moment.answered), trial.accounts.correct);
}

#[test]
fn a_ramp_is_due_by_its_integral_on_one_thread_and_on_three() {
    let bench = Bench::new();
    for threads in ["1", "3"] {
        let trial = bench.trial(&["--ramp", "100..9900/1s", "-l", "1500ms", "-T", threads]);
        assert_along(&trial, |at_s| {
            let ramp_s = at_s.min(1.0);
            let rest_s = (at_s.min(1.5) - 1.0).max(0.0);
            ramp_s * (100.0 + 9800.0 * ramp_s / 2.0) + rest_s * 9900.0
        });
        assert_eq!(trial.accounts.intended, 9_950);
        assert_eq!(trial.load.course.as_ref().map(|course| course.legs().len()), Some(2));
    }
}

#[test]
fn steps_waves_and_files_end_with_their_time() {
    let bench = Bench::new();
    let steps = bench.trial(&["--steps", "1k,0,3k/200ms"]);
    assert_along(&steps, |at_s| {
        let at = |from_s: f64| (at_s - from_s).clamp(0.0, 0.2);
        at(0.0) * 1000.0 + at(0.4) * 3000.0
    });
    assert!((steps.load.duration_s - 0.6).abs() < 0.01, "{}", steps.load.duration_s);

    let wave = bench.trial(&["--wave", "1k..3k/400ms", "-l", "800ms", "--arrivals", "poisson"]);
    let all = wave.accounts.intended as f64;
    assert!((all / 1600.0 - 1.0).abs() < 0.15, "{all} of 1600 in the mean");

    let file = bench.folder.path().join("course.csv");
    std::fs::write(&file, "seconds,qps\n0,1000\n0.3,4000\n0.3,0\n0.5,0\n").unwrap();
    let trial = bench.trial(&["--course", file.to_str().unwrap()]);
    assert_along(&trial, |at_s| {
        let at_s = at_s.min(0.3);
        at_s * (1000.0 + 10_000.0 * at_s / 2.0)
    });
}

#[test]
fn nonsense_is_refused_with_its_line_and_reason() {
    let bench = Bench::new();
    let file = bench.folder.path().join("course");
    for (text, wanted) in [
        ("0 1k\n5 2k\n4 1k\n", "line 3: 4 s is before 5 s: time goes forwards"),
        ("soon 5\n", "expected two moments at least"),
        ("0 5\n1 fast\n", "line 2: `fast` is no rate"),
        ("0 0\n1 0\n", "a course needs a rate above 0"),
    ] {
        std::fs::write(&file, text).unwrap();
        let output = bench.load(&["--course", file.to_str().unwrap()]).output().unwrap();
        let (_, err) = words(&output);
        assert!(err.contains(wanted) && output.status.code() == Some(2), "{text}: {err}");
    }
    for (flags, wanted) in [
        (&["--ramp", "1k..2k"][..], "say how long: --ramp 1k..200k/10s, or with -l"),
        (&["--ramp", "1k"], "expected two rates"),
        (&["--steps", "1k,200M/1s"], "100M at most"),
        (&["--wave", "1k..2k"], "two rates and a period"),
        (&["--wave", "1k..2k/0s"], "above 0"),
        (&["--ramp", "1..2/1s", "-Q", "5"], "cannot be used with"),
        (&["--course", "/nowhere"], "/nowhere: No such file"),
    ] {
        let output = bench.load(flags).output().unwrap();
        let (_, err) = words(&output);
        assert!(err.contains(wanted) && output.status.code() == Some(2), "{flags:?}: {err}");
    }
}

#[test]
fn a_rate_above_any_players_is_said_before_it_is_played() {
    let bench = Bench::new();
    for flags in [&["--ramp", "1k..20M/1ms", "-T", "2"][..], &["-Q", "20M", "-l", "1ms", "-T", "2"]] {
        let (_, err) = words(&bench.load(flags).output().unwrap());
        let wanted =
            "20,000,000 q/s are more than 2 threads can send: no thread sends 5,000,000 q/s; give -T 4";
        assert!(err.contains(wanted), "{err}");
    }
}

#[test]
fn a_load_has_a_page_and_several_have_one_together() {
    let bench = Bench::new();
    let folder = |name: &str| bench.folder.path().join(name);
    for name in ["a", "b"] {
        let output =
            bench.load(&["--ramp", "1k..50k/500ms", "--out", folder(name).to_str().unwrap()]).output();
        let (out, err) = words(&output.unwrap());
        assert!(err.contains("report.html"), "{err}");
        assert!(out.contains("Over time, by when queries were due:") && out.contains("at most"), "{out}");
        assert!(out.contains("Latency, each row twice as long as the one before:"), "{out}");
        let page = std::fs::read_to_string(folder(name).join("report.html")).unwrap();
        assert!(page.contains("The slowest replies") && page.contains("Latency over time"));
    }
    let export = kqps(&["export", "--table", "moments"]).arg(folder("a")).output().unwrap();
    let (csv, err) = words(&export);
    assert!(
        csv.starts_with("trial,class,at_s,duration_s,intended,sent,correct,failed,p50_us,p99_us\n1,,0,0.1,"),
        "{csv}{err}"
    );
    assert_eq!(csv.lines().count(), 6, "{csv}");

    let both = folder("both.html");
    let report = kqps(&["report"]).args([folder("a"), folder("b")]).arg("-o").arg(&both).output().unwrap();
    assert!(report.status.success(), "{}", words(&report).1);
    let page = std::fs::read_to_string(both).unwrap();
    assert!(page.contains("2 loads") && page.contains("class=\"load1\""), "{page}");

    let taken = bench.load(&["-n", "1", "--out", folder("a").to_str().unwrap()]).output().unwrap();
    assert!(words(&taken).1.contains("already exists"));
    let none = kqps(&["report"]).args([folder("a"), bench.folder.path().to_owned()]).output().unwrap();
    assert!(words(&none).1.contains("holds no load"), "{}", words(&none).1);
}
