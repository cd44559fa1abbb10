//! DNS cookies (RFC 7873), with server cookies that every server of an anycast set can check (RFC 9018).

use std::net::IpAddr;

use siphasher::sip::SipHasher24;

/// The bytes of the client's part.
const CLIENT_BYTES: usize = 8;
/// The bytes of a server's part by RFC 9018: version, reserved, time, hash.
const SERVER_BYTES: usize = 16;
/// The longest possible server's part.
const SERVER_BYTES_MAX: usize = 32;
/// The bytes of a cookie of this server, with its client's part.
pub(crate) const BYTES: usize = CLIENT_BYTES + SERVER_BYTES;

const VERSION: u8 = 1;
/// The age at which a cookie expires (RFC 9018, section 4.3).
const AGE_MAX_S: u32 = 3600;
/// The age at which a client gets a fresh cookie.
const FRESH_MAX_S: u32 = 1800;
/// The most by which servers' clocks may differ.
const AHEAD_MAX_S: u32 = 300;

/// The cookie of a query.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cookie {
    client: [u8; CLIENT_BYTES],
    /// The server's part, if it has the length of this server's cookies.
    server: Option<[u8; SERVER_BYTES]>,
    /// Whether there is no server's part at all.
    is_first: bool,
}

/// The cookie has a length that RFC 7873, section 4, does not allow: neither 8 nor 16 to 40.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// The result of checking a cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Checked {
    /// Whether a server with the same secret gave it to this client recently.
    pub is_good: bool,
    /// Whether the client does not have a server's part yet.
    pub is_first: bool,
    /// The cookie to reply with.
    pub reply: [u8; BYTES],
}

impl Cookie {
    /// Reads the option.
    pub(crate) fn read(value: &[u8]) -> Result<Self, Malformed> {
        let (&client, server) = value.split_first_chunk().ok_or(Malformed)?;
        if server.is_empty() || (8..=SERVER_BYTES_MAX).contains(&server.len()) {
            return Ok(Self { client, server: server.try_into().ok(), is_first: server.is_empty() });
        }
        Err(Malformed)
    }

    /// Checks the cookie for a client at `address`.
    pub(crate) fn check(&self, secret: &[u8; 16], address: IpAddr, now_s: u32) -> Checked {
        if let Some(server) = self.server {
            let [v, r0, r1, r2, t0, t1, t2, t3, ..] = server;
            let time_s = u32::from_be_bytes([t0, t1, t2, t3]);
            // Times wrap around in 2106 (RFC 1982).
            let age_s = now_s.wrapping_sub(time_s);
            let is_timely = age_s <= AGE_MAX_S || time_s.wrapping_sub(now_s) <= AHEAD_MAX_S;
            let made = self.make(secret, [v, r0, r1, r2], time_s, address);
            if v == VERSION && is_timely && is_same(&made[CLIENT_BYTES..], &server) {
                let is_fresh = age_s <= FRESH_MAX_S || age_s > AGE_MAX_S;
                let reply =
                    if is_fresh { made } else { self.make(secret, [VERSION, 0, 0, 0], now_s, address) };
                return Checked { is_good: true, is_first: false, reply };
            }
        }
        let reply = self.make(secret, [VERSION, 0, 0, 0], now_s, address);
        Checked { is_good: false, is_first: self.is_first, reply }
    }

    /// The cookie for a client at `address` (RFC 9018, section 4.4).
    fn make(&self, secret: &[u8; 16], head: [u8; 4], time_s: u32, address: IpAddr) -> [u8; BYTES] {
        const HASH_AT: usize = BYTES - 8;
        let mut hashed = [0; HASH_AT + 16];
        hashed[..CLIENT_BYTES].copy_from_slice(&self.client);
        hashed[CLIENT_BYTES..CLIENT_BYTES + 4].copy_from_slice(&head);
        hashed[CLIENT_BYTES + 4..HASH_AT].copy_from_slice(&time_s.to_be_bytes());
        let address_bytes = match address.to_canonical() {
            IpAddr::V4(address) => {
                hashed[HASH_AT..HASH_AT + 4].copy_from_slice(&address.octets());
                4
            }
            IpAddr::V6(address) => {
                hashed[HASH_AT..].copy_from_slice(&address.octets());
                16
            }
        };
        let hash = SipHasher24::new_with_key(secret).hash(&hashed[..HASH_AT + address_bytes]);
        let mut cookie = [0; BYTES];
        cookie[..HASH_AT].copy_from_slice(&hashed[..HASH_AT]);
        cookie[HASH_AT..].copy_from_slice(&hash.to_le_bytes());
        cookie
    }
}

/// Compares in constant time, so that the time does not reveal the first difference.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |all, (one, other)| all | (one ^ other)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    }

    fn check(cookie: &str, secret: &str, address: &str, now_s: u32) -> Checked {
        let secret = bytes(secret).try_into().unwrap();
        Cookie::read(&bytes(cookie)).unwrap().check(&secret, address.parse().unwrap(), now_s)
    }

    const SECRET: &str = "e5e973e5a6b2a43f48e7dc849e37bfcf";

    #[test]
    fn the_examples_of_rfc_9018_hold() {
        // Appendices A.1, A.2 and A.3.
        let first = check("2464c4abcf10c957", SECRET, "198.51.100.100", 1_559_731_985);
        assert!(!first.is_good);
        assert_eq!(first.reply.to_vec(), bytes("2464c4abcf10c957010000005cf79f111f8130c3eee29480"));
        let again = "2464c4abcf10c957010000005cf79f111f8130c3eee29480";
        let renewed = check(again, SECRET, "198.51.100.100", 1_559_734_385);
        assert!(renewed.is_good);
        assert_eq!(renewed.reply.to_vec(), bytes("2464c4abcf10c957010000005cf7a871d4a564a1442aca77"));
        let reserved = "fc93fc62807ddb8601abcdef5cf78f71a314227b6679ebf5";
        let other = check(reserved, SECRET, "203.0.113.203", 1_559_727_985);
        assert!(other.is_good);
        assert_eq!(other.reply.to_vec(), bytes(reserved));
        // Appendix A.4.
        let old = "22681ab97d52c298010000005cf7c57926556bd0934c72f8";
        let v6 = check(
            old,
            "445536bcd2513298075a5d379663c962",
            "2001:db8:220:1:59de:d0f4:8769:82b8",
            1_559_741_961,
        );
        assert!(!v6.is_good);
        assert_eq!(v6.reply.to_vec(), bytes("22681ab97d52c298010000005cf7c609a6bb79d16625507a"));
    }

    #[test]
    fn a_cookie_is_good_for_its_time_and_place() {
        let cookie = "2464c4abcf10c957010000005cf79f111f8130c3eee29480";
        let at = |address, now_s| check(cookie, SECRET, address, now_s).is_good;
        assert!(at("::ffff:198.51.100.100", 1_559_731_985 + 3600));
        assert!(!at("198.51.100.100", 1_559_731_985 + 3601));
        assert!(at("198.51.100.100", 1_559_731_985 - 300));
        assert!(!at("198.51.100.100", 1_559_731_985 - 301));
        assert!(!at("198.51.100.101", 1_559_731_985));
    }

    #[test]
    fn only_lengths_of_rfc_7873_are_cookies() {
        for length in 0..50 {
            let expected = length == 8 || (16..=40).contains(&length);
            assert_eq!(Cookie::read(&vec![7; length]).is_ok(), expected, "{length}");
        }
    }
}
