//! The counts of a running box: as one JSON object for each connection to a Unix socket, and as text for Prometheus.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kqps_kernel::tcp;
use kqps_observation::visible::visible_json;
use kqps_server::Report;
use kqps_server::report::InternetReport;
use kqps_server::services::internet::{Book, Tree};
use kqps_server::sockets::{SocketFile, listen_unix, refused};
use kqps_web::{Answer, Site, exposition};

/// How long a client of the Unix socket may take to read.
const PATIENCE: Duration = Duration::from_secs(1);

/// Sockets that listen, before anything is counted.
pub(super) struct Watch {
    status: Option<(UnixListener, SocketFile)>,
    metrics: Option<TcpListener>,
}

/// The threads that report counts. They end with the process. Dropping this removes the file of the socket.
pub(super) struct Watching {
    _file: Option<SocketFile>,
    /// The address at which Prometheus can read counts.
    pub(super) metrics: Option<SocketAddr>,
}

impl Watch {
    /// Listens, without a thread.
    pub(super) fn listen(status: Option<&Path>, metrics: Option<SocketAddr>) -> anyhow::Result<Self> {
        let listen = |address| {
            let listeners = tcp::listen(address, 1).map_err(|error| refused(address, &error))?;
            Ok::<_, anyhow::Error>(listeners.into_iter().next())
        };
        Ok(Self {
            status: status.map(listen_unix).transpose()?,
            metrics: metrics.map(listen).transpose()?.flatten(),
        })
    }

    /// Reports counts from now on.
    pub(super) fn serve(
        self,
        tree: &Arc<dyn Tree>,
        book: &Arc<Book>,
        top: usize,
    ) -> anyhow::Result<Watching> {
        let counts = Arc::new(Counts { tree: tree.clone(), book: book.clone(), top });
        let mut file = None;
        if let Some((listener, listening)) = self.status {
            file = Some(listening);
            let counts = counts.clone();
            std::thread::Builder::new()
                .name("status".to_owned())
                .spawn(move || serve_status(&listener, &counts))?;
        }
        let serve = |listener| kqps_web::serve(listener, "metrics", counts).map(|serving| serving.address);
        let metrics = self.metrics.map(serve).transpose()?;
        Ok(Watching { _file: file, metrics })
    }
}

fn serve_status(listener: &UnixListener, counts: &Counts) {
    for stream in listener.incoming() {
        let Ok(mut stream) = stream else {
            // No descriptor is free; there may be one soon.
            std::thread::sleep(PATIENCE);
            continue;
        };
        // A client that does not read the counts does not need them.
        let _ = stream.set_write_timeout(Some(PATIENCE)).and_then(|()| {
            let report = serde_json::to_string(&counts.report())?;
            writeln!(stream, "{}", visible_json(&report))
        });
    }
}

struct Counts {
    tree: Arc<dyn Tree>,
    book: Arc<Book>,
    top: usize,
}

impl Counts {
    fn report(&self) -> Report {
        self.book.report_so_far(self.tree.faults(), self.top)
    }
}

impl Site for Counts {
    fn get(&self, path: &str, accept: &str) -> Answer {
        match path {
            "/metrics" => exposition(text(&self.report()), accept),
            _ => Answer::Nothing("see /metrics\n".to_owned()),
        }
    }
}

/// A report as `OpenMetrics` 1.0. Levels, kinds and faults are plain words.
fn text(report: &Report) -> String {
    let mut text = String::new();
    let mut family = |name: &str, kind: &str, help: &str, samples: Vec<(String, u64)>| {
        let _ = writeln!(text, "# HELP {name} {help}.\n# TYPE {name} {kind}");
        let suffix = if kind == "counter" { "_total" } else { "" };
        for (labels, value) in samples {
            let _ = writeln!(text, "{name}{suffix}{labels} {value}");
        }
    };
    let (tcp, internet) =
        (report.tcp.clone().unwrap_or_default(), report.internet.clone().unwrap_or_default());
    let InternetReport { udp, tcp: over_tcp, faults, under_way, .. } = internet;
    let by_transport = |udp, tcp| {
        [("udp", udp), ("tcp", tcp)]
            .map(|(transport, count)| (format!("{{transport=\"{transport}\"}}"), count))
            .to_vec()
    };
    family(
        "kqps_internet_queries",
        "counter",
        "Queries of resolvers",
        by_transport(report.received, tcp.received),
    );
    family(
        "kqps_internet_answers",
        "counter",
        "Replies that have left",
        by_transport(report.answered, tcp.answered),
    );
    let mut samples = Vec::new();
    for (transport, levels) in [("udp", &udp), ("tcp", &over_tcp)] {
        for (level, kinds) in levels {
            samples.extend(kinds.iter().map(|(kind, count)| {
                (format!("{{transport=\"{transport}\",level=\"{level}\",kind=\"{kind}\"}}"), *count)
            }));
        }
    }
    family(
        "kqps_internet_outcomes",
        "counter",
        "Queries by level of the zone and kind of the answer",
        samples,
    );
    let samples = faults.iter().map(|(fault, count)| (format!("{{fault=\"{fault}\"}}"), *count)).collect();
    family("kqps_internet_faults", "counter", "Answers and refused connections with a fault", samples);
    let waiting = vec![(String::new(), under_way)];
    family("kqps_internet_under_way", "gauge", "Replies that wait for their time", waiting);
    text.push_str("# EOF\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_their_labels() {
        let mut internet = InternetReport { under_way: 7, ..InternetReport::default() };
        internet.udp.entry("root".into()).or_default().insert("referral".into(), 5);
        internet.faults.insert("loss".into(), 2);
        let report = Report { received: 5, answered: 4, internet: Some(internet), ..Report::default() };
        let text = text(&report);
        for line in [
            "# TYPE kqps_internet_queries counter",
            "kqps_internet_queries_total{transport=\"udp\"} 5",
            "kqps_internet_answers_total{transport=\"tcp\"} 0",
            "kqps_internet_outcomes_total{transport=\"udp\",level=\"root\",kind=\"referral\"} 5",
            "kqps_internet_faults_total{fault=\"loss\"} 2",
            "kqps_internet_under_way 7",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is missing in\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }
}
