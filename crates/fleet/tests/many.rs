//! Two hundred links at once. A file of its own, since it counts the threads of the process.

use std::net::{IpAddr, Ipv4Addr};
use std::thread;
use std::time::{Duration, Instant};

use kqps_fleet::{AgentHello, HelloFacts, Host, Identity, Link, Role};
use kqps_kernel::interrupts::Interrupts;
use serde_json::json;

const LINKS: usize = 200;

fn ours() -> Identity {
    Identity { version: "1".into(), schema: 4, blake3: "ab".into(), arch: std::env::consts::ARCH.into() }
}

/// A host whose agent is a shell that answers each job with its ID, and each sign of life with another.
fn host(number: usize) -> Host {
    let hello = AgentHello {
        identity: ours(),
        hostname: format!("h{number}"),
        boot_id: "b".into(),
        pid: 1,
        lease_s: 5,
        refused: None,
    };
    let script = r#"
printf '%s\n' "$1"
while read -r line; do
    case $line in
    *'"ask"'*) id=${line#*'"id":'}; id=${id%%,*}; echo "{\"done\":{\"id\":$id,\"ok\":$id}}" ;;
    *'"end"'*) exit ;;
    *) echo '{"alive":{}}' ;;
    esac
done"#;
    let hello = json!({"hello": hello}).to_string();
    Host {
        name: format!("p{number}"),
        reach: ["sh", "-c", script, "sh", &hello].map(str::to_owned).to_vec(),
        kqps: "kqps".into(),
        data: IpAddr::V4(Ipv4Addr::LOCALHOST),
        sources: None,
        cores: None,
        device: None,
    }
}

/// A figure of this process, from `/proc/self/status`.
fn status(key: &str) -> usize {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn two_hundred_links_have_three_threads_each_and_little_memory() {
    let before = (status("Threads"), status("VmRSS"));
    let open = |number| {
        let facts = HelloFacts { targets: Vec::new(), role: Role::Player, name: format!("p{number}") };
        Link::open(&host(number), &ours(), &facts).unwrap()
    };
    let mut links: Vec<Link> = thread::scope(|scope| {
        let opening: Vec<_> = (0..LINKS).map(|number| scope.spawn(move || open(number))).collect();
        opening.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for (number, link) in links.iter().enumerate() {
        assert_eq!(link.there().hostname, format!("h{number}"));
        assert_eq!(link.is_lost(), None);
    }
    let until = Instant::now() + Duration::from_mins(1);
    let tickets: Vec<_> = links.iter_mut().map(|link| link.ask(&json!({"play": 1})).unwrap()).collect();
    for (link, ticket) in links.iter_mut().zip(tickets) {
        let id: u64 = link.wait(ticket, until, &Interrupts::default()).unwrap();
        assert_eq!(id, 1);
    }
    let threads = status("Threads") - before.0;
    assert!(threads <= 3 * LINKS, "{threads} threads");
    let kib = status("VmRSS").saturating_sub(before.1);
    assert!(kib < 100 * 1024, "{kib} KiB");
    let begun = Instant::now();
    thread::scope(|scope| {
        for link in links {
            scope.spawn(move || drop(link));
        }
    });
    assert!(begun.elapsed() < Duration::from_secs(30));
}
