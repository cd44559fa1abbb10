//! The zones of a process, loaded before the first query and replaced as a whole on reload. For every query, workers
//! read the reference to the current zones. So each query is answered from one version of the zones, and no query
//! waits for a reload.

use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use kqps_kernel::heap;
use kqps_kernel::process::Signal;
use kqps_kernel::signal::Signals;
use kqps_zone::{Responder, Zones};

use super::answer::AuthAnswer;
use super::{AuthSettings, ZoneRequest, ZoneSource, ZonesLoaded};
use crate::deadline::{Deadline, Event};
use crate::error::ServeError;

/// How long a reload waits for workers to release the old zones. An idle worker keeps them until its next query.
const PATIENCE: Duration = Duration::from_secs(10);

/// Holds the zones and reloads them.
pub(super) struct ZoneKeeper {
    shared: Arc<Shared>,
    /// The result of the first load.
    pub(super) loaded: ZonesLoaded,
    /// `Some` while zones are being loaded. Inside, whether to load once more afterwards.
    loading: Option<bool>,
    outcomes: Receiver<Option<ZonesLoaded>>,
    outcome: Sender<Option<ZonesLoaded>>,
    /// Receives one byte for each outcome, for callers that wait by polling.
    pub(super) news: PipeReader,
    notify: PipeWriter,
}

struct Shared {
    settings: Arc<AuthSettings>,
    zones: Arc<ArcSwap<Zones>>,
    source: Arc<dyn ZoneSource>,
    threads: usize,
    speaks: bool,
}

impl ZoneKeeper {
    /// Loads the zones. The error says why there are none, or that a signal arrived first. `speaks` says whether to
    /// report problems to the user.
    pub(super) fn new(
        settings: AuthSettings,
        source: Arc<dyn ZoneSource>,
        threads: usize,
        speaks: bool,
        signals: &Signals,
    ) -> Result<Self, ServeError> {
        let (news, notify) = io::pipe()?;
        let (outcome, outcomes) = mpsc::channel();
        let settings = Arc::new(settings);
        let (first, first_source) = (settings.clone(), source.clone());
        let load_all =
            move || first_source.load(ZoneRequest { settings: &first, old: None, threads, speaks });
        let ((zones, loaded), again) = load_unless_stopped(load_all, signals)?;
        heap::trim();
        let zones = Arc::new(ArcSwap::from_pointee(zones));
        let shared = Arc::new(Shared { settings, zones, source, threads, speaks });
        let mut keeper = Self { shared, loaded, loading: None, outcomes, outcome, news, notify };
        if again {
            keeper.reload()?;
        }
        Ok(keeper)
    }

    /// Answers the queries of one thread.
    pub(super) fn answer(&self) -> AuthAnswer {
        AuthAnswer::new(self.shared.zones.clone(), self.responder(), self.shared.settings.limits.idle)
    }

    fn responder(&self) -> Responder {
        Responder::new(self.shared.settings.for_zones())
    }

    /// Reloads the zones on a thread of its own. If a reload is running already, another one follows it, since files
    /// may have changed behind the first.
    pub(super) fn reload(&mut self) -> io::Result<()> {
        if let Some(again) = &mut self.loading {
            *again = true;
            return Ok(());
        }
        let (shared, outcome, mut notify) =
            (self.shared.clone(), self.outcome.clone(), self.notify.try_clone()?);
        std::thread::Builder::new().name("reload".to_owned()).spawn(move || {
            let (old, loaded) = shared.replace();
            // While the server stops, nothing receives this.
            let _ = outcome.send(loaded);
            let _ = notify.write_all(b"z");
            if let Some(old) = old {
                wait_for_the_last(&old);
                drop(old);
            }
            heap::trim();
        })?;
        self.loading = Some(false);
        Ok(())
    }

    /// Takes the outcome of a reload; `None` if the old zones stay. Call it when `news` is readable.
    pub(super) fn loaded_again(&mut self) -> io::Result<Option<ZonesLoaded>> {
        self.news.read_exact(&mut [0])?;
        let loaded = self.outcomes.recv().map_err(io::Error::other)?;
        if self.loading.take() == Some(true) {
            self.reload()?;
        }
        Ok(loaded)
    }
}

impl Shared {
    /// Replaces the zones and returns the old ones, or leaves everything as it is.
    fn replace(&self) -> (Option<Arc<Zones>>, Option<ZonesLoaded>) {
        let old = self.zones.load_full();
        let Self { settings, threads, speaks, .. } = self;
        let request = ZoneRequest { settings, old: Some(&old), threads: *threads, speaks: *speaks };
        match self.source.load(request) {
            Ok((zones, loaded)) => {
                self.zones.store(Arc::new(zones));
                (Some(old), Some(loaded))
            }
            Err(_) => (None, None),
        }
    }
}

/// Loads on a thread of its own, and waits for it or for a signal to end. Also returns whether SIGHUP arrived
/// meanwhile: files may have changed behind the load, so another one must follow.
fn load_unless_stopped<T: Send + 'static>(
    load: impl FnOnce() -> Result<T, String> + Send + 'static,
    signals: &Signals,
) -> Result<(T, bool), ServeError> {
    let (end, notify) = io::pipe()?;
    let loading = std::thread::Builder::new().name("load".to_owned()).spawn(move || {
        let loaded = load();
        // Closing the pipe is the message, which works even if loading panics.
        drop(notify);
        loaded
    })?;
    let mut again = false;
    loop {
        match Deadline::after(None).wait(signals, &[end.as_raw_fd()])? {
            Event::HangUp => again = true,
            Event::End(signal) => return Err(ServeError::stopped(signal.unwrap_or(Signal::Terminate))),
            Event::From(_) => break,
        }
    }
    let loaded = loading.join().map_err(|_| io::Error::other("loading zones panicked"))?;
    Ok((loaded.map_err(ServeError::Zones)?, again))
}

/// Waits until no worker uses these zones, so that no worker has to free them, which takes long for large zones.
fn wait_for_the_last(zones: &Arc<Zones>) {
    let begin = Instant::now();
    while Arc::strong_count(zones) > 1 && begin.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(10));
    }
}
