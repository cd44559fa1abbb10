//! Debian packages that only one part of this proof uses. They are installed when that part runs, and no service is
//! started.

use anyhow::{Result, ensure};
use kqps_kernel::interrupts::Interrupts;
use kqps_lab::packages;
use kqps_programs::shell;

/// Installs the packages of programs that are missing: each program with its package. An error if that is not possible.
pub(super) fn need(programs: &[(&str, &str)]) -> Result<()> {
    let missing: Vec<String> = programs
        .iter()
        .filter(|(program, _)| shell::find(program).is_none())
        .map(|(_, package)| (*package).to_owned())
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let announce = |name: &str| eprintln!("installing {name}");
    let failed = packages::install(&missing, &Interrupts::default(), announce);
    let words: Vec<String> = failed.iter().map(|(name, reason)| format!("{name}: {reason}")).collect();
    ensure!(failed.is_empty(), "packages cannot be installed: {}", words.join("; "));
    Ok(())
}
