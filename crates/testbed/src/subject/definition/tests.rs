//! Definitions as their files have them.

use super::*;
use crate::event::control::ControlSignal;

const GOOD: &str = r#"
name = "fake"
title = "Fake"
programs = []
io = "plain"
[files]
"fake.conf" = "threads {workers}"
[start]
command = ["fake", "{port}"]
[ready]
kind = "soa"
within_s = 1
[stop]
signal = "TERM"
within_s = 1
"#;

fn error(text: &str) -> String {
    Definition::read("fake.toml", text).unwrap_err().to_string()
}

#[test]
fn the_least_definition_is_accepted() {
    let definition = Definition::read("fake.toml", GOOD).unwrap();
    assert_eq!(definition.stop.signal, StopSignal::Term);
    assert_eq!(definition.version, None);
}

#[test]
fn what_a_transport_needs_is_filled_in_where_the_definition_says() {
    let plain = Definition::read("fake.toml", GOOD).unwrap();
    assert!(plain.check_transport(Transport::Udp).is_ok());
    let missing = plain.check_transport(Transport::Tcp).unwrap_err().to_string();
    assert_eq!(missing, "Fake answers over udp, and not over tcp: its file names no such transport");

    let transports = "[transports]\nudp = \"\"\ntcp = \"tcp with {workers}\"\n[files]";
    let text = GOOD.replace("[files]", transports).replace("threads {workers}", "{of_transport}");
    let both = Definition::read("fake.toml", &text).unwrap();
    let filled = |transport| {
        let values = both.over(transport, Values::default().with("workers", &3)).unwrap();
        values.fill(&both.files["fake.conf"])
    };
    assert_eq!([Transport::Udp, Transport::Tcp].map(filled), ["", "tcp with 3"]);
    assert!(both.takes_workers());

    let keys = text.replace("udp = \"\"", "udp = { flag = \"\" }");
    assert!(error(&keys).contains("the transports stand for different texts"), "{}", error(&keys));
    let keys = keys.replace("\"tcp with {workers}\"", "{ flag = \"--tcp\" }");
    assert!(error(&keys).contains("unknown placeholder `{of_transport}`"), "{}", error(&keys));
    let keyed = Definition::read("fake.toml", &keys.replace("{of_transport}", "{of_transport.flag}"));
    let values = keyed.unwrap().over(Transport::Tcp, Values::default()).unwrap();
    assert_eq!(values.fill("a {of_transport.flag}"), "a --tcp");
    assert!(error(&text.replace("tcp = ", "tpc = ")).contains("did you mean `tcp`?"));
    let none = GOOD.replace("[files]", "[transports]\n[files]");
    assert!(error(&none).contains("transports: expected one at least of udp, tcp, tls"));

    let listening = "listen {of_transport} {certificate} {key}";
    let secure = text.replace("tcp = \"tcp with {workers}\"", "tls = \"tls by {key}\"");
    let secure = Definition::read("fake.toml", &secure.replace("{of_transport}", listening)).unwrap();
    let files = Values::default().with("certificate", &"a.pem").with("key", &"a.key");
    let values = secure.over(Transport::Tls, files).unwrap();
    assert_eq!(values.fill(&secure.files["fake.conf"]), "listen tls by a.key a.pem a.key");
}

