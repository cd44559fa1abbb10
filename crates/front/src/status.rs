//! Counts while the front runs: as one JSON object for each connection to a Unix socket, and as text for Prometheus
//! over HTTP. Each has its own thread, which only reads what the workers have stored.

use std::fmt;
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::Duration;

use kqps_kernel::tcp;
use kqps_observation::visible::{visible_json, visible_line};
use kqps_server::error::ServeError;
use kqps_server::report::{BackEndReport, Report};
use kqps_server::sockets::{SocketFile, listen_unix, refused};
use kqps_web::{Answer, Site, exposition};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use super::FrontSettings;

/// How long a client of the Unix socket may take to read.
const PATIENCE: Duration = Duration::from_secs(1);

/// Has the counts of a server that runs.
pub trait Reports: Send + Sync + 'static {
    /// The counts of all workers at their last reports.
    fn report(&self) -> Report;
}

/// The threads that report counts. They end with the process. Dropping this value removes the file of the socket.
pub struct StatusServers {
    file: Option<SocketFile>,
    /// The address at which Prometheus can read counts.
    pub metrics: Option<SocketAddr>,
}

impl StatusServers {
    /// Listens at the addresses in the settings.
    pub fn start(settings: &FrontSettings, shared: &Arc<impl Reports>) -> Result<Self, ServeError> {
        let (mut file, mut metrics) = (None, None);
        if let Some(path) = &settings.status {
            let (listener, listening) = listen_unix(path)?;
            file = Some(listening);
            let shared = shared.clone();
            std::thread::Builder::new()
                .name("status".to_owned())
                .spawn(move || serve(&listener, &*shared))?;
        }
        if let Some(address) = settings.metrics {
            let mut listeners = tcp::listen(address, 1).map_err(|error| refused(address, &error))?;
            let site = Arc::new(Counts(shared.clone()));
            metrics = Some(kqps_web::serve(listeners.remove(0), "metrics", site)?.address);
        }
        Ok(Self { file, metrics })
    }

    /// Whether counts can be requested at all.
    pub fn is_asked(&self) -> bool {
        self.file.is_some() || self.metrics.is_some()
    }
}

fn serve(listener: &UnixListener, shared: &impl Reports) {
    for stream in listener.incoming() {
        let Ok(mut stream) = stream else {
            // No descriptor is free; there may be one soon.
            std::thread::sleep(PATIENCE);
            continue;
        };
        // A client that does not read the counts does not need them.
        let _ = stream.set_write_timeout(Some(PATIENCE)).and_then(|()| {
            let report = serde_json::to_string(&shared.report())?;
            writeln!(stream, "{}", visible_json(&report))
        });
    }
}

/// The counts over HTTP.
struct Counts<R>(Arc<R>);

impl<R: Reports> Site for Counts<R> {
    fn get(&self, path: &str, accept: &str) -> Answer {
        match path {
            "/metrics" => exposition(text(self.0.report()), accept),
            _ => Answer::Nothing("see /metrics\n".to_owned()),
        }
    }
}

/// A report as `OpenMetrics` 1.0. Names of back ends come from the user and may contain any characters.
fn text(mut report: Report) -> String {
    let shown = |(name, counts): (String, BackEndReport)| (visible_line(&name).into_owned(), counts);
    report.back_ends = report.back_ends.into_iter().map(shown).collect();
    let mut registry = Registry::default();
    registry.register_collector(Box::new(OpenMetrics(report)));
    let mut text = String::new();
    // Writing to a string cannot fail.
    encode(&mut text, &registry).expect("a string takes text");
    text
}

#[derive(Debug)]
struct OpenMetrics(Report);

