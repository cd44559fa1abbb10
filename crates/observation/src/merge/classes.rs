//! The record of classes of clients that one player played at the same time.

use crate::trial::{ClassTrial, LoadFacts};
use crate::{Ledger, StartFacts, Trial};

use super::{MergeError, Part, record};

/// The record of all classes together, with the record of each. `ledger` is of all of them.
///
/// # Errors
///
/// No class; a class whose histograms cannot be read, or whose counts are too large to be added.
pub fn together(classes: Vec<ClassTrial>, ledger: Ledger) -> Result<Trial, MergeError> {
    let part = |ClassTrial { name, trial, .. }: &ClassTrial| Part {
        host: name.clone(),
        trial: trial.clone(),
        start: StartFacts::default(),
    };
    let parts: Vec<Part> = classes.iter().map(part).collect();
    let sum = record::merge(&parts, None)?;
    let Part { trial: first, .. } = &parts[0];
    Ok(Trial {
        // Each class has a course and a mode of its own.
        load: LoadFacts { course: None, ..sum.load },
        replay: None,
        differences: Vec::new(),
        hosts: first.hosts.clone(),
        subject: first.subject.clone(),
        late_start_ns: first.late_start_ns,
        parts: Vec::new(),
        start_skew_us: None,
        ledger,
        classes,
        ..sum
    })
}
