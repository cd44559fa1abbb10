//! Small files of `/proc` and `/sys` under a root. Tests replace the root by a copy of another machine's
//! files.

use std::fs;
use std::io;
use std::path::PathBuf;

/// The folder that holds `/proc` and `/sys`.
#[derive(Clone, Debug)]
pub(crate) struct Root(PathBuf);

impl Root {
    pub(crate) fn real() -> Self {
        Self("/".into())
    }

    /// The root of a copy of a machine's files.
    #[cfg(test)]
    pub(crate) fn at(path: &std::path::Path) -> Self {
        Self(path.into())
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.0.join(path.trim_start_matches('/'))
    }

    /// A file's text without surrounding white space.
    pub(crate) fn text(&self, path: &str) -> io::Result<String> {
        fs::read_to_string(self.path(path)).map(|text| text.trim().to_owned())
    }

    /// The number that a file holds.
    pub(crate) fn number(&self, path: &str) -> io::Result<u32> {
        self.text(path)?.parse().map_err(|_| io::Error::other("not a number"))
    }

    /// The numbers of a file that holds a list like `0,2-5`.
    pub(crate) fn list(&self, path: &str) -> io::Result<Vec<u32>> {
        parse_list(&self.text(path)?).ok_or_else(|| io::Error::other("not a list of numbers"))
    }

    /// The sorted names in a folder; empty if there is no such folder.
    pub(crate) fn names(&self, path: &str) -> Vec<String> {
        let Ok(folder) = fs::read_dir(self.path(path)) else { return Vec::new() };
        let mut names: Vec<String> =
            folder.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort_unstable();
        names
    }
}

/// Parses the kernel's list of cores, such as `0,2-5`; it may be empty. Returns `None` if the text is
/// something else. <https://docs.kernel.org/admin-guide/kernel-parameters.html>, "cpu lists".
pub(crate) fn parse_list(text: &str) -> Option<Vec<u32>> {
    let mut numbers = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        numbers.extend(first.parse::<u32>().ok()?..=last.parse::<u32>().ok()?);
    }
    Some(numbers)
}

/// Writes ascending numbers as a list like `0,2-5`.
pub fn write_list(numbers: &[u32]) -> String {
    let mut parts = Vec::new();
    let mut rest = numbers;
    while let [first, ..] = rest {
        let run = rest.iter().zip(*first..).take_while(|(number, wanted)| **number == *wanted).count();
        parts.push(match run {
            1 => first.to_string(),
            2 => format!("{first},{}", rest[1]),
            _ => format!("{first}-{}", rest[run - 1]),
        });
        rest = &rest[run..];
    }
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cores() {
        assert_eq!(parse_list("0,2-5\n"), Some(vec![0, 2, 3, 4, 5]));
        assert_eq!(parse_list("\n"), Some(vec![]));
        assert_eq!(parse_list("0-"), None);
        assert_eq!(parse_list("ff"), None);
        assert_eq!(write_list(&[0, 2, 3, 4, 5, 9, 10]), "0,2-5,9,10");
        assert_eq!(write_list(&[]), "");
    }
}
