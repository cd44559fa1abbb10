//! Changes by the host are shown and raise no alarm; changes by the subject are found, also where hosts take turns.

use kqps_history::{Kind, LAST, Shape, Strength, judge};

use crate::records::{around, daily, host, key, reading};

#[test]
fn a_step_is_a_strong_change_with_its_ratio_and_age() {
    let key = key("nsd", Kind::Share);
    let records = daily(40, |number| {
        let level = if number < 30 { 0.5 } else { 0.45 };
        (host("6.1"), vec![reading(&key, Some(around(level, number)), Some(around(600_000.0, number + 3)))])
    });
    let history = judge(&records);
    let [series] = &history.series[..] else { panic!("{history:?}") };
    assert_eq!(series.name, "default: nsd, share of the ceiling");
    let [change] = series.changes()[..] else { panic!("{series:?}") };
    assert_eq!((change.before, change.after, change.age, change.strength), (29, 30, 10, Strength::Strong));
    assert!(
        (change.ratio.1 - 0.9).abs() < 0.004 && change.ratio.0 < 0.9 && change.ratio.2 > 0.9,
        "{change:?}"
    );
    assert!(!change.is_hosts && !series.is_better(change));
    assert!((series.level().unwrap().mean - 0.45).abs() < 0.003);
    assert_eq!(judge(&records), history);
}

#[test]
fn another_fingerprint_or_another_ceiling_raises_no_alarm() {
    let key = key("nsd", Kind::Share);
    let kernel = daily(40, |number| {
        let (level, kernel) = if number < 20 { (0.5, "6.1") } else { (0.4, "6.12") };
        (host(kernel), vec![reading(&key, Some(around(level, number)), None)])
    });
    let series = &judge(&kernel).series[0];
    assert!(series.changes().is_empty());
    let [one] = &series.moves[..] else { panic!("{:?}", series.moves) };
    assert_eq!((one.at, &one.differences[..]), (20, &["kernel: 6.1, now 6.12".to_owned()][..]));

    let ceiling = daily(40, |number| {
        let (level, qps) = if number < 20 { (0.5, 600_000.0) } else { (0.4, 750_000.0) };
        (host("6.1"), vec![reading(&key, Some(around(level, number)), Some(around(qps, number)))])
    });
    let series = &judge(&ceiling).series[0];
    assert!(series.newest().is_none(), "{:?}", series.changes());
    assert!(series.moves[0].differences[0].starts_with("the rate of the echo: +25."), "{:?}", series.moves);
}

/// The ceiling changed too little to divide the series, and more than chance explains.
#[test]
fn a_change_that_the_ceiling_explains_is_the_hosts() {
    let key = key("nsd", Kind::CpuPerMillion);
    let noisy = |middle: f64, number: usize| middle * (1.0 + 0.05 * [0.0, 1.0, -1.0, 0.5, -0.7][number % 5]);
    let records = daily(40, |number| {
        let (level, qps) = if number < 20 { (2.0, 600_000.0) } else { (2.1, 560_000.0) };
        (host("6.1"), vec![reading(&key, Some(around(level, number)), Some(noisy(qps, number)))])
    });
    let series = &judge(&records).series[0];
    let hosts: Vec<bool> = series.changes().iter().map(|change| change.is_hosts).collect();
    assert!(hosts.iter().all(|is_hosts| *is_hosts) && series.newest().is_none(), "{hosts:?}");
}

#[test]
fn hosts_that_take_turns_are_compared_each_with_itself() {
    let key = key("nsd", Kind::Memory);
    let records = daily(60, |number| {
        let (level, kernel) = if number % 2 == 0 { (1e8, "6.1") } else { (2e8, "6.12") };
        let grown = if number < 40 { 1.0 } else { 1.1 };
        (host(kernel), vec![reading(&key, Some(around(level * grown, number / 2)), None)])
    });
    let series = &judge(&records).series[0];
    assert_eq!(series.stretches.len(), 2);
    let places: Vec<usize> = series.changes().iter().map(|change| change.after).collect();
    assert_eq!(places, [40, 41]);
    assert_eq!(series.moves.len(), 59);
}

#[test]
fn runs_without_a_figure_and_outliers_are_kept_apart() {
    let key = key("nsd", Kind::Share);
    let records = daily(20, |number| {
        let value = match number {
            7 => None,
            12 => Some(0.2),
            15 => Some(f64::NAN),
            _ => Some(around(0.5, number)),
        };
        (host("6.1"), vec![reading(&key, value, None)])
    });
    let series = &judge(&records).series[0];
    assert_eq!(series.points.len(), 18);
    assert_eq!(series.absences[0], (7, "the player was the limit".to_owned()));
    let outliers: Vec<usize> =
        series.points.iter().filter(|one| one.is_outlier).map(|one| one.entry).collect();
    assert_eq!(outliers, [12]);
    assert!(series.changes().is_empty());
}

