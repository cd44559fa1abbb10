//! The extended options of dnsperf, `-O name=value`.

use super::value::{whole, whole_or_zero};
use super::{Command, Fault};

/// The messages that are not printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Suppressed {
    pub(in super::super) timeouts: bool,
    pub(in super::super) send_failed: bool,
}

/// The names, in the order in which dnsperf looks for one that begins with what was typed. What it does not have is
/// last, so that a short name means the same.
const NAMES: [&str; 9] = [
    "tls-sni",
    "qps-threshold-wait",
    "latency-histogram",
    "verbose-interval-stats",
    "num-queries-per-conn",
    "suppress",
    "doh-method",
    "doh-uri",
    "prefix",
];

impl Command {
    /// Takes an extended option.
    pub(super) fn long(&mut self, text: &str) -> Result<(), Fault> {
        let invalid = || Fault::usage(format!("invalid long option: {text}"));
        let (typed, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
        let name = NAMES.into_iter().find(|name| name.starts_with(typed)).filter(|_| !typed.is_empty());
        if value == Some("") {
            return Err(invalid());
        }
        match (name.ok_or_else(invalid)?, value) {
            // As in dnsperf, whatever value they have.
            ("verbose-interval-stats", _) => self.verbose_intervals = true,
            ("latency-histogram", _) => self.latency_histogram = true,
            (_, None) => return Err(invalid()),
            ("doh-uri", Some(value)) => {
                if !value.starts_with("https://") {
                    return Err(Fault::usage("Warning: invalid DNS-over-HTTPS URI"));
                }
                value.clone_into(&mut self.doh_uri);
            }
            ("doh-method", Some(value)) => match value {
                "GET" => self.doh_by_post = false,
                "POST" => self.doh_by_post = true,
                _ => return Err(Fault::usage("Warning: invalid DNS-over-HTTPS method")),
            },
            ("tls-sni", Some(value)) => self.tls_sni = Some(value.to_owned()),
            ("num-queries-per-conn", Some(value)) => {
                let queries = whole("queries", value)?;
                self.queries_per_connection = Some(queries.try_into().expect("4,294,967,295 at most"));
            }
            ("suppress", Some(value)) => self.suppress(value)?,
            ("prefix", Some(value)) => {
                let invalid = |expected| Fault::usage(format!("invalid prefix {value}: {expected}"));
                self.prefix = Some(value.parse().map_err(invalid)?);
            }
            // How dnsperf sleeps before a query is due. The player sleeps in its own way.
            (_, Some(value)) => drop(whole_or_zero("microseconds", value)?),
        }
        Ok(())
    }

    fn suppress(&mut self, kinds: &str) -> Result<(), Fault> {
        // kqps counts what the other messages are about, and prints none of them.
        const KINDS: [&str; 5] = ["timeouts", "congestion", "sendfailed", "sockready", "unexpected"];
        for typed in kinds.strip_suffix(',').unwrap_or(kinds).split(',') {
            match KINDS.into_iter().find(|kind| kind.starts_with(typed)) {
                Some("timeouts") => self.suppressed.timeouts = true,
                Some("sendfailed") => self.suppressed.send_failed = true,
                Some(_) => {}
                None => return Err(Fault::usage(format!("unknown message type to suppress: {typed}"))),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use kqps_player::Prefix;

    use super::*;

    #[test]
    fn names_may_be_cut_short() {
        let mut command = Command::new();
        for text in ["lat=no", "verb", "t=a.test", "s=time,", "doh=POST"] {
            assert_eq!(command.long(text), Ok(()), "{text}");
        }
        assert!(command.latency_histogram && command.verbose_intervals && command.doh_by_post);
        assert_eq!(command.suppressed, Suppressed { timeouts: true, send_failed: false });
        assert_eq!(command.tls_sni.as_deref(), Some("a.test"));
    }

    #[test]
    fn extended_options_have_names_and_values() {
        let mut command = Command::new();
        for text in [
            "doh-uri=https://a.test/q",
            "doh-method=POST",
            "tls-sni=a.test",
            "num-queries-per-conn=3",
            "qps-threshold-wait=10",
            "suppress=timeouts,congestion,sendfailed,sockready,unexpected",
            "verbose-interval-stats",
            "latency-histogram",
            "prefix=label:8x2",
        ] {
            assert_eq!(command.long(text), Ok(()), "{text}");
        }
        assert_eq!(command.prefix, Some(Prefix::Label { bytes: 8, labels: 2 }));
        assert_eq!((&*command.doh_uri, command.doh_by_post), ("https://a.test/q", true));
        assert_eq!((command.tls_sni.as_deref(), command.queries_per_connection), (Some("a.test"), Some(3)));
        assert_eq!(command.suppressed, Suppressed { timeouts: true, send_failed: true });
        assert!(command.verbose_intervals && command.latency_histogram);
        for (text, message) in [
            ("foo=1", "invalid long option: foo=1"),
            ("doh-method=PUT", "Warning: invalid DNS-over-HTTPS method"),
            ("num-queries-per-conn=x", "invalid queries: x"),
            ("suppress=foo", "unknown message type to suppress: foo"),
            ("suppress", "invalid long option: suppress"),
            ("suppress=", "invalid long option: suppress="),
            ("=x", "invalid long option: =x"),
            ("qps-threshold-wait=-1", "invalid microseconds: -1"),
        ] {
            assert_eq!(command.long(text), Err(Fault::usage(message)), "{text}");
        }
        let fault = command.long("prefix=label:64").expect_err("a label of 64 bytes").to_string();
        assert!(fault.starts_with("invalid prefix label:64: expected label[:BYTES[xLABELS]]"), "{fault}");
    }
}
