//! Configurations of BIND, as far as they name zones: `zone NAME [CLASS] { type primary; file "…"; };` at the top or in
//! a `view`, `include` there and in their blocks, and `directory` in `options` (BIND 9 Administrator Reference Manual,
//! "Configuration Reference"). The case of keywords does not matter. Everything else is skipped.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::words::{Config, Kind, Statement, Word, Words};
use super::{Source, SourceError, Sources, apex, pattern, text_of};

/// The most configurations included one within another.
const DEPTH_MAX: usize = 16;

/// The statements with a block that can stand at the top of a configuration, besides `include`.
const STATEMENTS: &[&str] = &[
    "acl",
    "controls",
    "dlz",
    "dnssec-policy",
    "dyndb",
    "http",
    "key",
    "key-store",
    "logging",
    "lwres",
    "managed-keys",
    "masters",
    "options",
    "parental-agents",
    "plugin",
    "primaries",
    "remote-servers",
    "server",
    "statistics-channels",
    "tls",
    "trust-anchors",
    "trusted-keys",
    "view",
    "zone",
];

/// Whether a text is such a configuration: it begins with one of its statements, up to the brace of its block or, for
/// `include`, the semicolon. A list does not, even if its first zone has such a name.
pub(super) fn is_one(text: &[u8]) -> bool {
    let mut words = Words::new(text);
    let first = match words.next() {
        Ok(Some(first)) if first.kind == Kind::Word => first,
        // A brace cannot begin a configuration, but no list has one there, so report it as an error of a configuration.
        first => return matches!(first, Ok(Some(Word { kind: Kind::Open, .. })) | Err(_)),
    };
    let ends_with = if first.is("include") {
        Kind::End
    } else if STATEMENTS.iter().any(|statement| first.is(statement)) {
        Kind::Open
    } else {
        return false;
    };
    loop {
        match words.next() {
            Ok(Some(word)) if word.kind == Kind::Word => {}
            Ok(next) => return next.is_some_and(|word| word.kind == ends_with),
            // Something that is never closed is an error of a configuration.
            Err(_) => return true,
        }
    }
}

pub(super) fn read(path: &Path, text: &[u8]) -> Result<Sources, SourceError> {
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    let mut found = SourceCollector {
        sources: Sources::default(),
        directory: folder.clone(),
        folder,
        unread: Vec::new(),
    };
    let top = Level { depth: 0, includes: DEPTH_MAX };
    let outcome = found.statements(&mut Config::new(path, text), top, &mut SourceCollector::statement);
    let SourceCollector { mut sources, directory, mut unread, .. } = found;
    match unread.pop() {
        // The other error may be a consequence of this one.
        Some(only) if unread.is_empty() => return Err(only),
        Some(last) => {
            unread.push(last);
            return Err(SourceError::Includes(unread));
        }
        None => outcome?,
    }
    if sources.zones.is_empty() {
        return Err(SourceError::NonePrimary(path.to_owned()));
    }
    // `directory` also applies to files named before it.
    for zone in &mut sources.zones {
        zone.path = directory.join(&zone.path);
    }
    Ok(sources)
}

struct SourceCollector {
    sources: Sources,
    /// The folder of the first configuration.
    folder: PathBuf,
    /// The folder to which files are relative.
    directory: PathBuf,
    /// Errors of included files that cannot be read.
    unread: Vec<SourceError>,
}

/// The level of statements in a configuration.
#[derive(Clone, Copy)]
struct Level {
    /// The number of open blocks in their file.
    depth: usize,
    /// How many more files may be included one within another.
    includes: usize,
}

/// Handles a statement. It must read or skip the statement's block, if there is one.
type Take<'t> =
    dyn FnMut(&mut SourceCollector, &mut Config<'_>, &Statement<'_>, Level) -> Result<(), SourceError> + 't;

impl SourceCollector {
    /// Reads statements up to the end of the text or the block, and those of files that are included there.
    fn statements(
        &mut self,
        config: &mut Config<'_>,
        level: Level,
        take: &mut Take<'_>,
    ) -> Result<(), SourceError> {
        while let Some(statement) = config.statement(level.depth)? {
            if statement.words[0].is("include") && !statement.has_block {
                self.include(config, &statement, level.includes, take)?;
            } else {
                take(self, config, &statement, level)?;
            }
        }
        if level.depth > 0 { config.end_of_block() } else { Ok(()) }
    }

