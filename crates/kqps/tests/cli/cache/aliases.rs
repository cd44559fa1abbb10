//! Aliases that lead from one zone to another, and which servers are asked about the edge of a zone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use super::upstream::{Upstream, address, alias, empty, question_end};
use super::{asks, cache, stop};
use crate::auth::dns::{A, ask};
use crate::auth::{NOERROR, NXDOMAIN, SERVFAIL};
use crate::serve::PATIENCE;
use crate::serve::running::Running;

const CNAME: u16 = 5;
const DS: u16 = 43;

#[test]
fn an_alias_is_followed_to_the_servers_of_its_target() {
    let one = Upstream::new(|asked| vec![alias(&asked.query, "www.two.test")]);
    let two = Upstream::new(|asked| {
        vec![match asked.name.as_str() {
            "www.two.test" => alias(&asked.query, "end.three.test"),
            _ => empty(&asked.query, SERVFAIL),
        }]
    });
    let rest = Upstream::new(|asked| vec![address(&asked.query, 60, 7)]);
    let stubs = [format!("one.test={}", one.flag()), format!("two.test={}", two.flag())];
    let server = cache(&[&stubs[0], &stubs[1], &rest.flag()], &[]);
    let at = server.addresses[0];
    for id in 0..3 {
        let reply = ask(at, &asks(id, "alias.one.test", A));
        let types: Vec<u16> = reply.records().iter().map(|(rtype, _)| *rtype).collect();
        assert_eq!((reply.rcode(), types), (NOERROR, vec![CNAME, CNAME, A]));
        assert_eq!(reply.records()[2].1, [192, 0, 2, 7]);
    }
    // A name that was asked for on the way is kept, too.
    assert_eq!(ask(at, &asks(4, "end.three.test", A)).answers(), 1);
    assert_eq!([one.asked(), two.asked(), rest.asked()], [1, 1, 1]);
    let (report, counts) = stop(server);
    assert_eq!((counts.misses, counts.hits, counts.kept), (1, 3, 1), "{report:?}");
}

/// The rcode and the types of the answers.
fn seen(server: &Running, id: u16, name: &str) -> (u8, Vec<u16>) {
    let reply = ask(server.addresses[0], &asks(id, name, A));
    (reply.rcode(), reply.records().iter().map(|(rtype, _)| *rtype).collect())
}

#[test]
fn each_name_of_a_chain_gets_its_end_in_whatever_order_they_are_asked() {
    let orders = [["a.z1.test", "b.z2.test", "c.z3.test"], ["b.z2.test", "c.z3.test", "a.z1.test"]];
    for order in orders {
        let [one, two, three] = ["b.z2.test", "c.z3.test", ""].map(|target| {
            Upstream::new(move |asked| {
                let query = &asked.query;
                vec![if target.is_empty() { address(query, 300, 7) } else { alias(query, target) }]
            })
        });
        let stubs = [("z1", &one), ("z2", &two), ("z3", &three)]
            .map(|(zone, upstream)| format!("{zone}.test={}", upstream.flag()));
        let server = cache(&[&stubs[0], &stubs[1], &stubs[2]], &[]);
        for round in 0..2 {
            for name in order {
                let right = match &name[..1] {
                    "a" => vec![CNAME, CNAME, A],
                    "b" => vec![CNAME, A],
                    _ => vec![A],
                };
                assert_eq!(seen(&server, round, name), (NOERROR, right), "{name} of {order:?}");
            }
        }
        // A part of a chain that is known is not asked for again.
        assert_eq!([one.asked(), two.asked(), three.asked()], [1, 1, 1], "{order:?}");
        stop(server);
    }
}

