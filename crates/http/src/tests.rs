//! Both ends in memory, and each end against frames written by hand.

mod bodies;
mod frames;

use frames::{
    DATA, GOAWAY, MAX_CONCURRENT_STREAMS, PREFACE, RST_STREAM, SETTINGS, frame, kinds, request, response,
    settings,
};

use crate::{
    BadTarget, ClientSession, Fate, Method, PATH, Peer, Requests, ServerEvent, ServerSession, Values,
};

const DNS: (&str, &str) = ("content-type", "application/dns-message");
const OK: (&str, &str) = (":status", "200");

/// A query with this ID and this number of bytes.
fn query(id: u16, bytes: usize) -> Vec<u8> {
    let mut message: Vec<u8> = (0..bytes).map(|number| number as u8).collect();
    message[..2].copy_from_slice(&id.to_be_bytes());
    message
}

/// The fate of a request, as the client learned it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum OwnedFate {
    Response(u16, bool, Vec<u8>),
    TooLong,
    Reset(String),
    GoneAway,
    Malformed,
}

impl OwnedFate {
    fn from_fate(fate: &Fate<'_>) -> Self {
        match fate {
            Fate::Response { status, is_dns, body } => Self::Response(*status, *is_dns, body.to_vec()),
            Fate::TooLong => Self::TooLong,
            Fate::Reset(reason) => Self::Reset(reason.clone()),
            Fate::GoneAway => Self::GoneAway,
            Fate::Malformed(_) => Self::Malformed,
        }
    }
}

/// Takes bytes, and returns what became of requests.
fn receive(client: &mut ClientSession, bytes: &[u8]) -> Vec<(u16, OwnedFate)> {
    let mut seen = Vec::new();
    client.receive(bytes, |key, fate| seen.push((key, OwnedFate::from_fate(&fate)))).unwrap();
    seen.sort();
    seen
}

/// Both ends. The server answers each query with its bytes and one more, or refuses to.
struct Rig {
    client: ClientSession,
    server: ServerSession,
    how: Requests,
    values: Values,
    queries: Vec<Vec<u8>>,
    refused: Vec<u16>,
    seen: Vec<(u16, OwnedFate)>,
    answers: bool,
}

impl Rig {
    fn new(method: Method, path: &str) -> Self {
        Self {
            client: ClientSession::new().unwrap(),
            server: ServerSession::default(),
            how: Requests::new(method, "dns.test", path).unwrap(),
            values: Values::default(),
            queries: Vec::new(),
            refused: Vec::new(),
            seen: Vec::new(),
            answers: true,
        }
    }

    /// Asks queries while there is room. Returns how many.
    fn ask(&mut self, queries: &[Vec<u8>]) -> usize {
        let mut asked = 0;
        while asked < queries.len() && self.client.has_room() {
            assert!(self.client.ask(asked as u16, &queries[asked], &mut self.how, asked as u64));
            asked += 1;
        }
        self.client.advance().unwrap();
        asked
    }

    /// Passes bytes both ways, in pieces of this length, until none are left.
    fn run(&mut self, piece: usize) {
        loop {
            let to_server = self.client.take_outgoing(<[u8]>::to_vec);
            let before = self.queries.len();
            for part in to_server.chunks(piece) {
                let (queries, refused) = (&mut self.queries, &mut self.refused);
                let peer = self.server.receive(part, |taken| match taken {
                    ServerEvent::Query(query) => queries.push(query.to_vec()),
                    ServerEvent::Refused(status) => refused.push(status),
                });
                assert_eq!(peer, Ok(Peer::Open));
            }
            for query in &self.queries[before..] {
                let reply = self.answers.then(|| [&query[..], b"!"].concat());
                self.server.reply(reply.as_deref(), Some(300), &mut self.values);
            }
            self.server.flush();
            let to_client = self.server.take_outgoing(<[u8]>::to_vec);
            for part in to_client.chunks(piece) {
                self.seen.extend(receive(&mut self.client, part));
            }
            if to_server.is_empty() && to_client.is_empty() {
                return;
            }
            self.client.advance().unwrap();
        }
    }
}

#[test]
fn queries_and_replies_pass_whatever_the_pieces() {
    for method in [Method::Post, Method::Get] {
        let longest = if method == Method::Post { 65_534 } else { 3_000 };
        for piece in [1, 2, 7, 1000, 1 << 20] {
            let mut rig = Rig::new(method, PATH);
            let queries = [query(7, 12), query(8, longest), query(9, 100)];
            assert_eq!(rig.ask(&queries), 3);
            rig.run(piece);
            let mut with_zero = queries.map(|query| [&[0, 0][..], &query[2..]].concat());
            with_zero.sort();
            rig.queries.sort();
            assert!(rig.queries == with_zero, "{method:?} in pieces of {piece}");
            rig.seen.sort();
            for (number, (key, seen)) in rig.seen.iter().enumerate() {
                let OwnedFate::Response(200, true, body) = seen else { panic!("{seen:?}") };
                assert_eq!(usize::from(*key), number);
                assert!(body.starts_with(&[0, 0]) && body.ends_with(b"!"));
            }
            assert_eq!((rig.seen.len(), rig.client.open(), rig.refused.len()), (3, 0, 0));
            assert!(!rig.server.is_busy());
        }
    }
}

