//! Courses of the rate over two hosts: what both players together are due, and send, in each tenth of a second is the
//! integral of the course.

use std::f64::consts::TAU;
use std::fs;

use anyhow::{Result, ensure};

use super::super::Bench;
use super::super::courses::Bins;
use super::counted;
use super::lab::Lab;
use super::study;

const DISK: &str = "64m";

const STUDY: &str = r#"
name = "courses"
title = "Two players that follow one course"
question = "Do the queries of both add up to the course?"
repetitions = {repetitions}
residence = false
load = { rates_qps = [{rate}], seconds = 4 }
fixed = { "player.timeout_s" = 0.5 }

[[experiment]]
name = "courses"
title = "Courses"
subjects = ["./counted.toml"]
[experiment.factors]
"hosts.players" = [2]
"player.course" = ["steps 1,8,4,2/1s", "wave 2..8/2s"]
"#;

/// The rates of the steps, as shares of the highest.
const STEPS: [f64; 4] = [0.125, 1.0, 0.5, 0.25];

/// The lower rate of the wave, as a share of the higher one, and its period.
const WAVE: (f64, f64) = (0.25, 2.0);

/// Trials that a standstill of the host may move, as a share of all.
const MOVED_MOST: f64 = 0.5;

fn steps(at_s: f64) -> f64 {
    STEPS.iter().zip(0..).map(|(rate, number)| rate * (at_s - f64::from(number)).clamp(0.0, 1.0)).sum()
}

fn wave(at_s: f64) -> f64 {
    let (low, period_s) = WAVE;
    let (mean, half) = (f64::midpoint(1.0, low), (1.0 - low) / 2.0);
    mean * at_s - half * period_s / TAU * (TAU * at_s / period_s).sin()
}

pub(super) fn prove(bench: &Bench) -> Result<()> {
    let lab = Lab::new(bench, DISK)?;
    let (repetitions, rate_qps) = bench.choose((1, 4_000.0), (5, 16_000.0));
    let file = lab.home.join("courses.toml");
    let text = STUDY.replace("{repetitions}", &repetitions.to_string());
    fs::write(&file, text.replace("{rate}", &format!("{rate_qps:.0}")))?;
    fs::write(lab.home.join("counted.toml"), counted::subject(&counted::file(&lab)))?;
    let program = &bench.kqps.program;
    let hosts = study::write_hosts(bench, &lab, "hosts.toml", program, |host| lab.ssh(&host.name))?;
    let out = lab.home.join("courses");
    let run = study::play(study::command(bench, &lab, &file, &hosts, &out)?, &out)?.run;
    let (mut kept, mut moved) = ([0, 0], 0);
    for trial in run.trials.iter().filter_map(|one| one.measured()) {
        let Some(course) = &trial.load.course else { continue };
        let is_wave = course.legs().len() > STEPS.len();
        let share = if is_wave { wave } else { steps };
        let area = |at_s: f64| rate_qps * share(at_s);
        match (Bins { trial, players: 2, area: &area }).check()? {
            Ok(_) => kept[usize::from(is_wave)] += 1,
            Err(why) => {
                eprintln!("moved by {why}");
                moved += 1;
            }
        }
    }
    let all = kept[0] + kept[1] + moved;
    eprintln!("{} trials with steps and {} with a wave are within 1 %, {moved} were moved", kept[0], kept[1]);
    ensure!(bench.choose(true, kept[0] > 0 && kept[1] > 0), "too few trials followed their course");
    let most = bench.choose(1.0, MOVED_MOST);
    ensure!(f64::from(moved) <= most * f64::from(all), "{moved} of {all} trials were moved");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_areas_are_those_of_the_courses() {
        assert!((steps(4.0) - 1.875).abs() < 1e-9 && (steps(1.5) - 0.625).abs() < 1e-9);
        assert!((wave(4.0) - 2.5).abs() < 1e-9 && (wave(1.0) - 0.625).abs() < 1e-9);
    }
}
