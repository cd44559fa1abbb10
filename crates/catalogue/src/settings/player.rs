//! The settings of the player.

use super::rows::settings;
use crate::choice::{Close, Congestion, Io, KeyType, Method, Transport, TrustChoice};
use crate::course::Shape;
use crate::name;
use crate::setting::{COUNT, Flag, Kind};
use crate::sources::SourceChoice;

/// The most queries in one burst: the kernel accepts no more in one send (`UDP_MAX_SEGMENTS` of older kernels).
pub const BURST_MOST: u32 = 64;

/// The most connections of a player.
pub const CONNECTIONS_MOST: u32 = 131_072;

/// The most unsettled queries of one connection: there are as many message IDs (RFC 1035, section 4.1.1).
pub const OUTSTANDING_MOST: u32 = 65_536;

const BURSTS: Kind = Kind::Limited { least: 1, most: BURST_MOST as i64 };
const CONNECTIONS: Kind = Kind::Limited { least: 1, most: CONNECTIONS_MOST as i64 };
const OUTSTANDING: Kind = Kind::Limited { least: 1, most: OUTSTANDING_MOST as i64 };
const QUERIES: Kind = Kind::Limited { least: 0, most: 1_000_000_000 };
const TRUTH: Kind = Kind::Truth("true", "false");

/// A flag with one line of help.
const fn flag(long: &'static str, value: &'static str, help: &'static str) -> Flag {
    Flag { long, short: None, value, help, more: "" }
}

