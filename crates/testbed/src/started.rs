//! A subject that was started, as the code that conducts a run uses it.

use kqps_observation::Trial;

use crate::trial_request::{NoTrial, TrialRequest};

/// A started subject. Dropping it stops the subject.
pub trait RunningSubject {
    /// Plays one load at the subject.
    fn play(&mut self, request: &TrialRequest) -> Result<Trial, NoTrial>;

    /// CPU seconds that the subject has used so far; `None` if that is not known.
    fn cpu_s(&self) -> Option<f64> {
        None
    }
}

impl<F: FnMut(&TrialRequest) -> Result<Trial, NoTrial>> RunningSubject for F {
    fn play(&mut self, request: &TrialRequest) -> Result<Trial, NoTrial> {
        self(request)
    }
}

/// A started subject of any kind, as a trait object.
pub type Play<'a> = Box<dyn RunningSubject + 'a>;
