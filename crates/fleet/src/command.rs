//! The command that starts something on a host: the words that reach the host, and then those for the host itself.

use std::collections::BTreeSet;
use std::io;
use std::process::Command;

use crate::host::Host;

/// The settings that ssh is given unless the user gives them: it asks nothing, checks the host's key, gives up in time,
/// and notices within some seconds that the link is gone (`ssh_config(5)`).
const OPTIONS: [(&str, &str); 5] = [
    ("BatchMode", "yes"),
    ("StrictHostKeyChecking", "yes"),
    ("ConnectTimeout", "15"),
    ("ServerAliveInterval", "2"),
    ("ServerAliveCountMax", "2"),
];

/// The letters of ssh's options that have a value (ssh(1)).
const WITH_VALUE: &str = "BbcDEeFIiJLlmOoPpQRSWw";

/// The command that starts the agent of a host.
pub(crate) fn agent(host: &Host) -> io::Result<Command> {
    Ok(of_words(&words(&host.reach, &[&host.kqps, "agent"])?))
}

/// The command that runs a script on a host by the POSIX shell there.
pub(crate) fn script(host: &Host, script: &str) -> io::Result<Command> {
    Ok(of_words(&words(&host.reach, &["sh", "-c", script])?))
}

/// The program that is started here to reach a host.
pub(crate) fn program(host: &Host) -> &str {
    host.reach.first().unwrap_or(&host.kqps)
}

fn of_words(words: &[String]) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command
}

/// The whole command: `there` behind the words that reach the host. Fails if the program there would be an option of
/// the program that reaches the host: ssh takes options behind the destination too.
fn words(reach: &[String], there: &[&str]) -> io::Result<Vec<String>> {
    if let Some(option) = there.first().filter(|program| program.starts_with('-')) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("`{option}` is no program, but an option"),
        ));
    }
    let Some(ssh) = place_of_ssh(reach) else {
        return Ok(reach.iter().cloned().chain(there.iter().map(|&word| word.to_owned())).collect());
    };
    let (before, after) = reach.split_at(ssh + 1);
    let mut words = before.to_vec();
    words.extend(added(after));
    words.extend_from_slice(after);
    // sshd hands one line to the user's shell there.
    words.extend(there.iter().map(|word| for_shell(word)));
    Ok(words)
}

/// The place of the word `ssh`, if it is a program and not the name of a host, which is the last word.
fn place_of_ssh(reach: &[String]) -> Option<usize> {
    let is_ssh = |word: &String| word == "ssh" || word.ends_with("/ssh");
    reach.iter().position(is_ssh).filter(|place| place + 1 < reach.len())
}

/// A word for a shell. The home directory stays what the shell makes of it.
fn for_shell(word: &str) -> String {
    let (home, rest) = if word.starts_with("~/") { word.split_at(2) } else { ("", word) };
    // Only a word with a zero byte cannot be quoted, and no host has one.
    let rest = shlex::try_quote(rest).map_or_else(|_| rest.to_owned(), String::from);
    format!("{home}{rest}")
}

/// Options that the user set in the words behind `ssh`.
#[derive(Debug, Default)]
struct UserOptions {
    /// The names of options by `-o`, in lower case.
    options: BTreeSet<String>,
    /// Whether `-t` or `-T` is set.
    has_terminal: bool,
}

/// The options that kqps adds before the words behind `ssh`. ssh takes the first of several.
fn added(after: &[String]) -> Vec<String> {
    let given = given(after);
    let is_free = |name: &str| !given.options.contains(&name.to_ascii_lowercase());
    let options = OPTIONS.iter().filter(|(name, _)| is_free(name));
    let mut words: Vec<String> = options.map(|(name, value)| format!("-o{name}={value}")).collect();
    if !given.has_terminal && is_free("RequestTTY") {
        words.push("-T".into());
    }
    words
}

