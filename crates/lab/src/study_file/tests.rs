use super::*;
use crate::study_file::cells::{Given, StudyLayout, lay_out};
use crate::subject::builtin as subjects;
use kqps_host::Topology;
use kqps_observation::fingerprint::CoreFacts;
use kqps_observation::run::Role;

const SMALL: &str = r#"
name = "small"
title = "Small"
question = "?"
load = { closed_s = 0.5 }
[bundles.client.tuned]
"player.sockets" = 8
[bundles.client.untuned]
"player.sockets" = 1
[[experiment]]
name = "one"
title = "One"
fixed = { sockets = "shared" }
exclude = [{ io = "poll", processes = 2 }]
[experiment.factors]
io = ["blocking", "poll"]
processes = ["1..cores"]
client = ["untuned", "tuned"]
[[experiment.table]]
title = "T"
rows = ["io"]
columns = "processes"
show = ["median"]
[[experiment.published]]
factors = { io = "poll" }
across = "processes"
rates_qps = [10, 20]
"#;

fn given(cores: u32) -> Given {
    let core = |cpu| CoreFacts { cpu, core: cpu, smt: vec![cpu], ..CoreFacts::default() };
    Given {
        topology: Topology { cores: (0..cores).map(core).collect(), ..Topology::default() },
        definitions: [("echo".to_string(), subjects::echo())].into(),
        ..Given::default()
    }
}

fn laid_out(text: &str, cores: u32) -> StudyLayout {
    lay_out(&StudyFile::read("small.toml", text).unwrap(), &given(cores)).unwrap()
}

fn subject_names(layout: &StudyLayout) -> Vec<&str> {
    layout.cells.iter().filter(|cell| cell.role == Role::Subject).map(|cell| cell.name.as_str()).collect()
}

#[test]
fn every_combination_but_the_excluded_ones_is_a_cell() {
    let layout = laid_out(SMALL, 2);
    assert_eq!(
        subject_names(&layout),
        [
            "one: io=blocking; processes=1; client=untuned",
            "one: io=blocking; processes=1; client=tuned",
            "one: io=blocking; processes=2; client=untuned",
            "one: io=blocking; processes=2; client=tuned",
            "one: io=poll; processes=1; client=untuned",
            "one: io=poll; processes=1; client=tuned",
        ]
    );
    let cell = layout.cells.iter().find(|cell| cell.name.ends_with("processes=2; client=tuned")).unwrap();
    assert_eq!((cell.workers, cell.factors["player.sockets"].as_str()), (2, "8"));
    assert_eq!((cell.io.as_str(), cell.factors["sockets"].as_str()), ("blocking", "shared"));
    let ceilings = layout.cells.iter().filter(|cell| cell.role == Role::PlayerCeiling).count();
    assert_eq!(ceilings, 2, "one for each setup of the player");
}

#[test]
fn the_question_holds_what_the_report_shows() {
    let asked = &laid_out(SMALL, 3).question.experiments[0];
    let values = |name: &str| &asked.factors.iter().find(|factor| factor.name == name).unwrap().values;
    assert_eq!(values("processes"), &["1", "2", "3"]);
    assert_eq!(asked.published.len(), 2);
    assert_eq!((asked.published[1].factors["processes"].as_str(), asked.published[1].rate_qps), ("2", 20.0));
}

#[test]
fn every_set_of_cores_is_a_cell_of_its_own() {
    let text = SMALL.replace("processes = [\"1..cores\"]", "cores = [\"every pair\"]").replace(
        "exclude = [{ io = \"poll\", processes = 2 }]",
        "exclude = [{ io = \"poll\" }, { client = \"untuned\" }]",
    );
    let text = text
        .replace("columns = \"processes\"", "")
        .replace("{ sockets = \"shared\" }", "{ processes = \"one per core\" }");
    let text = format!("placement = \"all\"\n{text}");
    let layout = laid_out(&text, 3);
    let names = subject_names(&layout);
    assert_eq!(names.len(), 3, "{names:?}");
    assert!(names[2].ends_with(", cores 1,2"), "{names:?}");
    let last = layout.cells.last().unwrap();
    assert_eq!((last.factors["processes"].as_str(), last.workers), ("2", 2));
    assert_eq!(
        (last.subject_cpus.as_slice(), last.player_cpus.as_slice()),
        ([1, 2].as_slice(), [0].as_slice())
    );
}

