use super::*;
use crate::study_file::cells::{StudyLayout, lay_out};
use crate::study_file::offer::HostOffer;
use kqps_host::Topology;
use kqps_observation::fingerprint::CoreFacts;
use kqps_observation::run::Role;
use kqps_testbed::player_hosts::{PlayerHost, PlayerHosts};
use kqps_testbed::subject::builtin as subjects;

mod transports;

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

fn offer(cores: u32) -> HostOffer {
    let core = |cpu| CoreFacts { cpu, core: cpu, smt: vec![cpu], ..CoreFacts::default() };
    HostOffer {
        topology: Topology { cores: (0..cores).map(core).collect(), ..Topology::default() },
        definitions: [("echo".to_string(), subjects::echo())].into(),
        ..HostOffer::default()
    }
}

fn laid_out(text: &str, cores: u32) -> StudyLayout {
    lay_out(&StudyFile::read("small.toml", text).unwrap(), &offer(cores)).unwrap()
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
    assert_eq!((cell.workers, cell.factors.player().sockets), (2, Some(8)));
    assert_eq!((cell.io.as_str(), cell.factors.word("sockets")), ("blocking", Some("shared")));
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
    assert_eq!((last.factors.word("processes"), last.workers), (Some("2"), 2));
    assert_eq!(
        (last.subject_cpus.as_slice(), last.player_cpus.as_slice()),
        ([1, 2].as_slice(), [0].as_slice())
    );
}

#[test]
fn attackers_are_left_out_if_other_hosts_play() {
    let text = SMALL.replace("client = [", "scenario = [\"one-name=5k\", \"handshakes=5k\"]\nclient = [");
    let players = Some(PlayerHosts { players: vec![PlayerHost::default()], ..PlayerHosts::default() });
    let study = StudyFile::read("small.toml", &text).unwrap();
    let there = lay_out(&study, &HostOffer { players, ..offer(2) }).unwrap();
    let names = subject_names(&there);
    let with = |scenario: &str| names.iter().filter(|name| name.contains(scenario)).count();
    assert!(with("one-name") > 0 && with("handshakes") == 0, "{names:?}");
    let reasons: Vec<&String> =
        there.skipped.iter().filter(|(name, _)| name.contains("handshakes")).map(|(_, why)| why).collect();
    assert!(!reasons.is_empty() && reasons.iter().all(|why| *why == attack::ON_ONE_HOST), "{reasons:?}");
}

#[test]
fn what_a_machine_lacks_is_skipped_with_its_reason() {
    let study =
        StudyFile::read("s.toml", &SMALL.replace("name = \"small\"", "name = \"small\"\npath = \"veth\""))
            .unwrap();
    let mut offer = offer(2);
    offer.lacking.insert("veth".into(), "no right to".into());
    let layout = lay_out(&study, &offer).unwrap();
    assert!(layout.cells.is_empty());
    assert_eq!(layout.skipped["one: io=poll; processes=1; client=tuned"], "no veth: no right to");
}

#[test]
fn cells_past_the_kernel_are_measured_over_veth_and_skipped_over_loopback() {
    let text = SMALL.replace("[\"blocking\", \"poll\"]", "[\"poll\", \"xdp\"]");
    let layout = laid_out(&text, 2);
    assert_eq!(subject_names(&layout).len(), 2, "{:?}", subject_names(&layout));
    let reason = &layout.skipped["one: io=xdp; processes=1; client=tuned"];
    assert!(reason.contains("loopback has none"), "{reason}");
    let over_veth = text.replace("name = \"small\"", "name = \"small\"\npath = \"veth\"");
    let layout = laid_out(&over_veth, 2);
    assert_eq!((subject_names(&layout).len(), layout.skipped.len()), (6, 0), "{:?}", layout.skipped);
    let mut offer = offer(2);
    offer.lacking.insert("af-xdp".into(), "no right to".into());
    let study = StudyFile::read("small.toml", &over_veth).unwrap();
    let layout = lay_out(&study, &offer).unwrap();
    assert_eq!(layout.skipped["one: io=xdp; processes=1; client=tuned"], "no af-xdp: no right to");
}

