//! Loads with further classes of clients beside them.

mod figures;

use kqps_observation::Trial;

use crate::load::bench::{Bench, kqps, words};

/// The record of a load at a rate for half a second, with a scenario beside it.
fn played(bench: &Bench, scenario: &str) -> Trial {
    let trial = bench.trial(&["-Q", "400", "-l", "500ms", "--scenario", scenario]);
    let names: Vec<&str> = trial.classes.iter().map(|class| &*class.name).collect();
    assert_eq!(names.first(), Some(&"good"), "{names:?}");
    let sum = trial.classes.iter().map(|class| class.trial.accounts.intended).sum::<u64>();
    assert_eq!(sum, trial.accounts.intended);
    for class in &trial.classes {
        class.trial.accounts.check().unwrap();
        assert_eq!(class.trial.accounts.sent, class.trial.accounts.intended, "{}", class.name);
    }
    assert_eq!(trial.classes[0].trial.accounts.intended, 200);
    trial
}

#[test]
fn each_class_has_its_own_queries_rate_and_accounts() {
    let bench = Bench::new();
    for (name, class) in [
        ("random-names=1k", "attack"),
        ("one-name=1k", "crowd"),
        ("large-answers=1k", "attack"),
        ("malformed=1k", "attack"),
    ] {
        let trial = played(&bench, name);
        let [good, attack] = &trial.classes[..] else { panic!("{name}: {}", trial.classes.len()) };
        assert_eq!(attack.name, class, "{name}");
        // Gaps are random: 500 on average, with a deviation of 22.
        let intended = attack.trial.accounts.intended;
        assert!((350..650).contains(&intended), "{name}: {intended}");
        assert_eq!(good.trial.accounts.correct, 200, "{name}: {:?}", good.trial.lost_causes);
        assert!(!good.trial.moments.is_empty() && !attack.trial.moments.is_empty(), "{name}");
        assert_ne!(good.trial.dataset.hash, attack.trial.dataset.hash, "{name}");
    }
}

#[test]
fn a_file_describes_classes_by_the_flags_of_a_load() {
    let bench = Bench::new();
    let folder = |name: &str| bench.folder.path().join(name);
    std::fs::write(folder("more.queries"), "a.example. TXT\nb.example. TXT\n").unwrap();
    let text = r#"
        title = "A ramp and a closed loop"
        [[class]]
        name = "ramp"
        queries = "more.queries"
        ramp = "0..2k/500ms"
        [[class]]
        name = "closed"
        ask = ["{zone} SOA"]
        outstanding = 50
        rate = "{rate}"
        threads = 1
    "#;
    std::fs::write(folder("own.toml"), text).unwrap();
    let trial = played(&bench, &format!("{}=100", folder("own.toml").display()));
    let intended: Vec<u64> = trial.classes.iter().map(|class| class.trial.accounts.intended).collect();
    assert_eq!(intended, [200, 500, 50]);
    assert_eq!(trial.classes[1].trial.load.course.as_ref().map(|course| course.legs().len()), Some(1));

    let out = folder("out");
    let scenario = format!("{}=100", folder("own.toml").display());
    let flags = ["-Q", "400", "-l", "500ms", "--scenario", &scenario, "--out", out.to_str().unwrap()];
    let (text, err) = words(&bench.load(&flags).output().unwrap());
    assert!(text.contains("\nClasses:\n\n  class   ") && text.contains("\n  closed  "), "{text}{err}");
    assert!(text.contains("Over time, by when queries were due:"), "{text}");
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    for name in ["good", "ramp", "closed"] {
        assert!(page.contains(&format!("<h2>{name}</h2>")), "{name}");
    }
    let export = kqps(&["export", "--table", "moments"]).arg(&out).output().unwrap();
    let (csv, _) = words(&export);
    assert!(csv.starts_with("trial,class,at_s,") && csv.contains("\n1,closed,0,"), "{csv}");
}

#[test]
fn a_wrong_scenario_is_refused_with_its_class_and_reason() {
    let bench = Bench::new();
    let file = bench.folder.path().join("wrong.toml");
    let class = |keys: &str| format!("[[class]]\nname = \"a\"\n{keys}");
    for (text, wanted) in [
        (class("rtae = 5"), "class a: unexpected argument '--rtae'"),
        (class("ask = [\"x. A\"]\nmessages = [\"00\"]"), "both `ask` and `messages`"),
        (class("messages = [\"0\"]"), "message 0: expected pairs of hexadecimal digits"),
        (class("ask = [\"x.\"]"), "class a: "),
        (class("json = true"), "`json` is for the whole load"),
        (class("rate = [{}]"), "expected text, a number or true"),
        ("[[class]]\nname = \"good\"\n".to_owned(), "two classes are called `good`"),
        ("[[class]]\nask = []\n".to_owned(), "missing field `name`"),
        ("class = []\n".to_owned(), "it has no class"),
    ] {
        std::fs::write(&file, &text).unwrap();
        let flags = ["-Q", "100", "-l", "100ms", "--scenario", file.to_str().unwrap()];
        let output = bench.load(&flags).output().unwrap();
        let (_, err) = words(&output);
        assert!(err.contains(wanted) && output.status.code() == Some(2), "{text}: {err}");
    }
    for (flags, wanted) in [
        (&["-Q", "100", "--scenario", "one-name"][..], "say how long it lasts (-l)"),
        (&["-Q", "100", "-l", "1s", "--scenario", "nothing"], "expected random-names, one-name"),
        (&["-Q", "100", "-l", "1s", "--scenario", "one-name=fast"], "`fast`: expected"),
    ] {
        let output = bench.load(flags).output().unwrap();
        let (_, err) = words(&output);
        assert!(err.contains(wanted) && output.status.code() == Some(2), "{flags:?}: {err}");
    }
    let elsewhere =
        ["load", "192.0.2.1", "--allow-target", "192.0.2.1", "-l", "1s", "--scenario", "one-name", "-d"];
    let output = kqps(&elsewhere).arg(bench.queries()).output().unwrap();
    let err = words(&output).1;
    assert!(err.contains("--yes-attack 192.0.2.1") && output.status.code() == Some(2), "{err}");
}
