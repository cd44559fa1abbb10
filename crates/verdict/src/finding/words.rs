//! The finding in a few sentences.

use std::collections::BTreeSet;
use std::fmt;

use super::{Contrast, Finding, Interaction, Outcome, Quantity};
use crate::change::{self, Form, typeset};
use crate::compare::COARSE;
use crate::figure::setting;

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sentences = self.main();
        match self.outcome {
            Outcome::NoNumber | Outcome::OneCell => return f.write_str(&sentences.join(" ")),
            Outcome::NoPair | Outcome::NoInterval(_) => {}
            _ => match self.untested {
                0 => {}
                1 => sentences.push("One pair of values has too few blocks for an interval.".into()),
                some => {
                    sentences.push(format!("{some} pairs of values have too few blocks for an interval."));
                }
            },
        }
        sentences.extend(self.not_judged());
        if self.own_rates {
            sentences.push("Each cell is at its own rate.".into());
        }
        match self.without {
            0 => {}
            1 => sentences.push(format!(
                "1 of {} cells is left out: it has no number, or none start by start.",
                self.cells
            )),
            some => sentences.push(format!(
                "{some} of {} cells are left out: they have no number, or none start by start.",
                self.cells
            )),
        }
        f.write_str(&sentences.join(" "))
    }
}

impl Finding {
    /// Sentences on the outcome, and on what changes together with the factors that it names.
    fn main(&self) -> Vec<String> {
        let what = self.quantity;
        let mut explained = Explained::default();
        let mut sentences = Vec::new();
        match &self.outcome {
            Outcome::NoNumber => sentences.push(format!("No cell's {what} can be compared.")),
            Outcome::OneCell => {
                sentences.push("The experiment has one cell, so there is nothing to compare.".into());
            }
            Outcome::NoPair if self.cells - self.without == 1 => {
                sentences.push(format!("Only one cell's {what} is known, so there is nothing to compare."));
            }
            Outcome::NoPair => sentences.push(
                "No two cells with a number differ in one factor alone, so no factor can be judged.".into(),
            ),
            Outcome::NoInterval(greatest) => {
                sentences.push(format!(
                    "The blocks are too few for an interval, so no factor is known to have changed the {what}."
                ));
                sentences.push(format!("The greatest difference: {}.", compared(what, greatest)));
                sentences.extend(explained.with(&greatest.factor, &greatest.changes_with));
            }
            Outcome::Mattered { most, others, interactions } => {
                let has_others = self.judged().count() > 1;
                let mattered = if has_others { "mattered most" } else { "mattered" };
                sentences.push(format!("{} {mattered}: {}.", most.factor, compared(what, most)));
                sentences.extend(explained.with(&most.factor, &most.changes_with));
                for other in others {
                    sentences.push(format!("{} mattered, too: {}.", other.factor, compared(what, other)));
                    sentences.extend(explained.with(&other.factor, &other.changes_with));
                }
                sentences.extend(depends(what, interactions, &mut explained));
                if others.is_empty() && interactions.is_empty() && self.untested == 0 && has_others {
                    let other = if self.unpaired.is_empty() {
                        "No other factor"
                    } else {
                        "No other factor that was judged"
                    };
                    sentences.push(match self.coarse() {
                        Some(least) => format!(
                            "{other} is known to have mattered, and a difference of less than {least} would not have been seen."
                        ),
                        None => format!("{other} mattered beyond the MDE."),
                    });
                }
            }
            Outcome::Together(interactions) => {
                sentences.push(format!(
                    "No factor changed the {what} on average, but the effect of one depends on another."
                ));
                sentences.extend(depends(what, interactions, &mut explained));
            }
            Outcome::None(greatest) => {
                let judged: Vec<&String> = self.judged().collect();
                let (which, changed) = match judged.as_slice() {
                    [one] => ((*one).clone(), "did not change"),
                    _ if self.unpaired.is_empty() => ("No factor".to_owned(), "changed"),
                    _ => ("No factor that was judged".to_owned(), "changed"),
                };
                sentences.push(match self.coarse() {
                    Some(least) => format!(
                        "This experiment cannot see differences in {what} of less than {least}, and no greater one is \
                         known."
                    ),
                    None => format!("{which} {changed} the {what} beyond the MDE."),
                });
                sentences.push(format!("The greatest difference: {}.", compared(what, greatest)));
                sentences.extend(explained.with(&greatest.factor, &greatest.changes_with));
                if let Some(mde) = self.mde.filter(|_| self.coarse().is_none()) {
                    let least = typeset(&change::difference(mde, 1));
                    sentences.push(format!("A difference of {least} would have been found."));
                }
            }
        }
        sentences
    }

    /// The MDE in words, if it is too large for a claim that nothing changed.
    fn coarse(&self) -> Option<String> {
        self.mde.filter(|mde| *mde > COARSE).map(|mde| typeset(&change::difference(mde, 1)))
    }

