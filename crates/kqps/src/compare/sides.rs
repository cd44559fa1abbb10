//! The two sides of a comparison, as the user names them.

use kqps_lab::comparison::Side;
use kqps_lab::configured::{Configured, with_names_of_their_own};
use kqps_lab::running_server::RunningServer;

use super::Args;
use crate::exit::bad_input;
use crate::run::subjects::{named, of_commands};
use crate::run::targets;

/// A side, as the user's words name it.
enum Word {
    Command(String),
    /// A subject that kqps starts, with its settings.
    Subject(Box<Configured>),
    Running(RunningServer),
}

pub(super) fn from_args(args: &Args) -> anyhow::Result<[Side; 2]> {
    let words = match (args.a.as_ref().zip(args.b.as_ref()), args.live.target.as_slice()) {
        (Some((a, b)), _) => [word(a, args)?, word(b, args)?],
        (None, [a, b]) => [running(a, args)?, running(b, args)?],
        (None, targets) => {
            let found = targets.len();
            return Err(bad_input(format!("--target: expected two, one for each side, found {found}")));
        }
    };
    let started = named_apart(&words)?;
    let running: Vec<RunningServer> = words.iter().filter_map(Word::running).cloned().collect();
    targets::check(&running, &started, args.live.queries.as_deref())?;
    args.live.connections.check(&running)?;
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

/// Reads the address of a running server as `kqps run --target` does.
fn running(text: &str, args: &Args) -> anyhow::Result<Word> {
    Ok(Word::Running(targets::running(text, &args.live.allow_target, &args.live.connections)?))
}

/// Reads one side: a URL is one word with a scheme, a command has a placeholder, and the words after a subject's name are
/// settings.
fn word(text: &str, args: &Args) -> anyhow::Result<Word> {
    let is_one_word = text.split_whitespace().count() == 1;
    if is_one_word && text.contains("://") {
        return running(text, args);
    }
    let are_settings =
        text.split_whitespace().skip(1).all(|word| word.contains('=') && !word.starts_with('-'));
    if text.contains('{') || !are_settings {
        return Ok(Word::Command(text.into()));
    }
    Ok(Word::Subject(Box::new(named(text)?)))
}

/// The sides that kqps starts, each with a name of its own.
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

    fn running(&self) -> Option<&RunningServer> {
        match self {
            Self::Running(running) => Some(running),
            _ => None,
        }
    }
}
