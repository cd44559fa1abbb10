use super::*;
use crate::choice::Io;
use crate::setting::GivenBy;

fn read(words: &[(&str, &str)]) -> Result<Factors, FactorError> {
    Factors::read(words.iter().map(|(name, word)| ((*name).to_owned(), (*word).to_owned())))
}

/// A word of every factor, in the order of their names.
const WORDS: [(&str, &str); 55] = [
    ("compared_as", "a again"),
    ("dataset.file", "my queries"),
    ("dataset.names", "one"),
    ("dataset.recipe", "tld"),
    ("dataset.records", "1000"),
    ("dataset.zones", "3"),
    ("good_rate", "20000"),
    ("host.nice", "-20"),
    ("host.receive-core", "7"),
    ("host.rps.eth0.3", "0,2-3"),
    ("host.sysctl.net.core.rmem_max", "16777216"),
    ("hosts.players", "2"),
    ("hosts.sources", "6"),
    ("internet", "large"),
    ("internet.attack", "aliases"),
    ("internet.delay_ms", "0"),
    ("internet.hits_percent", "80"),
    ("latency_at_percent", "25 50"),
    ("path", "veth"),
    ("path.gro", "on"),
    ("path.queues", "2"),
    ("path.rps_cpus", "0,2-3"),
    ("path.sysctl.net.ipv4.udp_rmem_min", "8192"),
    ("path.txqueuelen", "0"),
    ("player.burst", "32"),
    ("player.close", "rst"),
    ("player.congestion", "cubic"),
    ("player.connect_timeout_s", "0.5"),
    ("player.connections", "64"),
    ("player.course", "ramp 1000..5000/2s"),
    ("player.early_data", "true"),
    ("player.http_method", "get"),
    ("player.http_path", "/dns"),
    ("player.io", "mmsg"),
    ("player.outstanding_per_connection", "10"),
    ("player.queries_per_connection", "1"),
    ("player.resume", "false"),
    ("player.senders", "2"),
    ("player.sockets", "8"),
    ("player.sources", "127.1.0.0/16"),
    ("player.timeout_s", "0.250"),
    ("player.tls_certificate", "rsa"),
    ("player.tls_group", "x25519"),
    ("player.tls_name", "dns.test"),
    ("player.tls_packing", "true"),
    ("player.tls_suite", "TLS_AES_128_GCM_SHA256"),
    ("player.tls_trust", "anyone"),
    ("player.transport", "tls"),
    ("player.window", "500"),
    ("rounds", "26"),
    ("scenario", "one-name=50k"),
    ("steady", "1m"),
    ("subject.certificate", "rsa-2048"),
    ("subject.event", "reload"),
    ("threads", "4"),
];