/// The error for [`SMALL`] with a mistake in it.
fn error_of(right: &str, slip: &str) -> String {
    assert!(SMALL.contains(right), "{right}");
    let read = StudyFile::read("small.toml", &SMALL.replacen(right, slip, 1));
    read.and_then(|study| study.subjects()).map(|_| ()).unwrap_err().to_string()
}

#[test]
fn slips_are_placed_and_explained() {
    let cases = [
        ("title = \"Small\"", "titel = \"Small\"", "small.toml:3:1: unknown field `titel`"),
        ("title = \"Small\"", "titel = \"Small\"", "did you mean `title`?"),
        (
            "\"player.sockets\" = 8",
            "\"player.socket\" = 8",
            "small.toml:7:2: unknown setting `player.socket`",
        ),
        ("\"player.sockets\" = 8", "\"player.socket\" = 8", "did you mean `player.sockets`?"),
        ("client = [\"untuned\", \"tuned\"]", "client = [\"untund\"]", "small.toml:18:12: `client` has no"),
        ("client = [\"untuned\", \"tuned\"]", "client = [\"untund\"]", "did you mean `untuned`?"),
        ("rows = [\"io\"]", "rows = [\"oi\"]", "small.toml:21:10: experiment `one` has no factor `oi`"),
        ("rows = [\"io\"]", "rows = [\"oi\"]", "did you mean `io`?"),
        (
            "closed_s = 0.5",
            "closed_s = 0",
            "small.toml:5:10: experiment `one`: closed_s: expected seconds above 0",
        ),
        ("closed_s = 0.5", "search = \"quik\"", "lossless, rfc2544; did you mean `quick`?"),
        ("closed_s = 0.5", "rates_qps = [5]", "rates_qps need `seconds`"),
        (
            "closed_s = 0.5",
            "closed_s = 0.5, latency_at_percent = [50]",
            "small.toml:5:26: experiment `one`: latency_at_percent: only a search",
        ),
        ("rates_qps = [10, 20]", "rates_qps = []", "at least one rate"),
        ("across = \"processes\"", "", "several rates need `across`"),
        ("across = \"processes\"", "across = \"procesess\"", "did you mean `processes`?"),
        ("across = \"processes\"", "across = \"processes\"\nbest = true", "cannot have `across`"),
        ("{ io = \"poll\" }", "{ oi = \"poll\" }", "small.toml:25:13: experiment `one` has no factor `oi`"),
        (
            "[[experiment]]",
            "[[experiment]]\nname = \"one\"\ntitle = \"\"\n[[experiment]]",
            "two experiments are called `one`",
        ),
    ];
    for (right, slip, expected) in cases {
        let error = error_of(right, slip);
        assert!(error.contains(expected), "{slip}: {error}");
    }
}

