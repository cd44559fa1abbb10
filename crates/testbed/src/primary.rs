//! The primary of a subject that transfers a zone in: kqps's own server, beside the subject.

use std::path::Path;
use std::time::Duration;

use kqps_kernel::interrupts::Interrupts;
use tempfile::TempPath;

use crate::event::control::Control;
use crate::event::{Action, Event};
use crate::path::LaidPath;
use crate::subject::zones::{copy, renew};
use crate::subject::{LaunchSetting, StartError, Subject, Zone, builtin};

/// The name of its definition, and the I/O model of its answers to the subject.
const NAME: &str = "kqps-auth";
const IO: &str = "mmsg";

/// The longest time that it takes to read a new version of the zone.
const READ_WITHIN: Duration = Duration::from_mins(1);

/// A running primary with one zone. It is stopped when it is dropped.
#[derive(Debug)]
pub struct Primary {
    subject: Subject,
    origin: String,
    /// Its own file of the zone.
    file: TempPath,
}

impl Primary {
    /// Starts a primary of this zone at the subject's end of the path, with files in this folder.
    ///
    /// # Errors
    ///
    /// If the zone's file cannot be copied, or the primary does not become ready.
    pub fn start(
        zone: &Zone,
        (path, folder, kqps): (&LaidPath, &Path, &Path),
        interrupts: &Interrupts,
        share: Option<Duration>,
    ) -> Result<Self, StartError> {
        let definition = builtin::servers().into_iter().find(|server| server.name == NAME);
        let definition = definition.expect("kqps has its own server");
        let folder = folder.join("primary");
        let failed = |error| StartError::Io { what: "copying the primary's zone".into(), error };
        let file = copy(&zone.file, &folder).map_err(failed)?;
        let setting = LaunchSetting {
            path,
            folder: &folder,
            zones: &[Zone::new(zone.origin.clone(), &*file)],
            kqps,
            io: IO,
            workers: 1,
            // It works for moments, and the kernel finds it a core.
            cpus: &[],
            settings: &[("transfers".to_owned(), "on".to_owned())].into(),
        };
        let subject = Subject::start_over(
            kqps_observation::trial::Transport::Udp,
            &definition,
            &setting,
            interrupts,
            share,
        )?;
        Ok(Self { subject, origin: zone.origin.clone(), file })
    }

    /// Its port, at the address of the subject.
    pub fn port(&self) -> u16 {
        self.subject.address().port()
    }

    /// Gives its zone a new serial, and waits until it is answered.
    ///
    /// # Errors
    ///
    /// The reason why it is not.
    pub fn renew(&self, path: &LaidPath) -> Result<(), String> {
        renew(&self.file, &self.origin, 0).map_err(|error| format!("a new serial of its zone: {error}"))?;
        let action = Action::Control { control: Control::Reload, zone: None };
        let reload = Event { at: Duration::ZERO, action, by: None };
        let performed = self.subject.perform(path, &reload, READ_WITHIN)?;
        match (performed.failure, performed.done_ns) {
            (Some(why), _) => Err(why),
            (None, None) => Err("it did not answer with the new serial".into()),
            (None, Some(_)) => Ok(()),
        }
    }
}
