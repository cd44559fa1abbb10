//! Files other than Rust that no file names. Another file must name each template, style sheet and test
//! input, or its folder.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::workspace;

/// The folders of assets. Files in the root, `.ci`, `.cargo` and the like are known by their names.
const FOLDERS: [&str; 7] = ["crates", "docs", "fuzz", "recipes", "studies", "subjects", "xtask"];

/// Endings and parts of known files: those of cargo and proptest.
const KNOWN: [&str; 2] = ["Cargo.toml", "/proptest-regressions/"];

/// Names of folders that do not identify their files.
const COMMON: [&str; 4] = ["src", "tests", "docs", "crates"];

pub(super) fn faults(files: &[PathBuf]) -> Result<Vec<String>> {
    let mut texts = Vec::new();
    for file in files {
        let bytes = fs::read(workspace::root().join(file))
            .with_context(|| format!("cannot read {}", file.display()))?;
        texts.push((file.as_path(), String::from_utf8_lossy(&bytes).into_owned()));
    }
    let unnamed = files.iter().filter(|file| is_asset(file) && !is_named(file, &texts));
    Ok(unnamed.map(|file| format!("{} is not named by any file", file.display())).collect())
}

fn is_asset(file: &Path) -> bool {
    let text = format!("/{}", file.display());
    FOLDERS.iter().any(|folder| file.starts_with(folder))
        && file.extension().is_none_or(|end| end != "rs")
        && !KNOWN.iter().any(|known| text.ends_with(known) || text.contains(known))
}

/// Whether another file has the name of this one in it, or the name of its folder if that identifies it.
fn is_named(asset: &Path, texts: &[(&Path, String)]) -> bool {
    let part =
        |path: Option<&Path>| path.and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    let name = part(Some(asset)).unwrap_or_default();
    let folder = part(asset.parent()).filter(|folder| !COMMON.contains(&folder.as_str()));
    texts.iter().filter(|(file, _)| *file != asset).any(|(file, text)| {
        let by_folder = |folder: &String| is_code(file) && text.contains(folder.as_str());
        text.contains(&name) || folder.as_ref().is_some_and(by_folder)
    })
}

/// Prose may mention a folder without using it, so only code counts.
fn is_code(file: &Path) -> bool {
    file.extension().is_some_and(|end| end == "rs" || end == "py")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_asset_is_named_by_itself_or_by_its_folder() {
        let code = (Path::new("crates/a/src/lib.rs"), "open(\"page.css\"); read(\"cases/\")".to_owned());
        let texts = [code];
        assert!(is_named(Path::new("crates/a/src/page.css"), &texts));
        assert!(is_named(Path::new("crates/a/tests/cases/bad-type.txt"), &texts));
        assert!(!is_named(Path::new("crates/a/src/old.css"), &texts));
    }

    #[test]
    fn cargos_files_are_known() {
        assert!(!is_asset(Path::new("crates/a/Cargo.toml")));
        assert!(is_asset(Path::new("subjects/nsd.toml")));
    }
}