/// A single series in 400 has a change whose chance is 2 in 10,000 at best.
#[test]
fn with_more_series_a_change_must_be_surer() {
    let keys: Vec<_> = (0..300).map(|cell| key(&format!("cell {cell}"), Kind::Share)).collect();
    let with = |others: usize| {
        daily(11, |number| {
            let of = |cell: usize| {
                let level = if cell == 0 && number >= 8 { 0.46 } else { 0.5 };
                reading(&keys[cell], Some(around(level, number + cell)), None)
            };
            (host("6.1"), (0..=others).map(of).collect())
        })
    };
    let strength = |others: usize| {
        let history = judge(&with(others));
        let change =
            history.series.iter().find(|series| series.key.cell == "cell 0").unwrap().newest().copied();
        change.map(|change| change.strength)
    };
    assert_eq!(strength(0), Some(Strength::Strong));
    assert_eq!(strength(299), Some(Strength::Weak));
}

#[test]
fn series_of_one_name_are_told_apart_by_what_differs() {
    let (small, mut large) = (key("nsd", Kind::Share), key("nsd", Kind::Share));
    large.conditions.insert("dataset.records".into(), "1000000".into());
    let records =
        daily(3, |_| (host("6.1"), vec![reading(&small, Some(0.5), None), reading(&large, Some(0.4), None)]));
    let mut names: Vec<String> = judge(&records).series.into_iter().map(|series| series.name).collect();
    names.sort();
    assert_eq!(
        names,
        [
            "default: nsd, share of the ceiling (dataset.records 1000000)",
            "default: nsd, share of the ceiling (dataset.records unset)",
        ]
    );
}

#[test]
fn a_creep_goes_from_its_first_run_to_the_newest_and_stays_new() {
    let key = key("nsd", Kind::Share);
    let crept = |ends_at: f64, ceiling_ends_at: f64| {
        daily(41, |number| {
            let part = number as f64 / 40.0;
            let (level, qps) = (0.5 * ends_at.powf(part), 600_000.0 * ceiling_ends_at.powf(part));
            let reading = reading(&key, Some(around(level, number)), Some(around(qps, number + 3)));
            (host("6.1"), vec![reading])
        })
    };
    let history = judge(&crept(0.88, 1.0));
    let series = &history.series[0];
    let creep = series.creep.as_ref().unwrap();
    assert_eq!(
        (creep.shape, creep.before, creep.after, creep.age, creep.strength),
        (Shape::Creep, 0, 40, 41, Strength::Strong)
    );
    assert!((creep.ratio.1 - 0.88).abs() < 0.005 && creep.ratio.2 < 0.9, "{creep:?}");
    assert!(!series.is_better(creep) && !creep.is_hosts);
    let changes = series.changes();
    assert!(series.is_new(changes[changes.len() - 1], LAST) && changes[changes.len() - 1].since() == 0);
    // Steps are still there, and only the newest of them can be new.
    assert!(changes.iter().filter(|change| series.is_new(change, LAST)).count() <= 2, "{changes:?}");

    assert!(judge(&crept(1.0, 1.0)).series[0].creep.is_none());
}

#[test]
fn series_with_too_few_runs_are_counted_as_long_as_somebody_watches_them() {
    let (old, new) = (key("old", Kind::Share), key("new", Kind::Share));
    let history = |runs: usize, both: usize| {
        judge(&daily(runs, |number| {
            let of = |key| reading(key, Some(around(0.5, number)), None);
            (host("6.1"), if number < both { vec![of(&old), of(&new)] } else { vec![of(&new)] })
        }))
    };
    let said = |runs, both| history(runs, both).too_few(LAST).map(|too_few| too_few.to_string());
    assert_eq!(said(5, 5), Some("too few runs to see a change: 5 of 8".into()));
    assert_eq!(said(8, 8), None);
    assert_eq!(said(9, 2), Some("too few runs to see a change in 1 of 2 series: 2 of 8".into()));
    assert_eq!(said(11, 2), Some("too few runs to see a change in 1 of 2 series: 2 of 8".into()));
    assert_eq!(said(12, 2), None, "none of the last ten runs has the old series");

    // After an update of the kernel no change can be seen for a while.
    let updated = judge(&daily(20, |number| {
        (host(if number < 17 { "6.1" } else { "6.12" }), vec![reading(&old, Some(around(0.5, number)), None)])
    }));
    assert_eq!(updated.too_few(LAST).unwrap().runs, (3, 3));
    assert!(updated.too_few(LAST).unwrap().is_all());
}