#[test]
fn wrong_values_and_factors_that_do_nothing_are_placed_and_explained() {
    let fixed = "{ sockets = \"shared\" }";
    let excluded = "{ io = \"poll\", processes = 2 }";
    for (right, slip, place, expected) in [
        (
            fixed,
            "{ \"player.window\" = \"5oo\" }",
            "13:30",
            "`player.window`: expected a number from 1 on, found `5oo`",
        ),
        (fixed, "{ \"player.sockets\" = \"many\" }", "13:31", "expected a number from 1 on, found `many`"),
        ("\"player.sockets\" = 8", "\"player.sockets\" = \"cores\"", "7:21", "found `cores`"),
        (
            fixed,
            "{ \"player.io\" = \"gos\" }",
            "13:26",
            "one of auto, plain, mmsg, gso, epoll, uring, xdp, found `gos`; did you mean `gso`?",
        ),
        (fixed, "{ \"player.burst\" = 65 }", "13:28", "expected a number from 1 to 64"),
        (fixed, "{ \"player.timeout_s\" = 0.00009 }", "13:32", "expected seconds from 0.0001 to 60"),
        (
            fixed,
            "{ \"dataset.names\" = \"oen\" }",
            "13:30",
            "one of random, one, found `oen`; did you mean `one`?",
        ),
        (fixed, "{ \"dataset.records\" = -1 }", "13:31", "found `-1`"),
        (fixed, "{ steady = \"forever\" }", "13:21", "expected a duration from 11s"),
        (fixed, "{ steady = \"1h\" }", "13:21", "to 60s, found `1h`"),
        (fixed, "{ steady = \"10s\" }", "13:21", "found `10s`"),
        (fixed, "{ steady = \"61s\" }", "13:21", "found `61s`"),
        (
            fixed,
            "{ \"host.nice\" = 20 }",
            "13:25",
            "factor `host.nice`: expected a number from -20 to 19, found `20`",
        ),
        (fixed, "{ \"host.nice\" = \"low\" }", "13:26", "-20 to 19, found `low`"),
        (fixed, "{ cores = \"all of them\" }", "13:20", "is no choice of cores"),
        (fixed, "{ path = \"vteh\" }", "13:19", "one of loopback, veth, found `vteh`; did you mean `veth`?"),
        (fixed, "{ \"path.queues\" = 2 }", "13:12", "sets nothing on the path `loopback`"),
        (fixed, "{ path = \"veth\", \"path.queues\" = 0 }", "13:42", "a number of queues from 1 to 4096"),
        (fixed, "{ path = \"veth\", \"path.queue\" = 2 }", "13:27", "did you mean `path.queues`?"),
        (fixed, "{ worker = 2 }", "13:11", "echo has no setting `worker`; did you mean `workers`?"),
        (fixed, "{ clinet = \"tuned\" }", "13:11", "did you mean `client`?"),
        (fixed, "{ socket = \"shared\" }", "13:11", "did you mean `sockets`?"),
        (fixed, "{ sockets = \"shard\" }", "13:22", "did you mean `shared`?"),
        (fixed, "{ threads = \"1..2\" }", "13:22", "expected one value, found the range `1..2`"),
        ("[\"1..cores\"]", "[\"4..2\"]", "17:15", "the range `4..2` is empty"),
        // The table's `io` is right, and its factor is misspelt.
        (
            "io = [\"blocking\", \"poll\"]",
            "ioo = [\"poll\"]",
            "16:1",
            "has no setting `ioo`; did you mean `io`?",
        ),
        (
            "processes = [",
            "wrokers = [1]\nprocesses = [",
            "17:1",
            "no setting `wrokers`; did you mean `workers`?",
        ),
        (
            "[\"blocking\", \"poll\"]",
            "[\"poll\", \"selct\"]",
            "16:16",
            "found `selct`; did you mean `select`?",
        ),
        (excluded, "{ io = \"epol\" }", "14:20", "so none can be left out; did you mean `poll`?"),
        (excluded, "{ processes = 0 }", "14:26", "no cell has processes = `0`"),
        (excluded, "{ client = \"tund\" }", "14:24", "did you mean `tuned`?"),
        (excluded, "{ \"player.sockets\" = 9 }", "14:33", "no cell has player.sockets = `9`"),
    ] {
        let error = error_of(right, slip);
        assert!(error.contains(expected), "{slip}: {error}");
        let place = if place.is_empty() { "small.toml:".into() } else { format!("small.toml:{place}: ") };
        assert!(error.starts_with(&place), "{slip}: {error}");
    }
    let ioo = SMALL.replace("io = ", "ioo = ").replace("\"io\"", "\"ioo\"");
    let error = StudyFile::read("small.toml", &ioo).unwrap().subjects().unwrap_err().to_string();
    assert!(error.contains("echo has no setting `ioo`; did you mean `io`?"), "{error}");
    for word in ["`workers`", "cores", "client", "steady"] {
        assert!(error.contains(word.trim_matches('`')), "{word} is known: {error}");
    }
}

