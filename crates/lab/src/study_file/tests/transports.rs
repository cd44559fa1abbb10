//! Cells over connections.

use kqps_observation::Cell;
use kqps_observation::trial::Transport;

use super::*;

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
fn echoes_that_would_have_one_name_are_named_by_their_settings() {
    let text =
        TRANSPORTS.replace("fixed = { \"player.sockets\" = 32, \"player.window\" = 100 }\n", "").replace(
            "subjects = [\"nsd\"]\n",
            "subjects = [\"nsd\"]\n[experiment.factors]\n\"player.sockets\" = [8, 32]\n",
        );
    let layout = laid_out_with_subjects(&text);
    let echoes = layout.cells.iter().filter(|cell| cell.role == Role::EchoCeiling);
    let names: Vec<&str> = echoes.map(|cell| cell.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "echo over tcp, 1 worker, 64 kept connections",
            "echo over tcp, 1 worker, 500 connections, closed after 1 query",
            "echo mmsg, 1 worker, sockets 8",
            "echo mmsg, 1 worker, sockets 32",
        ]
    );
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
        (
            "subjects = [\"nsd\"]",
            "fixed = { \"player.io\" = \"epoll\" }",
            "experiment `udp`: `player.io` sets nothing over udp: it is for player.transport = \"tcp\" or \"tls\" or",
        ),
        (
            fixed,
            "fixed = { \"player.transport\" = \"quic\", \"player.io\" = \"uring\" }",
            "experiment `tcp`: `player.io` sets nothing over quic",
        ),
        (fixed, "", "experiment `tcp`: `player.connections` sets nothing over udp"),
        (
            "connections = [\"kept\", \"each\"]",
            "connections = [\"kept\"]\n\"player.transport\" = [\"udp\", \"tcp\"]",
            "`player.connections` varies, and sets nothing in cells over udp",
        ),
        (
            "\"player.window\" = 100",
            "\"player.transport\" = \"tsl\"",
            "one of udp, tcp, tls, https, quic, found `tsl`",
        ),
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
            fixed,
            "fixed = { \"player.transport\" = \"quic\", \"player.close\" = \"rst\" }",
            "experiment `tcp`: `player.close` sets nothing over quic",
        ),
        (
            "\"spread\"",
            "\"192.0.2.0/24\"",
            "or a prefix of loopback such as 127.1.0.0/16, found `192.0.2.0/24`",
        ),
        ("\"spread\"", "\"spread\"\npath = \"veth\"", "spread source addresses are those of `loopback`"),
        ("= 500", "= 131073", "expected a number from 1 to 131072, found `131073`"),
        ("= 500", "= 500\n\"player.outstanding_per_connection\" = 65537", "a number from 1 to 65536"),
        ("_connection\" = 1", "_connection\" = -1", "expected a number from 0 to 1000000000, found `-1`"),
    ] {
        assert!(TRANSPORTS.contains(right), "{right}");
        let error = StudyFile::read("s.toml", &TRANSPORTS.replacen(right, slip, 1)).unwrap_err().to_string();
        assert!(error.contains(expected), "{slip}: {error}");
        assert!(error.starts_with("s.toml:"), "{error}");
    }
}

/// Its cells over TCP have more connections than those over UDP have sockets.
#[test]
fn a_window_that_the_sockets_of_a_cell_cannot_have_is_refused_before_the_run() {
    let laid_out = |window: &str| {
        let text =
            TRANSPORTS.replacen("\"player.window\" = 100", &format!("\"player.window\" = {window}"), 1);
        let study = StudyFile::read("s.toml", &text).unwrap();
        let offer = HostOffer { definitions: study.subjects().unwrap().into_iter().collect(), ..offer(4) };
        lay_out(&study, &offer).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(laid_out("2097152"), Ok(()));
    let error = laid_out("2097153").unwrap_err();
    assert!(error.starts_with("s.toml:6:"), "{error}");
    let expected = "experiment `udp`: factor `player.window`: expected 2097152 at most";
    assert!(error.contains(expected), "{error}");
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
fn the_echo_beside_a_server_has_the_certificate_and_takes_the_early_data_that_the_player_asks_for() {
    let factors = "\"player.transport\" = [\"tls\"]\n\"player.early_data\" = [true, false]\n\
                   \"player.tls_certificate\" = [\"rsa\"]";
    let nsd = of_server("nsd", factors);
    let ceilings: Vec<&Cell> = nsd.cells.iter().filter(|cell| cell.role != Role::Subject).collect();
    assert_eq!(ceilings.len(), 4, "two for each way to play");
    for cell in ceilings {
        let is_early = cell.factors.player().early_data == Some(true);
        assert_eq!(cell.factors.word("early_data"), is_early.then_some("yes"), "{}", cell.name);
        assert_eq!(cell.factors.word("subject.certificate"), Some("rsa-2048"), "{}", cell.name);
    }
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
