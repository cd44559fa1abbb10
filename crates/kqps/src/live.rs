//! Views of a command while it measures: `--tui`, `--metrics` and `--live`. All of them read one source of figures
//! (`kqps-live`), which the command feeds.

mod address;
mod live_page;
#[cfg(test)]
mod panicked;
mod standing;

use std::fs::File;
use std::io::{self, IsTerminal as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use kqps_kernel::{clock, tcp};
use kqps_live::{Hub, LiveSite, Tui, tui};
use kqps_testbed::live_sink::LiveSink;
use kqps_web::Serving;

use crate::exit::bad_input;
use crate::print;
use crate::signals;
use crate::value::parse_duration;
use address::{parse_shown_at, why_not};

pub(crate) use live_page::LivePage;
pub(crate) use standing::standing_of;

/// The time between two readings of a player's counts.
pub(crate) const EVERY: Duration = Duration::from_millis(250);

/// How long the end waits for clients that have not got their whole answer yet.
const LAST_STATE: Duration = Duration::from_secs(2);

/// How often the end looks for a signal while it lingers.
const LOOK: Duration = Duration::from_millis(20);

/// The flags. They are the same for every command that plays trials.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct LiveArgs {
    /// Draw rates, latency and more on the terminal; q ends early, ? shows the keys
    ///
    /// It draws on standard error. If that is no terminal, lines are printed instead. What the command prints comes on
    /// the normal screen when it ends.
    #[arg(long, help_heading = "Live")]
    tui: bool,

    /// Offer the counts to Prometheus, at /metrics of this address or port
    ///
    /// A port alone means 127.0.0.1. docs/LIVE.md has the metrics, and deploy/grafana a dashboard.
    #[arg(long, value_name = "ADDR", value_parser = parse_shown_at, help_heading = "Live")]
    metrics: Option<SocketAddr>,

    /// Serve a page that follows the measurement, at this address or port
    ///
    /// A port alone means 127.0.0.1. When the measurement is over, the page is its report, or what a load printed.
    #[arg(long, value_name = "ADDR", value_parser = parse_shown_at, help_heading = "Live")]
    live: Option<SocketAddr>,

    /// Serve --metrics and --live this long after the end, or until a signal
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, help_heading = "Live")]
    linger: Option<Duration>,
}

/// The views of a measurement while it goes on.
pub(crate) struct Views {
    /// `None` if nothing shows it.
    hub: Option<Arc<Hub>>,
    has_page: bool,
    wants_tui: bool,
    tui: Option<Tui>,
    /// Where it will be served: the listener, the flag that asked for it, and what is there.
    listening: Vec<(TcpListener, &'static str, LiveSite)>,
    serving: Vec<Serving>,
    linger: Duration,
}

impl Views {
    /// Takes the addresses that were asked for. Nothing is shown before [`Self::begin`]. `command` is what the user typed,
    /// in short.
    pub(crate) fn open(args: &LiveArgs, command: &str) -> anyhow::Result<Self> {
        if args.linger.is_some() && args.metrics.is_none() && args.live.is_none() {
            return Err(bad_input("--linger: there is nothing to serve; add --metrics ADDR or --live ADDR"));
        }
        let wants_tui = args.tui && can_draw();
        let is_any = wants_tui || args.metrics.is_some() || args.live.is_some();
        let hub = is_any.then(|| Hub::new(command.to_owned()));
        let mut views = Self {
            hub,
            has_page: args.live.is_some(),
            wants_tui,
            tui: None,
            listening: Vec::new(),
            serving: Vec::new(),
            linger: args.linger.unwrap_or_default(),
        };
        if let Some(hub) = views.hub.clone() {
            views.listen(args, &hub)?;
            signals::on_asking({
                let hub = hub.clone();
                move || hub.ending()
            });
            print::pass_to(move |line| hub.print(line));
        }
        Ok(views)
    }

    /// Listens at the addresses. Both paths may be at one address.
    fn listen(&mut self, args: &LiveArgs, hub: &Arc<Hub>) -> anyhow::Result<()> {
        let is_shared = args.metrics.is_some() && args.metrics == args.live;
        for (flag, address, has_page, has_metrics) in [
            ("--live", args.live, true, is_shared),
            ("--metrics", args.metrics.filter(|_| !is_shared), false, true),
        ] {
            let Some(address) = address else { continue };
            let site =
                LiveSite { hub: hub.clone(), version: env!("CARGO_PKG_VERSION"), has_page, has_metrics };
            let live = args.live.filter(|_| !has_page).map(|live| ("--live", live));
            let listeners = tcp::listen(address, 1).map_err(|error| why_not(flag, address, &error, live))?;
            let listener = listeners.into_iter().next().context("there is no listener")?;
            self.listening.push((listener, flag, site));
        }
        Ok(())
    }

