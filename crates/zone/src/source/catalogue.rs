//! Configurations of BIND, as far as they tell which zones there are: `zone NAME [CLASS] { type primary; file
//! "…"; };` at the top or in a `view`, `include`, and `directory` in `options` (BIND 9 Administrator Reference
//! Manual, "Configuration Reference"). The case of keywords does not matter. Everything else is passed over.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::{Source, SourceError, Sources, apex, wrong};

/// Configurations included one within another.
const DEPTH_MAX: usize = 16;

/// What can stand at the top of a configuration, each with a block, beside `include`.
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

/// Whether a text is such a configuration: it begins with one of its statements, up to the brace of its block or,
/// for `include`, the semicolon. A list that happens to begin with a zone of that name does not.
pub(super) fn is_one(text: &[u8]) -> bool {
    let mut words = Words { text, at: 0 };
    let first = match words.next() {
        Ok(Some(first)) if first.kind == Kind::Word => first,
        // A brace is the beginning of nothing, but no list has it there.
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
            // What is never closed is told of a configuration.
            Err(_) => return true,
        }
    }
}

pub(super) fn read(path: &Path, text: &[u8]) -> Result<Sources, SourceError> {
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    let mut found = Found { sources: Sources::default(), directory: folder.clone(), folder };
    found.statements(&mut Config { path, words: Words { text, at: 0 } }, 0, DEPTH_MAX)?;
    let Found { mut sources, directory, .. } = found;
    if sources.zones.is_empty() {
        return Err(SourceError::None(path.to_owned()));
    }
    // `directory` holds for files named before it, too.
    for zone in &mut sources.zones {
        zone.path = directory.join(&zone.path);
    }
    Ok(sources)
}

/// A configuration that is being read.
struct Config<'a> {
    path: &'a Path,
    words: Words<'a>,
}

struct Found {
    sources: Sources,
    /// Where the first configuration is.
    folder: PathBuf,
    /// What files are relative to.
    directory: PathBuf,
}

impl Found {
    /// Reads statements up to the end of the text, or of the block if `depth` is not 0.
    fn statements(
        &mut self,
        config: &mut Config<'_>,
        depth: usize,
        includes_left: usize,
    ) -> Result<(), SourceError> {
        while let Some(statement) = config.statement(depth)? {
            let first = statement.words[0];
            match (&*first.text.to_ascii_lowercase(), statement.has_block) {
                (b"zone", true) => self.zone(config, &statement)?,
                (b"view", true) if depth == 0 => {
                    self.statements(config, depth + 1, includes_left)?;
                    config.end_of_block()?;
                }
                (b"options", true) => {
                    while let Some(option) = config.statement(1)? {
                        match option.words[..] {
                            _ if option.has_block => config.pass_block()?,
                            [option, directory] if option.is("directory") => {
                                self.directory = self.folder.join(OsStr::from_bytes(directory.text));
                            }
                            _ => {}
                        }
                    }
                    config.end_of_block()?;
                }
                (b"include", false) => {
                    let Some(file) = statement.words.get(1) else {
                        return Err(config.wrong(first.at, "expected the name of a file after include"));
                    };
                    if includes_left == 0 {
                        return Err(config.wrong(file.at, "files are included too deep"));
                    }
                    let path = self.directory.join(OsStr::from_bytes(file.text));
                    let text =
                        fs::read(&path).map_err(|error| SourceError::Read { path: path.clone(), error })?;
                    let mut included = Config { path: &path, words: Words { text: &text, at: 0 } };
                    self.statements(&mut included, 0, includes_left - 1)?;
                }
                (_, true) => config.pass_block()?,
                _ => {}
            }
        }
        Ok(())
    }

    fn zone(&mut self, config: &mut Config<'_>, statement: &Statement<'_>) -> Result<(), SourceError> {
        let first = statement.words[0];
        let (mut kind, mut file) = (None, None);
        while let Some(option) = config.statement(1)? {
            match option.words[..] {
                _ if option.has_block => config.pass_block()?,
                [option, word] if option.is("type") => kind = Some(word),
                [option, word] if option.is("file") => file = Some(word),
                _ => {}
            }
        }
        config.end_of_block()?;
        let Some(name) = statement.words.get(1) else {
            return Err(config.wrong(first.at, "expected the zone's name after zone"));
        };
        let is_in = statement.words.get(2).is_none_or(|class| class.is("in"));
        if !is_in || !kind.is_some_and(|kind| kind.is("master") || kind.is("primary")) {
            self.sources.left_out += 1;
            return Ok(());
        }
        let Some(file) = file else {
            return Err(config.wrong(name.at, "this primary zone has no file"));
        };
        let apex = apex(name.text).map_err(|fault| config.wrong(name.at, &fault.to_string()))?;
        let path = PathBuf::from(OsStr::from_bytes(file.text));
        self.sources.zones.push(Source { apex: Some(apex), path });
        Ok(())
    }
}

