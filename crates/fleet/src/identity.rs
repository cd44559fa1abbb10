//! The build of kqps that a process is. Two hosts of a run must have the same one: figures of two builds are not those
//! of one trial.

use std::fmt;
use std::fs::File;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// The program that runs, as Linux shows it, also after its file was replaced (proc(5)).
const RUNNING: &str = "/proc/self/exe";

/// A build of kqps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The version of the program.
    pub version: String,
    /// The version of its records ([`kqps_observation::SCHEMA`]).
    pub schema: u32,
    /// The BLAKE3 hash of the program's file, in hexadecimal digits.
    pub blake3: String,
    /// The architecture for which it was built, such as `x86_64`.
    pub arch: String,
}

impl Identity {
    /// The identity of the program that runs. Reads its whole file.
    pub fn of_this_program() -> io::Result<Self> {
        Ok(Self {
            version: env!("CARGO_PKG_VERSION").into(),
            schema: kqps_observation::SCHEMA,
            blake3: hash(Path::new(RUNNING))?,
            arch: std::env::consts::ARCH.into(),
        })
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { version, schema, blake3, .. } = self;
        let short = blake3.get(..12).unwrap_or(blake3);
        write!(f, "{version} (records of version {schema}, build {short})")
    }
}

/// The BLAKE3 hash of a file, in hexadecimal digits.
pub(crate) fn hash(path: &Path) -> io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(File::open(path)?)?;
    Ok(hasher.finalize().to_hex().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_has_the_hash_of_its_file() {
        let ours = Identity::of_this_program().unwrap();
        assert_eq!(ours.blake3, hash(&std::env::current_exe().unwrap()).unwrap());
        assert_eq!((ours.blake3.len(), ours.schema), (64, kqps_observation::SCHEMA));
    }

    #[test]
    fn an_identity_is_short_in_words() {
        let ours =
            Identity { version: "1.0".into(), schema: 4, blake3: "ab".repeat(32), arch: "x86_64".into() };
        assert_eq!(ours.to_string(), "1.0 (records of version 4, build abababababab)");
        let odd = Identity { blake3: "ä".into(), ..ours };
        assert_eq!(odd.to_string(), "1.0 (records of version 4, build ä)");
    }
}