    /// The factors that some pair of cells differs in alone.
    fn judged(&self) -> impl Iterator<Item = &String> {
        self.factors.iter().filter(|factor| !self.unpaired.contains(factor))
    }

    /// The factors that were not judged, unless none was.
    fn not_judged(&self) -> Option<String> {
        let names = listed(&self.unpaired);
        let sentence = match self.unpaired.len() {
            0 => return None,
            _ if self.outcome == Outcome::NoPair => return None,
            1 => format!("{names} was not judged: no two cells with a number differ in it alone."),
            _ => format!("{names} were not judged: no two cells with a number differ in one of them alone."),
        };
        Some(sentence)
    }
}

/// Explanations that were given, so that nothing is explained twice.
#[derive(Default)]
struct Explained(BTreeSet<String>);

impl Explained {
    /// Names the factors that change together with a factor; `None` if none do, or if the same was said before.
    fn with(&mut self, factor: &str, further: &[String]) -> Option<String> {
        let names = listed(further);
        let sentence = match further.len() {
            0 => return None,
            1 => format!("{names} changes with {factor}: the difference includes its effect."),
            _ => format!("{names} change with {factor}: the difference includes their effect."),
        };
        self.0.insert(sentence.clone()).then_some(sentence)
    }
}

/// Sentences for each factor whose effect depends on others.
fn depends(what: Quantity, interactions: &[Interaction], explained: &mut Explained) -> Vec<String> {
    let mut sentences = Vec::new();
    for one in interactions {
        let (low, apart, high) = one.apart;
        let (greater, lesser) = (setting(&one.factor, &one.greater), setting(&one.factor, &one.lesser));
        let ((at_most, most), (at_least, least)) = (&one.greatest, &one.least);
        let form = Form::from_ratios(&[*most, *least]);
        let reaches = match form {
            Form::Percent => {
                let (most, least) = (higher(what, *most), higher(what, *least));
                format!("{most} than with {lesser}, and with {at_least} it is {least}")
            }
            Form::Factor => {
                let (most, least) = (change::times(*most), change::times(*least));
                format!("{most} times that with {lesser}, and with {at_least} it is {least} times that")
            }
        };
        let others = if one.on.is_empty() { "other factors".into() } else { listed(&one.on) };
        sentences.push(format!(
            "The effect of {} depends on {others}: with {at_most} the {what} with {greater} is {reaches}.",
            one.factor
        ));
        let form = Form::from_ratios(&[low, apart, high]);
        let range = typeset(&form.range(low, high));
        sentences.push(match form {
            Form::Percent => {
                let by = typeset(&change::difference(apart - 1.0, 1));
                format!("These two ratios are {by} apart (95\u{a0}%: {range}).")
            }
            Form::Factor => {
                let by = change::times(apart);
                format!("These two ratios are a factor of {by} apart (95\u{a0}%: {range}).")
            }
        });
        let factors = [&one.factor].into_iter().chain(&one.on);
        let bundles = factors.filter_map(|factor| one.changes_with.get_key_value(factor));
        sentences.extend(bundles.filter_map(|(factor, further)| explained.with(factor, further)));
    }
    sentences
}

/// `with io uring the rate is on average 24.0 % higher than with io mmsg (95 %: +20.0 % to +28.0 %, 4 pairs of cells)`, or
/// `3.40 times that with io mmsg`.
fn compared(what: Quantity, one: &Contrast) -> String {
    let (low, high) = one.interval.unwrap_or((one.ratio, one.ratio));
    let form = Form::from_ratios(&[low, one.ratio, high]);
    let (greater, lesser) = (setting(&one.factor, &one.greater), setting(&one.factor, &one.lesser));
    let ratio = match form {
        Form::Percent => format!("{} than with {lesser}", higher(what, one.ratio)),
        Form::Factor => format!("{} times that with {lesser}", change::times(one.ratio)),
    };
    let interval = one
        .interval
        .map_or_else(String::new, |(low, high)| format!("95\u{a0}%: {}, ", typeset(&form.range(low, high))));
    let (mean, pairs) = match one.pairs {
        1 => ("", "one pair of cells".to_owned()),
        some => ("on average ", format!("{some} pairs of cells")),
    };
    format!("with {greater} the {what} is {mean}{ratio} ({interval}{pairs})")
}

/// `24.0 % higher`.
fn higher(what: Quantity, ratio: f64) -> String {
    let more = match (what, ratio < 1.0) {
        (Quantity::LoadTime, false) => "longer",
        (Quantity::LoadTime, true) => "shorter",
        (_, false) => "higher",
        (_, true) => "lower",
    };
    format!("{:.1}\u{a0}% {more}", (ratio - 1.0).abs() * 100.0)
}

/// `a`, `a and b`, `a, b and c`.
fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}