    /// Serves, and draws on the terminal, from now on, as far as that was asked for. The command has been accepted, and
    /// nothing is measured yet. What it prints on a terminal that is drawn on waits until [`Self::give_back`].
    pub(crate) fn begin(&mut self) -> anyhow::Result<()> {
        for (listener, flag, site) in self.listening.drain(..) {
            let (has_page, has_metrics, hub) = (site.has_page, site.has_metrics, site.hub.clone());
            let serving = kqps_web::serve(listener, &flag[2..], Arc::new(site))?;
            let address = serving.address;
            let is_open = !address.ip().is_loopback();
            let open = if is_open { " (open to other hosts)" } else { "" };
            if has_page {
                print::beside(&format!("The page of this measurement is at http://{address}/"));
                hub.served_at(format!("page http://{address}/{open}"));
            }
            if has_metrics {
                print::beside(&format!("Its counts are at http://{address}/metrics"));
                hub.served_at(format!("metrics http://{address}/metrics{open}"));
            }
            if is_open {
                print::beside(&format!(
                    "kqps: {flag} {address}: every host that reaches this address can read what kqps shows there"
                ));
            }
            self.serving.push(serving);
        }
        self.draw();
        Ok(())
    }

    fn draw(&mut self) {
        if let Some(hub) = self.hub.clone().filter(|_| self.wants_tui) {
            print::hold();
            let is_colored = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
            match Tui::start(hub, is_colored, signals::interrupt, print::release) {
                Ok(tui) => self.tui = Some(tui),
                Err(error) => {
                    print::release();
                    self.wants_tui = false;
                    instead(&format!("the terminal cannot be set up ({error})"));
                }
            }
        }
    }

    /// The maker of the page of a run that goes on; `None` if no page is shown.
    pub(crate) fn page(&self) -> Option<LivePage> {
        let hub = self.hub.as_ref().filter(|_| self.has_page)?;
        Some(LivePage::new(hub.clone()))
    }

    /// The source of what is shown; `None` if nothing shows it.
    pub(crate) fn hub(&self) -> Option<&Arc<Hub>> {
        self.hub.as_ref()
    }

    /// Whether the terminal is drawn on, so that no bar may be.
    pub(crate) fn is_drawn(&self) -> bool {
        self.wants_tui
    }

    /// The sink that passes on the counts of players in processes of their own; `None` if nothing shows them.
    pub(crate) fn sink(&self) -> Option<LiveSink> {
        let hub = self.hub.clone()?;
        Some(LiveSink::new(EVERY, move |counts| hub.count(counts)))
    }

    /// Restores the terminal, and prints what waited for that. If the terminal takes no bytes, that goes on waiting, so that
    /// what is printed elsewhere is.
    pub(crate) fn give_back(&mut self) {
        let was_drawn = self.tui.take().is_some();
        if !was_drawn || tui::takes_bytes() {
            print::release();
        }
    }

    /// Ends what is shown, after all was printed: clients get the last state, and more may come as long as `--linger`
    /// says. A signal ends that, and does not change the exit status.
    pub(crate) fn end(mut self) {
        self.give_back();
        print::release();
        let Some(hub) = &self.hub else { return };
        hub.end();
        let came_before = signals::linger();
        if !self.linger.is_zero() {
            let until = clock::local_time(clock::wall_s() + self.linger.as_secs());
            let until = until.map(|at| format!("{:02}:{:02}:{:02}", at.hour, at.minute, at.second));
            let until = until.unwrap_or_else(|| "--linger is over".to_owned());
            print::beside(&format!("Serving until {until}; Ctrl-C ends it."));
        }
        let until = Instant::now() + self.linger;
        while Instant::now() < until && signals::count() == came_before {
            std::thread::sleep(LOOK);
        }
        self.serving.iter().for_each(|serving| serving.wait_for_answers(LAST_STATE));
    }
}

impl Drop for Views {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// Says why the terminal is not drawn on.
fn instead(why: &str) {
    eprintln!("kqps: --tui: {why}, so lines are printed instead");
}

/// Whether the terminal of standard error can be drawn on. If not, says so once.
fn can_draw() -> bool {
    let why = if !io::stderr().is_terminal() {
        "standard error is no terminal"
    } else if std::env::var_os("TERM").is_some_and(|term| term == "dumb") {
        "the terminal cannot be drawn on (TERM=dumb)"
    } else if std::env::var_os("TERM").is_none_or(|term| term.is_empty()) {
        "the terminal is unknown (TERM is not set)"
    } else if !io::stdin().is_terminal() && File::open("/dev/tty").is_err() {
        "there is no terminal for keys"
    } else {
        return true;
    };
    instead(why);
    false
}

impl LiveArgs {
    /// Whether lines are printed at intervals, because `--tui` was asked for and there is no terminal.
    pub(crate) fn wants_lines(&self, views: &Views) -> bool {
        self.tui && !views.wants_tui
    }
}
