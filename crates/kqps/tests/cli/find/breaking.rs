//! The breaking point of good clients beside an attack.

use std::fs;
use std::time::Duration;

use kqps_observation::run::Purpose;
use kqps_observation::{RunTrial, Store, Trial};
use kqps_verdict::judge::{SearchVerdict, judge};

use super::ends::Server;
use crate::load::bench::{Bench, Echo, kqps, words};

/// A server that answers at most this many queries a second.
fn capped(most_qps: f64) -> Server {
    let (mut message, mut answers) = ([0; 512], kqps_faults::capped::capped(most_qps));
    Server::new(Duration::from_millis(20), move |socket| {
        let Ok((length, from)) = socket.recv_from(&mut message) else { return };
        if answers(&message[..length]) {
            message[2] |= 0x80;
            // The player may have closed some of its sockets by now.
            let _ = socket.send_to(&message[..length], from);
        }
    })
}

/// The usual search of these tests.
const SEARCH: [&str; 9] = ["--goal", "quick", "--max", "6k", "--lag", "10s", "-t", "100ms", "--scenario"];

#[test]
fn the_rate_that_is_searched_is_that_of_the_attack() {
    let bench = Bench::new();
    let server = capped(2000.0);
    let folder = bench.folder.path().join("kept");
    let mut find = kqps(&["find", &server.address, "--time-limit", "4s"]);
    find.args(SEARCH).args(["random-names", "--good-rate", "1500", "--keep", "95%", "--out"]).arg(&folder);
    let output =
        find.arg("-d").arg(bench.queries()).env("XDG_CACHE_HOME", bench.folder.path()).output().unwrap();
    let (out, err) = words(&output);
    assert!(matches!(output.status.code(), Some(0 | 3)), "{out}{err}");
    assert!(err.contains("alone            1,500 q/s for "), "{err}");
    assert!(err.contains(" q/s of the attack for ") && !err.contains("measuring the echo"), "{err}");
    // A figure may be refused on a busy host.
    let sentence = "Good clients at 1,500 q/s keep 95 % of their answers up to an attack of ";
    assert!(out.contains(sentence) == (output.status.code() == Some(0)), "{out}{err}");
    assert!(out.contains("(random-names).") || out.contains("  refused  "), "{out}");
    assert!(out.contains("with which the goal was missed:\n\nClasses:\n\n  class   "), "{out}");

    let run = Store::read(&folder.join("run.sqlite")).unwrap();
    let trials: Vec<(&RunTrial, &Trial)> =
        run.trials.iter().filter_map(|one| Some((one, one.measured()?))).collect();
    let (alone, beside): (Vec<_>, Vec<_>) =
        trials.into_iter().partition(|(one, _)| one.purpose == Purpose::WarmUp);
    assert!(!alone.is_empty() && alone.iter().all(|(_, trial)| trial.classes.is_empty()));
    for (one, trial) in &beside {
        let [good, attack] = &trial.classes[..] else { panic!("{} classes", trial.classes.len()) };
        assert!(!good.is_sought && attack.is_sought && attack.name == "attack");
        assert_eq!(good.trial.load.intended_qps, Some(1500.0), "{:?}", one.purpose);
        assert_eq!(trial.accounts.intended, good.trial.accounts.intended + attack.trial.accounts.intended);
    }
    let verdict = judge(&run);
    let bounds: Vec<_> = verdict.subjects[0].starts.iter().filter_map(|start| start.bounds.clone()).collect();
    // The good clients leave 500 of 2,000 answers a second, and no host makes them many more.
    let lower_qps = bounds[0].lower_qps;
    assert!(lower_qps.is_none_or(|lower_qps| lower_qps < 750.0), "{bounds:?}");
    assert!(lower_qps.is_some() || output.status.code() == Some(3), "a figure has a lower bound: {bounds:?}");
    let page = fs::read_to_string(folder.join("report.html")).unwrap();
    assert!(page.contains("kqps find"), "{page}");
}

#[test]
fn the_rate_of_attackers_is_that_of_their_attempts() {
    let bench = Bench::before(Echo::with(&["--tcp"]));
    for kind in ["idle", "reset"] {
        let file = bench.folder.path().join("attackers.toml");
        let class = format!("name = \"attack\"\nmode = \"tcp\"\nhostile = \"{kind}\"\nsockets = 2000");
        fs::write(&file, format!("[[class]]\n{class}\nrate = \"{{rate}}\"\n")).unwrap();
        let mut find = kqps(&["find", &bench.echo.address, "--goal", "quick", "--time-limit", "4s"]);
        find.args([
            "--max",
            "200",
            "--lag",
            "10s",
            "-t",
            "250ms",
            "--good-rate",
            "100",
            "--json",
            "--scenario",
        ]);
        let output = find.arg(&file).arg("-d").arg(bench.queries()).output().unwrap();
        let (out, err) = words(&output);
        assert!(matches!(output.status.code(), Some(0 | 3)), "{kind}: {out}{err}");
        assert!(err.contains(" attempts/s of the attack for "), "{kind}: {err}");
        let lines: Vec<&str> = out.lines().collect();
        let (verdict, trials) = lines.split_last().unwrap();
        // A busy host may refuse the figure.
        let verdict: SearchVerdict = serde_json::from_str(verdict).unwrap();
        assert!(verdict.at_least_qps.is_none_or(|at_least_qps| at_least_qps >= 199.0), "{verdict:?}");
        let trials = trials.iter().map(|line| serde_json::from_str::<Trial>(line).unwrap());
        let mut hostile = trials.filter_map(|trial| trial.classes.get(1)?.trial.hostile.clone()).peekable();
        assert!(hostile.peek().is_some());
        for facts in hostile {
            assert_eq!(facts.check(), Ok(()));
            assert!(facts.taken() > 0, "{facts:?}");
        }
    }
}

