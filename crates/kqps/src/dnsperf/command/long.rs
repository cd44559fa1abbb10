//! The extended options of dnsperf, `-O name=value`.

use super::value::whole;
use super::{Command, Fault};

/// The messages that are not printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Suppressed {
    pub(in super::super) timeouts: bool,
    pub(in super::super) send_failed: bool,
}

impl Command {
    /// Takes an extended option.
    pub(super) fn long(&mut self, text: &str) -> Result<(), Fault> {
        let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
        match (name, value) {
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
                // 4,294,967,295 at most, as u32.
                self.queries_per_connection = Some(whole("queries", value)? as u32);
            }
            ("qps-threshold-wait", Some(value)) => {
                // How dnsperf sleeps before a query is due. The player sleeps in its own way.
                let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
                if !is_number {
                    return Err(Fault::usage(format!("invalid microseconds: {value}")));
                }
            }
            ("suppress", Some(value)) => self.suppress(value)?,
            ("verbose-interval-stats", None) => self.verbose_intervals = true,
            ("latency-histogram", None) => self.latency_histogram = true,
            _ => return Err(Fault::usage(format!("invalid long option: {text}"))),
        }
        Ok(())
    }

    fn suppress(&mut self, kinds: &str) -> Result<(), Fault> {
        for kind in kinds.split(',') {
            match kind {
                "timeouts" => self.suppressed.timeouts = true,
                "sendfailed" => self.suppressed.send_failed = true,
                // kqps prints no such messages: it counts what they are about.
                "congestion" | "sockready" | "unexpected" => {}
                _ => return Err(Fault::usage(format!("unknown message type to suppress: {kind}"))),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extended_options_have_names_and_values() {
        let mut command = Command::default();
        for text in [
            "doh-uri=https://a.test/q",
            "doh-method=POST",
            "tls-sni=a.test",
            "num-queries-per-conn=3",
            "qps-threshold-wait=10",
            "suppress=timeouts,congestion,sendfailed,sockready,unexpected",
            "verbose-interval-stats",
            "latency-histogram",
        ] {
            assert_eq!(command.long(text), Ok(()), "{text}");
        }
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
            ("latency-histogram=1", "invalid long option: latency-histogram=1"),
        ] {
            assert_eq!(command.long(text), Err(Fault::usage(message)), "{text}");
        }
    }
}
