//! The figures of a scenario in the text, the JSON, the exported tables and the page.

use std::fs;

use kqps_faults::scripted::Scripted;
use kqps_observation::Trial;
use serde_json::{Value, json};

use crate::load::bench::{Bench, kqps, words};

/// The first label of a name whose queries have no reply, after its length.
const UNANSWERED: &[u8] = b"\x05never";

/// A server that echoes all other queries.
fn server() -> Scripted {
    let say = |asked: &kqps_faults::scripted::Asked<'_>| {
        let mut reply = asked.query.to_vec();
        reply[2] |= 0x80;
        if reply[12..].starts_with(UNANSWERED) { Vec::new() } else { vec![reply] }
    };
    Scripted::start([127, 0, 0, 1].into(), say).unwrap()
}

/// The flags of a load at this server for half a second, with a class that has no reply.
fn flags(bench: &Bench, server: &Scripted) -> Vec<String> {
    let file = bench.folder.path().join("unanswered.toml");
    fs::write(&file, "[[class]]\nname = \"unanswered\"\nask = [\"never.example. A\"]\nrate = \"1k\"\n")
        .unwrap();
    let (address, queries) = (server.address().to_string(), bench.queries());
    let texts = ["load", &address, "-d", queries.to_str().unwrap(), "-Q", "1k", "-l", "500ms", "-t", "200ms"];
    let more = ["--lag", "1m", "--scenario", file.to_str().unwrap()];
    texts.into_iter().chain(more).map(str::to_owned).collect()
}

#[test]
fn a_class_without_replies_is_silent_and_its_queries_are_dropped() {
    let (bench, server) = (Bench::new(), server());
    let output = kqps(&[]).args(flags(&bench, &server)).arg("--json").output().unwrap();
    let text = words(&output).0;
    let (trial, json): (Trial, Value) =
        (serde_json::from_str(&text).unwrap(), serde_json::from_str(&text).unwrap());
    let [good, unanswered] = &trial.classes[..] else { panic!("{text}") };
    assert!(!unanswered.trial.silences.is_empty() && trial.silences.is_empty(), "{text}");
    let silence = unanswered.trial.silences[0];
    // A busy host may silence the good class for some milliseconds.
    let of_good = good.trial.silences.iter().map(|silence| silence.seconds);
    assert!(of_good.fold(0.0, f64::max) < silence.seconds, "{text}");
    assert!(silence.at_s + silence.seconds <= 0.6 && silence.seconds >= 0.01, "{silence:?}");
    let classes = &json["figures"]["classes"];
    assert_eq!(classes[1]["dropped"], unanswered.trial.accounts.sent);
    assert_eq!((&classes[1]["amplification"], &classes[1]["wrongly_limited"]), (&json!(0.0), &Value::Null));
    let limited = classes[0]["wrongly_limited"].as_u64().unwrap();
    assert_eq!(limited, good.trial.accounts.lost);
    // The server replies with as many bytes as it got.
    let answered = good.trial.replies.unwrap().count as f64 / good.trial.accounts.sent as f64;
    let amplification = classes[0]["amplification"].as_f64().unwrap();
    assert!((amplification - answered).abs() < 0.001, "{amplification} {answered}");
    assert_eq!(json["figures"]["effects"], json!([]));
}

#[test]
fn the_effects_of_an_event_are_on_the_page_and_in_a_table() {
    let (bench, server) = (Bench::new(), server());
    let out = bench.folder.path().join("out");
    let load = kqps(&[]).args(flags(&bench, &server)).arg("--out").arg(&out).output().unwrap();
    let (text, err) = words(&load);
    assert!(text.contains("bytes out/in") && text.contains("longest silence"), "{text}{err}");
    assert!(!text.contains("What events cost"), "{text}");

    let file = out.join("load.json");
    let mut stored: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    stored["trial"]["events"] = json!([{"name": "reload <zone>", "due_s": 0.2, "begun_s": 0.2}]);
    fs::write(&file, stored.to_string()).unwrap();
    let table = |name: &str| words(&kqps(&["export", "--table", name]).arg(&out).output().unwrap()).0;
    let effects = table("effects");
    assert!(effects.starts_with("event,class,at_s,span_s,intended,"), "{effects}");
    let rows: Vec<&str> = effects.lines().skip(1).collect();
    assert!(rows.len() == 2 && rows[0].starts_with("reload <zone>,good,0.2,"), "{effects}");
    // Nothing of the other class was answered before the event, so it lost nothing.
    assert!(rows[1].starts_with("reload <zone>,unanswered,0.2,") && rows[1].ends_with(",,"), "{effects}");
    assert!(table("classes").contains("\nunanswered,"), "{}", table("classes"));
    assert!(table("silences").contains("\n1,unanswered,"), "{}", table("silences"));
    let page = bench.folder.path().join("page.html");
    let report = kqps(&["report"]).arg(&out).arg("-o").arg(&page).output().unwrap();
    assert!(report.status.success(), "{}", words(&report).1);
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("<h2>What events cost</h2>") && page.contains("<h2>Replies of each class</h2>"));
    assert!(!page.contains("reload <zone>") && page.contains("reload &#60;zone&#62;"), "names are escaped");
}
