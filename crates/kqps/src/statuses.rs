//! The exit statuses of every command, as its help and its manual page explain them.

use clap::Command;

/// The heading above the statuses.
pub(crate) const HEAD: &str = "Exit status:";

/// The most characters of a line, so that a terminal of 80 columns breaks none.
const LINE_MOST: usize = 80;

/// The column at which a meaning begins.
const MEANING_AT: usize = 7;

/// A status, its meaning, and the commands that end with it for this reason.
struct Status {
    code: &'static str,
    /// Commands without the word `kqps`. One word stands for all commands below it that no other row of its code names.
    commands: &'static [&'static str],
    meaning: &'static str,
}

/// Commands that measure, and print their results after the first signal.
const MEASURING: &[&str] = &["", "run", "load", "find", "check", "compare", "host try", "history check"];

/// Commands that are done or fail.
const OTHERS: &[&str] = &[
    "report",
    "export",
    "history",
    "plan",
    "host",
    "agent",
    "gen",
    "show",
    "probe",
    "completions",
    "man",
    "serve status",
];

/// Statuses from rows of `code, commands => meaning`.
macro_rules! statuses {
    ($($code:expr, $commands:expr => $meaning:expr;)*) => {
        &[$(Status { code: $code, commands: $commands, meaning: $meaning }),*]
    };
}

/// All statuses, in the order in which help shows them.
const STATUSES: &[Status] = statuses! {
    "0", OTHERS => "it did all that it was asked";
    "0", &["", "run"] => "measured, and no figure of a server is refused";
    "0", &["load"] => "the load ran, whatever it measured";
    "0", &["find"] => "the search ended with a figure";
    "0", &["check"] => "fine: the target carries the rate with headroom";
    "0", &["compare"] => "compared, and no condition of --fail-on holds";
    "0", &["history check"] => "no condition of --fail-on holds, and each could be judged";
    "0", &["host try"] =>
        "the subject is faster with the settings, by more than the minimum detectable effect";
    "0", &["host apply"] => "the settings are made; with --for the status is that of the command";
    "0", &["plan"] => "at least one plan has a number of hosts";
    "0", &["serve"] => "it served until a signal or the end of --for, and printed its counts";
    "0", &["dnsperf", "resperf"] => "the run ended, whatever it measured, also by SIGINT";
    "1", OTHERS => "an error, or its output could not be written";
    "1", &["", "run"] => "nothing could be measured, a host of --hosts did not come back, or an error";
    "1", &["load"] => "nothing could be sent, nothing answered (whatever --fail-on asks), or an error";
    "1", &["check"] => "nothing could be sent, nothing answered, or an error";
    "1", &["find"] =>
        "nothing could be sent, nothing answered, good clients lose answers without any attack, or an error";
    "1", &["compare", "host try"] =>
        "nothing could be compared: a side did not start or gave no figure, or an error";
    "1", &["history check"] => "an error, or a file could not be written";
    "1", &["host apply"] => "an error, or the settings were not confirmed and are undone";
    "1", &["host undo"] => "a setting was left, or an error";
    "1", &["host status"] => "a journal of settings could not be read, or an error";
    "1", &["serve"] => "it could not start, or had to stop because of an error";
    "1", &["dnsperf", "resperf"] => "bad usage, a bad file, or an error";
    "2", &["", "run", "find", "load", "host try"] => BAD_FOLDER;
    "2", &["compare"] =>
        "bad usage, a bad file, stored runs without comparable cells, or a folder for --out that is taken";
    "2", &["check", "serve", "serve status"] => BAD;
    "2", OTHERS => BAD;
    "2", &["history add"] => "bad usage, a bad file, or a folder without a finished run was left out";
    "2", &["history check"] => "bad usage, no history, or a bad file";
    "3", &["", "run"] => "measured, but a figure is refused (grade F)";
    "3", &["find"] => "searched, but the figure is refused (grade F)";
    "3", &["check"] => "limited: the target does not carry the rate with headroom";
    "3", &["load"] => "a condition of --fail-on holds, or could not be judged";
    "3", &["compare"] =>
        "a condition of --fail-on holds, or could not be judged: the comparison is inconclusive or too coarse";
    "3", &["history check"] => "a condition of --fail-on holds, or could not be judged, as with too few runs";
    "3", &["plan"] => "every figure that it needs is refused";
    "3", &["host try"] => "the settings do not help as far as this host can show";
    "4", &["check"] => "cannot tell: the trials show neither";
    "129", MEASURING =>
        "ended by SIGHUP, 130 by SIGINT, 143 by SIGTERM (128 and the signal's number), after it printed what it \
         had: the first signal ends a measurement early, the second at once";
    "129", &["serve"] =>
        "ended by SIGHUP, 130 by SIGINT, 143 by SIGTERM (128 and the signal's number), before it could answer";
    "129", &["serve status", "host apply"] =>
        "ended by SIGHUP, 130 by SIGINT, 143 by SIGTERM (128 and the signal's number)";
    "129", &["dnsperf", "resperf"] =>
        "ended by SIGHUP, 143 by SIGTERM (128 and the signal's number), after it printed what it had";
    "141", MEASURING => UNREAD;
    "141", OTHERS => UNREAD;
    "141", &["dnsperf", "resperf", "serve"] => UNREAD;
};