impl Collector for OpenMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Self(report) = self;
        let tcp = report.tcp.clone().unwrap_or_default();
        let by_transport = |udp: u64, tcp: u64| [("udp", udp), ("tcp", tcp)];
        let counters = [
            ("kqps_front_queries", "Queries of clients", by_transport(report.received, tcp.received)),
            ("kqps_front_answers", "Replies to clients", by_transport(report.answered, tcp.answered)),
        ];
        for (name, help, values) in counters {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (transport, value) in values {
                ConstCounter::new(value).encode(family.encode_family(&[("transport", transport)])?)?;
            }
        }
        let mut family = encoder.encode_descriptor(
            "kqps_front_dropped",
            "Queries of clients that got no answer",
            None,
            MetricType::Counter,
        )?;
        for (transport, dropped) in [("udp", &report.dropped), ("tcp", &tcp.dropped)] {
            for (cause, &count) in dropped {
                let labels = [("transport", transport), ("cause", cause.as_str())];
                ConstCounter::new(count).encode(family.encode_family(&labels)?)?;
            }
        }
        let mut family = encoder.encode_descriptor(
            "kqps_front_replies",
            "Replies to clients by rcode",
            None,
            MetricType::Counter,
        )?;
        for (transport, rcodes) in [("udp", &report.response_rcodes), ("tcp", &tcp.response_rcodes)] {
            for (rcode, &count) in rcodes {
                let labels = [("transport", transport), ("rcode", rcode.as_str())];
                ConstCounter::new(count).encode(family.encode_family(&labels)?)?;
            }
        }
        back_ends(&mut encoder, report)
    }
}

/// A figure of each back end: its name, its description, and how to read it.
type BackEndFigure = (&'static str, &'static str, fn(&BackEndReport) -> u64);

fn back_ends(encoder: &mut DescriptorEncoder<'_>, report: &Report) -> fmt::Result {
    let mut up = encoder.encode_descriptor(
        "kqps_front_back_end_up",
        "Workers that would send the back end a query",
        None,
        MetricType::Gauge,
    )?;
    for (name, counts) in &report.back_ends {
        ConstGauge::new(counts.up as i64).encode(up.encode_family(&[("back_end", name.as_str())])?)?;
    }
    let figures: [BackEndFigure; 12] = [
        ("sent", "Queries sent to the back end", |counts| counts.sent),
        ("answered", "Queries that the back end answered", |counts| counts.answered),
        ("timed_out", "Queries that the back end did not answer in time", |counts| counts.timed_out),
        ("cut_off", "Queries outstanding when the back end went down", |counts| counts.cut_off),
        ("displaced", "Queries displaced by newer ones", |counts| counts.displaced),
        ("servfails", "Queries that the back end answered SERVFAIL", |counts| counts.servfails),
        ("cut_short", "Truncated answers to queries of TCP clients", |counts| counts.cut_short),
        ("second_tries", "Queries sent as a second try", |counts| counts.second_tries),
        ("unsolicited", "Messages that answer no query", |counts| counts.unsolicited),
        ("mismatched", "Messages that answer another question", |counts| counts.mismatched),
        ("downs", "Times the back end was found to be down", |counts| counts.downs),
        ("connections", "Connections opened to the back end", |counts| counts.connections),
    ];
    for (name, help, figure) in figures {
        let name = format!("kqps_front_back_end_{name}");
        let mut family = encoder.encode_descriptor(&name, help, None, MetricType::Counter)?;
        for (back_end, counts) in &report.back_ends {
            let labels = [("back_end", back_end.as_str())];
            ConstCounter::new(figure(counts)).encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_the_form_that_prometheus_reads() {
        let mut report = Report { received: 7, answered: 6, ..Report::default() };
        report.dropped.insert("stopped".to_owned(), 1);
        let counts = BackEndReport { up: 1, sent: 9, ..BackEndReport::default() };
        report.back_ends.insert("nsd".to_owned(), counts);
        report.back_ends.insert("a\"b\\c\x1b[31m\n}".to_owned(), BackEndReport::default());
        let text = text(report);
        for line in [
            "# TYPE kqps_front_queries counter",
            "kqps_front_queries_total{transport=\"udp\"} 7",
            "kqps_front_dropped_total{transport=\"udp\",cause=\"stopped\"} 1",
            "kqps_front_back_end_up{back_end=\"nsd\"} 1",
            "kqps_front_back_end_sent_total{back_end=\"nsd\"} 9",
            r#"kqps_front_back_end_up{back_end="a\"b\\c\\x1b[31m\\x0a}"} 0"#,
            "# EOF",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
    }
}
