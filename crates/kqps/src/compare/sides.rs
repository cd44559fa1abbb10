//! The two sides of a comparison, as the user names them.

use kqps_lab::comparison::Side;
use kqps_lab::configured::{Configured, with_names_of_their_own};
use kqps_lab::running::Running;

use super::Args;
use crate::exit::bad_input;
use crate::run::subjects::{named, of_commands};
use crate::run::targets;

/// What one side is.
enum Word {
    /// A command that starts a server.
    Command(String),
    /// A subject that is started, with its settings.
    Subject(Box<Configured>),
    /// A server that runs already.
    Running(Running),
}

/// A and B.
pub(super) fn of(args: &Args) -> anyhow::Result<[Side; 2]> {
    let targets = args.live.target.as_slice();
    let texts = args.a.as_ref().zip(args.b.as_ref());
    let texts = texts.or_else(|| <&[String; 2]>::try_from(targets).ok().map(|[a, b]| (a, b)));
    let (a, b) = texts.ok_or_else(|| {
        bad_input(format!("--target: expected two, one for each side, found {}", targets.len()))
    })?;
    let words = [word(a, args)?, word(b, args)?];
    let started = named_apart(&words)?;
    let running: Vec<Running> = words.iter().filter_map(Word::running).cloned().collect();
    targets::check(&running, &started, args.live.queries.as_deref())?;
    let mut started = started.into_iter();
    let [a, b] = words.map(|word| match word {
        Word::Running(running) => Some(Side::Running(running)),
        Word::Command(_) | Word::Subject(_) => started.next().map(|one| Side::Started(Box::new(one))),
    });
    let (Some(a), Some(mut b)) = (a, b) else { return Err(bad_input("expected two sides")) };
    if let (Side::Running(a), Side::Running(b)) = (&a, &mut b)
        && a.name == b.name
    {
        b.name += " as B";
    }
    Ok([a, b])
}

/// A URL has a scheme, and a command a placeholder; a subject's words after its name are settings.
fn word(text: &str, args: &Args) -> anyhow::Result<Word> {
    if text.contains("://") {
        let target = targets::resolve(text, &args.live.allow_target)?;
        return Ok(Word::Running(Running { name: target.address.to_string(), target }));
    }
    let are_settings =
        text.split_whitespace().skip(1).all(|word| word.contains('=') && !word.starts_with('-'));
    if text.contains('{') || !are_settings {
        return Ok(Word::Command(text.into()));
    }
    Ok(Word::Subject(Box::new(named(text)?)))
}

/// The sides that are started, each with a name of its own.
fn named_apart(words: &[Word]) -> anyhow::Result<Vec<Configured>> {
    let commands: Vec<String> = words.iter().filter_map(Word::command).cloned().collect();
    let mut of_commands = of_commands(&commands)?.into_iter();
    let started = words.iter().filter_map(|word| match word {
        Word::Command(_) => of_commands.next(),
        Word::Subject(configured) => Some((**configured).clone()),
        Word::Running(_) => None,
    });
    Ok(with_names_of_their_own(started.collect()))
}

impl Word {
    fn command(&self) -> Option<&String> {
        match self {
            Self::Command(command) => Some(command),
            _ => None,
        }
    }

    fn running(&self) -> Option<&Running> {
        match self {
            Self::Running(running) => Some(running),
            _ => None,
        }
    }
}