#[test]
fn a_chain_whose_end_failed_has_its_end_when_it_is_there_again() {
    let is_broken = Arc::new(AtomicBool::new(true));
    let of_server = is_broken.clone();
    let upstream = Upstream::new(move |asked| {
        let query = &asked.query;
        vec![match asked.name.as_str() {
            "hop-2.test" => alias(query, "hop-1.test"),
            "hop-1.test" => alias(query, "state.test"),
            _ if of_server.load(SeqCst) => empty(query, SERVFAIL),
            _ => address(query, 2, 7),
        }]
    });
    let server = cache(&[&format!("test={}", upstream.flag())], &["--failure-ttl", "1s"]);
    for (id, name) in (0..).zip(["hop-2.test", "hop-1.test", "hop-2.test"]) {
        assert_eq!(seen(&server, id, name), (SERVFAIL, vec![]), "{name}");
    }
    is_broken.store(false, SeqCst);
    let (begin, mut id) = (Instant::now(), 3);
    while seen(&server, id, "hop-1.test") != (NOERROR, vec![CNAME, A]) {
        assert!(begin.elapsed() < PATIENCE, "the end does not come back");
        std::thread::sleep(Duration::from_millis(20));
        id += 1;
    }
    stop(server);
}

#[test]
fn all_names_of_a_circle_and_those_that_lead_there_fail_in_whatever_order_they_are_asked() {
    let names = ["a.test", "b.test", "lead.test", "self.test"];
    for first in 0..names.len() {
        let upstream = Upstream::new(|asked| {
            let target = match asked.name.as_str() {
                "a.test" => "b.test",
                "self.test" => "self.test",
                _ => "a.test",
            };
            vec![alias(&asked.query, target)]
        });
        let server = cache(&[&format!("test={}", upstream.flag())], &[]);
        for id in 0..2 * names.len() {
            let name = names[(first + id) % names.len()];
            assert_eq!(seen(&server, id as u16, name), (SERVFAIL, vec![]), "{name} after {}", names[first]);
        }
        stop(server);
    }
}

#[test]
fn a_chain_of_16_aliases_is_answered_and_a_longer_one_fails_whatever_is_cached() {
    // Each reply has a single record, and that of a forwarder has all of them.
    let one_by_one = || {
        Upstream::new(|asked| {
            let number: u32 = asked.name[1..].split('.').next().unwrap().parse().unwrap();
            vec![match number.checked_sub(1) {
                Some(next) => alias(&asked.query, &format!("n{next}.test")),
                None => address(&asked.query, 300, 7),
            }]
        })
    };
    for first in [[9, 16, 17, 16], [17, 16, 9, 17], [16, 17, 20, 11], [3, 9, 16, 17]] {
        let upstream = one_by_one();
        let server = cache(&[&format!("test={}", upstream.flag())], &[]);
        for (id, number) in (0..).zip(first) {
            let (rcode, types) = seen(&server, id, &format!("n{number}.test"));
            let right = if number > 16 { (SERVFAIL, 0) } else { (NOERROR, number + 1) };
            assert_eq!((rcode, types.len()), right, "{number} of {first:?}");
        }
        stop(server);
    }
    let whole = Upstream::new(|asked| {
        let number: usize = asked.name[1..].split('.').next().unwrap().parse().unwrap();
        let mut reply = alias(&asked.query, "m0.test");
        for link in 1..number {
            reply.extend(owned(
                &format!("m{}.test", link - 1),
                &alias(&asked.query, &format!("m{link}.test")),
            ));
        }
        reply.extend(owned(&format!("m{}.test", number - 1), &address(&asked.query, 300, 7)));
        reply[7] = number as u8 + 1;
        vec![reply]
    });
    let server = cache(&[&whole.flag()], &[]);
    for (id, (number, right)) in (0..).zip([(16, (NOERROR, 17)), (17, (SERVFAIL, 0)), (20, (SERVFAIL, 0))]) {
        let (rcode, types) = seen(&server, id, &format!("n{number}.test"));
        assert_eq!((rcode, types.len()), right, "{number}");
    }
    stop(server);
}

