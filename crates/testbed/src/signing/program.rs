//! The programs that sign zones, and their command lines.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use kqps_recipe::{Denial, Signing};

use crate::subject::bounded::{self, Unended};
use crate::subject::programs;

/// The validity of signatures. It is so long that a study of years ago still has valid zones; no server checks
/// the clock.
const FROM: &str = "20250101000000";
const UNTIL: &str = "20380101000000";

/// Why a zone was not signed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the messages say it
pub enum ProgramError {
    #[error(
        "the recipe's zones are signed, and neither dnssec-signzone nor ldns-signzone is on the PATH; the Debian \
         packages bind9-dnsutils and ldnsutils have them"
    )]
    None,
    #[error("cannot start {program}: {error}", program = .program.display())]
    Start { program: PathBuf, error: io::Error },
    #[error("{program} failed ({status}): {said}", program = .program.display())]
    Failed { program: PathBuf, status: std::process::ExitStatus, said: String },
    #[error("{program}: {error}; give the run more time with --budget", program = .program.display())]
    TooLong { program: PathBuf, error: Unended },
}

/// A program that signs, with the program that generates keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Program {
    kind: Kind,
    keygen: PathBuf,
    signzone: PathBuf,
    /// When the program must have ended.
    deadline: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Bind,
    Ldns,
}

/// BIND's comes first: it signs on all cores, and leaves out what opt-out permits.
const KINDS: [(Kind, &str, &str); 2] =
    [(Kind::Bind, "dnssec-keygen", "dnssec-signzone"), (Kind::Ldns, "ldns-keygen", "ldns-signzone")];

impl Program {
    /// The first of these programs that is installed.
    pub(super) fn installed() -> Result<Self, ProgramError> {
        all().into_iter().next().ok_or(ProgramError::None)
    }

    /// Sets the deadline at which the program is killed.
    pub(super) fn by(self, deadline: Option<Instant>) -> Self {
        Self { deadline, ..self }
    }

    /// Signs the zone in `plain` with a new key, and writes `signed`. Temporary files are in `scratch`. A
    /// single key signs everything.
    pub(super) fn sign(
        &self,
        signing: &Signing,
        origin: &str,
        plain: &Path,
        scratch: &Path,
        signed: &Path,
    ) -> Result<(), ProgramError> {
        let mut keygen = Command::new(&self.keygen);
        keygen.current_dir(scratch).args(["-a", &signing.algorithm]);
        match self.kind {
            Kind::Bind => keygen.args(["-q", "-f", "KSK"]),
            Kind::Ldns => keygen.arg("-k"),
        };
        let key = self.run(keygen.arg(origin))?;
        let mut signzone = Command::new(&self.signzone);
        signzone.current_dir(scratch);
        match self.kind {
            Kind::Bind => signzone.args(["-q", "-S", "-z", "-P", "-s", FROM]),
            Kind::Ldns => signzone.args(["-i", FROM]),
        };
        signzone.args(["-e", UNTIL, "-o", origin]).arg("-f").arg(signed);
        signzone.args(match (self.kind, signing.denial) {
            (_, Denial::Nsec) => &[][..],
            (Kind::Bind, Denial::Nsec3) => &["-3", "-", "-H", "0"],
            (Kind::Bind, Denial::Nsec3OptOut) => &["-3", "-", "-H", "0", "-A"],
            (Kind::Ldns, Denial::Nsec3) => &["-n", "-t", "0"],
            (Kind::Ldns, Denial::Nsec3OptOut) => &["-n", "-t", "0", "-p"],
        });
        self.run(signzone.arg(plain).arg(key.trim())).map(drop)
    }

    /// Runs a program to its end and returns its output.
    fn run(&self, command: &mut Command) -> Result<String, ProgramError> {
        let program = PathBuf::from(command.get_program());
        let limit = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let output = match bounded::output(command, limit) {
            Ok(output) => output,
            Err(Unended::Io(error)) => return Err(ProgramError::Start { program, error }),
            Err(error) => return Err(ProgramError::TooLong { program, error }),
        };
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(ProgramError::Failed { program, status: output.status, said })
    }
}

