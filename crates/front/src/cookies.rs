//! DNS cookies towards one back end (RFC 7873): a client cookie in every query by datagrams, and the server cookie that
//! the back end sent last.

use std::io;

use kqps_message::edns::{self, COOKIE};
use kqps_message::{Header, rcode};

use super::short;

/// The bytes of an option's code and length, of a client cookie, and of the longest server cookie (section 4).
const HEAD_BYTES: usize = 4;
const CLIENT_BYTES: usize = 8;
const SERVER_MOST: usize = 32;

/// The longest option in bytes.
pub(super) const OPTION_MOST: usize = HEAD_BYTES + CLIENT_BYTES + SERVER_MOST;

/// The cookies of one back end.
#[derive(Debug)]
pub(super) struct Cookies {
    client: [u8; CLIENT_BYTES],
    /// Empty until the back end has sent one.
    server: Vec<u8>,
}

/// The verdict on the sender of a reply, by its cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CookieVerdict {
    /// It returns the client cookie, or the back end is not known to have cookies.
    Right,
    /// The back end does not accept the server cookie, and has sent a better one (BADCOOKIE).
    Refused,
    /// The back end sends no cookie although it has them.
    Doubtful,
    /// It has another client cookie: the sender did not see the query.
    Wrong,
}

impl Cookies {
    /// A random client cookie, which no other back end gets. Fails if the kernel has no random numbers.
    pub(super) fn new() -> io::Result<Self> {
        let mut client = [0; CLIENT_BYTES];
        getrandom::fill(&mut client)
            .map_err(|error| io::Error::other(format!("no random numbers: {error}")))?;
        Ok(Self { client, server: Vec::new() })
    }

    /// Writes a query with the cookies to `out`. A query that does not end with an OPT record without options stays as
    /// it is.
    pub(super) fn write(&self, query: &[u8], out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(query);
        let opt = edns::find(query).ok().flatten();
        if !opt.is_some_and(|opt| opt.data.is_empty() && opt.end == query.len()) {
            return;
        }
        let cookie_bytes = CLIENT_BYTES + self.server.len();
        let end = out.len();
        out[end - 2..].copy_from_slice(&short(HEAD_BYTES + cookie_bytes).to_be_bytes());
        out.extend_from_slice(&COOKIE.to_be_bytes());
        out.extend_from_slice(&short(cookie_bytes).to_be_bytes());
        out.extend_from_slice(&self.client);
        out.extend_from_slice(&self.server);
    }

    /// Reads the cookie of a reply, and keeps its server cookie.
    pub(super) fn read(&mut self, reply: &[u8]) -> CookieVerdict {
        let opt = edns::find(reply).ok().flatten();
        let Some(cookie) = opt.and_then(|opt| option(opt.data)) else {
            return if self.server.is_empty() { CookieVerdict::Right } else { CookieVerdict::Doubtful };
        };
        let Some((client, server)) = cookie.split_first_chunk::<CLIENT_BYTES>() else {
            return CookieVerdict::Wrong;
        };
        let is_whole = server.is_empty() || (8..=SERVER_MOST).contains(&server.len());
        if *client != self.client || !is_whole {
            return CookieVerdict::Wrong;
        }
        if !server.is_empty() {
            self.server.clear();
            self.server.extend_from_slice(server);
        }
        let is_bad =
            Header::from_bytes(reply).is_some_and(|header| edns::rcode(header, reply) == rcode::BADCOOKIE);
        if is_bad { CookieVerdict::Refused } else { CookieVerdict::Right }
    }

    /// Reads the cookie of a reply that came by a connection, whose sender is the back end without doubt. If it has
    /// none, the back end has cookies no longer, and its datagrams need none.
    pub(super) fn confirm(&mut self, reply: &[u8]) {
        let opt = edns::find(reply).ok().flatten();
        if opt.and_then(|opt| option(opt.data)).is_none() {
            self.server.clear();
        } else {
            self.read(reply);
        }
    }
}

