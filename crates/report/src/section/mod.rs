//! The sections of the page, in reading order. Each turns facts and judgements into words and drawings that
//! the templates lay out.

pub(crate) mod answer;
pub(crate) mod comparison;
pub(crate) mod cpu;
pub(crate) mod finding;
pub(crate) mod glossary;
pub(crate) mod history;
pub(crate) mod host;
pub(crate) mod hosts;
pub(crate) mod latency;
pub(crate) mod loss;
pub(crate) mod order;
pub(crate) mod other_run;
pub(crate) mod plot;
pub(crate) mod profile;
pub(crate) mod rates;
pub(crate) mod residence;
mod scaling;
mod separation;
pub(crate) mod speeds;
pub(crate) mod study;
pub(crate) mod summary;
pub(crate) mod table;
pub(crate) mod topology;
pub(crate) mod trials;
mod words;

use kqps_observation::run::Role;

#[derive(Debug)]
pub(crate) struct Panel {
    pub(crate) name: String,
    /// A sentence on what the drawing shows.
    pub(crate) caption: String,
    /// SVG; empty if there is nothing to draw.
    pub(crate) drawing: String,
    /// The fragment of the trial or the trials behind it, if there is one: `trial-7`.
    pub(crate) link: Option<String>,
    /// The cells whose trials are behind it, if they are several: name and fragment.
    pub(crate) cells: Vec<(String, String)>,
}

/// The role of a cell, in words.
pub(crate) fn role(role: Role) -> &'static str {
    match role {
        Role::PlayerCeiling => "ceiling of the player",
        Role::EchoCeiling => "echo ceiling",
        Role::Subject => "subject",
        Role::Canary => "canary",
    }
}
