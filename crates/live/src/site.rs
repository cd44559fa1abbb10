//! The answers to a client of `--live` and of `--metrics`: the page with its stream of events, and the text for
//! Prometheus. A client that comes late, or reads slowly, misses states in between and nothing else.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kqps_web::{Answer, Events, Next, Site, exposition};

use crate::figures;
use crate::hub::Hub;
use crate::metrics;

/// The least time between two events for one client.
const EVENTS_APART: Duration = Duration::from_millis(250);

/// The path of a stream, before the source and the version of the page that its client has: `/events/ID/VERSION`.
const EVENTS: &str = "/events/";

/// The paths of one address.
#[derive(Debug)]
pub struct LiveSite {
    /// The source of all that is shown.
    pub hub: Arc<Hub>,
    /// The version of kqps.
    pub version: &'static str,
    /// Whether the page is here.
    pub has_page: bool,
    /// Whether the metrics are here.
    pub has_metrics: bool,
}

impl Site for LiveSite {
    fn get(&self, path: &str, accept: &str) -> Answer {
        match path {
            "/" if self.has_page => {
                Answer::Body { media_type: "text/html; charset=utf-8", text: self.page() }
            }
            "/metrics" if self.has_metrics => {
                exposition(metrics::text(&self.hub.read(Clone::clone), self.version), accept)
            }
            _ => match path.strip_prefix(EVENTS).and_then(id_and_version) {
                Some(page) if self.has_page => Answer::Events(Box::new(self.events(page))),
                _ => Answer::Nothing(if self.has_page { "see /\n" } else { "see /metrics\n" }.into()),
            },
        }
    }
}

impl LiveSite {
    /// The document with the page as it is now. Events follow it.
    fn page(&self) -> String {
        let snapshot = self.hub.read(Clone::clone);
        let input = figures::panel(&snapshot);
        let name = format!("{}/{}", self.hub.id, snapshot.page_version);
        let page = (&*snapshot.page, &*name);
        kqps_report::live_page(&input.headline, &input, page, self.version)
    }

    /// The events for a client whose page is of this version of this source. A page of another kqps, which was at this
    /// address before, is replaced by the page of now, also if that is empty.
    fn events(&self, (id, version): (u64, u64)) -> Stream {
        let page_version = (id == self.hub.id).then_some(version);
        Stream {
            hub: self.hub.clone(),
            version: None,
            page_version,
            next_at: Instant::now(),
            next_page: None,
            is_over: false,
        }
    }
}

/// The numbers in `ID/VERSION`.
fn id_and_version(page: &str) -> Option<(u64, u64)> {
    let (id, version) = page.split_once('/')?;
    Some((id.parse().ok()?, version.parse().ok()?))
}

/// The events of one client.
struct Stream {
    hub: Arc<Hub>,
    /// The version that was sent last; `None` before the first.
    version: Option<u64>,
    /// The version of the page that the client has.
    page_version: Option<u64>,
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
            return Next::Event("page", page);
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
            let body = || format!("<section id=\"live\">{}</section>", panel()).into();
            return Next::Event("end", if has_page { snapshot.page } else { body() });
        }
        if self.page_version != Some(snapshot.page_version) {
            self.page_version = Some(snapshot.page_version);
            self.next_page = Some(snapshot.page.clone());
        }
        Next::Event("live", panel().into())
    }
}

#[cfg(test)]
mod tests {
    use kqps_observation::LiveCounts;

    use super::*;

    const OPEN_METRICS: &str = "application/openmetrics-text";

    fn site(has_page: bool) -> LiveSite {
        let hub = Hub::new("kqps run".into());
        LiveSite { hub, version: "0.1.0", has_page, has_metrics: !has_page }
    }

    #[test]
    fn a_path_shows_what_was_asked_for_and_no_more() {
        assert!(matches!(
            site(true).get("/", ""),
            Answer::Body { media_type: "text/html; charset=utf-8", .. }
        ));
        assert!(matches!(site(true).get("/metrics", ""), Answer::Nothing(_)));
        assert!(matches!(site(false).get("/", ""), Answer::Nothing(_)));
        for (accept, begin) in [("", "text/plain"), (OPEN_METRICS, OPEN_METRICS)] {
            let Answer::Body { media_type, text } = site(false).get("/metrics", accept) else {
                panic!("there are no metrics")
            };
            assert!(media_type.starts_with(begin), "{media_type}");
            assert_eq!(text.ends_with("# EOF\n"), accept == OPEN_METRICS, "{text}");
        }
    }

    #[test]
    fn a_stream_has_the_panel_then_the_page_and_at_last_the_body() {
        let site = site(true);
        site.hub.page("<main>first</main>");
        let Answer::Body { text, .. } = site.get("/", "") else { panic!("there is no page") };
        let name = format!("data-page=\"{}/1\"", site.hub.id);
        assert!(text.contains("<main>first</main>") && text.contains(&name), "{text}");
        for no_page in ["/events", "/events/1", "/events/x/1"] {
            assert!(matches!(site.get(no_page, ""), Answer::Nothing(_)), "{no_page}");
        }
        let path = format!("/events/{}/1", site.hub.id);
        let Answer::Events(mut events) = site.get(&path, "") else { panic!("there is no stream") };
        let patience = Duration::from_mins(1);
        assert!(matches!(events.next(patience), Next::Event("live", _)));
        site.hub.page("<main>second</main>");
        let name = |next: &Next| match next {
            Next::Event(name, _) => *name,
            other => panic!("{other:?}"),
        };
        assert_eq!(name(&events.next(patience)), "live");
        assert_eq!(
            events.next(patience),
            Next::Event("page", "<main>second</main>".into()),
            "not the first again"
        );
        site.hub.count(LiveCounts::default());
        assert_eq!(name(&events.next(patience)), "live");
        site.hub.page("<main>last</main>");
        site.hub.end();
        assert_eq!(events.next(patience), Next::Event("end", "<main>last</main>".into()));
        assert_eq!(events.next(patience), Next::Over);
    }

    #[test]
    fn a_page_of_another_kqps_is_replaced_even_by_none() {
        let site = site(true);
        let patience = Duration::from_mins(1);
        for (id, is_replaced) in [(site.hub.id - 1, true), (site.hub.id, false)] {
            let Answer::Events(mut events) = site.get(&format!("/events/{id}/0"), "") else {
                panic!("no stream")
            };
            assert!(matches!(events.next(patience), Next::Event("live", _)));
            let next = events.next(Duration::ZERO);
            assert_eq!(next == Next::Event("page", "".into()), is_replaced, "{next:?}");
        }
    }
}