/// The first cookie among these options.
fn option(mut options: &[u8]) -> Option<&[u8]> {
    while let Some((&[c0, c1, l0, l1], rest)) = options.split_first_chunk::<HEAD_BYTES>() {
        let (data, after) = rest.split_at_checked(usize::from(u16::from_be_bytes([l0, l1])))?;
        if u16::from_be_bytes([c0, c1]) == COOKIE {
            return Some(data);
        }
        options = after;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUERY: &[u8] = b"\0\x01\x01\0\0\x01\0\0\0\0\0\x01\x01a\0\0\x01\0\x01\0\0\x29\x04\xd0\0\0\0\0\0\0";

    /// The reply to a query that `cookies` wrote, with this cookie in it and this extended rcode.
    fn reply(cookie: Option<&[u8]>, upper: u8, lower: u8) -> Vec<u8> {
        let mut reply = QUERY.to_vec();
        (reply[2], reply[3]) = (0x81, lower);
        let end = reply.len();
        reply[end - 6] = upper;
        if let Some(cookie) = cookie {
            reply[end - 1] = 4 + cookie.len() as u8;
            reply.extend([0, 10, 0, cookie.len() as u8]);
            reply.extend(cookie);
        }
        reply
    }

    #[test]
    fn a_query_carries_the_cookies_and_can_be_read() {
        let mut cookies = Cookies::new().unwrap();
        let client = cookies.client;
        let mut out = Vec::new();
        cookies.write(QUERY, &mut out);
        let opt = edns::find(&out).unwrap().unwrap();
        assert_eq!((opt.data, opt.end), (&[&[0_u8, 10, 0, 8][..], &client].concat()[..], out.len()));
        assert_eq!(
            cookies.read(&reply(Some(&[&client[..], b"12345678"].concat()), 0, 0)),
            CookieVerdict::Right
        );
        cookies.write(QUERY, &mut out);
        let opt = edns::find(&out).unwrap().unwrap();
        assert_eq!(opt.data, [&[0_u8, 10, 0, 16][..], &client, b"12345678"].concat());
        assert!(out.len() <= QUERY.len() + OPTION_MOST);
        let mut plain = QUERY[..19].to_vec();
        plain[11] = 0;
        cookies.write(&plain, &mut out);
        assert_eq!(out, plain);
    }

    #[test]
    fn a_reply_shows_whether_its_sender_saw_the_query() {
        let mut cookies = Cookies::new().unwrap();
        let client = cookies.client;
        assert_eq!(cookies.read(&reply(None, 0, 0)), CookieVerdict::Right, "it has no cookies so far");
        assert_eq!(cookies.read(&reply(Some(&client), 0, 0)), CookieVerdict::Right);
        assert_eq!(cookies.read(&reply(Some(b"\0\0\0\0\0\0\0\0"), 0, 0)), CookieVerdict::Wrong);
        assert_eq!(cookies.read(&reply(Some(&client[..7]), 0, 0)), CookieVerdict::Wrong);
        let short = [&client[..], b"1234567"].concat();
        assert_eq!(cookies.read(&reply(Some(&short), 0, 0)), CookieVerdict::Wrong);
        let whole = [&client[..], b"12345678"].concat();
        // BADCOOKIE is 23: 1 in the OPT record, and 7 in the header.
        assert_eq!(cookies.read(&reply(Some(&whole), 1, 7)), CookieVerdict::Refused);
        assert_eq!(cookies.server, b"12345678");
        assert_eq!(cookies.read(&reply(None, 0, 0)), CookieVerdict::Doubtful, "it has sent one before");
    }

    #[test]
    fn a_back_end_that_has_cookies_no_longer_is_believed_again() {
        let mut cookies = Cookies::new().unwrap();
        let whole = [&cookies.client[..], b"12345678"].concat();
        cookies.confirm(&reply(Some(&whole), 0, 0));
        assert_eq!(cookies.read(&reply(None, 0, 0)), CookieVerdict::Doubtful);
        // By the connection it sends none either.
        cookies.confirm(&reply(None, 0, 0));
        assert_eq!(cookies.read(&reply(None, 0, 0)), CookieVerdict::Right);
        assert_eq!(cookies.read(&reply(Some(&whole), 0, 0)), CookieVerdict::Right, "it may have them again");
        assert_eq!(cookies.read(&reply(None, 0, 0)), CookieVerdict::Doubtful);
    }
}
