//! The requests of a client to one server: POST with the message as body, or GET with the message in base64url
//! (RFC 8484, section 4.1). The ID of each message is 0, so that caches see equal requests.

use std::fmt::Write as _;
use std::net::Ipv6Addr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::uri::{Authority, InvalidUriParts, Parts, PathAndQuery, Scheme};
use http::{Request, Uri, Version};
use kqps_catalogue::choice::Method;

use crate::PORT;
use crate::values::{Values, dns_message};

/// A host or a path that no request can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadTarget {
    /// The two make no URL.
    #[error("`https://{0}` is no URL: expected https://HOST[:PORT][/PATH]")]
    NoUrl(String),
    /// The URL has a fragment (RFC 3986, section 3.5).
    #[error(
        "`https://{0}` has a fragment, which no request carries: leave out `#` and what follows, or write %23"
    )]
    Fragment(String),
    /// The path has letters beyond ASCII (RFC 3986, section 2.1).
    #[error("`https://{url}`: the path of a URL is ASCII alone: write {encoded}")]
    NotAscii {
        /// The authority and the path.
        url: String,
        /// The path as a URL has it.
        encoded: String,
    },
}

/// The authority of a URL with this name or address, at this port.
pub fn authority(name: &str, port: u16) -> String {
    let host = if name.parse::<Ipv6Addr>().is_ok() { format!("[{name}]") } else { name.to_owned() };
    if port == PORT { host } else { format!("{host}:{port}") }
}

/// Maker of the requests to one server. The connections of a thread share it.
pub struct Requests {
    method: Method,
    authority: Authority,
    /// The URL of a POST.
    uri: Uri,
    /// The path of a GET before the query in base64url.
    before: String,
    headers: HeaderMap,
    values: Values,
    /// A message with ID 0, and a path with its base64url.
    message: Vec<u8>,
    path: String,
}

impl Requests {
    /// Requests to this authority, such as `dns.example` or `[::1]:8443`, at this path, which may have a query.
    pub fn new(method: Method, authority: &str, path: &str) -> Result<Self, BadTarget> {
        let url = || format!("{authority}{path}");
        let wrong = || BadTarget::NoUrl(url());
        if path.contains('#') {
            return Err(BadTarget::Fragment(url()));
        }
        if !path.is_ascii() {
            return Err(BadTarget::NotAscii { url: url(), encoded: percent_encoded(path) });
        }
        let host = Authority::try_from(authority).map_err(|_| wrong())?;
        let place = PathAndQuery::try_from(path).map_err(|_| wrong())?;
        if !path.starts_with('/') {
            return Err(wrong());
        }
        let joint = if place.query().is_some() { '&' } else { '?' };
        let mut headers = HeaderMap::with_capacity(4);
        headers.insert(ACCEPT, dns_message());
        if method == Method::Post {
            headers.insert(CONTENT_TYPE, dns_message());
            headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        Ok(Self {
            method,
            before: format!("{place}{joint}dns="),
            uri: uri(&host, place).map_err(|_| wrong())?,
            authority: host,
            headers,
            values: Values::default(),
            message: Vec::new(),
            path: String::new(),
        })
    }

    /// The request of a message, and its body if it has one.
    pub(crate) fn request(&mut self, message: &[u8]) -> (Request<()>, Option<Bytes>) {
        let mut request = Request::new(());
        *request.version_mut() = Version::HTTP_2;
        *request.headers_mut() = self.headers.clone();
        let after_id = message.get(2..).unwrap_or_default();
        match self.method {
            Method::Post => {
                *request.method_mut() = http::Method::POST;
                *request.uri_mut() = self.uri.clone();
                let body = self.values.bytes(&[&[0, 0], after_id]);
                request.headers_mut().insert(CONTENT_LENGTH, self.values.length(body.len()));
                (request, Some(body))
            }
            Method::Get => {
                self.message.clear();
                self.message.extend_from_slice(&[0, 0]);
                self.message.extend_from_slice(after_id);
                self.path.clear();
                self.path.push_str(&self.before);
                URL_SAFE_NO_PAD.encode_string(&self.message, &mut self.path);
                let path = PathAndQuery::from_maybe_shared(self.values.bytes(&[self.path.as_bytes()]));
                let place = path.expect("a path may hold base64url");
                *request.uri_mut() = uri(&self.authority, place).expect("its parts are those of a URL");
                (request, None)
            }
        }
    }
}

/// A path with each byte beyond ASCII as RFC 3986, section 2.1, has it.
fn percent_encoded(path: &str) -> String {
    path.bytes().fold(String::new(), |mut encoded, byte| {
        if byte.is_ascii() {
            encoded.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
        encoded
    })
}

fn uri(authority: &Authority, path: PathAndQuery) -> Result<Uri, InvalidUriParts> {
    let mut parts = Parts::default();
    parts.scheme = Some(Scheme::HTTPS);
    parts.authority = Some(authority.clone());
    parts.path_and_query = Some(path);
    Uri::from_parts(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authority_has_a_port_unless_it_is_the_usual_one() {
        assert_eq!(authority("dns.test", 443), "dns.test");
        assert_eq!(authority("dns.test", 8443), "dns.test:8443");
        assert_eq!(authority("::1", 443), "[::1]");
        assert_eq!(authority("::1", 8443), "[::1]:8443");
    }
}
