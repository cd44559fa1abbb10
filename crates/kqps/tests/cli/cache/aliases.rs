//! Aliases that lead from one zone to another, and which servers are asked about the edge of a zone.

use super::upstream::{Upstream, address, alias, empty};
use super::{asks, cache, stop};
use crate::auth::dns::{A, ask};
use crate::auth::{NOERROR, NXDOMAIN, SERVFAIL};

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
    // What was asked for on the way is kept, too.
    assert_eq!(ask(at, &asks(4, "end.three.test", A)).answers(), 1);
    assert_eq!([one.asked(), two.asked(), rest.asked()], [1, 1, 1]);
    let (report, counts) = stop(server);
    assert_eq!((counts.misses, counts.hits, counts.kept), (1, 3, 1), "{report:?}");
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
