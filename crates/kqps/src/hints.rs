//! Words that users of other tools type: flags that kqps takes as its own, and for all others a sentence that says what
//! kqps has instead.
//!
//! A flag is taken only if its meaning there is certain. No flag silently means something else here.

mod rows;

use std::ffi::OsString;
use std::path::Path;

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::run::subjects;
use rows::{ALIASES, Alias, HINTS, Hint};

/// Adds the flags of other tools to the commands that take them as their own. Help does not show them.
pub(crate) fn with_aliases(program: Command) -> Command {
    program.mut_subcommands(|command| {
        let name = command.get_name().to_owned();
        let its_own = ALIASES.iter().filter(|alias| alias.commands.contains(&&*name));
        its_own.fold(command, with_alias)
    })
}

fn with_alias(command: Command, alias: &Alias) -> Command {
    let id = command
        .get_arguments()
        .find(|arg| arg.get_long() == Some(alias.flag))
        .map(|arg| arg.get_id().clone());
    match id {
        Some(id) => command.mut_arg(id, |arg| arg.aliases(alias.typed)),
        None => command,
    }
}

/// Flags of `kqps` itself, without a command.
const OF_ITS_OWN: [&str; 5] = ["-h", "--help", "-V", "--version", "--no-install"];

/// The user's words. If flags stand where the command is missing, they are those of `kqps run`.
pub(crate) fn with_run(mut words: Vec<OsString>) -> Vec<OsString> {
    let is_of_a_run = |word: &OsString| {
        let word = word.to_string_lossy();
        word.starts_with('-') && !OF_ITS_OWN.contains(&word.as_ref())
    };
    let mut flags = words.iter().skip(1).take_while(|word| word.to_string_lossy().starts_with('-'));
    if flags.any(is_of_a_run) {
        words.insert(1, "run".into());
    }
    words
}

/// An error of the command line with the hint for its unknown word, if there is one.
pub(crate) fn explained(mut error: clap::Error, words: &[OsString]) -> clap::Error {
    let (kind, context) = match error.kind() {
        ErrorKind::UnknownArgument => (error.kind(), ContextKind::InvalidArg),
        ErrorKind::InvalidSubcommand => (error.kind(), ContextKind::InvalidSubcommand),
        _ => return error,
    };
    let Some(ContextValue::String(typed)) = error.get(context).cloned() else { return error };
    let command = called(crate::command_line(), words);
    let hint = of_table(&command, &typed)
        .map(ToOwned::to_owned)
        .or_else(|| command.is_empty().then(|| of_thing(&typed)).flatten());
    if let Some(instead) = hint {
        return clap::Error::raw(kind, format!("{typed}: {instead}\n")).with_cmd(&Command::new("kqps"));
    }
    // A flag as a value of another word helps nobody who looks for a flag.
    error.remove(ContextKind::TrailingArg);
    error
}

/// The command that these words call, without `kqps`: `serve auth`.
fn called(program: Command, words: &[OsString]) -> String {
    let (mut command, mut called) = (program, Vec::new());
    for word in words.iter().skip(1) {
        let word = word.to_string_lossy().into_owned();
        let Some(below) = command.find_subcommand(&word).cloned() else { break };
        called.push(word);
        command = below;
    }
    called.join(" ")
}

fn of_table(command: &str, typed: &str) -> Option<&'static str> {
    // `--flag=VALUE` is shown whole by clap in some errors.
    let typed = typed.split_once('=').map_or(typed, |(flag, _)| flag);
    let of_it = |hint: &&Hint| hint.commands.contains(&command) && hint.typed.contains(&typed);
    HINTS.iter().find(of_it).map(|hint| hint.instead)
}

/// The command for a thing that was typed in its place: a server's address, a file, a study or a subject.
fn of_thing(typed: &str) -> Option<String> {
    let host = typed.rsplit_once(':').map_or(typed, |(host, _)| host);
    let is_address = typed.contains("://")
        || typed == "localhost"
        || [typed, host].iter().any(|host| host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok());
    if is_address {
        return Some(format!(
            "kqps find {typed} -d FILE searches for its highest rate, kqps load {typed} -d FILE plays one load; `kqps gen \
             queries` makes a FILE"
        ));
    }
    if subjects::is_known(typed) {
        return Some(format!("kqps run --subject {typed} measures it"));
    }
    let path = Path::new(typed);
    if path.join("run.sqlite").is_file() {
        return Some(format!("kqps report {typed} shows the run in it"));
    }
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("toml") => Some(format!("kqps run {typed} runs a study")),
        Some("pcap" | "pcapng" | "dnstap" | "gz" | "zst") => {
            Some(format!("kqps show {typed} shows what is in it"))
        }
        _ if path.is_file() => Some(format!("kqps show {typed} shows what is in it, if it holds queries")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_names_a_command_and_no_flag_that_it_has() {
        let program = crate::command_line();
        for hint in HINTS {
            for command in hint.commands {
                let words: Vec<OsString> =
                    format!("kqps {command}").split_whitespace().map(Into::into).collect();
                assert_eq!(called(program.clone(), &words), *command);
                let found = command
                    .split_whitespace()
                    .fold(&program, |found, word| found.find_subcommand(word).unwrap());
                for typed in hint.typed {
                    let is_known = match typed.strip_prefix("--") {
                        Some(long) => found.get_arguments().any(|arg| {
                            arg.get_long() == Some(long)
                                || arg.get_all_aliases().unwrap_or_default().contains(&long)
                        }),
                        None if typed.starts_with('-') => {
                            let short = typed.chars().nth(1);
                            found.get_arguments().any(|arg| arg.get_short() == short)
                        }
                        None => found.find_subcommand(typed).is_some_and(|below| !below.is_hide_set()),
                    };
                    assert!(!is_known, "`kqps {command}` has {typed}");
                }
            }
        }
    }

    #[test]
    fn every_alias_has_its_flag() {
        let program = crate::command_line();
        for alias in ALIASES {
            for command in alias.commands {
                let found = program.find_subcommand(command).unwrap();
                assert!(
                    found.get_arguments().any(|arg| arg.get_long() == Some(alias.flag)),
                    "{command} --{}",
                    alias.flag
                );
            }
        }
    }

    #[test]
    fn flags_without_a_command_are_those_of_a_run() {
        let with_run = |text: &str| {
            let words = with_run(text.split(' ').map(OsString::from).collect());
            words.join(&OsString::from(" ")).into_string().unwrap()
        };
        assert_eq!(with_run("kqps --budget 5m"), "kqps run --budget 5m");
        assert_eq!(with_run("kqps --no-install"), "kqps --no-install");
        assert_eq!(with_run("kqps load -h"), "kqps load -h");
        assert_eq!(with_run("kqps"), "kqps");
        assert_eq!(with_run("kqps -V"), "kqps -V");
        assert_eq!(with_run("kqps --no-install --budget 5m"), "kqps run --no-install --budget 5m");
    }
}
