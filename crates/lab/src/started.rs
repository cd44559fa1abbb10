//! A subject that was started, as the code that conducts a run uses it.

use kqps_observation::Trial;

use crate::trial_request::{Load, NoTrial};

/// A started subject. Dropping it stops the subject.
pub trait RunningSubject {
    /// Plays one load at the subject.
    fn play(&mut self, load: &Load) -> Result<Trial, NoTrial>;

    /// CPU seconds that the subject has used so far; `None` if that is not known.
    fn cpu_s(&self) -> Option<f64> {
        None
    }
}

impl<F: FnMut(&Load) -> Result<Trial, NoTrial>> RunningSubject for F {
    fn play(&mut self, load: &Load) -> Result<Trial, NoTrial> {
        self(load)
    }
}

/// A started subject of any kind, as a trait object.
pub type Play<'a> = Box<dyn RunningSubject + 'a>;
