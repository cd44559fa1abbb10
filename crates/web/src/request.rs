//! Reads a client's request: its method, its path, the host that it was sent to, and the media types that the client
//! accepts. What else the head has is read and ignored.

use std::io::{self, Read};
use std::net::{IpAddr, Ipv6Addr};
use std::time::Instant;

/// The most bytes of a request's head.
pub(crate) const HEAD_MOST: usize = 8 << 10;

/// The most lines of a request's head.
const LINES_MOST: usize = 64;

/// A request that can be answered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// The path, without what follows a question mark.
    pub(crate) path: String,
    /// The values of `Accept`, separated by commas.
    pub(crate) accept: String,
    /// Whether only the head of the answer is wanted (`HEAD`).
    pub(crate) is_head: bool,
    /// Whether the client names this host by an address or as `localhost`, or does not name it.
    pub(crate) is_by_address: bool,
}

/// Why there is no request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The client has gone, or did not send anything in time.
    Gone,
    /// The status of the answer, and its words.
    Status(u16, &'static str),
}

/// Reads the head of a request, until `deadline` at the latest.
pub(crate) fn read(from: &mut impl Read, deadline: Instant) -> Result<Request, Refused> {
    let (mut bytes, mut room) = (Vec::new(), [0; 1024]);
    loop {
        let read = match from.read(&mut room) {
            Ok(0) => return Err(Refused::Gone),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return Err(Refused::Gone),
        };
        bytes.extend_from_slice(&room[..read]);
        if let Some(request) = parse(&bytes)? {
            return Ok(request);
        }
        if bytes.len() > HEAD_MOST {
            return Err(Refused::Status(431, "the head of the request is too long\n"));
        }
        if Instant::now() >= deadline {
            return Err(Refused::Status(408, "the request took too long\n"));
        }
    }
}

/// The request in these bytes; `None` if its head is not complete.
fn parse(bytes: &[u8]) -> Result<Option<Request>, Refused> {
    let mut lines = [httparse::EMPTY_HEADER; LINES_MOST];
    let mut head = httparse::Request::new(&mut lines);
    match head.parse(bytes) {
        Ok(httparse::Status::Partial) => Ok(None),
        Ok(httparse::Status::Complete(_)) => {
            let is_head = match head.method {
                Some("GET") => false,
                Some("HEAD") => true,
                _ => return Err(Refused::Status(405, "only GET is understood\n")),
            };
            let target = head.path.unwrap_or_default();
            let path = target.split('?').next().unwrap_or_default().to_owned();
            let hosts = head.headers.iter().filter(|line| line.name.eq_ignore_ascii_case("host"));
            let is_by_address = hosts.map(|line| line.value).all(is_address);
            let accepts = head.headers.iter().filter(|line| line.name.eq_ignore_ascii_case("accept"));
            let accept: Vec<_> = accepts.map(|line| String::from_utf8_lossy(line.value)).collect();
            Ok(Some(Request { path, accept: accept.join(","), is_head, is_by_address }))
        }
        Err(httparse::Error::TooManyHeaders) => {
            Err(Refused::Status(431, "the head of the request has too many lines\n"))
        }
        Err(_) => Err(Refused::Status(400, "this is no request of HTTP/1.1\n")),
    }
}

/// Whether a `Host` (RFC 9110, section 7.2) is an address or `localhost`, with or without a port.
fn is_address(host: &[u8]) -> bool {
    let host = str::from_utf8(host).unwrap_or_default().trim();
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split_once(']').is_some_and(|(address, _)| address.parse::<Ipv6Addr>().is_ok());
    }
    let name = host.split(':').next().unwrap_or_default();
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn read_bytes(bytes: &[u8]) -> Result<Request, Refused> {
        let mut bytes = bytes;
        read(&mut bytes, Instant::now() + Duration::from_mins(1))
    }

    #[test]
    fn a_request_has_a_path_without_its_query() {
        let accept = String::new();
        let wanted = |path: &str, is_head| {
            Ok(Request { path: path.into(), accept: accept.clone(), is_head, is_by_address: true })
        };
        assert_eq!(
            read_bytes(b"GET /metrics?x=1 HTTP/1.1\r\nHost: 127.0.0.1:9153\r\n\r\n"),
            wanted("/metrics", false)
        );
        assert_eq!(read_bytes(b"HEAD / HTTP/1.0\r\n\r\n"), wanted("/", true));
    }

    #[test]
    fn the_fields_of_accept_are_one_list() {
        let request =
            read_bytes(b"GET / HTTP/1.1\r\nAccept: text/plain;q=0.5\r\nACCEPT: a/b\r\n\r\n").unwrap();
        assert_eq!(request.accept, "text/plain;q=0.5,a/b");
    }

    #[test]
    fn a_host_is_an_address_or_localhost_or_neither() {
        for host in ["127.0.0.1", "127.0.0.1:80", "[::1]:80", "[::1]", "localhost:80", " LocalHost "] {
            assert!(is_address(host.as_bytes()), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example:80",
            "[x]",
            "[::1",
            "\u{ff}",
        ] {
            assert!(!is_address(host.as_bytes()), "{host}");
        }
        let request = read_bytes(b"GET / HTTP/1.1\r\nhost: evil.example:9153\r\n\r\n").unwrap();
        assert!(!request.is_by_address);
    }

    #[test]
    fn nonsense_is_refused_by_its_kind() {
        let status = |bytes: &[u8]| match read_bytes(bytes) {
            Err(Refused::Status(status, _)) => status,
            other => panic!("{other:?}"),
        };
        assert_eq!(status(b"\x16\x03\x01\x02\x00\x01"), 400);
        assert_eq!(status(b"GET / HTTP/9.9\r\n\r\n"), 400);
        assert_eq!(status(b"PUT / HTTP/1.1\r\n\r\n"), 405);
        let long = [b"GET /".as_slice(), &vec![b'a'; HEAD_MOST], &[b'a'; 2000]].concat();
        assert_eq!(status(&long), 431);
        let lines = "a: b\r\n".repeat(LINES_MOST + 1);
        assert_eq!(status(format!("GET / HTTP/1.1\r\n{lines}\r\n").as_bytes()), 431);
        assert_eq!(read_bytes(b"GET / HTTP/1.1\r\n"), Err(Refused::Gone), "it ended early");
    }

    #[test]
    fn a_client_that_trickles_is_refused() {
        struct Trickle;
        impl Read for Trickle {
            fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
                to[0] = b'G';
                Ok(1)
            }
        }
        assert_eq!(
            read(&mut Trickle, Instant::now()),
            Err(Refused::Status(408, "the request took too long\n"))
        );
    }
}