fn given(after: &[String]) -> UserOptions {
    let mut given = UserOptions::default();
    let mut has_destination = false;
    let mut words = after.iter();
    while let Some(word) = words.next() {
        let Some(letters) = word.strip_prefix('-') else {
            // ssh also takes options behind the destination. The next other word begins the command there.
            if has_destination {
                break;
            }
            has_destination = true;
            continue;
        };
        for (place, letter) in letters.char_indices() {
            if WITH_VALUE.contains(letter) {
                let rest = &letters[place + letter.len_utf8()..];
                let value = if rest.is_empty() { words.next().map_or("", String::as_str) } else { rest };
                if letter == 'o' {
                    let name = value.trim_start().split(['=', ' ', '\t']).next().unwrap_or_default();
                    given.options.insert(name.to_ascii_lowercase());
                }
                break;
            }
            given.has_terminal |= matches!(letter, 't' | 'T');
        }
    }
    given
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(reach: &str, there: &[&str]) -> String {
        words(&shlex::split(reach).unwrap(), there).unwrap().join(" ")
    }

    const ALL: &str = "-oBatchMode=yes -oStrictHostKeyChecking=yes -oConnectTimeout=15 -oServerAliveInterval=2 \
                       -oServerAliveCountMax=2 -T";

    #[test]
    fn ssh_gets_options_behind_its_name_and_other_programs_get_none() {
        let agent = ["kqps", "agent"];
        assert_eq!(joined("ssh ns1", &agent), format!("ssh {ALL} ns1 kqps agent"));
        assert_eq!(
            joined("ip netns exec c /usr/bin/ssh -p 22 ns1 sudo -n", &agent),
            format!("ip netns exec c /usr/bin/ssh {ALL} -p 22 ns1 sudo -n kqps agent")
        );
        for reach in ["srun -w ssh", "kubectl exec -i pod --", "ip netns exec ns1", "sshpass x", ""] {
            assert!(!joined(reach, &agent).contains("-oBatchMode"), "{reach}");
        }
        assert_eq!(joined("", &agent), "kqps agent");
    }

    #[test]
    fn no_program_there_is_an_option_here() {
        for reach in ["ssh ns1", "srun -w n", ""] {
            let refused =
                words(&shlex::split(reach).unwrap(), &["-R9999:localhost:22", "agent"]).unwrap_err();
            assert_eq!(refused.to_string(), "`-R9999:localhost:22` is no program, but an option");
        }
    }

    #[test]
    fn what_the_user_sets_stays() {
        for (reach, without) in [
            ("ssh -oBatchMode=no ns1", "-oBatchMode=yes"),
            ("ssh -o batchmode=no ns1", "-oBatchMode=yes"),
            ("ssh -4o 'StrictHostKeyChecking accept-new' ns1", "-oStrictHostKeyChecking=yes"),
            ("ssh ns1 -o ServerAliveInterval=9", "-oServerAliveInterval=2"),
            ("ssh -tt ns1", "-T"),
            ("ssh -oRequestTTY=force ns1", "-T"),
        ] {
            let words = words(&shlex::split(reach).unwrap(), &["kqps", "agent"]).unwrap();
            assert!(!words.contains(&without.to_owned()), "{words:?}");
            assert_eq!(words.len(), shlex::split(reach).unwrap().len() + 5 + 2, "{words:?}");
        }
        // Here -T and -o belong to another program, or are values.
        for reach in ["ssh ns1 sudo -T 5 -oBatchMode=no", "ssh -i -T ns1", "ssh -p 22 -F -t ns1"] {
            assert!(joined(reach, &["kqps"]).contains(ALL), "{reach}");
        }
    }

    #[test]
    fn words_for_a_shell_are_quoted_and_others_are_not() {
        let there = ["/opt/my tools/kqps", "agent"];
        assert!(joined("ssh ns1", &there).ends_with(" ns1 '/opt/my tools/kqps' agent"));
        assert!(joined("srun -w n", &there).ends_with(" n /opt/my tools/kqps agent"));
        assert!(joined("ssh ns1", &["~/a b/kqps"]).ends_with(" ns1 ~/'a b/kqps'"));
        assert!(joined("ssh ns1", &["~/bin/kqps"]).ends_with(" ns1 ~/bin/kqps"));
        let script = ["sh", "-c", "echo \"$HOME\"; exit"];
        let words = words(&["ssh".into(), "ns1".into()], &script).unwrap();
        let line = words[words.len() - 3..].join(" ");
        assert_eq!(shlex::split(&line).unwrap(), script);
    }
}
