//! EDNS (RFC 6891), DO, CD and AD (RFC 4035), sizes and TC. [`Server::ask`] checks each reply's header and OPT record.

use kqps_cache::Settings;

use super::support::{AD, Ask, CD, DO, EDNS, PLAIN, Server, check};

const WWW: &str = "www.example. A";
const REPLY: &str = "NOERROR\nan www.example. 60 IN A 192.0.2.1";
const SHOWN: &str = "NOERROR\nan www.example. 60 A 192.0.2.1";

#[test]
fn answers_with_do_or_cd_are_kept_apart() {
    let both = Ask { checking_disabled: true, ..DO };
    let asks = [PLAIN, DO, CD, both];
    for (number, ask) in asks.into_iter().enumerate() {
        let mut server = Server::new(&Settings::default());
        server.put(WWW, ask, REPLY);
        for (other, ask) in asks.into_iter().enumerate() {
            check(&mut server, WWW, ask, if other == number { SHOWN } else { "miss" });
        }
    }
}

#[test]
fn edns_alone_makes_no_difference() {
    let mut server = Server::new(&Settings::default());
    server.put(WWW, PLAIN, REPLY);
    for ask in [PLAIN, EDNS, AD] {
        check(&mut server, WWW, ask, SHOWN);
    }
}

#[test]
fn ad_is_shown_to_a_client_that_knows_it() {
    let mut server = Server::new(&Settings::default());
    let authentic = REPLY.replacen("NOERROR", "NOERROR ad", 1);
    let shown = SHOWN.replacen("NOERROR", "NOERROR ad", 1);
    let shown = shown.as_str();
    server.put(WWW, PLAIN, &authentic);
    server.put(WWW, DO, &authentic);
    for (ask, expected) in [(PLAIN, SHOWN), (EDNS, SHOWN), (AD, shown), (DO, shown)] {
        check(&mut server, WWW, ask, expected);
    }
    // It is that of the upstream server, and never made up.
    server.put(WWW, DO, REPLY);
    check(&mut server, WWW, DO, SHOWN);
}

#[test]
fn signatures_are_for_clients_that_ask_for_them() {
    let text = "NOERROR
        an www.example. 60 IN A 192.0.2.1
        an www.example. 60 IN RRSIG A 13 2 60 20460101000000 20260101000000 59044 example. AAAA";
    let mut server = Server::new(&Settings::default());
    server.put(WWW, PLAIN, text);
    server.put(WWW, DO, text);
    check(&mut server, WWW, PLAIN, SHOWN);
    check(&mut server, WWW, DO, &format!("{SHOWN}\nan www.example. 60 RRSIG A"));
    // Or for the type itself.
    server.put("www.example. RRSIG", PLAIN, text);
    check(&mut server, "www.example. RRSIG", PLAIN, "NOERROR\nan www.example. 60 RRSIG A");
}

#[test]
fn an_answer_that_is_too_long_is_truncated() {
    let mut server = Server::new(&Settings::default());
    let records: Vec<_> = (1..=40).map(|host| format!("an www.example. 60 IN A 192.0.2.{host}")).collect();
    server.put(WWW, PLAIN, &format!("NOERROR\n{}", records.join("\n")));
    let whole = server.answer(WWW, PLAIN).1.len();
    assert_eq!(whole, 12 + 17 + 40 * 16);
    for (ask, bytes) in [(PLAIN, whole), (EDNS, whole + 11)] {
        server.limit_bytes = bytes;
        assert_eq!(server.answer(WWW, ask).1.len(), bytes);
        server.limit_bytes = bytes - 1;
        check(&mut server, WWW, ask, "NOERROR tc");
    }
    assert_eq!(server.cache.counts().truncated, 2);
}
