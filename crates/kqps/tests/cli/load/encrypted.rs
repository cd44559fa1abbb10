//! A server over an encrypted transport, and loads at it.

use kqps_observation::Trial;

use super::bench::{Bench, kqps, patient, words};
use crate::serve::running::Running;

/// A server that listens for the transport of this scheme alone, its URL without a path, and the file with the issuer of
/// its certificate, or nothing if it was given one.
pub(crate) fn server(scheme: &str, flags: &[&str]) -> (Running, String, String) {
    server_at(scheme, "127.0.0.1:0", flags)
}

/// A server as by [`server`], at this address.
pub(super) fn server_at(scheme: &str, address: &str, flags: &[&str]) -> (Running, String, String) {
    let listen = format!("{scheme}://{address}");
    let server = Running::start(&[&["--listen", &listen][..], flags].concat());
    let url = format!("{scheme}://{}", server.ready[scheme][0].as_str().unwrap());
    let ca = server.ready["ca"].as_str().unwrap_or_default().to_owned();
    (server, url, ca)
}

/// Plays the 1,000 queries of a bench at a target with these flags.
pub(crate) fn played(target: &str, flags: &[&str]) -> Trial {
    let bench = Bench::new();
    let mut load = kqps(&["load", target, "--json", "-d"]);
    load.arg(bench.queries()).args(patient(flags)).env("XDG_CACHE_HOME", bench.folder.path());
    let output = load.output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", words(&output).1))
}
