//! Waits for a device's link after a setting that takes it down. Until it is back, no packet passes.

use std::time::{Duration, Instant};

use crate::setting::Setting;
use crate::system::System;

/// The longest time that a link may take to come back. Some take several seconds to agree on a speed.
const PATIENCE: Duration = Duration::from_secs(10);

/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// The link of a setting's device, before the setting is written.
pub(crate) struct Link<'a> {
    system: &'a dyn System,
    /// The device, if it has a link that it may lose.
    device: Option<&'a str>,
}

impl<'a> Link<'a> {
    /// Looks at the link. Settings that leave links alone have none to wait for.
    pub(crate) fn before(system: &'a dyn System, setting: &'a Setting) -> Self {
        let device = setting.device().filter(|device| setting.may_reset() && system.is_linked(device));
        Self { system, device }
    }

    /// Waits until the link is back. Returns a sentence without its full stop if it does not come back.
    pub(crate) fn wait(&self) -> Option<String> {
        let device = self.device?;
        let end = Instant::now() + PATIENCE;
        while !self.system.is_linked(device) {
            if Instant::now() >= end {
                return Some(format!(
                    "the link of {device} did not come back within {} s",
                    PATIENCE.as_secs()
                ));
            }
            std::thread::sleep(PAUSE);
        }
        None
    }
}
