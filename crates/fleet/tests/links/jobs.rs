//! Jobs, interrupts and clocks.

use std::thread;
use std::time::{Duration, Instant};

use kqps_fleet::{HostsError, JobError, Link};
use kqps_kernel::interrupts::Interrupts;
use serde_json::{Value, json};

use super::agent::{self, await_events, build, facts, soon};

/// An agent, and the file of its events.
struct Opened {
    link: Link,
    events: std::path::PathBuf,
    _folder: tempfile::TempDir,
}

fn open() -> Opened {
    let folder = tempfile::tempdir().unwrap();
    let events = folder.path().join("events");
    let link = Link::open(&agent::host(&events, "1"), &build("1"), &facts("p1")).unwrap();
    Opened { link, events, _folder: folder }
}

fn ask(link: &mut Link, job: &Value) -> Result<Value, JobError> {
    let ticket = link.ask(job).unwrap();
    link.wait(ticket, soon(), &Interrupts::default())
}

#[test]
fn a_job_is_asked_for_and_answered() {
    agent::serve_if_asked();
    let Opened { mut link, events, _folder } = open();
    assert_eq!((link.host().name.as_str(), &link.there().identity), ("p1", &build("1")));
    assert!(link.there().pid > 1 && link.is_lost().is_none());
    assert_eq!(ask(&mut link, &json!({"x": [1, 2.5]})).unwrap(), json!({"x": [1, 2.5]}));
    match ask(&mut link, &json!("fail")) {
        Err(JobError::Failed { reason, output }) => {
            assert_eq!((reason.as_str(), output.as_slice()), ("it failed", &["last words".to_owned()][..]));
        }
        other => panic!("{other:?}"),
    }
    // Far more than a pipe holds, both ways.
    let long = json!("x".repeat(8 << 20));
    assert_eq!(ask(&mut link, &long).unwrap(), long);

    let tickets: Vec<_> = (0..20).map(|number| link.ask(&number).unwrap()).collect();
    for (number, ticket) in tickets.into_iter().enumerate().rev() {
        let found: usize = link.wait(ticket, soon(), &Interrupts::default()).unwrap();
        assert_eq!(found, number);
    }
    let ticket = link.ask(&json!("text")).unwrap();
    let wrong: Result<u32, _> = link.wait(ticket, soon(), &Interrupts::default());
    assert!(matches!(wrong, Err(JobError::Lost(HostsError::Nonsense { .. }))), "{wrong:?}");
    assert_eq!(ask(&mut link, &Value::Null).unwrap(), Value::Null);
    drop(link);
    await_events(&events, "ended\n");
}

#[test]
fn a_job_that_no_line_holds_is_an_error_here() {
    let mut opened = open();
    let long = "x".repeat(kqps_fleet::message::LINE_MOST);
    let error = opened.link.ask(&long).unwrap_err().to_string();
    assert!(error.starts_with("the job for p1 has 67108"), "{error}");
    let unwritable = std::collections::BTreeMap::from([((1, 2), 3)]);
    assert!(matches!(opened.link.ask(&unwritable), Err(HostsError::Unwritable { .. })));
    assert_eq!(ask(&mut opened.link, &json!(1)).unwrap(), json!(1));
}

#[test]
fn the_offset_of_one_clock_from_itself_is_zero_within_its_uncertainty() {
    let mut opened = open();
    for pings in [1, 8, 64] {
        let offset = opened.link.offset_by(pings).unwrap();
        assert!(offset.ns.unsigned_abs() <= offset.uncertainty_ns, "{offset:?}");
        assert!(offset.uncertainty_ns <= offset.rtt_ns / 2 + 1 && offset.rtt_ns > 0, "{offset:?}");
    }
    let offset = opened.link.offset().unwrap();
    assert!(offset.ns.unsigned_abs() <= offset.uncertainty_ns, "{offset:?}");
}

#[test]
fn an_interrupt_stops_the_job_there() {
    let mut opened = open();
    let interrupts = Interrupts::default();
    let ticket = opened.link.ask(&json!("wait")).unwrap();
    let (events, asked) = (opened.events.clone(), interrupts.clone());
    let user = thread::spawn(move || {
        await_events(&events, "waiting\n");
        asked.ask();
    });
    let stopped: Result<Value, _> = opened.link.wait(ticket, soon(), &interrupts);
    assert!(matches!(stopped, Err(JobError::Interrupted)), "{stopped:?}");
    user.join().unwrap();
    await_events(&opened.events, "waiting\ninterrupted\n");
    assert_eq!(ask(&mut opened.link, &json!(1)).unwrap(), json!(1));
}

#[test]
fn a_late_job_is_stopped_and_the_next_one_is_done() {
    let mut opened = open();
    let ticket = opened.link.ask(&json!("wait")).unwrap();
    let until = Instant::now() + Duration::from_millis(200);
    let late: Result<Value, _> = opened.link.wait(ticket, until, &Interrupts::default());
    assert!(matches!(late, Err(JobError::Late)), "{late:?}");
    assert_eq!(ask(&mut opened.link, &json!(2)).unwrap(), json!(2));
}
