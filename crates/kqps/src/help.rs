//! Rules for the help of every command: its examples parse, each flag has one line in `-h`, and a long list
//! of flags is in groups.

use clap::{Arg, Command, CommandFactory as _};

use crate::Cli;
use crate::documented::words;

/// The most flags that a list may have without groups.
const UNGROUPED_MOST: usize = 9;

/// The most characters of a flag's line in `-h`.
const LINE_MOST: usize = 110;

/// The most characters of a line of examples or statuses.
const EXAMPLE_MOST: usize = 80;

/// Every visible command, with the words that call it.
fn commands() -> Vec<(String, Command)> {
    let mut program = crate::command_line();
    program.build();
    let mut found = Vec::new();
    let mut to_see = vec![("kqps".to_owned(), program)];
    while let Some((words, command)) = to_see.pop() {
        let below =
            command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help");
        to_see.extend(below.map(|below| (format!("{words} {}", below.get_name()), below.clone())));
        found.push((words, command));
    }
    found
}

/// The words of the command lines among a command's examples.
fn examples(command: &Command) -> Vec<Vec<String>> {
    let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let lines = text.lines().filter(|line| line.starts_with("  kqps"));
    lines.map(words).collect()
}

fn flags(command: &Command) -> impl Iterator<Item = &Arg> {
    let is_own = |arg: &&Arg| !arg.is_hide_set() && !matches!(arg.get_id().as_str(), "help" | "version");
    command.get_arguments().filter(is_own)
}

#[test]
fn every_command_has_examples_that_can_be_typed() {
    for (words, command) in commands() {
        let examples = examples(&command);
        // A terminal of 80 columns breaks a longer line, which could then not be pasted.
        let after = command.get_after_long_help().expect("it has at least the statuses").to_string();
        let too_long = after.lines().find(|line| line.chars().count() > EXAMPLE_MOST);
        assert_eq!(too_long, None, "{words}");
        assert!((2..=4).contains(&examples.len()), "{words} has {} examples", examples.len());
        let mut its_own = 0;
        for example in examples {
            let parsed = Cli::command().try_get_matches_from(&example);
            assert!(parsed.is_ok(), "{example:?}: {}", parsed.unwrap_err());
            its_own += usize::from(example.join(" ").starts_with(&words));
        }
        assert!(its_own >= 2, "{words} has examples of other commands only");
    }
}

#[test]
fn every_flag_has_one_line() {
    for (words, command) in commands() {
        assert!(command.get_about().is_some(), "{words} does not say what it is for");
        for flag in flags(&command) {
            let help = flag.get_help().map(ToString::to_string).unwrap_or_default();
            let length = help.chars().count();
            let name = flag.get_id();
            assert!((1..=LINE_MOST).contains(&length), "{words} {name}: {length} characters: {help}");
            assert!(!help.contains('\n') && !help.ends_with('.'), "{words} {name}: {help}");
        }
    }
}

#[test]
fn many_flags_stand_in_groups() {
    for (words, command) in commands() {
        let flags: Vec<&Arg> = flags(&command).filter(|flag| !flag.is_positional()).collect();
        if flags.len() <= UNGROUPED_MOST {
            continue;
        }
        for flag in flags {
            assert!(flag.get_help_heading().is_some(), "{words} --{} is in no group", flag.get_id());
        }
    }
}
