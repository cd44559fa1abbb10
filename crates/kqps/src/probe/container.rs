//! What the container around this process takes away, and how a user who is not root gets rights on a host.

use std::fmt::Write as _;

use kqps_host::container::{Facts, Taken};
use schemars::JsonSchema;
use serde::Serialize;

/// The container around this process.
#[derive(Serialize, JsonSchema)]
pub(super) struct Container {
    /// What shows that this is a container.
    signs: Vec<String>,
    takes_away: Vec<Lack>,
}

/// Something that a container takes away.
#[derive(Serialize, JsonSchema)]
struct Lack {
    /// `capabilities`, `system calls`, `cpu`, `memory`, `settings` or `network`.
    what: &'static str,
    /// What is missing, and what does not work without it.
    reason: String,
    /// How to start the container with it.
    remedy: String,
}

impl From<Taken> for Lack {
    fn from(Taken { what, reason, remedy }: Taken) -> Self {
        Self { what, reason, remedy }
    }
}

impl Container {
    /// `None` if this is no container. `fails` says whether a capability of the probe does not work.
    pub(super) fn of(facts: &Facts, fails: impl Fn(&str) -> bool) -> Option<Self> {
        let takes_away = facts.taken(fails).into_iter().map(Lack::from).collect();
        (!facts.signs.is_empty()).then(|| Self { signs: facts.signs.clone(), takes_away })
    }

    /// The lines for a reader.
    pub(super) fn text(&self) -> String {
        let mut text = format!("This looks like a container: {}.", self.signs.join("; "));
        if self.takes_away.is_empty() {
            return text + " It takes nothing away that kqps uses.\n";
        }
        text += " It takes away:\n";
        for Lack { what, reason, remedy } in &self.takes_away {
            write!(text, "  {what}: {reason}.\n    To have it: {remedy}\n")
                .expect("a string takes everything");
        }
        text
    }
}

/// The command that gives the program's file the rights that this process lacks, with what it means. `None` if it has all.
pub(super) fn setcap(facts: &Facts, program: &str) -> Option<String> {
    let missing = facts.for_setcap().join(",");
    let safety = "Whoever may run the file then has them in it, so keep others from running it";
    (!missing.is_empty()).then(|| {
        format!(
            "To give kqps the rights that it lacks without running it as root:\n  setcap {missing}=ep {program}\n{safety} \
             (docs/INSTALL.md, Rights).\n"
        )
    })
}
