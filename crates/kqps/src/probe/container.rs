//! Rights and resources that the container around this process takes away, and how a user who is not root gets rights
//! on a host.

use std::fmt::Write as _;

use kqps_host::container::{Facts, Restriction};
use schemars::JsonSchema;
use serde::Serialize;

/// The container around this process.
#[derive(Serialize, JsonSchema)]
pub(super) struct Container {
    /// Signs that this is a container.
    signs: Vec<String>,
    takes_away: Vec<Lack>,
}

/// Something that a container takes away.
#[derive(Serialize, JsonSchema)]
struct Lack {
    /// `capabilities`, `system calls`, `cpu`, `memory`, `settings` or `network`.
    what: &'static str,
    /// The lack, and what does not work because of it.
    reason: String,
    /// How to start the container with it.
    remedy: String,
}

impl From<Restriction> for Lack {
    fn from(Restriction { what, reason, remedy }: Restriction) -> Self {
        Self { what, reason, remedy }
    }
}

impl Container {
    /// `None` if this is no container. `fails` says whether a capability of the probe does not work.
    pub(super) fn from_facts(facts: &Facts, fails: impl Fn(&str) -> bool) -> Option<Self> {
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

/// The command that gives the program's file all rights that kqps can use, with what it means. `None` if it lacks none.
pub(super) fn setcap(facts: &Facts, program: &str) -> Option<String> {
    let rights = facts.for_setcap().join(",");
    // No path of a program has a zero byte.
    let program = shlex::try_quote(program).unwrap_or(program.into());
    (!rights.is_empty()).then(|| {
        format!(
            "To give kqps all rights that its file can have, without running it as root:\n  setcap {rights}=ep {program}\n\
             Every user who may run the file then has them in it. To keep others from that, first give the\n\
             file to a group (chgrp) and take it from all others (chmod 750): a change of the group takes\n\
             the rights away.\n"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_one_that_a_shell_understands() {
        let facts = Facts { effective: Some(1 << 13), ..Facts::default() };
        let all = "cap_net_admin,cap_net_raw,cap_ipc_lock,cap_sys_nice,cap_syslog,cap_perfmon,cap_bpf=ep";
        let line =
            |program: &str| setcap(&facts, program).unwrap().lines().nth(1).unwrap().trim_start().to_owned();
        assert_eq!(line("/usr/bin/kqps"), format!("setcap {all} /usr/bin/kqps"));
        assert_eq!(line("/my tools/kqps"), format!("setcap {all} '/my tools/kqps'"));
        assert_eq!(setcap(&Facts { effective: Some(u64::MAX), ..facts }, "kqps"), None);
    }

    #[test]
    fn the_documents_have_the_same_command() {
        let facts = Facts { effective: Some(0), ..Facts::default() };
        let rights = format!("setcap {}=ep ", facts.for_setcap().join(","));
        for file in ["docs/INSTALL.md", "docs/HOSTS.md", "deploy/debian/README.Debian"] {
            let path = format!("{}/../../{file}", env!("CARGO_MANIFEST_DIR"));
            let text = std::fs::read_to_string(path).unwrap();
            assert!(text.contains(&rights), "{file} lacks {rights}");
        }
    }
}
