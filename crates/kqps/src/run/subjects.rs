//! The subjects of a run: name servers that kqps knows, optionally with settings, or servers that the user
//! describes by a file or a command.

use std::path::Path;

use kqps_files::toml_file::{did_you_mean, nearest};
use kqps_lab::configured::{Configured, with_names_of_their_own};
use kqps_observation::secret;
use kqps_testbed::echo_io;
use kqps_testbed::subject::{Definition, builtin};

use super::labels;
use crate::exit::bad_input;

/// The subjects of the user's choice: the named ones and those of the commands, or else those of the default
/// study.
pub(crate) fn chosen(words: &[String], commands: &[String]) -> anyhow::Result<Vec<Configured>> {
    if words.is_empty() && commands.is_empty() {
        return Ok(builtin::of_default_study().into_iter().map(Configured::plain).collect());
    }
    let mut chosen: Vec<Configured> = words.iter().map(|word| named(word)).collect::<anyhow::Result<_>>()?;
    chosen.extend(of_commands(commands)?);
    Ok(with_names_of_their_own(chosen))
}

/// A subject by its name or file, with settings after it, as in `knot workers=2`. A name with a dot or a
/// slash is a file.
pub(crate) fn named(text: &str) -> anyhow::Result<Configured> {
    let words = shlex::split(text).ok_or_else(|| bad_input(format!("`{text}`: a quote is not closed")))?;
    let [word, settings @ ..] = &words[..] else {
        return Err(bad_input(
            "a subject is missing: expected a name such as nsd, or a file such as ./mine.toml",
        ));
    };
    Configured::with(definition(word)?, text, settings).map_err(bad_input)
}

/// The subjects that kqps knows.
fn known() -> impl Iterator<Item = Definition> {
    builtin::servers().into_iter().chain([builtin::echo()])
}

/// Whether kqps knows a subject of this name, which settings may follow: `nsd`, or `knot workers=2`.
pub(crate) fn is_known(words: &str) -> bool {
    known().any(|one| words.split(' ').next() == Some(&*one.name))
}

fn definition(word: &str) -> anyhow::Result<Definition> {
    if word.contains(['.', '/']) {
        return Definition::open(Path::new(word)).map_err(bad_input);
    }
    let known: Vec<Definition> = known().collect();
    known.iter().find(|server| server.name == *word).cloned().ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|server| server.name.as_str()).collect();
        let hint = did_you_mean(nearest(word, &names));
        let known = names.join(", ");
        bad_input(format!(
            "no subject is called `{word}`{hint} (known: {known}, or a file such as ./mine.toml)"
        ))
    })
}

/// Subjects that commands start, each named by its difference from the others.
pub(crate) fn of_commands(commands: &[String]) -> anyhow::Result<Vec<Configured>> {
    let definitions: Vec<Definition> = commands
        .iter()
        .map(|command| Definition::of_command(command).map_err(bad_input))
        .collect::<anyhow::Result<_>>()?;
    let words: Vec<Vec<String>> =
        commands.iter().map(|command| secret::masked(&shlex::split(command).unwrap_or_default())).collect();
    let names = if commands.len() > 1 {
        labels::from_commands(&words)
    } else {
        definitions.iter().map(|definition| definition.name.clone()).collect()
    };
    let named = definitions.into_iter().zip(names);
    Ok(named.map(|(definition, name)| Configured { name, ..Configured::plain(definition) }).collect())
}

/// Checks the names of the echo's I/O models.
pub(super) fn models(words: &[String]) -> anyhow::Result<Vec<String>> {
    let known: Vec<&str> = echo_io::models().collect();
    if let Some(word) = words.iter().find(|word| !known.contains(&word.as_str())) {
        let hint = did_you_mean(nearest(word, &known));
        return Err(bad_input(format!(
            "the echo has no I/O model `{word}`{hint} (known: {})",
            known.join(", ")
        )));
    }
    Ok(words.to_vec())
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
        assert_eq!(chosen(&["knot".into()], &[]).unwrap()[0].definition.title, "Knot DNS");
        let echo = chosen(&["echo io=epoll workers=2".into()], &[]).unwrap().remove(0);
        assert_eq!((echo.name.as_str(), echo.factors.word("io")), ("echo io=epoll workers=2", Some("epoll")));
        assert!(error("knot worker=2").contains("did you mean `workers`?"));
        assert!(error("nsd 'x").contains("a quote is not closed"));
        assert!(error("nds").contains("did you mean `nsd`?"));
        assert!(models(&["mmsgs".into()]).unwrap_err().to_string().contains("did you mean `mmsg`?"));
        assert!(error("./none.toml").contains("cannot read ./none.toml"));
    }

    #[test]
    fn two_builds_are_two_subjects() {
        let command = "sh -c true {port}".to_string();
        let chosen = chosen(&["nsd".into()], &[command.clone(), command]).unwrap();
        let names: Vec<_> =
            chosen.iter().map(|one| (one.name.as_str(), one.definition.name.as_str())).collect();
        assert_eq!(names, [("nsd", "nsd"), ("sh", "sh"), ("sh-2", "sh-2")]);
    }
}
