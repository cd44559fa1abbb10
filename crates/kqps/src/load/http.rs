//! The flags of HTTP, and the URLs of its targets.

use std::net::{Ipv6Addr, SocketAddr};

use kqps_http::{Method, PORT};
use kqps_player::HttpPlan;

use super::target::Targets;
use crate::exit::bad_input;

/// The flags of HTTP. The comments are the help text.
#[derive(clap::Args)]
#[allow(clippy::doc_markdown)] // the comments are the help text
#[command(next_help_heading = "HTTP")]
pub(crate) struct HttpArgs {
    /// Ask by: post (the default) or get
    ///
    /// With get the query is in the path, as ?dns= and base64url (RFC 8484).
    #[arg(long, value_name = "METHOD")]
    http_method: Option<Method>,
}

impl HttpArgs {
    /// HTTP with these flags at these targets.
    pub(super) fn plan(&self, targets: &Targets) -> HttpPlan {
        let named = targets.names.iter().zip(&targets.addresses);
        HttpPlan {
            method: self.http_method.unwrap_or_default(),
            authorities: named.map(|(name, address)| authority(name, *address)).collect(),
            paths: targets.paths.clone(),
        }
    }

    /// Refuses flags of HTTP if there is none.
    pub(super) fn check_none_is_given(&self) -> anyhow::Result<()> {
        if self.http_method.is_some() {
            return Err(bad_input("--http-method is about HTTP; play over https (-m https)"));
        }
        Ok(())
    }
}

/// The authority of a URL with this name or address, at the port of this address.
fn authority(name: &str, address: SocketAddr) -> String {
    let host = if name.parse::<Ipv6Addr>().is_ok() { format!("[{name}]") } else { name.to_owned() };
    match address.port() {
        PORT => host,
        port => format!("{host}:{port}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authority_has_a_port_unless_it_is_the_usual_one() {
        let of = |name: &str, address: &str| authority(name, address.parse().unwrap());
        assert_eq!(of("dns.test", "127.0.0.1:443"), "dns.test");
        assert_eq!(of("dns.test", "127.0.0.1:8443"), "dns.test:8443");
        assert_eq!(of("::1", "[::1]:443"), "[::1]");
        assert_eq!(of("::1", "[::1]:8443"), "[::1]:8443");
    }
}
