//! Names for commands by their differences: two builds by their folders, two settings of one program by their
//! flags.

/// A name for each command, given as its words. Equal commands get equal names.
pub(crate) fn from_commands(commands: &[Vec<String>]) -> Vec<String> {
    let program = |words: &[String]| words.first().cloned().unwrap_or_default();
    let mut paths: Vec<String> = commands.iter().map(|words| program(words)).collect();
    paths.sort_unstable();
    paths.dedup();
    let names = of_programs(&paths);
    let label = |words: &Vec<String>| {
        let path = program(words);
        let name =
            paths.iter().position(|other| *other == path).map_or(path.as_str(), |at| names[at].as_str());
        let alike: Vec<&[String]> =
            commands.iter().filter(|other| program(other) == path).map(|other| &other[1..]).collect();
        match words.get(1..).map(|words| difference(words, &alike)) {
            Some(words) if !words.is_empty() => format!("{name} {words}"),
            _ => name.to_string(),
        }
    };
    commands.iter().map(label).collect()
}

/// Names for programs by their distinct paths: the file names if they differ, else the part of the path that
/// differs.
fn of_programs(paths: &[String]) -> Vec<String> {
    let parts: Vec<Vec<&str>> = paths
        .iter()
        .map(|path| path.split('/').filter(|part| !matches!(*part, "" | ".")).collect())
        .collect();
    // The command line has a placeholder for kqps itself, such as {kqps}.
    let file_name = |parts: &[&str]| {
        parts.last().map(|name| name.trim_matches(['{', '}']).to_string()).unwrap_or_default()
    };
    let mut distinct: Vec<String> = parts.iter().map(|parts| file_name(parts)).collect();
    let files = distinct.clone();
    distinct.sort_unstable();
    distinct.dedup();
    if distinct.len() == files.len() {
        return files;
    }
    let shortest = parts.iter().map(Vec::len).min().unwrap_or(0);
    let first = &parts[0];
    let alike = |at: &dyn Fn(&[&str], usize) -> String| {
        (0..shortest).take_while(|&step| parts.iter().all(|one| at(one, step) == at(first, step))).count()
    };
    let back = alike(&|parts, step| parts[parts.len() - 1 - step].to_string());
    let front = alike(&|parts, step| parts[step].to_string()).min(shortest - back);
    let middle = |parts: &Vec<&str>| match &parts[front..parts.len() - back] {
        [] => file_name(parts),
        middle => middle.join("/"),
    };
    parts.iter().map(middle).collect()
}

/// The words of one command that others lack, each value with its flag before it.
fn difference(words: &[String], all: &[&[String]]) -> String {
    let count = |words: &[String], word: &String| words.iter().filter(|other| *other == word).count();
    let is_common = |word: &String| {
        let here = count(words, word);
        all.iter().all(|other| count(other, word) == here)
    };
    let mut distinct: Vec<&str> = Vec::new();
    for (at, word) in words.iter().enumerate().filter(|(_, word)| !is_common(word)) {
        let flag = at.checked_sub(1).map(|before| &words[before]).filter(|flag| flag.starts_with('-'));
        if let Some(flag) = flag.filter(|flag| !word.starts_with('-') && is_common(flag)) {
            distinct.push(flag);
        }
        distinct.push(word);
    }
    if !distinct.is_empty() {
        return distinct.join(" ");
    }
    // A command may merely lack a word of the other one, if there are two.
    let others: Vec<String> = match all {
        [one, other] if *one != *other => {
            let (here, there) = if *one == words { (one, other) } else { (other, one) };
            there.iter().filter(|word| count(here, word) < count(there, word)).cloned().collect()
        }
        _ => Vec::new(),
    };
    if others.is_empty() { String::new() } else { format!("without {}", others.join(" ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_named_by_their_differences() {
        for (commands, expected) in [
            (&["./old -p {port}", "./new -p {port}"][..], &["old", "new"][..]),
            (&["./old/my-server -p {port}", "./new/my-server -p {port}"], &["old", "new"]),
            (&["/opt/1.2/bin/srv {port}", "/opt/1.3/bin/srv {port}"], &["1.2", "1.3"]),
            (&["srv -p {port}", "./build/srv -p {port}"], &["srv", "build"]),
            (&["srv -p {port} -t 1", "srv -p {port} -t 2"], &["srv -t 1", "srv -t 2"]),
            (&["srv --threads=1 {port}", "srv --threads=2 {port}"], &["srv --threads=1", "srv --threads=2"]),
            (&["srv {port}", "srv {port} --fast"], &["srv without --fast", "srv --fast"]),
            (&["srv -c a.conf -p {port}", "srv -p {port} -c b.conf"], &["srv -c a.conf", "srv -c b.conf"]),
            (&["srv {port}", "srv {port}"], &["srv", "srv"]),
            (&["a/srv {port}", "b/srv {port} -x", "b/srv {port}"], &["a", "b -x", "b without -x"]),
            (&["./srv {port}"], &["srv"]),
        ] {
            let words: Vec<Vec<String>> = commands
                .iter()
                .map(|command| command.split_whitespace().map(str::to_string).collect())
                .collect();
            assert_eq!(from_commands(&words), expected, "{commands:?}");
        }
    }
}
