//! Chains of aliases from one zone to another: where they end without data, and answers that are joined.

use kqps_cache::{Answered, Bailiwick, Form, Purpose, Put, Question, Reply, Settings, Shared, Why};
use kqps_message::question;

use super::support::{PLAIN, lines, query, reply, shown, wire};

const ALIAS: &str = "NOERROR ad
    an alias.example. 60 IN CNAME www.other.test.
    an www.other.test. 60 IN A 203.0.113.1";
const DATA: &str = "NOERROR
    an www.other.test. 30 IN CNAME end.other.test.
    an end.other.test. 90 IN A 192.0.2.1
    an alias.example. 60 IN A 203.0.113.2";

fn question(name: &[u8]) -> Question<'_> {
    Question { name, rtype: 1, class: 1, dnssec_ok: false, checking_disabled: false }
}

fn cache() -> Shared {
    Shared::for_one(&Settings::default(), [1, 2])
}

/// Reads the reply of a zone's server to a question for an address.
fn read(asked: &str, text: &str, zone: &Bailiwick) -> Result<Reply, Why> {
    cache().read(&question(&wire(asked)), &reply(&format!("{asked} A"), text), zone)
}

fn zone(name: &str) -> Bailiwick {
    Bailiwick::from_zone(&wire(name))
}

/// A reply to a question for the address of `asked`, as a client without EDNS gets it.
fn seen(asked: &str, reply: &Reply) -> String {
    let mut buffer = query(&format!("{asked} A"), PLAIN);
    let question_end = buffer.len();
    buffer.resize(512, 0);
    let bytes = reply.answer(Form { question_end, dnssec_ok: None }, &mut buffer, 512);
    shown(&buffer[..bytes])
}

/// The last name of an open chain, in an answer of the server of a zone.
fn ends_at(asked: &str, text: &str, names: &Bailiwick) -> Option<Vec<u8>> {
    let reply = read(asked, text, names).expect("an answer");
    reply.is_open().then(|| reply.aliases().last().unwrap().clone())
}

#[test]
fn a_chain_that_leaves_its_zone_ends_at_the_name_outside() {
    let example = zone("example.");
    let outside = Some(wire("www.other.test."));
    assert_eq!(ends_at("alias.example.", ALIAS, &example), outside);
    assert_eq!(ends_at("alias.example.", ALIAS, &zone(".")), None, "a server for all names completes it");
    let cut = zone(".").without([&wire("other.test.")[..]].into_iter());
    assert_eq!(ends_at("alias.example.", ALIAS, &cut), outside, "unless another server speaks for its end");
    // A server is not believed about names outside: data, that there are none, and that there is no name.
    for rcode in ["NOERROR", "NXDOMAIN"] {
        let denied = format!(
            "{rcode}\nan alias.example. 60 IN CNAME www.other.test.\nns other.test. 60 IN SOA ns. host. 1 2 3 4 60"
        );
        for names in [&example, &cut] {
            assert_eq!(ends_at("alias.example.", &denied, names), outside, "{rcode}");
            let reply = read("alias.example.", &denied, names).unwrap();
            let alone = lines("NOERROR\nan alias.example. 60 CNAME www.other.test.");
            assert_eq!(seen("alias.example.", &reply), alone, "{rcode}");
        }
        assert_eq!(ends_at("alias.example.", &denied, &zone(".")), None, "{rcode}");
    }
    for complete in [
        "NOERROR\nan alias.example. 60 IN A 192.0.2.1",
        "NOERROR\nan alias.example. 60 IN CNAME b.example.\nns example. 60 IN SOA ns. host. 1 2 3 4 60",
        "NXDOMAIN\nan alias.example. 60 IN CNAME b.example.\nns example. 60 IN SOA ns. host. 1 2 3 4 60",
        "NXDOMAIN\nan alias.example. 60 IN CNAME b.example.",
        "NOERROR",
    ] {
        assert_eq!(ends_at("alias.example.", complete, &example), None, "{complete}");
    }
    let in_zone = "NOERROR\nan alias.example. 60 IN CNAME b.example.";
    assert_eq!(ends_at("alias.example.", in_zone, &example), Some(wire("b.example.")));
}

#[test]
fn joined_answers_have_what_is_of_their_servers_and_answer_the_question() {
    let name = wire("alias.example.");
    let first = read("alias.example.", ALIAS, &zone("example.")).unwrap();
    let last = read("www.other.test.", DATA, &zone("other.test.")).unwrap();
    let whole = Reply::join(&question(&name), &[first], &last).unwrap();
    let expected = lines(
        "NOERROR
        an alias.example. 60 CNAME www.other.test.
        an www.other.test. 30 CNAME end.other.test.
        an end.other.test. 90 A 192.0.2.1",
    );
    assert_eq!(seen("alias.example.", &whole), expected, "AD is not that of the whole");
    assert_eq!(whole.aliases(), [wire("www.other.test."), wire("end.other.test.")]);
    assert_eq!(cache().keep(&question(&name), &whole, 0), Put::Kept { ttl_s: 30 });
}

