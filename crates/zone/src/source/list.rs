//! Lists of zones: lines `NAME FILE`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::{Source, SourceError, Sources, apex, wrong};

pub(super) fn read(path: &Path, text: &[u8]) -> Result<Sources, SourceError> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut sources = Sources::default();
    let mut next = 0;
    for line in text.split_inclusive(|&byte| byte == b'\n') {
        let start = next + line.len() - line.trim_ascii_start().len();
        next += line.len();
        let content = without_comment(line).trim_ascii();
        if content.is_empty() {
            continue;
        }
        let blank = content.iter().position(u8::is_ascii_whitespace);
        let (name, file) = content.split_at(blank.unwrap_or(content.len()));
        let file = file.trim_ascii_start();
        let apex = apex(name).map_err(|fault| wrong(path, text, start, &fault.to_string()))?;
        if file.is_empty() {
            return Err(wrong(path, text, start + content.len(), "expected the zone's file after its name"));
        }
        sources.zones.push(Source { apex: Some(apex), path: folder.join(OsStr::from_bytes(file)) });
    }
    if sources.zones.is_empty() {
        return Err(SourceError::None(path.to_owned()));
    }
    Ok(sources)
}

/// The part of a line before a comment. A `#` or `;` begins a comment only at the start of the line or after a
/// blank; otherwise it belongs to a name or a path.
fn without_comment(line: &[u8]) -> &[u8] {
    let begins = |at: usize| {
        matches!(line[at], b'#' | b';') && at.checked_sub(1).is_none_or(|at| line[at].is_ascii_whitespace())
    };
    &line[..(0..line.len()).find(|&at| begins(at)).unwrap_or(line.len())]
}
