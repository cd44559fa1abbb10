use super::*;
use crate::study_file::cells::{StudyLayout, lay_out};
use crate::study_file::offer::HostOffer;
use crate::subject::builtin as subjects;
use kqps_host::Topology;
use kqps_observation::Cell;
use kqps_observation::fingerprint::CoreFacts;
use kqps_observation::run::Role;
use kqps_observation::trial::Transport;

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
            "one of auto, plain, mmsg, gso, uring, found `gos`; did you mean `gso`?",
        ),
        (fixed, "{ \"player.burst\" = 65 }", "13:28", "expected a number from 1 to 64"),
        (fixed, "{ \"player.timeout_s\" = 0 }", "13:32", "expected seconds above 0, 60 at most"),
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
        ("io = [\"blocking\", \"poll\"]", "ioo = [\"poll\"]", "", "has no factor `io`; did you mean `ioo`?"),
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

/// A study over both transports: two ways to use connections, and sockets beside them.
const TRANSPORTS: &str = r#"
name = "transports"
title = "Transports"
question = "?"
load = { closed_s = 0.5 }
fixed = { "player.sockets" = 32, "player.window" = 100 }
[bundles.connections.kept]
"player.connections" = 64
[bundles.connections.each]
"player.connections" = 500
"player.queries_per_connection" = 1
"player.sources" = "spread"
[[experiment]]
name = "tcp"
title = "TCP"
subjects = ["nsd", "front", "echo"]
fixed = { "player.transport" = "tcp" }
[experiment.factors]
connections = ["kept", "each"]
[[experiment]]
name = "udp"
title = "UDP"
subjects = ["nsd"]
"#;

fn laid_out_with_subjects(text: &str) -> StudyLayout {
    let study = StudyFile::read("s.toml", text).unwrap();
    let offer = HostOffer { definitions: study.subjects().unwrap().into_iter().collect(), ..offer(4) };
    lay_out(&study, &offer).unwrap()
}

#[test]
fn a_cell_has_the_settings_of_its_transport_and_ceilings_over_it() {
    let layout = laid_out_with_subjects(TRANSPORTS);
    let words = |cell: &Cell| {
        let player = cell.factors.player();
        format!(
            "{} / {} / {} {:?} {:?} {:?}",
            cell.name,
            cell.io,
            cell.factors.transport().word(),
            player.sockets,
            player.connections,
            player.queries_per_connection
        )
    };
    let all: Vec<String> = layout.cells.iter().map(words).collect();
    assert_eq!(
        all,
        [
            "player ceiling over tcp, connections 64, window 100 / epoll / tcp None Some(64) None",
            "echo over tcp, 1 worker, 64 kept connections / epoll / tcp None Some(64) None",
            "player ceiling over tcp, connections 500, queries_per_connection 1, sources spread, window 100 / epoll / \
             tcp None Some(500) Some(1)",
            "echo over tcp, 1 worker, 500 connections, closed after 1 query / epoll / tcp None Some(500) Some(1)",
            "player ceiling, sockets 32, window 100 / segment / udp Some(32) None None",
            "echo mmsg, 1 worker / mmsg / udp Some(32) None None",
            "tcp: subject=nsd; connections=kept / epoll / tcp None Some(64) None",
            "tcp: subject=nsd; connections=each / epoll / tcp None Some(500) Some(1)",
            "tcp: subject=echo; connections=kept / epoll / tcp None Some(64) None",
            "tcp: subject=echo; connections=each / epoll / tcp None Some(500) Some(1)",
            "udp / mmsg / udp Some(32) None None",
        ]
    );
    let why = "front answers over udp, and not over tcp: its file names no such transport";
    assert_eq!(layout.skipped["tcp: subject=front; connections=kept"], why);
    assert_eq!(layout.skipped.len(), 2);
}

#[test]
fn a_setting_for_another_transport_is_placed_and_explained() {
    let fixed = "fixed = { \"player.transport\" = \"tcp\" }";
    for (right, slip, expected) in [
        (
            "subjects = [\"nsd\"]",
            "fixed = { \"player.connections\" = 8 }",
            "experiment `udp`: `player.connections` sets nothing over udp: it is for player.transport = \"tcp\"",
        ),
        (
            "fixed = { \"player.transport\" = \"tcp\" }",
            "fixed = { \"player.transport\" = \"tcp\", \"player.io\" = \"mmsg\" }",
            "experiment `tcp`: `player.io` sets nothing over tcp: it is for player.transport = \"udp\"",
        ),
        (fixed, "", "experiment `tcp`: `player.connections` sets nothing over udp"),
        (
            "connections = [\"kept\", \"each\"]",
            "connections = [\"kept\"]\n\"player.transport\" = [\"udp\", \"tcp\"]",
            "`player.connections` varies, and sets nothing in cells over udp",
        ),
        ("\"player.window\" = 100", "\"player.transport\" = \"tsl\"", "one of udp, tcp, tls, found `tsl`"),
        (
            fixed,
            "fixed = { \"player.transport\" = \"tcp\", \"player.resume\" = false }",
            "experiment `tcp`: `player.resume` sets nothing over tcp: it is for player.transport = \"tls\"",
        ),
        (
            fixed,
            "fixed = { \"player.transport\" = \"tcp\", \"subject.certificate\" = \"rsa-2048\" }",
            "`subject.certificate` sets nothing over tcp",
        ),
        (
            "\"spread\"",
            "\"192.0.2.0/24\"",
            "or a prefix of loopback such as 127.1.0.0/16, found `192.0.2.0/24`",
        ),
        ("\"spread\"", "\"spread\"\npath = \"veth\"", "spread source addresses are those of `loopback`"),
        ("= 500", "= 131073", "expected a number from 1 to 131072, found `131073`"),
        ("= 500", "= 500\n\"player.outstanding_per_connection\" = 65537", "a number from 1 to 65536"),
        ("_connection\" = 1", "_connection\" = -1", "expected a number from 0 on, found `-1`"),
    ] {
        assert!(TRANSPORTS.contains(right), "{right}");
        let error = StudyFile::read("s.toml", &TRANSPORTS.replacen(right, slip, 1)).unwrap_err().to_string();
        assert!(error.contains(expected), "{slip}: {error}");
        assert!(error.starts_with("s.toml:"), "{error}");
    }
}