#[test]
fn a_denial_at_the_end_is_that_of_the_whole() {
    let text = "NOERROR\nan alias.example. 60 IN CNAME gone.test.";
    let first = read("alias.example.", text, &zone("example.")).unwrap();
    let text = "NXDOMAIN\nns test. 20 IN SOA ns.test. host.test. 1 2 3 4 20";
    let last = read("gone.test.", text, &zone("test.")).unwrap();
    let whole = Reply::join(&question(&wire("alias.example.")), &[first], &last).unwrap();
    let expected = lines(
        "NXDOMAIN
        an alias.example. 60 CNAME gone.test.
        ns test. 20 SOA ns.test. host.test. 1 2 3 4 20",
    );
    assert_eq!(seen("alias.example.", &whole), expected);
}

#[test]
fn a_dname_record_that_is_passed_twice_is_in_the_whole_once() {
    let dname = "an d.other.test. 60 IN DNAME example.";
    let first = format!("NOERROR\n{dname}\nan a.d.other.test. 60 IN CNAME a.example.");
    let second = "NOERROR\nan a.example. 60 IN CNAME b.d.other.test.";
    let third = format!("NOERROR\n{dname}\nan b.d.other.test. 60 IN CNAME b.example.");
    let last = "NOERROR\nan b.example. 60 IN A 192.0.2.1";
    let (one, two) = (zone("other.test."), zone("example."));
    let parts = [
        read("a.d.other.test.", &first, &one),
        read("a.example.", second, &two),
        read("b.d.other.test.", &third, &one),
    ];
    let last = read("b.example.", last, &two).unwrap();
    let name = wire("a.d.other.test.");
    let whole = Reply::join(&question(&name), &parts.map(Result::unwrap), &last).unwrap();
    let expected = lines(
        "NOERROR
        an d.other.test. 60 DNAME example.
        an a.d.other.test. 60 CNAME a.example.
        an a.example. 60 CNAME b.d.other.test.
        an b.d.other.test. 60 CNAME b.example.
        an b.example. 60 A 192.0.2.1",
    );
    assert_eq!(seen("a.d.other.test.", &whole), expected);
}

#[test]
fn a_part_answers_no_query_and_is_known_until_its_ttl_ends() {
    let (cache, name) = (cache(), wire("alias.example."));
    let part = read("alias.example.", ALIAS, &zone("example.")).unwrap();
    assert_eq!(cache.keep_part(&question(&name), &part, 100), Put::Kept { ttl_s: 60 });
    let mut buffer = query("alias.example. A", PLAIN);
    let form = Form { question_end: question::end(&buffer).unwrap(), dnssec_ok: None };
    buffer.resize(512, 0);
    let key = cache.key(&question(&name)).unwrap();
    for purpose in [Purpose::Client, Purpose::Waiter, Purpose::Late] {
        let answered = cache.answer_read(&key, form, &mut buffer, 512, 100, purpose);
        assert_eq!(answered, Answered::Miss, "{purpose:?}");
    }
    let (known, is_whole) = cache.known(&question(&name), 159).expect("a part");
    assert!(!is_whole && known.is_open());
    assert_eq!(seen("alias.example.", &known), lines("NOERROR\nan alias.example. 1 CNAME www.other.test."));
    assert!(cache.known(&question(&name), 160).is_none(), "its TTL has ended");
    // The whole chain leaves its parts, and a reply that is whole by itself takes their place.
    cache.keep_part(&question(&name), &part, 200);
    let last = read("www.other.test.", DATA, &zone("other.test.")).unwrap();
    let whole = Reply::join(&question(&name), &[part], &last).unwrap();
    cache.keep(&question(&name), &whole, 200);
    assert!(cache.known(&question(&name), 229).unwrap().1);
    assert!(!cache.known(&question(&name), 230).unwrap().1);
    let direct = read("alias.example.", "NOERROR\nan alias.example. 5 IN A 192.0.2.9", &zone("example."));
    cache.keep(&question(&name), &direct.unwrap(), 230);
    assert!(cache.known(&question(&name), 234).unwrap().1);
    assert!(cache.known(&question(&name), 235).is_none());
}

#[test]
fn what_is_joined_lasts_no_longer_than_its_parts() {
    let settings = Settings { ttl: 30..=86_400, ..Settings::default() };
    let (cache, name) = (Shared::for_one(&settings, [1, 2]), wire("alias.example."));
    let message = reply("alias.example. A", "NOERROR\nan alias.example. 7 IN CNAME www.other.test.");
    let part = cache.read(&question(&name), &message, &zone("example.")).unwrap();
    assert_eq!(cache.keep_part(&question(&name), &part, 0), Put::Kept { ttl_s: 30 });
    let (known, _) = cache.known(&question(&name), 28).unwrap();
    let last = read("www.other.test.", DATA, &zone("other.test.")).unwrap();
    let whole = Reply::join(&question(&name), &[known], &last).unwrap();
    assert_eq!(cache.keep(&question(&name), &whole, 28), Put::Kept { ttl_s: 2 });
}