#[test]
fn slips_are_placed_and_explained() {
    let cases = [
        ("title =", "titel =", "fake.toml:3:1: unknown field `titel`"),
        ("title =", "titel =", "did you mean `title`?"),
        (
            "{workers}",
            "{worker}",
            "fake.toml:7:24: unknown placeholder `{worker}`; did you mean `{workers}`?",
        ),
        ("{port}", "53", "fake.toml:8:1: no command or file uses {port} or {endpoint}"),
        ("within_s = 1", "within_s = 0", "fake.toml:10:1: within_s is a number of seconds above 0"),
        ("\"soa\"", "\"sao\"", "did you mean `soa`?"),
        ("fake.conf", "../fake.conf", "must be a plain file name"),
        ("\"TERM\"", "\"KILL\"", "unknown variant `KILL`, expected `TERM` or `INT`"),
        (
            "{workers}",
            "{zones}",
            "fake.toml:7:24: {zones} has nothing to repeat: expected each_zone, the text for one zone",
        ),
        (
            "io = \"plain\"",
            "io = \"plain\"\neach_zone = \"zone {origin} {zone}\"",
            "fake.toml:6:1: each_zone is used nowhere: expected {zones} in a file or a command",
        ),
        (
            "io = \"plain\"",
            "io = \"plain\"\neach_zone = \"{zones}\"",
            "fake.toml:6:1: each_zone is the text for one zone, and cannot use {zones}",
        ),
        (
            "io = \"plain\"",
            "io = \"plain\"\necho_sockets = \"resueport\"",
            "fake.toml:6:1: echo_sockets: the echo cannot have `resueport`; did you mean `reuseport`?",
        ),
        ("name = \"fake\"", "name = \"a b\"", "fake.toml:2:1: a name is made of letters"),
        ("signal = \"TERM\"\n", "", "missing field `signal`"),
    ];
    for (from, to, expected) in cases {
        let error = error(&GOOD.replacen(from, to, 1));
        assert!(error.contains(expected), "{expected} is not in {error}");
    }
}

#[test]
fn a_way_to_reload_may_stand_in_its_former_place() {
    let with = |more: &str| GOOD.to_owned() + more;
    let read = |more: &str| Definition::read("fake.toml", &with(more)).unwrap().control;
    let signal = read("[control]\nreload.signal = \"HUP\"\n");
    assert_eq!(read("[reload]\nsignal = \"HUP\"\n"), signal);
    let both = read("[reload]\nsignal = \"HUP\"\n[control]\nreload.command = [\"x\"]\n");
    let way = &both[&Control::Reload];
    assert_eq!((way.signal, &*way.command), (Some(ControlSignal::Hup), &["x".to_owned()][..]));
    let either = error(&with("[control]\nflush.signal = \"HUP\"\nflush.command = [\"x\"]\n"));
    assert!(either.contains("control.flush needs either a signal or a command"), "{either}");
}

#[test]
fn a_run_keeps_no_secret_of_a_definition() {
    let plain = Definition::read("fake.toml", GOOD).unwrap();
    assert_eq!(plain.kept_text(), GOOD);
    let text = GOOD.replace(
        "command = [\"fake\", \"{port}\"]",
        "command = [\"fake\", \"--token\", \"abc\", \"{port}\"]\nenv = { DB_PASSWORD = \"xyz\", A = \"b\" }",
    );
    let secret = Definition::read("fake.toml", &text).unwrap();
    let kept = Definition::read("kept.toml", &secret.kept_text()).unwrap();
    assert_eq!(kept.start.command, ["fake", "--token", "<secret>", "{port}"]);
    assert_eq!((&*kept.start.env["DB_PASSWORD"], &*kept.start.env["A"]), ("<secret>", "b"));
    assert_eq!((kept.files, kept.ready, kept.stop), (secret.files, secret.ready, secret.stop));

    let typed = Definition::of_command("sh -c x --password hunter2 {port}").unwrap();
    assert_eq!(typed.start.command[3..], ["--password", "hunter2", "{port}"]);
    assert!(!typed.kept_text().contains("hunter2"), "{}", typed.kept_text());
    let again = Definition::of_command("sh -c x --password '<secret>' {port}").unwrap_err().to_string();
    assert!(again.contains("a secret is missing"), "{again}");
    let wrong = Definition::of_command("nowhere --password hunter2 {port}").unwrap_err().to_string();
    assert!(!wrong.contains("hunter2") && wrong.contains("<secret>"), "{wrong}");
}
