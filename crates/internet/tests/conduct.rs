//! Faults and delays of servers.

use kqps_internet::{
    Answered, Fault, Internet, InternetRecipe, Kind, RecipeError, Server, TcpConduct, ZoneId,
};
use kqps_message::edns::Edns;
use kqps_message::name::is_at_or_below;
use kqps_message::{rcode, rtype};

use crate::book::{Reply, query, read, servers};

/// An Internet whose recipe has these behaviours.
fn with(behaviours: &str) -> Internet {
    let text = format!(
        "[zone]\nmail = 1\n[sizes]\nsmall = {{ zones = 1000, tlds = 100, companies = 50 }}\n{behaviours}"
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("recipe.toml");
    std::fs::write(&file, text).unwrap();
    let recipe = InternetRecipe::named(file.to_str().unwrap(), Some("small"), &["root.algorithm=0".into()]);
    Internet::new(&recipe.unwrap_or_else(|error| panic!("{error}"))).unwrap()
}

/// A server of the company of a zone, and the zone's name.
fn host(internet: &Internet, zone: u64) -> (Server, Vec<u8>) {
    let name = internet.zone_name(ZoneId::Site(zone));
    let query = query(&name, rtype::SOA, None);
    let mut reply = Vec::new();
    // A zone has one company: every other one refuses, unless it has a fault.
    let plain = with("");
    let company = (0..50).find(|&company| {
        let address = plain.addresses(Server::Company(company, 0))[0];
        plain.answer(address, &query, false, 0, &mut reply).kind == Kind::Answer
    });
    (Server::Company(company.expect("a company"), 0), name)
}

/// Asks a server for the address of a zone at a turn.
fn at(
    internet: &Internet,
    server: Server,
    name: &[u8],
    edns: Option<Edns>,
    is_tcp: bool,
    turn: u64,
) -> (Answered, Option<Reply>) {
    let query = query(name, rtype::A, edns);
    let mut reply = Vec::new();
    let address = internet.addresses(server)[0];
    let answered = internet.answer(address, &query, is_tcp, turn, &mut reply);
    (answered, (!reply.is_empty()).then(|| read(&query, &reply, answered)))
}

#[test]
fn every_fault_has_its_effect() {
    let right = with("");
    let (server, name) = host(&right, 0);
    let edns = Some(Edns::default());
    let (_, good) = at(&right, server, &name, edns, false, 0);
    let good = good.unwrap();
    assert_eq!((good.answered.kind, good.answered.fault, good.answered.delay_ns), (Kind::Answer, None, 0));
    for (fault, over_udp, over_tcp) in [
        (Fault::Delay, Kind::Answer, Kind::Answer),
        (Fault::Loss, Kind::Silent, Kind::Answer),
        (Fault::Silence, Kind::Silent, Kind::Silent),
        (Fault::Refused, Kind::Refused, Kind::Refused),
        (Fault::Servfail, Kind::ServFail, Kind::ServFail),
        (Fault::Lame, Kind::Referral, Kind::Referral),
        (Fault::NoEdns, Kind::FormErr, Kind::FormErr),
        (Fault::Truncation, Kind::Truncated, Kind::Answer),
        (Fault::PathMtu, Kind::Truncated, Kind::Answer),
        (Fault::TcpRefused, Kind::Answer, Kind::Silent),
        (Fault::SlowTcp, Kind::Answer, Kind::Answer),
        (Fault::WrongAnswer, Kind::Answer, Kind::Answer),
    ] {
        let is_delay = matches!(fault, Fault::Delay | Fault::SlowTcp);
        let delay = if is_delay { "delay_us = [7000]" } else { "" };
        let text =
            format!("[[behaviour]]\nfault = '{}'\namong = 'company'\nbytes = 40\n{delay}", fault.name());
        let internet = with(&text);
        for (is_tcp, kind) in [(false, over_udp), (true, over_tcp)] {
            let (answered, reply) = at(&internet, server, &name, edns, is_tcp, 3);
            let is_made = match fault {
                Fault::Loss | Fault::Truncation | Fault::PathMtu => !is_tcp,
                Fault::TcpRefused | Fault::SlowTcp => is_tcp,
                _ => true,
            };
            assert_eq!(answered.kind, kind, "{fault:?}");
            assert_eq!(answered.fault, is_made.then_some(fault), "{fault:?}");
            let delay_ns = if is_made && is_delay { 7_000_000 } else { 0 };
            assert_eq!(answered.delay_ns, delay_ns, "{fault:?}");
            let Some(reply) = reply else {
                assert_eq!(kind, Kind::Silent);
                continue;
            };
            let differs = reply.sections != good.sections;
            let is_changed = is_made && !is_delay;
            assert_eq!(differs, is_changed, "{fault:?}");
            if fault == Fault::WrongAnswer {
                assert_eq!((reply.rcode, reply.sections[0].len()), (rcode::NOERROR, good.sections[0].len()));
            }
            assert_eq!(reply.is_truncated, kind == Kind::Truncated);
            assert_eq!(reply.has_opt, fault != Fault::NoEdns);
        }
        // Servers of the root are not among those of companies.
        let (answered, _) = at(&internet, Server::Root(0), &name, edns, false, 0);
        assert_eq!((answered.kind, answered.fault), (Kind::Referral, None));
        let refused = TcpConduct::Refuse(Some(fault));
        let conduct = if fault == Fault::TcpRefused { refused } else { TcpConduct::Usual };
        assert_eq!(internet.tcp_conduct(internet.addresses(server)[0]), conduct);
    }
}

#[test]
fn a_server_without_edns_answers_queries_without_it() {
    let internet = with("[[behaviour]]\nfault = 'no-edns'");
    let (server, name) = host(&internet, 1);
    let (answered, _) = at(&internet, server, &name, None, false, 0);
    assert_eq!((answered.kind, answered.fault), (Kind::Answer, None));
}

#[test]
fn a_small_mtu_shows_only_in_what_it_cuts() {
    let internet = with("[tld]\nservers = [13, 13]\n[[behaviour]]\nfault = 'path-mtu'\namong = 'root'");
    let name = internet.zone_name(ZoneId::Tld(0));
    // The client's own 512 bytes cut the first reply.
    for (edns, fault) in [(None, None), (Some(Edns::default()), Some(Fault::PathMtu))] {
        let (answered, _) = at(&internet, Server::Root(0), &name, edns, false, 0);
        assert_eq!((answered.kind, answered.fault), (Kind::Truncated, fault));
    }
}

#[test]
fn connections_are_refused_or_slow_as_the_recipe_says() {
    let internet = with(
        "[[behaviour]]\nfault = 'slow-tcp'\npiece_bytes = 100\npiece_gap_us = 5000\n\
         [[behaviour]]\nfault = 'tcp-refused'\namong = 'root'",
    );
    let conduct = |server| internet.tcp_conduct(internet.addresses(server)[0]);
    assert_eq!(conduct(Server::Root(0)), TcpConduct::Refuse(Some(Fault::TcpRefused)));
    assert_eq!(conduct(Server::Tld(0, 0)), TcpConduct::Slow { piece_bytes: 100, gap_us: 5000 });
    assert_eq!(internet.tcp_conduct([192, 0, 2, 1].into()), TcpConduct::Refuse(None));
    let name = internet.zone_name(ZoneId::Tld(0));
    let (slow, _) = at(&internet, Server::Tld(0, 0), &name, None, true, 0);
    assert_eq!((slow.fault, slow.delay_ns), (Some(Fault::SlowTcp), 0));
}

#[test]
fn faults_come_in_exact_numbers() {
    let internet = with(
        "[[behaviour]]\nfault = 'loss'\nqueries = 0.01\n\
         [[behaviour]]\nfault = 'servfail'\nservers = 0.3\nqueries = 0.25",
    );
    let mut with_second = 0;
    let servers = servers(&internet);
    for &server in &servers {
        let address = internet.addresses(server)[0];
        let query = query(b"\x01x\0", rtype::A, None);
        let mut reply = Vec::new();
        let (mut lost, mut failed) = (0, 0);
        for turn in 0..400 {
            match internet.answer(address, &query, false, turn, &mut reply).fault {
                Some(Fault::Loss) => lost += 1,
                Some(Fault::Servfail) => failed += 1,
                other => assert_eq!(other, None),
            }
        }
        assert_eq!(lost, 4);
        // The first behaviour in the recipe goes before the second.
        assert!(failed == 0 || (96..=100).contains(&failed), "{failed}");
        with_second += u64::from(failed > 0);
    }
    // Within five standard deviations of 0.3.
    let expected = servers.len() as f64 * 0.3;
    assert!(
        (with_second as f64 - expected).abs() < 5.0 * expected.sqrt(),
        "{with_second} of {}",
        servers.len()
    );
}

#[test]
fn a_server_has_a_time_of_its_own() {
    let internet = with("[delay]\nroot_us = [1000]\ntld_us = [1000, 2000, 50000]\njitter = 0.1");
    let name = internet.zone_name(ZoneId::Site(0));
    let time = |server: Server, turn: u64| at(&internet, server, &name, None, false, turn).0.delay_ns;
    let mut seen = std::collections::HashSet::new();
    for tld in 0..100 {
        let least = (0..50).map(|turn| time(Server::Tld(tld, 0), turn)).min().unwrap();
        for turn in 0..50 {
            let delay_ns = time(Server::Tld(tld, 0), turn);
            assert!((1_000_000..55_000_000).contains(&delay_ns));
            assert!(delay_ns as f64 <= least as f64 * 1.11, "jitter is a tenth at most");
        }
        seen.insert(least);
    }
    assert!(seen.len() > 90);
    assert!((1_000_000..1_100_000).contains(&time(Server::Root(0), 0)));
    assert_eq!(time(Server::Company(0, 0), 0), 0);
    assert_eq!(time(Server::Tld(3, 1), 9), time(Server::Tld(3, 1), 9));
}

#[test]
fn a_lame_server_refers_to_the_root() {
    let internet = with("[[behaviour]]\nfault = 'lame'\namong = 'tld'");
    let name = internet.zone_name(ZoneId::Site(5));
    let tld = (0..100).find(|&tld| is_at_or_below(&name, &internet.zone_name(ZoneId::Tld(tld)))).unwrap();
    let (_, reply) = at(&internet, Server::Tld(tld, 0), &name, None, false, 0);
    let reply = reply.unwrap();
    assert!(!reply.is_authoritative);
    assert!(reply.sections[1].iter().all(|rec| rec.rtype == rtype::NS && rec.owner == b"\0"));
    assert_eq!(reply.sections[1].len(), 13);
}

#[test]
fn an_impossible_recipe_is_refused_with_its_key() {
    let fault = |settings: &[&str]| {
        let settings: Vec<String> = settings.iter().map(|text| (*text).to_owned()).collect();
        let recipe = InternetRecipe::named("internet", Some("small"), &settings);
        match recipe.and_then(|recipe| Internet::new(&recipe).map(drop)) {
            Err(error @ RecipeError::Fault { .. }) => error.to_string(),
            other => panic!("{settings:?}: {other:?}"),
        }
    };
    assert_eq!(fault(&["zone.count=0"]), "zone.count: 0; expected 1 to 10000000");
    assert_eq!(fault(&["zone.ipv6=2"]), "zone.ipv6: a share of 2; expected 0 to 1");
    assert_eq!(
        fault(&["root.algorithm=5"]),
        "root.algorithm: algorithm 5; expected 8 (RSASHA256) or 13 (ECDSAP256SHA256)"
    );
    assert!(fault(&["addresses.ipv4='198.18.0.0/24'"]).contains("has 256 addresses, and the servers need "));
    assert!(fault(&["addresses.ipv4='here'"]).contains("expected a prefix such as"));
    assert!(fault(&["zone.aliases=[0]"]).contains("no weight is above 0"));
    assert!(fault(&["tld.servers=[3,2]"]).contains("tld.servers: 2; expected 3 to 13"));
    for (setting, why) in [
        ("behaviour=[{fault='delay'}]", "delay needs delay_us"),
        ("behaviour=[{fault='loss',delay_us=[1]}]", "loss has no delay"),
        ("behaviour=[{fault='slow-tcp'}]", "slow-tcp needs delay_us or piece_bytes"),
        ("behaviour=[{fault='slow-tcp',piece_bytes=513}]", "piece_bytes: 513; expected 0 to 512"),
        ("behaviour=[{fault='slow-tcp',delay_us=[1],piece_gap_us=1}]", "needs piece_bytes"),
        ("behaviour=[{fault='slow-tcp',piece_bytes=1,queries=0.5}]", "is of whole connections"),
        ("behaviour=[{fault='loss',piece_bytes=1}]", "loss has no pieces"),
        ("behaviour=[{fault='tcp-refused',queries=0.5}]", "tcp-refused is of whole connections"),
        ("behaviour=[{fault='delay',delay_us=[120000001]}]", "delay_us: 120000001; expected 0 to 120000000"),
        ("delay.root_us=[120000000]", "together with other delays"),
        ("delay.tld_us=[18446744073709552]", "delay.tld_us"),
        ("signing.kept=4294967295", "signing.kept: 4294967295; expected 0 to 10000000"),
        ("signing.days_before=50000", "signing.days_before"),
        ("tld.ttl_s=2147483648", "tld.ttl_s: 2147483648; expected 0 to 2147483647"),
        ("addresses.ipv4='10.0.0.0/8'", "10.0.0.0/8 has the addresses of hosts"),
        ("addresses.ipv4='8.0.0.0/5'", "10.0.0.0/8 has the addresses of hosts"),
        ("addresses.ipv6='2001:2:0:ffff::/64'", "has the addresses of hosts"),
    ] {
        let found = fault(&[setting]);
        assert!(found.contains(why), "{setting}: {found}");
    }
    let error = InternetRecipe::named("internet", Some("smal"), &[]).unwrap_err().to_string();
    assert!(error.contains("no size \"smal\"") && error.ends_with("did you mean `small`?"), "{error}");
    let error = InternetRecipe::named("internet", None, &["zone.cuont=1".into()]).unwrap_err().to_string();
    assert!(error.contains("did you mean `count`?"), "{error}");
    let error = InternetRecipe::named("/nowhere.toml", None, &[]).unwrap_err().to_string();
    assert!(error.starts_with("cannot read /nowhere.toml"), "{error}");
}

#[test]
fn a_name_gets_many_servers_that_do_not_exist() {
    let internet = with("[[behaviour]]\nfault = 'many-servers'\namong = 'company'\nnames = 50");
    let (server, zone) = host(&internet, 0);
    let mut all = std::collections::BTreeSet::new();
    for number in 0..50 {
        let label = format!("name-{number:02}");
        let name = [&[7], label.as_bytes(), &zone].concat();
        // A datagram of 1,232 bytes has fewer.
        for (is_tcp, count) in [(true, 50..=50), (false, 20..=40)] {
            let (answered, reply) = at(&internet, server, &name, Some(Edns::default()), is_tcp, number);
            assert_eq!((answered.kind, answered.fault), (Kind::Referral, Some(Fault::ManyServers)));
            let [answer, authority, additional] = reply.unwrap().sections;
            assert!(answer.is_empty() && additional.is_empty() && count.contains(&authority.len()));
            assert!(authority.iter().all(|rec| rec.owner == name && rec.rtype == rtype::NS));
            all.extend(authority.into_iter().map(|rec| rec.data));
        }
    }
    assert_eq!(all.len(), 50 * 50, "no two names have the same servers");
    for server in all {
        assert_eq!(internet.expected(&server, rtype::A).unwrap().rcode, rcode::NXDOMAIN);
    }
    let (answered, _) = at(&internet, server, &zone, None, false, 1);
    assert_eq!(answered.fault, None, "a zone has its own servers");
}
