//! Lists of zones: lines `NAME FILE`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::{Source, SourceError, Sources, apex};

pub(super) fn read(path: &Path, text: &[u8]) -> Result<Sources, SourceError> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut sources = Sources::default();
    for (index, line) in text.split(|&byte| byte == b'\n').enumerate() {
        let content = line.split(|byte| matches!(byte, b'#' | b';')).next().unwrap_or_default().trim_ascii();
        if content.is_empty() {
            continue;
        }
        let wrong = |at: &[u8], what: String| SourceError::Line {
            path: path.to_owned(),
            line: index + 1,
            // `at` is a part of the line, so that their lengths tell where it begins.
            column: line.len() - line.trim_ascii_start().len() + content.len() - at.len() + 1,
            what,
        };
        let blank = content.iter().position(u8::is_ascii_whitespace);
        let (name, file) = content.split_at(blank.unwrap_or(content.len()));
        let file = file.trim_ascii_start();
        let apex = apex(name).map_err(|fault| wrong(content, fault.to_string()))?;
        if file.is_empty() {
            return Err(wrong(file, "expected the zone's file after its name".to_owned()));
        }
        sources.zones.push(Source { apex: Some(apex), path: folder.join(OsStr::from_bytes(file)) });
    }
    if sources.zones.is_empty() {
        return Err(SourceError::None(path.to_owned()));
    }
    Ok(sources)
}
