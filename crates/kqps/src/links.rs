//! Links between the pages of runs and of a history, relative, so that all can be moved together.

use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use kqps_history::Entry;

use crate::other_run::PAGE;

/// The address of each run's page; `None` if it has none. `from` is the folder of the page with the links.
pub(crate) fn to_pages(entries: &[Entry], from: &Path) -> Vec<Option<String>> {
    entries.iter().map(|entry| to_page(&Path::new(&entry.folder).join(PAGE), from)).collect()
}

/// The address of a page, whose path is absolute; `None` if there is none. `from` is the folder of the page with the link.
pub(crate) fn to_page(page: &Path, from: &Path) -> Option<String> {
    let from = from.canonicalize().ok()?;
    page.is_file().then(|| address(&from, page)).flatten()
}

/// The address of a file, as seen from a folder; both paths are absolute.
fn address(from: &Path, to: &Path) -> Option<String> {
    let (from, to): (Vec<_>, Vec<_>) = (from.components().collect(), to.components().collect());
    let common = from.iter().zip(&to).take_while(|(one, other)| one == other).count();
    if common == 0 {
        return None;
    }
    let up = std::iter::repeat_n(Component::ParentDir, from.len() - common);
    let path: PathBuf = up.chain(to[common..].iter().copied()).collect();
    Some(encoded(&path))
}

/// A path as a relative reference (RFC 3986). Each byte that may mean something there is a number, such as a colon, before
/// which a browser expects a scheme.
fn encoded(path: &Path) -> String {
    let mut text = String::new();
    for &byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_leads_from_one_folder_to_the_other() {
        for (from, to, expected) in [
            ("/a/runs", "/a/runs/one/report.html", "one/report.html"),
            ("/a/pages/x", "/a/runs/one/report.html", "../../runs/one/report.html"),
            ("/", "/javascript:x/report.html", "javascript%3Ax/report.html"),
            ("/a", "/a/b c?#%é/report.html", "b%20c%3F%23%25%C3%A9/report.html"),
        ] {
            assert_eq!(address(Path::new(from), Path::new(to)).as_deref(), Some(expected));
        }
    }
}
