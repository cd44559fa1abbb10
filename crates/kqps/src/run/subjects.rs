//! Which subjects a run has: the name servers that kqps knows, or those that the user names or tells the command
//! of, with the packages of missing ones installed where that was asked for.

use std::path::Path;

use kqps_kernel::interrupts::Interrupts;
use kqps_lab::packages;
use kqps_lab::study;
use kqps_lab::subject::definition::with_names_of_their_own;
use kqps_lab::subject::{Definition, builtin};
use kqps_lab::toml_file::{did_you_mean, nearest};

use crate::exit::bad_input;

/// The subjects that were asked for: those of the default study, or those named and those with these commands. A name with
/// a dot or a slash is a file.
pub(crate) fn chosen(words: &[String], commands: &[String]) -> anyhow::Result<Vec<Definition>> {
    if words.is_empty() && commands.is_empty() {
        return Ok(builtin::of_default_study());
    }
    let mut chosen = named(words)?;
    for command in commands {
        chosen.push(Definition::of_command(command).map_err(bad_input)?);
    }
    Ok(with_names_of_their_own(chosen))
}

fn named(words: &[String]) -> anyhow::Result<Vec<Definition>> {
    let known = builtin::servers();
    let names: Vec<&str> = known.iter().map(|server| server.name.as_str()).collect();
    let named = |word: &String| {
        if word.contains(['.', '/']) {
            return Definition::open(Path::new(word)).map_err(bad_input);
        }
        known.iter().find(|server| server.name == *word).cloned().ok_or_else(|| {
            let hint = did_you_mean(nearest(word, &names));
            let known = names.join(", ");
            bad_input(format!(
                "no subject is called `{word}`{hint} (known: {known}, or a file such as ./mine.toml)"
            ))
        })
    };
    words.iter().map(named).collect()
}

/// The I/O models of the echo that were asked for.
pub(super) fn models(words: &[String]) -> anyhow::Result<Vec<String>> {
    let known: Vec<&str> = study::models().collect();
    if let Some(word) = words.iter().find(|word| !known.contains(&word.as_str())) {
        let hint = did_you_mean(nearest(word, &known));
        return Err(bad_input(format!(
            "the echo has no I/O model `{word}`{hint} (known: {})",
            known.join(", ")
        )));
    }
    Ok(words.to_vec())
}

/// Installs what is missing where that was asked for, and says what it does.
pub(super) fn install_missing(subjects: &[Definition], interrupts: &Interrupts) {
    let missing = packages::missing(subjects);
    if missing.is_empty() {
        return;
    }
    match packages::allowed() {
        Ok(()) => {
            eprintln!(
                "Installing {} with apt-get, since this is a run from a checkout ({}=debian in \
                 .cargo/config.toml). No service is started.",
                missing.join(", "),
                packages::VARIABLE
            );
            for (package, reason) in packages::install(&missing, interrupts, |_| ()) {
                eprintln!("{package} could not be installed, and is left out: {reason}");
            }
        }
        Err(reason) => eprintln!(
            "Not measured, since not installed: {} ({reason}; on Debian: apt install {}).",
            missing.join(", "),
            missing.join(" ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(word: &str) -> String {
        chosen(&[word.to_string()], &[]).unwrap_err().to_string()
    }

    #[test]
    fn subjects_are_named_or_files() {
        assert_eq!(chosen(&[], &[]).unwrap().len(), 3);
        assert_eq!(chosen(&["knot".into()], &[]).unwrap()[0].title, "Knot DNS");
        assert!(error("nds").contains("did you mean `nsd`?"));
        assert!(models(&["mmsgs".into()]).unwrap_err().to_string().contains("did you mean `mmsg`?"));
        assert!(error("./none.toml").contains("cannot read ./none.toml"));
    }

    #[test]
    fn two_builds_are_two_subjects() {
        let command = "sh -c true {port}".to_string();
        let chosen = chosen(&["nsd".into()], &[command.clone(), command]).unwrap();
        let names: Vec<&str> = chosen.iter().map(|subject| subject.name.as_str()).collect();
        assert_eq!(names, ["nsd", "sh", "sh-2"]);
    }
}
