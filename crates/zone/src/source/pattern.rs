//! The files that an `include` of BIND names: one file, or those that match a pattern of glob(3), with which BIND
//! expands it. The crate `glob` finds them. Its patterns differ in a few points, so this module rewrites them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use glob::{MatchOptions, Pattern};

/// As glob(3) without flags, except for dots at the beginning of a name. If the pattern must match them literally, the
/// crate (0.3) finds no such name at all, so [`is_hidden`] checks them.
const OPTIONS: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: false,
};

/// The files, relative to `directory`, in the order of their bytes; at least one. The error is the reason why there is
/// none.
pub(super) fn files(directory: &Path, name: &[u8]) -> Result<Vec<PathBuf>, String> {
    if memchr::memchr3(b'*', b'?', b'[', name).is_none() && !name.contains(&b'\\') {
        return Ok(vec![directory.join(OsStr::from_bytes(name))]);
    }
    let (Some(directory), Ok(name)) = (directory.to_str(), std::str::from_utf8(name)) else {
        return Err("a pattern and the directory that it starts from must be UTF-8".to_owned());
    };
    let rewritten = rewritten(name);
    let pattern = match (directory, name.starts_with('/')) {
        ("", _) | (_, true) => rewritten,
        _ => format!("{}/{rewritten}", Pattern::escape(directory)),
    };
    let found =
        glob::glob_with(&pattern, OPTIONS).map_err(|error| format!("this pattern is wrong: {error}"))?;
    let mut files = Vec::new();
    for file in found {
        let file = file.map_err(|error| format!("cannot expand this pattern: {error}"))?;
        if !is_hidden(&file, Path::new(&pattern)) {
            files.push(file);
        }
    }
    if files.is_empty() {
        return Err(format!("no file matches the pattern {name:?}; BIND refuses such an include, too"));
    }
    files.sort_unstable_by(|one, other| one.as_os_str().cmp(other.as_os_str()));
    Ok(files)
}

/// Whether a name in this path begins with a dot, but its part of the pattern does not.
fn is_hidden(path: &Path, pattern: &Path) -> bool {
    let begins_with_dot = |part: Component<'_>| part.as_os_str().as_bytes().starts_with(b".");
    let mut pairs = path.components().rev().zip(pattern.components().rev());
    pairs.any(|(name, part)| begins_with_dot(name) && !begins_with_dot(part))
}

/// Rewrites a pattern of glob(3) for the crate.
fn rewritten(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut rest = pattern;
    while let Some(first) = rest.chars().next() {
        let after = &rest[first.len_utf8()..];
        match first {
            // Several asterisks mean one. The crate would take them for any number of folders.
            '*' => {
                out.push('*');
                rest = after.trim_start_matches('*');
                continue;
            }
            '\\' => {
                let literal = after.chars().next().unwrap_or('\\');
                out += &Pattern::escape(literal.encode_utf8(&mut [0; 4]));
                rest = &after[literal.len_utf8().min(after.len())..];
                continue;
            }
            '[' => {
                if let Some(end) = set_end(after) {
                    out += &set(&after[..end]);
                    rest = &after[end + 1..];
                    continue;
                }
                out += "[[]";
            }
            ']' => out += "[]]",
            other => out.push(other),
        }
        rest = after;
    }
    out
}

/// The position of the bracket that closes a set. A bracket that comes first, or belongs to a class, does not.
fn set_end(text: &str) -> Option<usize> {
    let mut at = usize::from(text.starts_with(['!', '^']));
    at += usize::from(text[at..].starts_with(']'));
    loop {
        let rest = &text[at..];
        if rest.starts_with("[:")
            && let Some(end) = rest.find(":]")
        {
            at += end + 2;
            continue;
        }
        match rest.chars().next()? {
            ']' => return Some(at),
            other => at += other.len_utf8(),
        }
    }
}

/// A set in brackets, with its classes written as ranges.
fn set(text: &str) -> String {
    const CLASSES: [(&str, &str); 8] = [
        ("[:alnum:]", "0-9A-Za-z"),
        ("[:alpha:]", "A-Za-z"),
        ("[:blank:]", " \t"),
        ("[:digit:]", "0-9"),
        ("[:lower:]", "a-z"),
        ("[:space:]", " \t-\r"),
        ("[:upper:]", "A-Z"),
        ("[:xdigit:]", "0-9A-Fa-f"),
    ];
    let (not, members) = text.strip_prefix(['!', '^']).map_or(("", text), |members| ("!", members));
    let members = CLASSES.iter().fold(members.to_owned(), |set, (class, range)| set.replace(class, range));
    format!("[{not}{members}]")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The files that glob(3) of the GNU C library and `named-checkconf -p` of BIND 9.18 find.
    #[test]
    fn patterns_are_those_of_glob_3() {
        let folder = tempfile::tempdir().unwrap();
        for folder_name in ["zones.d", "zones.d/sub", "a*b"] {
            std::fs::create_dir(folder.path().join(folder_name)).unwrap();
        }
        for file in [
            "zones.d/b.conf",
            "zones.d/a.conf",
            "zones.d/.h.conf",
            "zones.d/[x].conf",
            "zones.d/1.conf",
            "zones.d/sub/a.conf",
            "a*b/z.conf",
            "B.conf",
        ] {
            std::fs::write(folder.path().join(file), "").unwrap();
        }
        let found = |pattern: &str| {
            let files = files(folder.path(), pattern.as_bytes()).unwrap_or_default();
            let relative =
                files.iter().map(|file| file.strip_prefix(folder.path()).unwrap().display().to_string());
            relative.collect::<Vec<_>>().join(" ")
        };
        for (pattern, expected) in [
            ("zones.d/*.conf", "zones.d/1.conf zones.d/[x].conf zones.d/a.conf zones.d/b.conf"),
            ("zones.d/?.conf", "zones.d/1.conf zones.d/a.conf zones.d/b.conf"),
            ("zones.d/[ab].conf", "zones.d/a.conf zones.d/b.conf"),
            ("zones.d/[!a].conf", "zones.d/1.conf zones.d/b.conf"),
            ("zones.d/[^a].conf", "zones.d/1.conf zones.d/b.conf"),
            ("zones.d/[[:alpha:]].conf", "zones.d/a.conf zones.d/b.conf"),
            ("zones.d/[![:alpha:]].conf", "zones.d/1.conf"),
            ("zones.d/[[:digit:]a].conf", "zones.d/1.conf zones.d/a.conf"),
            ("zones.d/\\[x\\].conf", "zones.d/[x].conf"),
            ("zones.d/.*.conf", "zones.d/.h.conf"),
            ("*/a.conf", "zones.d/a.conf"),
            ("**/a.conf", "zones.d/a.conf"),
            ("zones.d/*/*.conf", "zones.d/sub/a.conf"),
            ("*.conf", "B.conf"),
            ("a\\*b/?.conf", "a*b/z.conf"),
            // There are no alternatives, and a set must be closed.
            ("zones.d/{a,b}.conf*", ""),
            ("zones.d/[a.conf", ""),
            ("none/*.conf", ""),
            ("zones.d/A*", ""),
        ] {
            assert_eq!(found(pattern), expected, "{pattern}");
        }
        // The directory before a pattern is not itself a pattern.
        let files = files(&folder.path().join("a*b"), b"?.conf").unwrap();
        assert_eq!(files, [folder.path().join("a*b/z.conf")]);
    }
}
