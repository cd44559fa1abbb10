//! Where an authoritative server has its zones from.

use kqps_zone::Zones;

use super::{AuthSettings, ZonesLoaded};

/// Loads the zones of a server, and reports to the user what is wrong with them.
pub trait ZoneSource: Send + Sync {
    /// Loads all zones. Runs on a thread that may block. The error says why nothing could be loaded.
    fn load(&self, request: ZoneRequest<'_>) -> Result<(Zones, ZonesLoaded), String>;
}

/// A request to load zones.
#[derive(Clone, Copy, Debug)]
pub struct ZoneRequest<'a> {
    /// The settings that name the zones.
    pub settings: &'a AuthSettings,
    /// The zones served so far. If the file of a zone cannot be loaded, its old version stays.
    pub old: Option<&'a Zones>,
    /// The number of threads that may load, at least 1.
    pub threads: usize,
    /// Whether to report problems to the user. Of several processes that load the same zones, one does.
    pub speaks: bool,
}
