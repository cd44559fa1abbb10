//! Installs the Debian packages of missing name servers, if that is allowed. It always announces them, and
//! asks first if stdin and stderr are terminals.

use std::io::{self, IsTerminal as _};

use anyhow::ensure;
use kqps_testbed::packages;

use crate::signals;

/// Installs the missing packages if that is allowed and wanted, and prints what it does. An error if the user
/// interrupts it.
pub(super) fn missing(missing: &[String], is_refused: bool) -> anyhow::Result<()> {
    let reason = match packages::allowed() {
        Ok(()) if is_refused => "--no-install".into(),
        Ok(()) if !is_wanted(missing) => "you said no".into(),
        Ok(()) => return install(missing),
        Err(reason) => reason,
    };
    eprintln!(
        "Not measured, since not installed: {} ({reason}; on Debian: apt install {}).",
        missing.join(", "),
        missing.join(" ")
    );
    Ok(())
}

/// Announces the packages, and asks on a terminal. Without a terminal the answer is yes, so that a run from a
/// checkout works unattended.
fn is_wanted(missing: &[String]) -> bool {
    eprintln!(
        "These packages are missing: {}. This is a run from a checkout as root ({}=debian in .cargo/config.toml), so \
         kqps installs them with apt-get. No service is started. --no-install leaves them out.",
        missing.join(", "),
        packages::VARIABLE
    );
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return true;
    }
    eprint!("Install them? [Y/n] ");
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).is_ok_and(|read| read > 0) && is_yes(&answer)
}

/// Whether an answer agrees. An empty answer does.
fn is_yes(answer: &str) -> bool {
    matches!(answer.trim().to_ascii_lowercase().as_str(), "" | "y" | "yes")
}

fn install(missing: &[String]) -> anyhow::Result<()> {
    let interrupts = signals::in_order();
    let announce = |package: &str| eprintln!("Installing {package} ...");
    for (package, reason) in packages::install(missing, interrupts, announce) {
        eprintln!("{package} could not be installed, and is left out: {reason}");
    }
    ensure!(!interrupts.is_asked(), "interrupted before anything was measured");
    signals::at_once();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_agrees_is_a_yes() {
        assert!(["\n", "y\n", "Yes\n", " Y "].iter().all(|answer| is_yes(answer)));
        assert!(["n\n", "no", "what?", "q"].iter().all(|answer| !is_yes(answer)));
    }
}