settings! {
    /// The settings of the player that a cell names.
    PlayerFactors, ROWS;

    /// The I/O; `None` for `auto`. QUIC has an I/O model of its own.
    io: Io = name::PLAYER_IO, Kind::Choice(&Io::WORDS), Io, Study,
        "the player's I/O; `auto` by default: the best that the host offers",
        Flag {
            more: "Over QUIC there is one way.",
            ..flag("io", "HOW", "Play by: auto (the default), plain, mmsg, gso or uring; on connections auto, epoll or uring")
        };
    /// Sockets over all threads.
    sockets: u32 = name::PLAYER_SOCKETS, COUNT, Udp, Study,
        "sockets over all threads";
    /// The most queries outstanding in a closed loop.
    window: u32 = name::PLAYER_WINDOW, COUNT, Every, Study,
        "the most queries outstanding in a closed loop";
    /// The most queries in one burst.
    burst: u32 = name::PLAYER_BURST, BURSTS, Every, Study,
        "the most queries in one burst";
    /// The course of the rate; `None` if the rate stays.
    course: Shape = "player.course", Kind::Course, Every, Study,
        "how the rate changes with time: its highest rate becomes that of the load, and the others their share of it";
    /// Sending threads.
    senders: u32 = name::PLAYER_SENDERS, COUNT, Every, Study,
        "sending threads, each on a core of its own if there are enough";
    /// Seconds after which a reply is late.
    timeout_s: f64 = name::PLAYER_TIMEOUT, Kind::Seconds, Every, Study,
        "seconds after which a reply is late";
    /// The source addresses of the sockets or connections.
    sources: SourceChoice = name::PLAYER_SOURCES, Kind::Sources, Every, Study,
        "source addresses: `one`; `spread`, by which sockets or connections take turns over those of 127.1.0.0/16; or a prefix of loopback of your own",
        Flag {
            short: Some('a'),
            more: "Over UDP too. A connection needs a port of its own. An address has some 28,000 of them, and some \
                   24,700 if connections are closed and opened again.",
            ..flag("local", "ADDR[/PREFIX]", "Play from this address, or from those of a prefix in turn, such as 127.1.0.0/16")
        };
    /// The transport of queries and replies; `None` for UDP.
    transport: Transport = name::PLAYER_TRANSPORT, Kind::Choice(&Transport::WORDS), Every, Study,
        "the transport of queries and replies; `udp` by default";
    /// Connections over all threads that may be open at once.
    connections: u32 = name::PLAYER_CONNECTIONS, CONNECTIONS, Connections, Study,
        "connections over all threads that may be open at once; 8 by default, and as many as `player.window` if each has one query or none",
        Flag {
            more: "With --queries-per-connection 0 or 1 the default is 500.",
            ..flag("connections", "COUNT", "Have at most this many connections open at once, except over UDP (default: 8)")
        };
    /// Queries after which a connection is closed; 0 if it is closed once it is made, `None` if it is kept.
    queries_per_connection: u32 = name::PLAYER_QUERIES_PER_CONNECTION, QUERIES, Connections, Study,
        "queries after which a connection is closed; with 0, once it is made, so that connections alone are the load; without it, it is kept",
        Flag {
            more: "Kept connections are opened before the load begins. With this flag a connection is opened when a query \
                   needs it, and its making is part of that query's latency. With 0 the load is connections and no \
                   queries: one is opened whenever a query would be due, and closed once it is made, over TLS and QUIC \
                   after the handshake. The rate is then connections a second, and each line of the query file stands \
                   for one.",
            ..flag("queries-per-connection", "COUNT", "Close each connection after this many queries, or once it is made: 0 (default: keep it)")
        };
    /// The most unsettled queries of one connection.
    outstanding_per_connection: u32 = name::PLAYER_OUTSTANDING, OUTSTANDING, Connections, Study,
        "the most unsettled queries of one connection; 65536 by default",
        flag("outstanding-per-connection", "COUNT", "Have at most this many queries outstanding on a connection (default: 65536)");
    /// Seconds after which a connection that is not made is given up; `None` for the time of a late reply.
    connect_timeout_s: f64 = name::PLAYER_CONNECT_TIMEOUT, Kind::Seconds, Connections, Study,
        "seconds after which a connection that is not made is given up; by default those of a late reply",
        flag("connect-timeout", "DURATION", "Give up a connection that is not made after this time (default: the timeout)");
    /// How the player closes connections. QUIC closes them in one way.
    close: Close = name::PLAYER_CLOSE, Kind::Choice(&Close::WORDS), Tcp, Study,
        "how the player closes connections; `fin` by default",
        Flag {
            more: "With rst no port stays in TIME_WAIT, and the server does other work than for clients that close normally.",
            ..flag("close", "HOW", "Close connections with: fin (the default) or rst; not over QUIC")
        };
    /// Whether connections resume the sessions of earlier ones.
    resume: bool = name::PLAYER_RESUME, TRUTH, Encrypted, Study,
        "whether connections resume the sessions of earlier ones; `true` by default",
        Flag {
            more: "Each thread keeps the tickets that it got, and uses each once. With -a, a ticket resumes sessions of the \
                   source address that got it.",
            ..flag("tls-resume", "WHETHER", "Resume sessions of earlier connections: yes (the default) or no")
        };
    /// The groups for the exchange of keys that the player offers, with commas between them; `None` for all usual ones.
    tls_group: String = name::PLAYER_TLS_GROUP, Kind::Text, Encrypted, Study,
        "the one group for the exchange of keys that the player offers, such as `x25519`; all usual ones by default",
        flag("tls-group", "GROUP,...", "Offer these groups for the exchange of keys alone, the best first, such as x25519");
    /// The cipher suites that the player offers, with commas between them; `None` for all usual ones.
    tls_suite: String = name::PLAYER_TLS_SUITE, Kind::Text, Encrypted, Study,
        "the one cipher suite that the player offers, such as `TLS_AES_128_GCM_SHA256`; all usual ones by default",
        flag("tls-suite", "SUITE,...", "Offer these cipher suites alone, the best first, such as TLS_AES_128_GCM_SHA256");
    /// The type of key that a certificate must have; `None` for any.
    tls_certificate: KeyType = name::PLAYER_TLS_CERTIFICATE, Kind::Choice(&KeyType::WORDS), Encrypted, Study,
        "the type of key in a certificate that the player accepts; any by default",
        Flag {
            more: "kqps then offers signatures of this type alone. So a server that has certificates of both types sends \
                   that one, and with any other server the handshake fails.",
            ..flag("tls-certificate", "TYPE", "Accept a certificate with a key of this type alone: ecdsa or rsa (default: any)")
        };
    /// Whether queries leave with the first packets of resumed connections.
    early_data: bool = name::PLAYER_EARLY_DATA, TRUTH, Encrypted, Study,
        "whether queries leave with the first packets of resumed connections (0-RTT); `false` by default. The echo, kqps auth and kqps cache take them if their setting `early_data` is `yes`, and the ceiling does",
        Flag {
            more: "Queries leave early if they may be replayed: those of opcode QUERY that ask for no transfer. A server \
                   may refuse early data; kqps then sends its queries again, and their latency counts from the first \
                   time. Only later connections resume, so give --queries-per-connection as well.",
            ..flag("early-data", "", "Send queries with the first packets of a resumed connection (0-RTT)")
        };
    /// Whether queries that leave together share records of TLS.
    tls_packing: bool = name::PLAYER_TLS_PACKING, TRUTH, Records, Study,
        "whether queries that leave together share a TLS record; `false` by default: each has one of its own, as with most clients",
        Flag {
            more: "By default each query has a record of its own, and over HTTPS each request. Some servers, such as NSD \
                   4.6.1 and dnsdist 1.7.3, leave queries that share a record unanswered until more arrives.",
            ..flag("tls-packing", "", "Put queries that leave together into one TLS record; not over QUIC")
        };
    /// The limit of the bytes on their way.
    congestion: Congestion = name::PLAYER_CONGESTION, Kind::Choice(&Congestion::WORDS), Quic, Study,
        "the limit of the bytes on their way; `fixed` by default: a window that never fills",
        Flag {
            more: "A fixed window never fills.",
            ..flag("congestion", "HOW", "Limit the bytes on their way over QUIC by: fixed (the default) or cubic")
        };
    /// How the player asks by HTTP.
    http_method: Method = name::PLAYER_HTTP_METHOD, Kind::Choice(&Method::WORDS), Https, Study,
        "how the player asks by HTTP; `post` by default",
        Flag {
            more: "With get the query is in the path, as ?dns= and base64url (RFC 8484).",
            ..flag("http-method", "METHOD", "Ask over HTTPS by: post (the default) or get")
        };
    /// The path of its requests; `None` for the usual one.
    http_path: String = name::PLAYER_HTTP_PATH, Kind::Text, Https, Run,
        "the path of requests by HTTP";
    /// The certificates that the player accepts; `None` for those of the run's own issuer.
    tls_trust: TrustChoice = name::PLAYER_TLS_TRUST, Kind::Choice(&TrustChoice::WORDS), Encrypted, Run,
        "accepted certificates; without it, those of the run";
    /// The server's name in its certificate; `None` for its address.
    tls_name: String = name::PLAYER_TLS_NAME, Kind::Text, Encrypted, Run,
        "the server's name in its certificate; without it, its address";
}