#[test]
fn no_more_streams_are_open_than_the_server_takes() {
    let mut rig = Rig::new(Method::Post, PATH);
    let queries: Vec<Vec<u8>> = (0..250).map(|id| query(id, 40)).collect();
    assert_eq!(rig.ask(&queries), 100);
    rig.run(1 << 20);
    assert_eq!((rig.seen.len(), rig.client.has_room()), (100, true));
    let mut client = ClientSession::new().unwrap();
    let mut how = Requests::new(Method::Post, "dns.test", PATH).unwrap();
    assert!(receive(&mut client, &settings(&[(MAX_CONCURRENT_STREAMS, 2)])).is_empty());
    for key in [0, 1] {
        assert!(client.has_room() && client.ask(key, &query(key, 12), &mut how, 0));
        client.advance().unwrap();
    }
    assert!(!client.has_room());
    assert_eq!(receive(&mut client, &response(1, &[OK, DNS], &query(0, 12))).len(), 1);
    assert!(client.has_room());
}

#[test]
fn what_is_no_query_gets_a_status() {
    for (method, path, message, status) in [
        (Method::Post, "/other", query(0, 12), 404),
        (Method::Get, "/", query(0, 12), 404),
        (Method::Post, PATH, query(0, 11), 400),
        (Method::Post, PATH, query(0, 65_536), 413),
        (Method::Get, PATH, query(0, 11), 400),
        // The first of two messages is no base64url.
        (Method::Get, "/dns-query?dns=a", query(0, 12), 400),
    ] {
        let mut rig = Rig::new(method, path);
        rig.ask(&[message]);
        rig.run(1 << 20);
        assert_eq!((&rig.refused[..], rig.queries.len()), (&[status][..], 0), "{path}");
        assert_eq!(rig.seen, [(0, OwnedFate::Response(status, false, Vec::new()))]);
    }
    let mut unanswered = Rig::new(Method::Post, PATH);
    unanswered.answers = false;
    unanswered.ask(&[query(0, 12)]);
    unanswered.run(1 << 20);
    assert_eq!(unanswered.seen, [(0, OwnedFate::Response(400, false, Vec::new()))]);
}

#[test]
fn a_server_takes_post_and_get_of_dns_messages() {
    let mut server = ServerSession::default();
    let mut refused = Vec::new();
    let bytes = [
        PREFACE.to_vec(),
        settings(&[]),
        request(1, "DELETE", PATH, DNS.1),
        request(3, "POST", PATH, "text/plain"),
        request(5, "POST", PATH, DNS.1),
        request(7, "GET", PATH, DNS.1),
        request(9, "POST", PATH, "Application/DNS-Message; charset=x"),
    ];
    for byte in bytes.concat() {
        let peer = server.receive(&[byte], |taken| match taken {
            ServerEvent::Refused(status) => refused.push(status),
            ServerEvent::Query(query) => panic!("{query:?}"),
        });
        assert_eq!(peer, Ok(Peer::Open));
    }
    assert_eq!(refused, [405, 415, 400, 400, 400]);
    let mut of_web = ServerSession::default();
    assert!(of_web.receive(b"GET /dns-query HTTP/1.1\r\nhost: a\r\n\r\n", |_| ()).is_err());
}

/// A client that asked this many queries, with their numbers as keys. Their streams are 1, 3, 5 and so on.
fn asked(count: u16) -> ClientSession {
    let mut client = ClientSession::new().unwrap();
    let mut how = Requests::new(Method::Post, "dns.test", PATH).unwrap();
    // A stream has the client's window once the server has acknowledged it.
    let acknowledged = frame(SETTINGS, 1, 0, &[]);
    assert!(receive(&mut client, &[settings(&[]), acknowledged].concat()).is_empty());
    for key in 0..count {
        assert!(client.has_room() && client.ask(key, &query(key, 30), &mut how, u64::from(key)));
    }
    client.advance().unwrap();
    client
}

#[test]
fn every_request_has_its_fate() {
    let mut client = asked(7);
    let reply = query(0, 30);
    let frames = [
        response(1, &[OK, DNS], &reply),
        response(3, &[(":status", "503"), ("content-type", "text/html")], b"busy"),
        response(5, &[OK, ("content-type", "text/html")], b"hello"),
        frame(RST_STREAM, 0, 7, &7_u32.to_be_bytes()),
        response(9, &[OK, DNS], &vec![0; 80_000]),
        response(11, &[OK, DNS, ("content-length", "5")], b"abc"),
        frame(GOAWAY, 0, 0, &[11_u32.to_be_bytes(), 0_u32.to_be_bytes()].concat()),
    ];
    let seen = receive(&mut client, &frames.concat());
    assert_eq!(
        seen,
        [
            (0, OwnedFate::Response(200, true, reply)),
            (1, OwnedFate::Response(503, false, Vec::new())),
            (2, OwnedFate::Response(200, false, Vec::new())),
            (3, OwnedFate::Reset("REFUSED_STREAM".to_owned())),
            (4, OwnedFate::TooLong),
            (5, OwnedFate::Malformed),
            (6, OwnedFate::GoneAway),
        ]
    );
    assert_eq!((client.open(), client.away()), (0, Some("NO_ERROR")));
    assert!(!client.has_room());
}