    /// Reads the block of a statement.
    fn block(
        &mut self,
        config: &mut Config<'_>,
        level: Level,
        take: &mut Take<'_>,
    ) -> Result<(), SourceError> {
        self.statements(config, Level { depth: level.depth + 1, ..level }, take)
    }

    /// Handles a statement at the top of a configuration.
    fn statement(
        &mut self,
        config: &mut Config<'_>,
        statement: &Statement<'_>,
        level: Level,
    ) -> Result<(), SourceError> {
        match (&*statement.words[0].text.to_ascii_lowercase(), statement.has_block) {
            (b"view", true) => self.block(config, level, &mut Self::zone_or_other),
            (b"options", true) => self.block(config, level, &mut Self::option),
            _ => self.zone_or_other(config, statement, level),
        }
    }

    fn option(
        &mut self,
        config: &mut Config<'_>,
        statement: &Statement<'_>,
        _: Level,
    ) -> Result<(), SourceError> {
        match statement.words[..] {
            _ if statement.has_block => config.pass_block()?,
            [option, directory] if option.is("directory") => {
                self.directory = self.folder.join(OsStr::from_bytes(directory.text));
            }
            _ => {}
        }
        Ok(())
    }

    /// Reads the files that an `include` names. If one cannot be read, errors in the others are still found.
    fn include(
        &mut self,
        config: &Config<'_>,
        statement: &Statement<'_>,
        includes_left: usize,
        take: &mut Take<'_>,
    ) -> Result<(), SourceError> {
        let Some(file) = statement.words.get(1) else {
            return Err(config.wrong(statement.words[0].at, "expected the name of a file after include"));
        };
        let Some(includes) = includes_left.checked_sub(1) else {
            return Err(config.wrong(file.at, "files are included too deep"));
        };
        let paths = match pattern::files(&self.directory, file.text) {
            Ok(paths) => paths,
            Err(why) => {
                self.unread.push(config.wrong(file.at, &why));
                return Ok(());
            }
        };
        for path in paths {
            match fs::read(&path) {
                Ok(content) => match text_of(&path, &content) {
                    Ok(text) => {
                        self.statements(&mut Config::new(&path, text), Level { depth: 0, includes }, take)?;
                    }
                    Err(error) => self.unread.push(error),
                },
                Err(error) => {
                    let why = format!("cannot include {}: {error}", path.display());
                    self.unread.push(config.wrong(file.at, &why));
                }
            }
        }
        Ok(())
    }

    /// Handles a statement of a `view`, in which only zones matter.
    fn zone_or_other(
        &mut self,
        config: &mut Config<'_>,
        statement: &Statement<'_>,
        level: Level,
    ) -> Result<(), SourceError> {
        match (statement.words[0].is("zone"), statement.has_block) {
            (true, true) => self.zone(config, statement, level),
            (false, true) => config.pass_block(),
            (_, false) => Ok(()),
        }
    }

    fn zone(
        &mut self,
        config: &mut Config<'_>,
        statement: &Statement<'_>,
        level: Level,
    ) -> Result<(), SourceError> {
        let (mut is_primary, mut file) = (false, None);
        self.block(config, level, &mut |_, config, option, _| {
            match option.words[..] {
                _ if option.has_block => config.pass_block()?,
                [option, kind] if option.is("type") => {
                    is_primary = kind.is("master") || kind.is("primary");
                }
                [option, name] if option.is("file") => file = Some(name.text.to_owned()),
                _ => {}
            }
            Ok(())
        })?;
        let Some(name) = statement.words.get(1) else {
            return Err(config.wrong(statement.words[0].at, "expected the zone's name after zone"));
        };
        let is_in = statement.words.get(2).is_none_or(|class| class.is("in"));
        if !is_in || !is_primary {
            self.sources.left_out += 1;
            return Ok(());
        }
        let Some(file) = file else {
            return Err(config.wrong(name.at, "this primary zone has no file"));
        };
        let apex = apex(name.text).map_err(|fault| config.wrong(name.at, &fault.to_string()))?;
        self.sources.zones.push(Source { apex: Some(apex), path: PathBuf::from(OsStr::from_bytes(&file)) });
        Ok(())
    }
}
