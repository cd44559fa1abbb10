//! What a client of `--live` and of `--metrics` can get: the page with its stream of events, and the text for
//! Prometheus. A client that comes late, or reads slowly, misses states in between and nothing else.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kqps_web::{Answer, Events, Next, Site};

use crate::figures;
use crate::hub::Hub;
use crate::metrics;

/// The least time between two events for one client.
const EVENTS_APART: Duration = Duration::from_millis(250);

/// The paths of one address.
#[derive(Debug)]
pub struct LiveSite {
    /// What is shown.
    pub hub: Arc<Hub>,
    /// The version of kqps.
    pub version: &'static str,
    /// Whether the page is here.
    pub has_page: bool,
    /// Whether the metrics are here.
    pub has_metrics: bool,
}

impl Site for LiveSite {
    fn get(&self, path: &str) -> Answer {
        match path {
            "/" if self.has_page => {
                Answer::Body { media_type: "text/html; charset=utf-8", text: self.page() }
            }
            "/events" if self.has_page => Answer::Events(Box::new(Stream {
                hub: self.hub.clone(),
                version: None,
                page_version: 0,
                next_at: Instant::now(),
                next_page: None,
                is_over: false,
            })),
            "/metrics" if self.has_metrics => Answer::Body {
                media_type: metrics::MEDIA_TYPE,
                text: metrics::text(&self.hub.read(Clone::clone), self.version),
            },
            _ => Answer::Nothing(if self.has_page { "see /\n" } else { "see /metrics\n" }.into()),
        }
    }
}

impl LiveSite {
    /// The document. What it shows is exchanged by the first events.
    fn page(&self) -> String {
        let snapshot = self.hub.read(Clone::clone);
        let input = figures::panel(&snapshot);
        kqps_report::live_page(&input.headline, &input, &snapshot.page, self.version)
    }
}

/// The events of one client.
struct Stream {
    hub: Arc<Hub>,
    /// The version that was sent last; `None` before the first.
    version: Option<u64>,
    /// The version of the page that was sent last.
    page_version: u64,
    /// When the next event may be sent.
    next_at: Instant,
    /// A page that follows the panel.
    next_page: Option<Arc<str>>,
    /// Whether the last event was sent.
    is_over: bool,
}

impl Events for Stream {
    fn next(&mut self, patience: Duration) -> Next {
        if self.is_over {
            return Next::Over;
        }
        if let Some(page) = self.next_page.take() {
            return Next::Event("page", page.to_string());
        }
        std::thread::sleep(self.next_at.saturating_duration_since(Instant::now()).min(patience));
        if let Some(version) = self.version
            && self.hub.wait(version, patience) == version
        {
            return Next::Nothing;
        }
        self.next_at = Instant::now() + EVENTS_APART;
        let snapshot = self.hub.read(Clone::clone);
        self.version = Some(snapshot.version);
        let panel = || kqps_report::live_panel(&figures::panel(&snapshot));
        if snapshot.is_over {
            self.is_over = true;
            let has_page = !snapshot.page.is_empty();
            // Without a page the panel stays as it was at the end.
            let body = || format!("<section id=\"live\">{}</section>", panel());
            return Next::Event("end", if has_page { snapshot.page.to_string() } else { body() });
        }
        if self.page_version != snapshot.page_version {
            self.page_version = snapshot.page_version;
            self.next_page = Some(snapshot.page.clone());
        }
        Next::Event("live", panel())
    }
}

#[cfg(test)]
mod tests {
    use kqps_observation::LiveCounts;

    use super::*;

    fn site(has_page: bool) -> LiveSite {
        let hub = Hub::new("kqps run".into());
        LiveSite { hub, version: "0.1.0", has_page, has_metrics: !has_page }
    }

    #[test]
    fn a_path_shows_what_was_asked_for_and_no_more() {
        assert!(matches!(site(true).get("/"), Answer::Body { media_type: "text/html; charset=utf-8", .. }));
        assert!(matches!(site(true).get("/metrics"), Answer::Nothing(_)));
        assert!(matches!(site(false).get("/"), Answer::Nothing(_)));
        let Answer::Body { text, .. } = site(false).get("/metrics") else { panic!("there are no metrics") };
        assert!(text.ends_with("# EOF\n"), "{text}");
    }

    #[test]
    fn a_stream_has_the_panel_then_the_page_and_at_last_the_body() {
        let site = site(true);
        let Answer::Events(mut events) = site.get("/events") else { panic!("there is no stream") };
        site.hub.page("<main>first</main>");
        let patience = Duration::from_mins(1);
        let name = |next: &Next| match next {
            Next::Event(name, _) => *name,
            other => panic!("{other:?}"),
        };
        assert_eq!(name(&events.next(patience)), "live");
        assert_eq!(events.next(patience), Next::Event("page", "<main>first</main>".into()));
        site.hub.count(LiveCounts::default());
        assert_eq!(name(&events.next(patience)), "live");
        site.hub.page("<main>last</main>");
        site.hub.end();
        assert_eq!(events.next(patience), Next::Event("end", "<main>last</main>".into()));
        assert_eq!(events.next(patience), Next::Over);
    }
}