#[test]
fn good_clients_that_lose_answers_alone_have_no_breaking_point() {
    let bench = Bench::new();
    let server = capped(500.0);
    let mut find = kqps(&["find", &server.address]);
    find.args(SEARCH).args(["one-name", "--good-rate", "1500", "-d"]).arg(bench.queries());
    let output = find.env("XDG_CACHE_HOME", bench.folder.path()).output().unwrap();
    let (out, err) = words(&output);
    assert_eq!(output.status.code(), Some(1), "{out}{err}");
    assert!(err.contains("without any attack") && out.is_empty(), "{out}{err}");
    assert!(!err.contains(" of the attack"), "{err}");
}

#[test]
fn an_attack_that_its_player_cannot_send_is_no_load_that_was_borne() {
    let bench = Bench::new();
    let file = bench.folder.path().join("late.toml");
    // Hardly a query leaves within a microsecond of its time.
    let text = "[[class]]\nname = \"attack\"\nask = [\"a. A\"]\nrate = \"{rate}\"\nlag = \"1us\"\ncoalesce = \"0us\"\n";
    fs::write(&file, text).unwrap();
    let mut find = kqps(&["find", &bench.echo.address, "--time-limit", "4s"]);
    find.args(SEARCH).arg(&file).args(["--good-rate", "200", "-d"]).arg(bench.queries());
    let output = find.env("XDG_CACHE_HOME", bench.folder.path()).output().unwrap();
    let (out, err) = words(&output);
    assert_eq!(output.status.code(), Some(3), "{out}{err}");
    assert!(out.contains("player-limited") && !out.contains("keep 99 %"), "{out}{err}");
}

#[test]
fn a_wrong_attack_is_refused_with_its_reason() {
    let bench = Bench::new();
    let file = |name: &str, keys: &str| {
        let path = bench.folder.path().join(name);
        fs::write(&path, format!("[[class]]\nname = \"a\"\nask = [\"a. A\"]\n{keys}\n")).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (closed, ramp) =
        (file("closed.toml", "outstanding = 5"), file("ramp.toml", "ramp = \"1..{rate}/1s\""));
    let (fixed, bad) = (file("fixed.toml", "rate = \"1k\""), file("bad.toml", "rtae = 5"));
    let given =
        |more: &[&str]| [&["--good-rate", "100"], more].concat().into_iter().map(str::to_owned).collect();
    let plain = |more: &[&str]| more.iter().map(|word| (*word).to_owned()).collect();
    let cases: [(Vec<String>, &str); 12] = [
        (given(&["--scenario", "nothing"]), "expected random-names, one-name"),
        (given(&["--scenario", "one-name=5k"]), "leave out `=5k`: kqps find varies the rate"),
        (given(&["--scenario", &closed]), "no class has `rate = \"{rate}\"`"),
        (given(&["--scenario", &fixed]), "no class has `rate = \"{rate}\"`"),
        (given(&["--scenario", &ramp]), "class a: `{rate}` may stand for its `rate` alone"),
        (given(&["--scenario", &bad]), "class a: unexpected argument '--rtae'"),
        (given(&["--scenario", "one-name", "--keep", "0"]), "expected a share above 0 up to 100%"),
        (given(&["--scenario", "one-name", "--keep", "101%"]), "expected a share above 0 up to 100%"),
        (given(&["--scenario", "one-name", "--keep", "99%", "--loss", "1%"]), "cannot be used with"),
        (plain(&["--scenario", "one-name"]), "--good-rate <RATE>"),
        (plain(&["--keep", "99%"]), "--scenario <NAME|FILE>"),
        (given(&[]), "--scenario <NAME|FILE>"),
    ];
    for (flags, wanted) in cases {
        let mut find = kqps(&["find", &bench.echo.address, "--goal", "quick", "-d"]);
        find.arg(bench.queries()).args(&flags).env("XDG_CACHE_HOME", bench.folder.path());
        let output = find.output().unwrap();
        let (out, err) = words(&output);
        assert!(
            err.contains(wanted) && output.status.code() == Some(2) && out.is_empty(),
            "{flags:?}: {out}{err}"
        );
    }
    let elsewhere = [
        "find",
        "192.0.2.1",
        "--allow-target",
        "192.0.2.1",
        "--good-rate",
        "9",
        "--scenario",
        "one-name",
        "-d",
    ];
    let output = kqps(&elsewhere).arg(bench.queries()).output().unwrap();
    let err = words(&output).1;
    assert!(err.contains("--yes-attack 192.0.2.1") && output.status.code() == Some(2), "{err}");
}
