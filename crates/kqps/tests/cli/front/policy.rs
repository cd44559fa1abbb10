//! Choice of the back end that gets a query: by rule, by policy, by weight.

use std::fs;

use super::peer::{Datagrams, answer};
use super::{PATIENT, Running, asked, echo, front, stop};
use crate::auth::SERVFAIL;
use crate::auth::dns::{A, SOA, TXT, ask, query};
use crate::serve::sent::flow;

/// Asks for a name `times` times, and awaits each answer.
fn play(server: &Running, name: &str, times: u16) {
    for id in 0..times {
        let query = query(id, name, A);
        assert_eq!(
            ask(server.addresses[0], &query).0[12..],
            query[12..],
            "in the case in which it was asked"
        );
    }
}

#[test]
fn the_first_rule_that_fits_decides() {
    let back_ends: Vec<_> = ["recursive", "addresses", "zone", "rest"].map(|name| (name, echo())).into();
    let entry =
        |(name, (_, url)): &(&str, (_, String))| format!("[[backend]]\nname = \"{name}\"\nurl = \"{url}\"\n");
    let mut text: String = back_ends.iter().map(entry).collect();
    text += "[[rule]]\nrd = true\nto = [\"recursive\"]\n";
    text +=
        "[[rule]]\nsuffix = [\"zone.test\", \"other.\"]\ntype = [\"A\", \"TYPE28\"]\nto = [\"addresses\"]\n";
    text += "[[rule]]\nsuffix = [\"zone.test\"]\nto = [\"zone\"]\n[[rule]]\nto = [\"rest\"]\n";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("front.toml");
    fs::write(&file, text).unwrap();
    let server = front(&[], &["--config", file.to_str().unwrap()]);
    let expected: serde_json::Map<_, _> =
        back_ends.iter().map(|(name, (_, url))| ((*name).to_owned(), url.clone().into())).collect();
    assert_eq!(server.ready["back_ends"], serde_json::Value::from(expected));
    for (name, qtype, rd) in [
        ("a.zone.test", A, true),
        ("zone.test", SOA, true),
        ("a.ZONE.test", A, false),
        ("zone.test", 28, false),
        ("x.other", A, false),
        ("a.zone.test", TXT, false),
        ("azone.test", A, false),
        ("zone.test.example", A, false),
        ("other", TXT, false),
        ("test", A, false),
    ] {
        let mut query = query(1, name, qtype);
        query[2] |= u8::from(rd);
        assert_eq!(ask(server.addresses[0], &query).rcode(), 0);
    }
    let report = stop(server);
    let counts = back_ends.iter().map(|(name, _)| asked(&report, name)).collect::<Vec<_>>();
    assert_eq!(counts, [2, 3, 1, 4]);
}

#[test]
fn a_rule_whose_back_ends_are_down_lets_no_other_answer() {
    let (_echo, url) = echo();
    // Nothing listens there.
    let nowhere = Datagrams::new().url();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("front.toml");
    let text = format!(
        "[[backend]]\nurl = \"{url}\"\n[[backend]]\nname = \"nowhere\"\nurl = \"{nowhere}\"\n\
         [[rule]]\ntype = [\"TXT\"]\nto = [\"nowhere\"]\n"
    );
    fs::write(&file, text).unwrap();
    let server = front(&[], &["--config", file.to_str().unwrap()]);
    assert_eq!(ask(server.addresses[0], &query(1, "a.test", TXT)).rcode(), SERVFAIL);
    assert_eq!(ask(server.addresses[0], &query(1, "a.test", A)).rcode(), 0);
    let report = stop(server);
    assert_eq!(asked(&report, &url), 1);
}

#[test]
fn rounds_are_by_weight() {
    let ((_one, one), (_two, two)) = (echo(), echo());
    let (first, second) = (format!("one={one}"), format!("two={two},weight=3"));
    let server = front(&[&first, &second], &["--policy", "round-robin"]);
    play(&server, "A.tEsT", 40);
    let report = stop(server);
    assert_eq!((asked(&report, "one"), asked(&report, "two")), (10, 30));
    assert_eq!((&report.back_ends["one"].url, &report.back_ends["two"].url), (&one, &two));
}

#[test]
fn chance_uses_all() {
    let ((_one, one), (_two, two)) = (echo(), echo());
    let server = front(&[&one, &two], &["--policy", "random"]);
    play(&server, "a.test", 200);
    let report = stop(server);
    // With fair choices this fails once in 10^23 runs.
    assert!((30..=170).contains(&asked(&report, &one)), "{report:?}");
    assert_eq!(asked(&report, &one) + asked(&report, &two), 200);
}

#[test]
fn a_name_stays_with_its_back_end() {
    let ((_one, one), (_two, two)) = (echo(), echo());
    let (first, second) = (format!("one={one}"), format!("two={two}"));
    let mut seen = [0, 0];
    for name in 0..12 {
        let server = front(&[&first, &second], &["--policy", "hash"]);
        for spelled in ["n{}.test", "N{}.TEST", "n{}.tesT"] {
            play(&server, &spelled.replace("{}", &name.to_string()), 2);
        }
        let report = stop(server);
        let counts = [asked(&report, "one"), asked(&report, "two")];
        assert!(counts == [6, 0] || counts == [0, 6], "{counts:?}");
        seen[usize::from(counts[1] > 0)] += 1;
    }
    assert!(seen.iter().all(|&names| names > 0), "{seen:?}");
}

#[test]
fn the_back_end_with_the_fewest_outstanding_is_asked() {
    let (first, second) = (Datagrams::new(), Datagrams::new());
    let server = front(&[&first.url(), &second.url()], &PATIENT);
    first.pass();
    second.pass();
    let client = flow(server.addresses[0]);
    // Neither back end has a query outstanding, so the first of them gets it.
    client.send(&query(0, "held.test", A)).unwrap();
    let (held, from) = first.query();
    for id in 1..20 {
        client.send(&query(id, "a.test", A)).unwrap();
        let (query, from) = second.query();
        second.say(&answer(&query), from);
        client.recv(&mut [0; 512]).unwrap();
    }
    first.say(&answer(&held), from);
    client.recv(&mut [0; 512]).unwrap();
    let report = stop(server);
    assert_eq!((asked(&report, &first.url()), asked(&report, &second.url())), (1, 19));
}