#[test]
fn what_a_machine_lacks_is_skipped_with_its_reason() {
    let study =
        StudyFile::read("s.toml", &SMALL.replace("name = \"small\"", "name = \"small\"\npath = \"veth\""))
            .unwrap();
    let mut given = given(2);
    given.lacking.insert("veth".into(), "no right to".into());
    let layout = lay_out(&study, &given).unwrap();
    assert!(layout.cells.is_empty());
    assert_eq!(layout.skipped["one: io=poll; processes=1; client=tuned"], "no veth: no right to");
}

#[test]
fn slips_are_placed_and_explained() {
    let cases = [
        ("title = \"Small\"", "titel = \"Small\"", "small.toml:3:1: unknown field `titel`"),
        ("title = \"Small\"", "titel = \"Small\"", "did you mean `title`?"),
        ("\"player.sockets\" = 8", "\"player.socket\" = 8", "did you mean `player.sockets`?"),
        ("client = [\"untuned\", \"tuned\"]", "client = [\"untund\"]", "did you mean `untuned`?"),
        ("rows = [\"io\"]", "rows = [\"oi\"]", "has no factor `oi`; did you mean `io`?"),
        ("closed_s = 0.5", "closed_s = 0", "closed_s: expected seconds above 0"),
        ("closed_s = 0.5", "search = \"quik\"", "expected quick, default"),
        ("closed_s = 0.5", "rates_qps = [5]", "rates_qps need `seconds`"),
        ("rates_qps = [10, 20]", "rates_qps = []", "at least one rate"),
        ("across = \"processes\"", "", "several rates need `across`"),
        (
            "[[experiment]]",
            "[[experiment]]\nname = \"one\"\ntitle = \"\"\n[[experiment]]",
            "two experiments are called `one`",
        ),
    ];
    for (right, slip, told) in cases {
        let error = StudyFile::read("small.toml", &SMALL.replacen(right, slip, 1)).unwrap_err().to_string();
        assert!(error.contains(told), "{slip}: {error}");
    }
}

#[test]
fn slips_that_show_beside_the_subject_are_placed_too() {
    for (right, slip, told) in [
        ("{ sockets = \"shared\" }", "{ socket = \"shared\" }", "did you mean `sockets`?"),
        ("{ sockets = \"shared\" }", "{ sockets = \"shard\" }", "did you mean `shared`?"),
        ("{ sockets = \"shared\" }", "{ cores = \"all of them\" }", "is no choice of cores"),
        ("{ sockets = \"shared\" }", "{ path = \"vteh\" }", "expected `loopback` or `veth`"),
        (
            "{ sockets = \"shared\" }",
            "{ \"host.nice\" = 20 }",
            "small.toml:13:12: factor `host.nice`: expected a number from -20 to 19, found `20`",
        ),
        ("{ sockets = \"shared\" }", "{ \"host.nice\" = \"low\" }", "-20 to 19, found `low`"),
    ] {
        let study = StudyFile::read("small.toml", &SMALL.replace(right, slip)).unwrap();
        let error = lay_out(&study, &given(2)).unwrap_err().to_string();
        assert!(error.contains(told) && error.starts_with("small.toml:"), "{slip}: {error}");
    }
}

#[test]
fn the_studies_in_the_folder_are_carried_and_right() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies");
    for entry in std::fs::read_dir(folder).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        let study =
            builtin(file.strip_suffix(".toml").unwrap()).unwrap_or_else(|| panic!("{file} is not built in"));
        assert_eq!(format!("{}.toml", study.name), file);
    }
}
