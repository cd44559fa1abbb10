//! The record of classes of clients that one player, or several, played at the same time.

use crate::trial::{ClassTrial, LoadFacts};
use crate::{Ledger, StartFacts, Trial};

use super::{MergeError, Part, ServerFacts, record, same_trial};

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

/// The record of classes that several players shared: each class is merged by itself, without a drop ledger.
pub(super) fn merge_each(parts: &[Part], server: Option<&ServerFacts>) -> Result<Trial, MergeError> {
    let first = parts.first().ok_or(MergeError::Nothing)?;
    let names = |part: &Part| {
        part.trial.classes.iter().map(|class| class.name.clone()).collect::<Vec<String>>().join(", ")
    };
    if let Some(part) = parts.iter().find(|part| names(part) != names(first)) {
        let (host, other) = (part.host.clone(), first.host.clone());
        let (value, other_value) = (names(part), names(first));
        return Err(MergeError::Differs { host, other, what: "the classes", value, other_value });
    }
    let merged = |number: usize| {
        let of_class = |part: &Part| Part { trial: part.trial.classes[number].trial.clone(), ..part.clone() };
        let parts: Vec<Part> = parts.iter().map(of_class).collect();
        same_trial::check(&parts)?;
        let ClassTrial { name, is_sought, .. } = &first.trial.classes[number];
        let trial = record::merge(&parts, server.cloned())?;
        Ok(ClassTrial { name: name.clone(), trial, is_sought: *is_sought })
    };
    let classes =
        (0..first.trial.classes.len()).map(merged).collect::<Result<Vec<ClassTrial>, MergeError>>()?;
    let good = &classes[0].trial;
    let (start_skew_us, residence) = (good.start_skew_us, good.residence.clone());
    let whole = together(classes, Ledger::default())?;
    Ok(Trial { residence, start_skew_us, ..whole })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Accounts, Histogram, HostFacts, SubjectFacts};

    fn trial(sent: u64) -> Trial {
        let empty = Histogram::default().encode();
        let histograms = ["latency", "lag", "gap"].map(|name| (name.to_owned(), empty.clone())).into();
        let accounts = Accounts { intended: sent, sent, correct: sent, ..Accounts::default() };
        Trial { accounts, histograms, ..Trial::default() }
    }

    fn part(host: &str, sent: [(&str, u64); 2]) -> Part {
        let class = |(name, sent): (&str, u64)| ClassTrial {
            name: name.to_owned(),
            trial: trial(sent),
            is_sought: name == "attack",
        };
        let whole = Trial { classes: sent.map(class).into(), ..trial(sent[0].1 + sent[1].1) };
        Part { host: host.to_owned(), trial: whole, start: StartFacts::default() }
    }

    #[test]
    fn each_class_is_that_of_all_players() {
        let parts = [part("a", [("good", 10), ("attack", 100)]), part("b", [("good", 11), ("attack", 200)])];
        let subject = Some(SubjectFacts { pid: 7, ..SubjectFacts::default() });
        let server = ServerFacts { subject, host: HostFacts::default(), residence: None };
        let whole = merge_each(&parts, Some(&server)).unwrap();
        let sent: Vec<(&str, u64, bool)> = whole
            .classes
            .iter()
            .map(|class| (&*class.name, class.trial.accounts.sent, class.is_sought))
            .collect();
        assert_eq!(sent, [("good", 21, false), ("attack", 300, true)]);
        assert_eq!((whole.accounts.sent, whole.subject.as_ref().map(|subject| subject.pid)), (321, Some(7)));
        let players = |trial: &Trial| trial.players.iter().count();
        assert_eq!((players(&whole.classes[0].trial), players(&whole)), (2, 4), "each class has its own");
        assert_eq!((whole.hosts.iter().count(), whole.classes[0].trial.parts.len()), (3, 2));
    }

    #[test]
    fn players_with_other_classes_did_not_play_the_same() {
        let parts = [part("a", [("good", 1), ("attack", 1)]), part("b", [("good", 1), ("crowd", 1)])];
        let error = merge_each(&parts, None).unwrap_err().to_string();
        assert_eq!(error, "b and a did not play the same: the classes was good, crowd and good, attack");
    }
}
