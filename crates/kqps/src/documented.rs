//! The examples in the docs: kqps accepts every command line of its own that stands in a block of shell commands, or in
//! the column `type` of a table.

use std::path::{Path, PathBuf};

use clap::FromArgMatches as _;

use crate::Cli;

/// The folder with the README.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The languages of blocks that hold commands only or a workflow, whose steps are commands, and of blocks that hold a
/// terminal's lines.
const SHELLS: [&str; 3] = ["sh", "bash", "yaml"];
const CONSOLE: &str = "console";
const PROMPT: &str = "$ ";

/// The heading of the column of a table that holds commands.
const TYPED: &str = "type";

/// The least number of examples: fewer mean that the docs are read wrongly.
const EXAMPLES_LEAST: usize = 30;

/// A command line of a document.
#[derive(Debug, PartialEq)]
struct Example {
    /// The number of its first line in the document.
    line: usize,
    text: String,
}

/// The words of a command line as a shell passes them, up to a redirection or the next command.
pub(crate) fn words(line: &str) -> Vec<String> {
    let words = shlex::split(line).unwrap_or_else(|| panic!("a shell cannot read {line}"));
    let is_end =
        |word: &String| word.starts_with(['>', '<']) || ["|", "||", "&&", ";", "&"].contains(&word.as_str());
    words.into_iter().take_while(|word| !is_end(word)).collect()
}

/// The command lines of a document. A line that ends with a backslash goes on in the next, and so does one of kqps that
/// ends within a quotation.
fn commands(document: &str) -> Vec<Example> {
    let mut found = Vec::new();
    let mut language = None;
    let mut begun: Option<Example> = None;
    for (line, text) in (1..).zip(document.lines().map(str::trim)) {
        if let Some(after) = text.strip_prefix("```") {
            assert_eq!(begun, None, "the block ends in line {line} before this command does");
            language = if language.is_none() { Some(after) } else { None };
            continue;
        }
        let mut example = match (begun.take(), language) {
            (Some(example), _) => Example { text: example.text + text, ..example },
            (None, Some(language)) if SHELLS.contains(&language) => Example { line, text: text.into() },
            (None, Some(CONSOLE)) if text.starts_with(PROMPT) => {
                Example { line, text: text[PROMPT.len()..].into() }
            }
            (None, _) => continue,
        };
        if example.text.ends_with('\\') {
            example.text.pop();
            begun = Some(example);
        } else if is_ours(&example) && shlex::split(&example.text).is_none() {
            // A quotation goes on in the next line. Elsewhere an apostrophe may be one of a remark.
            example.text.push('\n');
            begun = Some(example);
        } else {
            found.push(example);
        }
    }
    found
}

/// The command lines in the column [`TYPED`] of a document's tables.
fn in_tables(document: &str) -> Vec<Example> {
    let mut found = Vec::new();
    // Whether the line before belongs to a table, and the place of its column.
    let mut table: Option<Option<usize>> = None;
    for (line, text) in (1..).zip(document.lines()) {
        let Some(row) = text.strip_prefix("| ") else {
            table = None;
            continue;
        };
        let cells: Vec<&str> = row.trim_end_matches(" |").split(" | ").collect();
        match table {
            None => table = Some(cells.iter().position(|cell| *cell == TYPED)),
            Some(column) => {
                let cell = column.and_then(|column| cells.get(column));
                let code = cell.and_then(|cell| cell.strip_prefix('`')?.strip_suffix('`'));
                found.extend(code.map(|code| Example { line, text: code.into() }));
            }
        }
    }
    found
}

/// Whether a command line is one of kqps.
fn is_ours(example: &Example) -> bool {
    example.text.split_whitespace().next() == Some("kqps")
}

/// The command lines of kqps in a document.
fn of_kqps(document: &str) -> impl Iterator<Item = Example> {
    commands(document).into_iter().chain(in_tables(document)).filter(is_ours)
}

/// The documents in the root and in `docs`.
fn documents() -> Vec<PathBuf> {
    let folders = [Path::new(ROOT).to_owned(), Path::new(ROOT).join("docs")];
    let files = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let paths = files.map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> = paths.filter(|path| path.extension().is_some_and(|end| end == "md")).collect();
    paths.sort();
    paths
}

#[test]
fn every_example_in_the_docs_can_be_typed() {
    let mut seen = 0;
    for path in documents() {
        let document = std::fs::read_to_string(&path).unwrap();
        for example in of_kqps(&document) {
            let parsed = crate::command_line().try_get_matches_from(words(&example.text));
            if let Err(error) = parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
                panic!("{}:{}: {}: {error}", path.display(), example.line, example.text);
            }
            seen += 1;
        }
    }
    assert!(seen >= EXAMPLES_LEAST, "only {seen} examples were found");
}

#[test]
fn examples_are_found_in_blocks_of_shell_commands() {
    let document = "kqps in prose\n```\nkqps in a picture\n```\n```sh\ncargo run\nkqps run \\\n    --why  # reasons\n\
                    # kqps in a remark of the reader's\nkqps man >kqps.1\n```\n```console\n$ kqps probe\nkqps 0.1.0\n```\n\
                    ```yaml\n- run: |\n    kqps find --why || status=$?\n```\n\
                    | to | type |\n| --- | --- |\n| see | `kqps host` |\n| `kqps wait` | |\n";
    let found: Vec<_> = of_kqps(document).collect();
    assert_eq!(found.iter().map(|example| example.line).collect::<Vec<_>>(), [7, 10, 13, 18, 22]);
    let typed: Vec<_> = found.iter().map(|example| words(&example.text).join(" ")).collect();
    assert_eq!(typed, ["kqps run --why", "kqps man", "kqps probe", "kqps find --why", "kqps host"]);
}