#[test]
fn a_server_that_goes_away_answers_what_it_has() {
    let mut client = asked(3);
    let away = [3_u32.to_be_bytes(), 11_u32.to_be_bytes()].concat();
    assert_eq!(receive(&mut client, &frame(GOAWAY, 0, 0, &away)), [(2, OwnedFate::GoneAway)]);
    assert_eq!((client.open(), client.away()), (2, Some("ENHANCE_YOUR_CALM")));
    for (key, stream) in [(1, 3), (0, 1)] {
        let seen = receive(&mut client, &response(stream, &[OK, DNS], &query(0, 30)));
        assert_eq!(seen, [(key, OwnedFate::Response(200, true, query(0, 30)))]);
    }
    assert!(client.is_going_away() && client.open() == 0);
}

#[test]
fn what_http_forbids_ends_the_connection() {
    let mut client = asked(2);
    client.take_outgoing(|_| ());
    let mut seen = Vec::new();
    let bytes = [response(1, &[OK, DNS], &query(0, 30)), frame(DATA, 0, 0, b"x")].concat();
    let failure =
        client.receive(&bytes, |key, fate| seen.push((key, OwnedFate::from_fate(&fate)))).unwrap_err();
    assert!(failure.to_string().starts_with("HTTP/2: "), "{failure}");
    // The response that arrived before is whole, and the other request ends with the connection.
    assert_eq!(seen, [(0, OwnedFate::Response(200, true, query(0, 30)))]);
    assert!(client.take_outgoing(kinds).contains(&GOAWAY));
    assert!(client.is_going_away() && !client.has_room());
}

#[test]
fn an_abandoned_request_is_cancelled_and_not_reported() {
    let mut client = asked(3);
    client.take_outgoing(|_| ());
    assert_eq!(client.oldest_ns(), Some(0));
    assert!(client.abandon_before(2) && !client.abandon_before(2));
    client.advance().unwrap();
    assert_eq!((client.open(), client.oldest_ns()), (1, Some(2)));
    assert_eq!(client.take_outgoing(kinds), [RST_STREAM, RST_STREAM]);
    let late = [response(1, &[OK, DNS], &query(0, 30)), response(5, &[OK, DNS], &query(0, 30))].concat();
    assert_eq!(receive(&mut client, &late), [(2, OwnedFate::Response(200, true, query(0, 30)))]);
}

#[test]
fn a_client_says_that_it_goes() {
    let mut rig = Rig::new(Method::Post, PATH);
    rig.ask(&[query(0, 12)]);
    rig.run(1 << 20);
    rig.client.close();
    let last = rig.client.take_outgoing(<[u8]>::to_vec);
    assert_eq!(kinds(&last).last(), Some(&GOAWAY));
    assert_eq!(rig.server.receive(&last, |_| ()), Ok(Peer::Closed));
}

#[test]
fn a_server_says_that_it_goes() {
    let mut rig = Rig::new(Method::Post, PATH);
    rig.ask(&[query(0, 12)]);
    rig.run(1 << 20);
    rig.server.close();
    let last = rig.server.take_outgoing(<[u8]>::to_vec);
    assert!(receive(&mut rig.client, &last).is_empty() && rig.client.is_going_away());
}

#[test]
fn a_url_has_a_host_and_a_path() {
    for (authority, path) in [("dns.test", "dns-query"), ("a b", PATH), ("dns.test", "/a b"), ("", PATH)] {
        let wrong = Requests::new(Method::Post, authority, path).err();
        let said = wrong.as_ref().map(BadTarget::to_string).unwrap_or_default();
        assert!(said.contains("is no URL"), "{authority} {path}: {said}");
    }
    for (path, expected) in [
        ("/q#x", "`https://dns.test/q#x` has a fragment"),
        ("#", "has a fragment"),
        (
            "/grün?ß=1",
            "`https://dns.test/grün?ß=1`: the path of a URL is ASCII alone: write /gr%C3%BCn?%C3%9F=1",
        ),
    ] {
        let said = Requests::new(Method::Get, "dns.test", path).err().unwrap().to_string();
        assert!(said.contains(expected), "{path}: {said}");
    }
    for (authority, path) in [("[::1]:8443", "/q?x=1"), ("127.0.0.1", "/"), ("dns.test", "/gr%C3%BCn")] {
        assert!(Requests::new(Method::Get, authority, path).is_ok(), "{authority} {path}");
    }
}