const BAD: &str = "bad usage, or a bad file";
const BAD_FOLDER: &str = "bad usage, a bad file, or a folder for --out that is taken";
const UNREAD: &str = "no process reads its output any more, as in `kqps … | head`";

/// Adds the statuses of each command to its help, and so on below it.
pub(crate) fn explained(program: Command) -> Command {
    explained_at("", program)
}

fn explained_at(words: &str, command: Command) -> Command {
    let after = command.get_after_long_help().or(command.get_after_help());
    let after = after.map_or(String::new(), |after| format!("{after}\n\n"));
    let below = |command: Command| {
        let words = format!("{words} {}", command.get_name());
        explained_at(words.trim(), command)
    };
    command.after_long_help(format!("{after}{}", section(words))).mut_subcommands(below)
}

/// The statuses of a command, below their heading.
pub(crate) fn section(command: &str) -> String {
    format!("{HEAD}\n{}", text_of(command))
}

/// The lines for one command. Of several rows with one code, the row that names the command most exactly counts.
fn text_of(command: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut codes: Vec<&str> = STATUSES.iter().map(|status| status.code).collect();
    codes.dedup();
    for code in codes {
        let of_code = STATUSES.iter().filter(|status| status.code == code);
        let named = of_code.filter_map(|status| Some((status.names(command)?, status.meaning)));
        if let Some((_, meaning)) = named.max_by_key(|(exactness, _)| *exactness) {
            lines.extend(wrapped(code, meaning));
        }
    }
    lines.join("\n")
}

impl Status {
    /// How exactly this row names a command: the length of the words that do. `None` if it does not.
    fn names(&self, command: &str) -> Option<usize> {
        let is_it = |words: &&str| {
            command == *words || (!words.is_empty() && command.starts_with(&format!("{words} ")))
        };
        self.commands.iter().copied().filter(is_it).map(str::len).max()
    }
}

/// A status in lines of [`LINE_MOST`] characters.
fn wrapped(code: &str, meaning: &str) -> Vec<String> {
    let mut lines = vec![format!("  {code:<4}")];
    for word in meaning.split(' ') {
        let line = lines.last_mut().expect("there is a first line");
        if line.chars().count() + 1 + word.chars().count() > LINE_MOST {
            lines.push(format!("{:width$}{word}", "", width = MEANING_AT));
        } else {
            line.push(' ');
            line.push_str(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_its_own_statuses_alone() {
        let text = text_of("host try");
        assert!(
            text.contains("  0    the subject is faster") && text.contains("  3    the settings do not"),
            "{text}"
        );
        assert!(!text.contains("--fail-on"), "{text}");
        assert_eq!(text_of("serve echo"), text_of("serve auth"));
        assert!(text_of("serve status").starts_with("  0    it did all"), "{}", text_of("serve status"));
        assert!(!text_of("show").contains("  3 "), "{}", text_of("show"));
        assert!(
            text_of("history check").contains("--fail-on") && !text_of("history add").contains("--fail-on")
        );
    }

    #[test]
    fn every_command_says_what_0_1_and_2_mean() {
        let mut to_see = vec![(String::new(), crate::command_line())];
        while let Some((words, command)) = to_see.pop() {
            let text = text_of(&words);
            let has = |code: &str| text.lines().any(|line| line.starts_with(&format!("  {code:<4} ")));
            let is_dnsperf = matches!(&*words, "dnsperf" | "resperf");
            assert!(
                command.is_hide_set() || (has("0") && has("1") && (has("2") || is_dnsperf)),
                "{words}: {text}"
            );
            to_see.extend(
                command
                    .get_subcommands()
                    .filter(|below| below.get_name() != "help")
                    .map(|below| (format!("{words} {}", below.get_name()).trim().to_owned(), below.clone())),
            );
        }
    }

    #[test]
    fn long_meanings_are_wrapped() {
        let lines = wrapped("129", &"word ".repeat(30));
        assert!(lines.len() > 1 && lines.iter().all(|line| line.chars().count() <= LINE_MOST), "{lines:?}");
        assert!(lines[1].starts_with("       word"), "{lines:?}");
    }
}