#[test]
fn cells_over_both_transports_leave_out_what_is_for_the_other() {
    let cells = |right: &str, other: &str| {
        let layout = laid_out_with_subjects(&TRANSPORTS.replacen(right, other, 1));
        let subjects = layout.cells.into_iter().filter(|cell| cell.role == Role::Subject);
        let player = |cell: Cell| {
            let player = cell.factors.player();
            (cell.factors.transport(), player.sockets, player.connections)
        };
        subjects.map(player).collect::<Vec<_>>()
    };
    let (udp, tcp) = (Transport::Udp, Transport::Tcp);
    let more = "subjects = [\"nsd\"]\nfixed = { \"player.connections\" = 8 }\n[experiment.factors]\n\
                \"player.transport\" = [\"udp\", \"tcp\"]";
    let both = cells("subjects = [\"nsd\"]", more);
    assert_eq!(both[both.len() - 2..], [(udp, Some(32), None), (tcp, None, Some(8))]);
    // A bundle names the transport of its own cells.
    let own = "[bundles.connections.none]\n\"player.transport\" = \"udp\"\n\"player.sockets\" = 3\n\
               [bundles.connections.kept]\n\"player.transport\" = \"tcp\"";
    let text = TRANSPORTS.replace("[\"kept\", \"each\"]", "[\"kept\", \"none\"]");
    let text = text.replacen("[bundles.connections.kept]", own, 1);
    let layout = laid_out_with_subjects(&text);
    let named =
        |name: &str| layout.cells.iter().find(|cell| cell.name == name).unwrap().factors.player().clone();
    let (kept, none) =
        (named("tcp: subject=nsd; connections=kept"), named("tcp: subject=nsd; connections=none"));
    assert_eq!((kept.sockets, kept.connections), (None, Some(64)));
    assert_eq!((none.sockets, none.connections), (Some(3), None));
}

#[test]
fn cells_over_tls_have_factors_and_ceilings_of_tls() {
    let text = [
        ("fixed = { \"player.transport\" = \"tcp\" }", "fixed = { \"player.transport\" = \"tls\" }"),
        ("\"spread\"", "\"127.2.0.0/16\"\n\"player.resume\" = false"),
        ("\"front\"", "\"knot\""),
        ("[\"kept\", \"each\"]", "[\"each\"]\n\"subject.certificate\" = [\"rsa-2048\"]"),
    ]
    .iter()
    .fold(TRANSPORTS.to_owned(), |text, (right, other)| text.replace(right, other));
    let layout = laid_out_with_subjects(&text);
    let over_tls: Vec<&Cell> =
        layout.cells.iter().filter(|cell| cell.factors.transport() == Transport::Tls).collect();
    let names: Vec<&str> = over_tls.iter().map(|cell| cell.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "player ceiling over tls, connections 500, queries_per_connection 1, resume false, sources 127.2.0.0/16, \
             window 100, subject.certificate rsa-2048",
            "echo over tls, 1 worker, 500 connections, closed after 1 query, not resumed, rsa-2048",
            "tcp: subject=nsd; connections=each; subject.certificate=rsa-2048",
            "tcp: subject=echo; connections=each; subject.certificate=rsa-2048",
        ]
    );
    for cell in over_tls {
        assert_eq!((cell.io.as_str(), cell.factors.player().resume), ("epoll", Some(false)), "{}", cell.name);
        assert_eq!(cell.factors.word("subject.certificate"), Some("rsa-2048"), "{}", cell.name);
    }
    let knot = &layout.skipped["tcp: subject=knot; connections=each; subject.certificate=rsa-2048"];
    assert_eq!(knot, "Knot DNS answers over udp, tcp, and not over tls: its file names no such transport");
}

#[test]
fn the_echo_beside_a_server_shares_listeners_as_it_does() {
    let factors = "\"player.transport\" = [\"tcp\"]\nworkers = [2]\nlisteners = [\"reuseport\", \"shared\"]";
    let nsd = of_server("nsd", factors);
    let echoes = nsd.cells.iter().filter(|cell| cell.role == Role::EchoCeiling);
    let echoes: Vec<_> = echoes.map(|cell| (cell.name.as_str(), cell.factors.word("listeners"))).collect();
    assert_eq!(
        echoes,
        [
            ("echo over tcp, 2 workers, 8 kept connections", Some("reuseport")),
            ("echo over tcp, 2 workers, shared listeners, 8 kept connections", Some("shared")),
        ]
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