/// The words of a statement up to its semicolon, or to the brace that opens its block.
struct Statement<'a> {
    words: Vec<Word<'a>>,
    has_block: bool,
}

impl<'a> Config<'a> {
    /// The next statement; none at the end of the text, or, in a block, before the brace that closes it.
    fn statement(&mut self, depth: usize) -> Result<Option<Statement<'a>>, SourceError> {
        let mut words = Vec::new();
        loop {
            let Some(word) = self.words.next().map_err(|at| self.wrong(at, UNCLOSED))? else {
                return match (words.first(), depth) {
                    (None, 0) => Ok(None),
                    (None, _) => Err(self.wrong(self.words.at, "expected }, found the end of the file")),
                    (Some(Word { at, .. }), _) => Err(self.wrong(*at, "this statement has no semicolon")),
                };
            };
            match word.kind {
                Kind::Word => words.push(word),
                Kind::End if words.is_empty() => {}
                Kind::End => return Ok(Some(Statement { words, has_block: false })),
                Kind::Open if words.is_empty() => {
                    return Err(self.wrong(word.at, "expected a statement, found {"));
                }
                Kind::Open => return Ok(Some(Statement { words, has_block: true })),
                Kind::Close if words.is_empty() && depth > 0 => {
                    self.words.at = word.at;
                    return Ok(None);
                }
                Kind::Close => return Err(self.wrong(word.at, "expected a semicolon, found }")),
            }
        }
    }

    /// Passes the brace that closes a block.
    fn end_of_block(&mut self) -> Result<(), SourceError> {
        self.words.next().map_err(|at| self.wrong(at, UNCLOSED))?;
        Ok(())
    }

    /// Passes the rest of a block, whatever is in it.
    fn pass_block(&mut self) -> Result<(), SourceError> {
        let opened = self.words.at;
        let mut depth = 1;
        while depth > 0 {
            match self.words.next().map_err(|at| self.wrong(at, UNCLOSED))?.map(|word| word.kind) {
                Some(Kind::Open) => depth += 1,
                Some(Kind::Close) => depth -= 1,
                Some(_) => {}
                None => return Err(self.wrong(opened, "this block is never closed")),
            }
        }
        Ok(())
    }

    fn wrong(&self, at: usize, what: &str) -> SourceError {
        wrong(self.path, self.words.text, at, what)
    }
}

const UNCLOSED: &str = "this is never closed";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Word,
    Open,
    Close,
    End,
}

#[derive(Clone, Copy)]
struct Word<'a> {
    kind: Kind,
    text: &'a [u8],
    at: usize,
}

impl Word<'_> {
    /// Whether it is this keyword, in whatever case.
    fn is(&self, keyword: &str) -> bool {
        self.text.eq_ignore_ascii_case(keyword.as_bytes())
    }
}

/// Cuts a configuration into words, quoted strings and punctuation, without its comments.
struct Words<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Words<'a> {
    /// The next of them; none at the end. On an error: where something begins that never ends.
    fn next(&mut self) -> Result<Option<Word<'a>>, usize> {
        self.pass_blanks()?;
        let start = self.at;
        let Some(&first) = self.text.get(start) else { return Ok(None) };
        let rest = &self.text[start..];
        let (kind, text, length) = match first {
            b'{' => (Kind::Open, &rest[..1], 1),
            b'}' => (Kind::Close, &rest[..1], 1),
            b';' => (Kind::End, &rest[..1], 1),
            b'"' => {
                let length = memchr::memchr(b'"', &rest[1..]).ok_or(start)?;
                (Kind::Word, &rest[1..=length], length + 2)
            }
            _ => {
                let ends =
                    |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'{' | b'}' | b';' | b'"');
                let length = rest.iter().position(ends).unwrap_or(rest.len());
                (Kind::Word, &rest[..length], length)
            }
        };
        self.at += length;
        Ok(Some(Word { kind, text, at: start }))
    }

    fn pass_blanks(&mut self) -> Result<(), usize> {
        loop {
            let rest = &self.text[self.at..];
            let blanks = rest.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(rest.len());
            self.at += blanks;
            let rest = &rest[blanks..];
            if rest.starts_with(b"#") || rest.starts_with(b"//") {
                self.at += memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            } else if rest.starts_with(b"/*") {
                self.at += memchr::memmem::find(rest, b"*/").ok_or(self.at)? + 2;
            } else {
                return Ok(());
            }
        }
    }
}