/// All of these programs that are installed.
fn all() -> Vec<Program> {
    let found = |(kind, keygen, signzone): (Kind, &str, &str)| {
        Some(Program {
            kind,
            keygen: programs::find(keygen)?,
            signzone: programs::find(signzone)?,
            deadline: None,
        })
    };
    KINDS.into_iter().filter_map(found).collect()
}

#[cfg(test)]
mod tests {
    use kqps_skips::{Capability, skip};

    use super::*;

    const ZONE: &str = "\
$ORIGIN bench.test.
$TTL 3600
@ IN SOA ns hostmaster 1 7200 3600 1209600 3600
@ IN NS ns
ns IN A 198.18.0.1
child IN NS ns.elsewhere.test.
";

    #[test]
    fn every_program_that_is_installed_signs_in_every_way() {
        let programs = all();
        if programs.is_empty() {
            skip(Capability::Programs, ProgramError::None);
        }
        for (program, denial) in programs
            .iter()
            .flat_map(|one| [Denial::Nsec, Denial::Nsec3, Denial::Nsec3OptOut].map(|how| (one, how)))
        {
            let scratch = tempfile::tempdir().unwrap();
            let (plain, signed) = (scratch.path().join("plain"), scratch.path().join("signed"));
            std::fs::write(&plain, ZONE).unwrap();
            let signing = Signing { algorithm: "ECDSAP256SHA256".into(), denial };
            program.sign(&signing, "bench.test.", &plain, scratch.path(), &signed).unwrap();
            let text = std::fs::read_to_string(&signed).unwrap();
            let words: Vec<&str> = text.split_whitespace().collect();
            let text = words.join(" ");
            assert!(words.contains(&"RRSIG") && words.contains(&"DNSKEY"), "{text}");
            assert_eq!(words.contains(&"NSEC"), denial == Denial::Nsec, "{text}");
            assert_eq!(text.contains("NSEC3 1 1 0 -"), denial == Denial::Nsec3OptOut, "{text}");
        }
    }

    #[test]
    fn a_program_that_hangs_is_killed_at_the_deadline() {
        let scratch = tempfile::tempdir().unwrap();
        let hangs = scratch.path().join("hangs");
        // A shell writes it: a file that this process has open for writing may be open in what another test starts at this moment.
        let write = "printf '#!/bin/sh\\nexec sleep 600\\n' > \"$1\" && chmod +x \"$1\"";
        let written = Command::new("sh").args(["-c", write, "sh"]).arg(&hangs).status().unwrap();
        assert!(written.success());
        let program = Program { kind: Kind::Bind, keygen: hangs.clone(), signzone: hangs, deadline: None };
        let signing = Signing { algorithm: "ECDSAP256SHA256".into(), denial: Denial::Nsec };
        let at = scratch.path();
        let error = program.by(Some(Instant::now())).sign(
            &signing,
            "bench.test.",
            &at.join("plain"),
            at,
            &at.join("signed"),
        );
        let text = error.unwrap_err().to_string();
        assert!(text.contains("hangs: it did not end within 0") && text.contains("--budget"), "{text}");
    }

    #[test]
    fn the_error_of_a_program_quotes_its_output() {
        let Ok(program) = Program::installed() else {
            skip(Capability::Programs, ProgramError::None);
            return;
        };
        let scratch = tempfile::tempdir().unwrap();
        let signing = Signing { algorithm: "ROT13".into(), denial: Denial::Nsec };
        let at = scratch.path();
        let error = program.sign(&signing, "bench.test.", &at.join("plain"), at, &at.join("signed"));
        let text = error.unwrap_err().to_string();
        assert!(text.contains("keygen failed") && text.contains("ROT13"), "{text}");
    }
}