#[test]
fn what_a_bundle_stands_for_can_be_excluded_and_a_good_value_passes() {
    for (right, other) in [
        ("{ io = \"poll\", processes = 2 }", "{ \"player.sockets\" = 8, processes = \"2..cores\" }"),
        ("{ sockets = \"shared\" }", "{ steady = \"11s\", workers = \"one per core\" }"),
        ("{ sockets = \"shared\" }", "{ steady = \"1m\", cores = \"every set of 2..cores\" }"),
        ("{ sockets = \"shared\" }", "{ path = \"veth\", \"path.queues\" = \"cores\" }"),
    ] {
        let study = StudyFile::read("small.toml", &SMALL.replace(right, other)).unwrap();
        study.subjects().unwrap();
    }
    let text = SMALL.replace("{ io = \"poll\", processes = 2 }", "{ \"player.sockets\" = 8 }");
    assert_eq!(subject_names(&laid_out(&text, 1)).len(), 2, "the untuned ones are left");
}

/// A study of one name server with two workers.
fn of_server(subject: &str, factors: &str) -> StudyLayout {
    let text = format!(
        "name = \"s\"\ntitle = \"S\"\nquestion = \"?\"\nload = {{ closed_s = 1 }}\n[[experiment]]\nname = \"e\"\n\
         title = \"E\"\nsubjects = [\"{subject}\"]\n[experiment.factors]\n{factors}\n"
    );
    let study = StudyFile::read("s.toml", &text).unwrap();
    let offer = HostOffer { definitions: study.subjects().unwrap().into_iter().collect(), ..offer(4) };
    lay_out(&study, &offer).unwrap()
}

#[test]
fn the_echo_beside_a_server_waits_and_shares_sockets_as_it_does() {
    let echoes = |layout: &StudyLayout| {
        let echoes = layout.cells.iter().filter(|cell| cell.role == Role::EchoCeiling);
        let texts = echoes.map(|cell| format!("{} / {}", cell.name, cell.factors.word("sockets").unwrap()));
        texts.collect::<Vec<_>>()
    };
    let nsd = of_server("nsd", "workers = [1, 2]\nsockets = [\"shared\", \"reuseport\"]");
    assert_eq!(
        echoes(&nsd),
        [
            "echo mmsg, 1 worker / shared",
            "echo mmsg, 2 workers / shared",
            "echo mmsg, 2 workers, reuseport / reuseport"
        ]
    );
    let defaults = |subject| echoes(&of_server(subject, "workers = [2]"));
    assert_eq!(defaults("knot"), ["echo mmsg, 2 workers, reuseport / reuseport"]);
    assert_eq!(defaults("unbound"), ["echo epoll, 2 workers, reuseport / reuseport"]);
    let unbound = of_server("unbound", "workers = [1]\nevent = [\"select\", \"poll\", \"epoll\"]");
    assert_eq!(
        echoes(&unbound),
        ["echo select, 1 worker / shared", "echo poll, 1 worker / shared", "echo epoll, 1 worker / shared"]
    );
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

#[test]
fn a_range_that_no_machine_can_measure_is_refused_before_it_is_laid_out() {
    for (replaced, by, place, range) in [
        ("\"1..cores\"", "\"1..4000000000\"", "17:15", "1..4000000000"),
        ("\"1..cores\"", "\"1..4097\"", "17:15", "1..4097"),
        ("processes = 2", "processes = \"1..4000000000\"", "14:40", "1..4000000000"),
    ] {
        let error = StudyFile::read("small.toml", &SMALL.replace(replaced, by)).unwrap_err().to_string();
        assert!(error.starts_with(&format!("small.toml:{place}: ")), "{error}");
        assert!(error.ends_with(&format!("the range `{range}` has more than 4096 values")), "{error}");
    }
    let longest = SMALL.replace("1..cores", "1..4096");
    StudyFile::read("small.toml", &longest).unwrap();
    // Each range is short enough, and their combinations are not.
    let error =
        lay_out(&StudyFile::read("small.toml", &longest).unwrap(), &offer(2)).unwrap_err().to_string();
    let expected = "experiment `one`: its factors have 16384 combinations; at most 4096 are laid out";
    assert!(error.starts_with("small.toml:11:9: ") && error.ends_with(expected), "{error}");
}
