//! A ceiling has one figure, wherever it is reported.

use kqps_observation::run::{Cell, Purpose};
use kqps_verdict::judge::judge;

use super::facts::{Rig, SUBJECT, closed, knee};

/// A run whose player's ceiling is an echo that is also measured as one of the echoes.
fn rig() -> Rig {
    let mut rig = Rig::new(3.34e6);
    rig.run.cells[1].io = "segment".into();
    rig.run.trials.retain(|one| one.cell != 1);
    for block in 0..6 {
        rig.add(1, block, u64::from(500 + block), Purpose::Ceiling, closed(3.8e6));
    }
    rig.search(0, knee(200e3));
    rig
}

#[test]
fn what_is_measured_twice_has_one_figure_from_the_starts_of_both() {
    let verdict = judge(&rig().run);
    let player = &verdict.ceilings.players[0];
    let echo = verdict.ceilings.echoes.iter().find(|echo| echo.io == "segment").unwrap();
    assert_eq!((player.name.as_str(), player.io.as_str()), ("player", "segment"));
    assert_eq!(player.figure_qps, echo.figure_qps);
    let figure = player.figure_qps.unwrap();
    assert_eq!((figure.count, figure.median), (12, 3.57e6), "half of them each");
    assert_eq!((player.starts_qps.len(), player.trials.len()), (12, 12));
    let subject = &verdict.subjects[0];
    assert_eq!(subject.player_ceiling_qps, Some(3.57e6));
    assert_eq!(subject.player_headroom, Some(3.57e6 / subject.figure_qps.unwrap().median));
}

#[test]
fn the_players_ceiling_is_the_most_that_any_echo_gave() {
    let mut rig = rig();
    rig.run.cells[1].io = "uring".into();
    let verdict = judge(&rig.run);
    let player = &verdict.ceilings.players[0];
    assert_eq!((player.io.as_str(), player.median_qps()), ("uring", Some(3.8e6)));
    assert_eq!(verdict.subjects[0].player_ceiling_qps, Some(3.8e6));
    // It is no ceiling of a player with other settings, and the same echo on other cores is another
    // ceiling.
    rig.run.cells[SUBJECT as usize].factors.set("player.sockets", "1").unwrap();
    rig.run.cells[0].subject_cpus = vec![2];
    rig.run.cells[1].io = "segment".into();
    let verdict = judge(&rig.run);
    assert_eq!(verdict.subjects[0].player_ceiling_qps, None);
    assert_eq!(verdict.ceilings.players[0].median_qps(), Some(3.8e6));
}

#[test]
fn each_setting_of_the_player_has_a_ceiling_of_its_own() {
    let mut rig = rig();
    let mut alone = rig.run.cells[0].clone();
    alone.name = "player, 1 socket".into();
    alone.factors.set("player.sockets", "1").unwrap();
    let mut unplayed = alone.clone();
    unplayed.name = "player, 2 sockets".into();
    unplayed.factors.set("player.sockets", "2").unwrap();
    let number = rig.run.cells.len() as u32;
    rig.run.cells.extend([alone, unplayed]);
    for block in 0..6 {
        rig.add(number, block, u64::from(900 + block), Purpose::Ceiling, closed(1e6));
    }
    let verdict = judge(&rig.run);
    let found: Vec<_> =
        verdict.ceilings.players.iter().map(|one| (one.name.as_str(), one.median_qps())).collect();
    let expected = [("player", Some(3.57e6)), ("player, 1 socket", Some(1e6)), ("player, 2 sockets", None)];
    assert_eq!(found, expected);
}

#[test]
fn the_echo_of_a_cell_has_the_same_type_of_certificate_and_most_factors_in_common() {
    let mut rig = Rig::new(3.34e6);
    let over_tls = |cell: &mut Cell, words: &[(&str, &str)]| {
        cell.io = "mmsg".into();
        cell.factors.set("player.transport", "tls").unwrap();
        for &(name, word) in words {
            cell.factors.set(name, word).unwrap();
        }
    };
    // The first has the usual certificate. All of its factors are the subject's, too.
    over_tls(&mut rig.run.cells[1], &[]);
    over_tls(&mut rig.run.cells[2], &[("subject.certificate", "rsa-2048")]);
    let ceiling = |rig: &Rig| judge(&rig.run).subjects[0].ceiling.clone();
    over_tls(&mut rig.run.cells[SUBJECT as usize], &[("subject.certificate", "rsa-2048")]);
    rig.search(0, knee(200e3));
    assert_eq!(ceiling(&rig).as_deref(), Some("echo blocking"));
    rig.run.cells[2].workers = 9;
    assert_eq!(ceiling(&rig).as_deref(), Some("echo blocking"), "the certificate counts more than workers");
    rig.run.cells[SUBJECT as usize].factors.set("subject.certificate", "ecdsa-p256").unwrap();
    assert_eq!(ceiling(&rig).as_deref(), Some("echo mmsg"), "it has that, as the usual one");
}
