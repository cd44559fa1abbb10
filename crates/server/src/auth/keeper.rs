//! The zones of a process: loaded before the first query, and replaced as a whole when they are loaded again.
//! Workers look at the place where the present ones stand with every query, so that each query is answered from
//! one set of zones, and none waits for the change.

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

use super::{Auth, AuthStream, Load, Settings, Told, Wish};
use crate::serve::{News, ServeError, Until};

/// How long the zones that were replaced are waited for: a worker that has nothing to do keeps them, and they go
/// with its next query.
const PATIENCE: Duration = Duration::from_secs(10);

/// Holds the zones, and loads them again.
pub(crate) struct Keeper {
    shared: Arc<Shared>,
    /// What was loaded first.
    pub(crate) told: Told,
    /// Set while zones are being loaded; whether they are to be loaded once more after that.
    loading: Option<bool>,
    outcomes: Receiver<Option<Told>>,
    outcome: Sender<Option<Told>>,
    /// A byte for each outcome, for whoever waits by polling.
    pub(crate) news: PipeReader,
    tell: PipeWriter,
}

struct Shared {
    settings: Arc<Settings>,
    zones: Arc<ArcSwap<Zones>>,
    load: Arc<dyn Load>,
    threads: usize,
    speaks: bool,
}

impl Keeper {
    /// Loads the zones; the error says why there are none, or that a signal came first. `speaks` says whether the user
    /// is to hear about it.
    pub(crate) fn new(
        settings: Settings,
        load: Arc<dyn Load>,
        threads: usize,
        speaks: bool,
        signals: &Signals,
    ) -> Result<Self, ServeError> {
        let (news, tell) = io::pipe()?;
        let (outcome, outcomes) = mpsc::channel();
        let settings = Arc::new(settings);
        let (first, first_load) = (settings.clone(), load.clone());
        let load_all = move || first_load.load(Wish { settings: &first, old: None, threads, speaks });
        let ((zones, told), again) = load_unless_stopped(load_all, signals)?;
        heap::give_back();
        let zones = Arc::new(ArcSwap::from_pointee(zones));
        let shared = Arc::new(Shared { settings, zones, load, threads, speaks });
        let mut keeper = Self { shared, told, loading: None, outcomes, outcome, news, tell };
        if again {
            keeper.reload()?;
        }
        Ok(keeper)
    }

    /// One that answers UDP, for one worker.
    pub(crate) fn answer(&self) -> Auth {
        Auth::new(self.shared.zones.clone(), self.responder())
    }

    /// One that answers what comes by connections.
    pub(crate) fn stream_answer(&self) -> AuthStream {
        AuthStream::new(self.shared.zones.clone(), self.responder())
    }

    fn responder(&self) -> Responder {
        Responder::new(self.shared.settings.for_zones())
    }

    /// Loads the zones again, in a thread of its own; once more after that if it is under way already, since
    /// the files may have changed behind it.
    pub(crate) fn reload(&mut self) -> io::Result<()> {
        if let Some(again) = &mut self.loading {
            *again = true;
            return Ok(());
        }
        let (shared, outcome, mut tell) = (self.shared.clone(), self.outcome.clone(), self.tell.try_clone()?);
        std::thread::Builder::new().name("reload".to_owned()).spawn(move || {
            let (old, told) = shared.replace();
            // Nobody listens any more when the server is being stopped.
            let _ = outcome.send(told);
            let _ = tell.write_all(b"z");
            if let Some(old) = old {
                wait_for_the_last(&old);
                drop(old);
            }
            heap::give_back();
        })?;
        self.loading = Some(false);
        Ok(())
    }

    /// To be called when there is news: what was loaded again, or none where the old zones stay.
    pub(crate) fn loaded_again(&mut self) -> io::Result<Option<Told>> {
        self.news.read_exact(&mut [0])?;
        let told = self.outcomes.recv().map_err(io::Error::other)?;
        if self.loading.take() == Some(true) {
            self.reload()?;
        }
        Ok(told)
    }
}

impl Shared {
    /// Puts new zones in the place of the old, which are returned; or leaves everything as it is.
    fn replace(&self) -> (Option<Arc<Zones>>, Option<Told>) {
        let old = self.zones.load_full();
        let wish =
            Wish { settings: &self.settings, old: Some(&old), threads: self.threads, speaks: self.speaks };
        match self.load.load(wish) {
            Ok((zones, told)) => {
                self.zones.store(Arc::new(zones));
                (Some(old), Some(told))
            }
            Err(_) => (None, None),
        }
    }
}

/// Loads in a thread of its own, and waits for that or for a signal to end. Also says whether to load once more after
/// that: SIGHUP came meanwhile, and files may have changed behind it.
fn load_unless_stopped<T: Send + 'static>(
    load: impl FnOnce() -> Result<T, String> + Send + 'static,
    signals: &Signals,
) -> Result<(T, bool), ServeError> {
    let (end, tell) = io::pipe()?;
    let loading = std::thread::Builder::new().name("load".to_owned()).spawn(move || {
        let loaded = load();
        // Closing it is what is told, so that a panic is told as well.
        drop(tell);
        loaded
    })?;
    let mut again = false;
    loop {
        match Until::after(None).wait(signals, &[end.as_raw_fd()])? {
            News::HangUp => again = true,
            News::End(signal) => return Err(ServeError::stopped(signal.unwrap_or(Signal::Terminate))),
            News::From(_) => break,
        }
    }
    let loaded = loading.join().map_err(|_| io::Error::other("loading zones panicked"))?;
    Ok((loaded.map_err(ServeError::Zones)?, again))
}

/// Waits until nobody else holds these zones, so that no worker has to free them: that takes long where they
/// are big.
fn wait_for_the_last(zones: &Arc<Zones>) {
    let begin = Instant::now();
    while Arc::strong_count(zones) > 1 && begin.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(10));
    }
}
