//! The command that repeats a run, for the end of its page.

use kqps_observation::secret;

/// The typed words with the run's seed, and without its folder, which exists by now. Without a subcommand
/// they become those of `kqps run`.
pub(crate) fn repeating(mut typed: impl Iterator<Item = String>, seed: u64) -> Vec<String> {
    let mut words: Vec<String> = typed.next().into_iter().collect();
    while let Some(word) = typed.next() {
        match word.split('=').next() {
            Some("--out" | "--seed") => {
                if !word.contains('=') {
                    typed.next();
                }
            }
            _ => words.push(word),
        }
    }
    if words.len() == 1 {
        words.push("run".into());
    }
    words.extend(["--seed".into(), seed.to_string()]);
    words
}

/// The words that started this program, without the secrets in them.
pub(crate) fn typed() -> impl Iterator<Item = String> {
    let words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    secret::masked(&words).into_iter()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::repeating;
    use crate::Cli;

    fn repeated(typed: &[&str]) -> Vec<String> {
        repeating(typed.iter().map(|word| (*word).to_string()), 7)
    }

    #[test]
    fn what_repeats_a_run_can_be_typed() {
        for typed in [
            &["target/release/kqps"][..],
            &["kqps", "run", "--out", "a", "--seed=3", "--budget", "10m"],
            &["kqps", "run", "--seed", "3", "--out=a", "studies/isc-echo.toml"],
            &["kqps", "compare", "--a", "nsd", "--out", "a", "--b", "knot"],
        ] {
            let matches = Cli::command().try_get_matches_from(repeated(typed)).unwrap();
            let (_, arguments) = matches.subcommand().unwrap();
            let seed: Option<&u64> = arguments.get_one("seed");
            assert_eq!((seed, arguments.contains_id("out")), (Some(&7), false), "{typed:?}");
        }
    }

    #[test]
    fn everything_else_that_was_typed_is_kept() {
        assert_eq!(repeated(&["kqps"]), ["kqps", "run", "--seed", "7"]);
        let words = repeated(&["kqps", "run", "--out", "a", "--command", "x -p {port}", "--json"]);
        assert_eq!(words, ["kqps", "run", "--command", "x -p {port}", "--json", "--seed", "7"]);
    }
}
