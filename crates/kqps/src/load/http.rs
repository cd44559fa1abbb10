//! The flags of HTTP, and the URLs of its targets.

use kqps_http::{Method, authority};
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
    /// HTTP with these flags at these targets, of these names: those in their URLs, or all that of `--server-name`.
    pub(super) fn plan(&self, targets: &Targets, names: &[String]) -> HttpPlan {
        let named = names.iter().zip(&targets.addresses);
        HttpPlan {
            method: self.http_method.unwrap_or_default(),
            authorities: named.map(|(name, address)| authority(name, address.port())).collect(),
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