#[test]
fn every_factor_has_a_value_and_keeps_its_word() {
    let factors = read(&WORDS).unwrap();
    let player = PlayerFactors {
        io: Some(Io::Mmsg),
        course: Some("ramp 1000..5000/2s".parse().unwrap()),
        senders: Some(2),
        sockets: Some(8),
        window: Some(500),
        burst: Some(32),
        timeout_s: Some(0.25),
        sources: Some(SourceChoice::Prefix([127, 1, 0, 0].into(), 16)),
        transport: Some(Transport::Tls),
        connections: Some(64),
        queries_per_connection: Some(1),
        outstanding_per_connection: Some(10),
        connect_timeout_s: Some(0.5),
        close: Some(Close::Rst),
        resume: Some(false),
        tls_group: Some("x25519".into()),
        tls_suite: Some("TLS_AES_128_GCM_SHA256".into()),
        tls_certificate: Some(KeyType::Rsa),
        tls_trust: Some(TrustChoice::Anyone),
        tls_name: Some("dns.test".into()),
        early_data: Some(true),
        tls_packing: Some(true),
        congestion: Some(Congestion::Cubic),
        http_method: Some(Method::Get),
        http_path: Some("/dns".into()),
    };
    let dataset = DatasetFactors {
        recipe: Some("tld".into()),
        zones: Some(3),
        records: Some(1000),
        names: Some(Names::One),
        internet: Some(InternetSize::Large),
        hits_percent: Some(80),
        delay_ms: Some(0),
        attack: Some(InternetAttack::Aliases),
        file: Some("my queries".into()),
    };
    let path = PathFactors {
        kind: Some(Path::Veth),
        queues: Some(2),
        txqueuelen: Some(0),
        rps_cpus: Some(vec![0, 2, 3]),
        gro: Some(true),
    };
    assert_eq!((factors.player(), factors.dataset(), factors.path()), (&player, &dataset, &path));
    assert_eq!((factors.steady_s(), factors.latency_at_percent()), (Some(60.0), &[25, 50][..]));
    assert_eq!(factors.sysctls(), &[("net.ipv4.udp_rmem_min".to_owned(), "8192".to_owned())].into());
    assert_eq!((factors.rounds(), factors.niceness()), (Some(26), Some(-20)));
    assert_eq!(factors.hosts(), &HostsFactors { players: Some(2), sources: Some(6) });
    assert_eq!(factors.compared_as(), Some(ComparedAs::Again));
    assert_eq!(factors.receive_core(), Some(ReceiveCore::Core(7)));
    let settings: Vec<(&str, &str)> =
        factors.host_settings().iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(settings, [("rps.eth0.3", "0,2-3"), ("sysctl.net.core.rmem_max", "16777216")]);
    assert_eq!((factors.certificate(), factors.event()), (Some(CertificateType::Rsa2048), Some("reload")));
    let mut set = Factors::default();
    set.set_player(player);
    assert!(
        set.words()
            .iter()
            .all(|(name, word)| { name == "player.timeout_s" || factors.word(name) == Some(word.as_str()) })
    );
    assert_eq!(set.words().len(), factors.words().keys().filter(|name| name.starts_with("player.")).count());
    let given: Vec<(&str, &str)> =
        factors.words().iter().map(|(name, word)| (name.as_str(), word.as_str())).collect();
    assert_eq!(given, WORDS);

    let stored = serde_json::to_string(&factors).unwrap();
    assert!(stored.contains(r#""player.timeout_s":"0.250""#), "{stored}");
    assert_eq!(serde_json::from_str::<Factors>(&stored).unwrap(), factors);
}

#[test]
fn values_that_are_set_are_read_again_from_their_words() {
    let mut set = read(&[("player.io", "gso"), ("sockets", "shared")]).unwrap();
    set.set_player(PlayerFactors { window: Some(8), timeout_s: Some(0.1), ..PlayerFactors::default() });
    set.set_records(10);
    set.set_file("queries");
    set.set_latency_at(&[50, 90]);
    set.set_rounds(4);
    set.set_compared_as(ComparedAs::B);
    set.set_cores(&[1, 2]);
    set.set_receive_core(3);
    set.set_sockets("shared");
    assert_eq!(set.player().io, None, "the player's settings are replaced");
    assert_eq!(Factors::read(set.words().clone()).unwrap(), set);
    let other = read(&[("dataset.records", "7"), ("sockets", "reuseport")]).unwrap();
    let both = set.with(&other);
    assert_eq!((both.dataset().records, both.word("sockets")), (Some(7), Some("reuseport")));
    assert_eq!(both.rounds(), Some(4));
    let only = both.filtered(|name| name.starts_with("player."));
    assert_eq!((only.player(), only.dataset()), (set.player(), &DatasetFactors::default()));
}

#[test]
fn settings_of_another_transport_do_not_fit() {
    let of = |transport: &str| {
        let words = [
            ("player.close", "rst"),
            ("player.congestion", "cubic"),
            ("player.connect_timeout_s", "2"),
            ("player.connections", "4"),
            ("player.early_data", "true"),
            ("player.io", "mmsg"),
            ("player.resume", "false"),
            ("player.sockets", "8"),
            ("player.transport", transport),
            ("player.window", "9"),
            ("sockets", "shared"),
            ("subject.certificate", "rsa-2048"),
        ];
        let fitting = read(&words).unwrap().fitting();
        (fitting.transport(), fitting.words().keys().cloned().collect::<Vec<_>>())
    };
    let tcp = [
        "player.close",
        "player.connect_timeout_s",
        "player.connections",
        "player.transport",
        "player.window",
        "sockets",
    ];
    assert_eq!(of("tcp"), (Transport::Tcp, tcp.map(str::to_owned).to_vec()));
    let tls = [
        "player.close",
        "player.connect_timeout_s",
        "player.connections",
        "player.early_data",
        "player.resume",
        "player.transport",
        "player.window",
        "sockets",
        "subject.certificate",
    ];
    assert_eq!(of("tls"), (Transport::Tls, tls.map(str::to_owned).to_vec()));
    let quic = [
        "player.congestion",
        "player.connect_timeout_s",
        "player.connections",
        "player.early_data",
        "player.resume",
        "player.transport",
        "player.window",
        "sockets",
        "subject.certificate",
    ];
    assert_eq!(of("quic"), (Transport::Quic, quic.map(str::to_owned).to_vec()));
    let udp = ["player.io", "player.sockets", "player.transport", "player.window", "sockets"];
    assert_eq!(of("udp"), (Transport::Udp, udp.map(str::to_owned).to_vec()));
    assert_eq!(Factors::default().transport(), Transport::Udp);
    for (io, transports) in [
        ("auto", &["udp", "tcp", "tls", "https"][..]),
        ("gso", &["udp"]),
        ("epoll", &["tcp", "tls", "https"]),
        ("uring", &["udp", "tcp", "tls", "https"]),
        ("xdp", &["udp", "tcp", "tls", "https"]),
    ] {
        let words: Vec<&str> = settings::transports_for("player.io", io).map(Transport::word).collect();
        assert_eq!(words, transports, "{io}");
    }
}

#[test]
fn a_malformed_word_is_an_error_and_changes_nothing() {
    for (name, word, expected) in [
        ("player.window", "5oo", "a number from 1 on"),
        ("player.window", "0", "a number from 1 on"),
        ("player.timeout_s", "soon", "seconds above 0"),
        ("player.timeout_s", "inf", "seconds above 0"),
        ("player.sources", "two", "one, spread, an address, or a prefix such as 127.1.0.0/16"),
        ("player.sources", "127.0.0.0/33", "one, spread, an address, or a prefix such as 127.1.0.0/16"),
        ("player.sources", "::/+8", "one, spread, an address, or a prefix such as 127.1.0.0/16"),
        ("player.connect_timeout_s", "0", "seconds above 0"),
        ("player.congestion", "bbr", "one of fixed, cubic"),
        ("player.close", "end", "one of fin, rst"),
        ("player.resume", "yes", "one of true, false"),
        ("player.early_data", "yes", "one of true, false"),
        ("player.tls_certificate", "dsa", "one of ecdsa, rsa"),
        ("subject.certificate", "rsa", "one of ecdsa-p256, rsa-2048"),
        ("player.connections", "0", "a number from 1 on"),
        ("player.queries_per_connection", "-1", "a number from 0 on"),
        ("player.outstanding_per_connection", "-1", "a number from 1 on"),
        ("dataset.records", "-1", "a number from 1 on"),
        ("dataset.names", "oen", "one of random, one"),
        ("path", "wire", "one of loopback, veth"),
        ("path.queues", "4097", "a number of queues from 1 to 4096"),
        ("path.txqueuelen", "", "a number of packets from 0 on"),
        ("path.rps_cpus", "3-2", "cores, such as 0,2-3 (expected a list such as 0,2-5, found `3-2`)"),
        ("path.gro", "yes", "one of on, off"),
        ("steady", "forever", "a duration such as 60s or 1m"),
        ("latency_at_percent", "50 100", "percents from 1 to 99"),
        ("latency_at_percent", "half", "percents from 1 to 99"),
        ("latency_at_percent", "", "percents from 1 to 99"),
        ("rounds", "1.5", "a number from 1 on"),
        ("compared_as", "c", "one of a, a again, b"),
        ("host.nice", "20", "a number from -20 to 19"),
        ("host.receive-core", "first", "the number of a core, or last"),
        ("hosts.players", "0", "a number from 1 on"),
        ("internet", "tiny", "one of small, medium, large"),
        ("internet.hits_percent", "100", "a number of percent from 0 to 99"),
        ("hosts.sources", "all", "a number from 1 on"),
    ] {
        let mut factors = Factors::default();
        let error = factors.set(name, word).unwrap_err().to_string();
        assert_eq!(error, format!("factor `{name}`: expected {expected}, found `{word}`"));
        assert_eq!(factors, Factors::default());
        let stored = format!("{{\"{name}\":\"{word}\"}}");
        assert!(serde_json::from_str::<Factors>(&stored).unwrap_err().to_string().contains(expected));
    }
}

#[test]
fn sources_are_a_choice_of_the_player_or_addresses() {
    for (word, stored, is_loopback, is_ipv6) in [
        ("one", "one", true, false),
        ("spread", "spread", true, false),
        ("127.0.0.0/8", "127.0.0.0/8", true, false),
        ("127.0.0.0/7", "127.0.0.0/7", false, false),
        ("192.0.2.1", "192.0.2.1/32", false, false),
        ("192.0.2.0/24", "192.0.2.0/24", false, false),
        ("::1", "::1/128", true, true),
        ("2001:db8::/64", "2001:db8::/64", false, true),
    ] {
        let sources = read(&[("player.sources", word)]).unwrap().player().sources.unwrap();
        let seen = (sources.word(), sources.is_loopback(), sources.is_ipv6());
        assert_eq!(seen, (stored.to_owned(), is_loopback, is_ipv6), "{word}");
    }
}

#[test]
fn a_name_that_is_nearly_a_factor_is_an_error() {
    for name in [
        "player.windw",
        "dataset.record",
        "path.queue",
        "path.sysctl.kernel.panic",
        "host.nicer",
        "hosts.player",
        "host.rsp.eth0",
        "subject.certificat",
    ] {
        assert_eq!(read(&[(name, "1")]).unwrap_err().to_string(), format!("unknown factor `{name}`"));
    }
}

#[test]
fn what_only_searches_record_is_a_word_and_survives_being_stored() {
    let of_searches = settings::all().filter(|setting| setting.given_by == GivenBy::Search);
    let words: Vec<(&str, &str)> = of_searches.map(|setting| (setting.name, "as typed")).collect();
    let factors = read(&words).unwrap();
    assert_eq!(
        (factors.player(), factors.dataset()),
        (&PlayerFactors::default(), &DatasetFactors::default())
    );
    let stored = serde_json::to_string(&factors).unwrap();
    assert_eq!(serde_json::from_str::<Factors>(&stored).unwrap().words().len(), words.len());
}

#[test]
fn names_with_a_meaning_are_reserved() {
    for name in ["path", "rounds", "player.io", "dataset.x", "steady", "cores", "subject", "player_io"] {
        assert!(name::is_reserved(name), "{name}");
    }
    for name in ["sockets", "workers", "io", "threads", "player", "pathological"] {
        assert!(!name::is_reserved(name), "{name}");
    }
}

#[test]
fn names_of_the_first_versions_are_read_as_those_of_today() {
    let factors =
        read(&[("player_sockets", "8"), ("player_timeout_s", "1"), ("zone_records", "10")]).unwrap();
    assert_eq!((factors.player().sockets, factors.player().timeout_s), (Some(8), Some(1.0)));
    assert_eq!((factors.dataset().records, factors.word("player.sockets")), (Some(10), Some("8")));
}
