//! The identity by which hosts recognise a build of kqps.

use std::fs::File;
use std::path::Path;

use anyhow::{Context as _, Result};
use kqps_fleet::Identity;

/// The identity of a kqps that was built from this workspace. An error if its file cannot be read.
pub fn identity_of(program: &Path) -> Result<Identity> {
    let file = File::open(program).with_context(|| format!("cannot open {}", program.display()))?;
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(file).with_context(|| format!("cannot read {}", program.display()))?;
    Ok(Identity {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        schema: kqps_observation::SCHEMA,
        blake3: hasher.finalize().to_hex().to_string(),
        arch: std::env::consts::ARCH.to_owned(),
    })
}