/// The only record of a reply, with another owner.
fn owned(owner: &str, reply: &[u8]) -> Vec<u8> {
    let mut record: Vec<u8> =
        owner.split('.').flat_map(|label| [&[label.len() as u8], label.as_bytes()].concat()).collect();
    record.push(0);
    record.extend(&reply[question_end(reply) + 2..]);
    record
}

#[test]
fn a_server_is_not_believed_about_names_of_another() {
    let lies = Upstream::new(|asked| {
        let mut reply = alias(&asked.query, "www.two.test");
        if asked.name == "denied.one.test" {
            reply[3] |= NXDOMAIN;
        } else {
            reply[7] = 2;
            reply.extend(owned("www.two.test", &address(&asked.query, 300, 66)));
        }
        vec![reply]
    });
    let two = Upstream::new(|asked| vec![address(&asked.query, 300, 7)]);
    let stubs = [format!("one.test={}", lies.flag()), format!("two.test={}", two.flag())];
    // As the server of a zone, and as a forwarder beside one.
    for servers in [[&stubs[0], &stubs[1]], [&lies.flag(), &stubs[1]]] {
        let server = cache(&servers.map(String::as_str), &[]);
        for (id, name) in (0..).zip(["denied.one.test", "forged.one.test", "www.two.test"]) {
            let reply = ask(server.addresses[0], &asks(id, name, A));
            let last = reply.records().last().map(|(_, data)| data.clone());
            assert_eq!((reply.rcode(), last), (NOERROR, Some(vec![192, 0, 2, 7])), "{name}");
        }
        stop(server);
    }
}

#[test]
fn the_end_of_a_chain_is_that_of_the_answer() {
    let one = Upstream::new(|asked| {
        let target = if asked.name.starts_with("loop") { "loop.two.test" } else { "gone.two.test" };
        vec![alias(&asked.query, target)]
    });
    let two = Upstream::new(|asked| {
        vec![match asked.name.as_str() {
            "loop.two.test" => alias(&asked.query, "loop.one.test"),
            _ => empty(&asked.query, NXDOMAIN),
        }]
    });
    let stubs = [format!("one.test={}", one.flag()), format!("two.test={}", two.flag())];
    let server = cache(&[&stubs[0], &stubs[1]], &[]);
    let at = server.addresses[0];
    let gone = ask(at, &asks(1, "alias.one.test", A));
    assert_eq!((gone.rcode(), gone.answers()), (NXDOMAIN, 1));
    assert_eq!(ask(at, &asks(2, "loop.one.test", A)).rcode(), SERVFAIL, "a chain without an end");
    assert!(one.asked() + two.asked() <= 6, "a loop is noticed soon");
    stop(server);
    // Without a server for the target the chain ends where the zone does.
    let server = cache(&[&stubs[0]], &[]);
    let open = ask(server.addresses[0], &asks(3, "alias.one.test", A));
    assert_eq!((open.rcode(), open.records()[0].0, open.answers()), (NOERROR, CNAME, 1));
    stop(server);
}

#[test]
fn the_ds_record_of_a_zone_is_asked_of_the_servers_above() {
    let child = Upstream::new(|asked| vec![address(&asked.query, 60, 1)]);
    let parent = Upstream::new(|asked| vec![address(&asked.query, 60, 2)]);
    let stub = format!("zone.test={}", child.flag());
    let server = cache(&[&stub, &parent.flag()], &[]);
    ask(server.addresses[0], &asks(1, "Zone.test", DS));
    assert_eq!((child.asked(), parent.asked()), (0, 1));
    ask(server.addresses[0], &asks(2, "sub.zone.test", DS));
    ask(server.addresses[0], &asks(3, "zone.test", A));
    assert_eq!((child.asked(), parent.asked()), (2, 1));
    // A forwarder is checked by a question that it may have to ask others, and the server of a zone by one that not.
    assert!(parent.was_checked_with_rd() && !child.was_checked_with_rd());
    stop(server);
}
