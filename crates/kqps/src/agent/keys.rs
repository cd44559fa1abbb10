//! Lines of `authorized_keys` that let a key start the agent and nothing else (sshd(8), `AUTHORIZED_KEYS` FILE FORMAT).

use std::path::Path;

/// The types of keys that OpenSSH has.
const TYPES: [&str; 7] = [
    "ssh-ed25519",
    "ssh-rsa",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
];

/// The beginning of every public key in base64: its type's length in 32 bits.
const BEGINNING: &str = "AAAA";

/// A line for each key of a file of public keys. `program` is the path of kqps on the host that the key opens.
pub(super) fn lines(file: &str, text: &str, program: &Path) -> Result<Vec<String>, String> {
    if text.contains("PRIVATE KEY") {
        return Err(format!("{file} holds a private key; give the public one, whose file ends in .pub"));
    }
    let command = command(program)?;
    let is_key = |line: &&str| !line.is_empty() && !line.starts_with('#');
    let keys = (1..).zip(text.lines().map(str::trim)).filter(|(_, line)| is_key(line));
    let lines: Vec<String> = keys
        .map(|(number, line)| -> Result<String, String> {
            check(line).map_err(|expected| format!("{file}:{number}: expected {expected}"))?;
            Ok(format!("restrict,command=\"{command}\" {line}"))
        })
        .collect::<Result<_, String>>()?;
    if lines.is_empty() {
        return Err(format!("{file} holds no public key"));
    }
    Ok(lines)
}

/// Checks a line with a public key: its type, the key in base64, and a comment.
fn check(line: &str) -> Result<(), &'static str> {
    let mut words = line.split_whitespace();
    if !words.next().is_some_and(|word| TYPES.contains(&word)) {
        return Err("a public key of OpenSSH, such as `ssh-ed25519 AAAA…`, without options before it");
    }
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
    if !words.next().is_some_and(|key| key.starts_with(BEGINNING) && key.bytes().all(is_base64)) {
        return Err("the key in base64 after its type");
    }
    if line.chars().any(char::is_control) { Err("a line without control characters") } else { Ok(()) }
}

/// The command that starts the agent, as the user's shell reads it, within the quotes of the file.
fn command(program: &Path) -> Result<String, String> {
    let unusable =
        || format!("{} cannot stand in authorized_keys; move kqps to another path", program.display());
    let path = program.to_str().filter(|path| !path.contains(char::is_control)).ok_or_else(unusable)?;
    let quoted = shlex::try_quote(path).map_err(|_| unusable())?;
    Ok(format!("{quoted} agent").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJQ0Zz9m ci@controller";

    fn key_lines(text: &str) -> Result<Vec<String>, String> {
        lines("ci.pub", text, Path::new("/usr/bin/kqps"))
    }

    #[test]
    fn each_key_may_start_the_agent_and_nothing_else() {
        let expected = format!("restrict,command=\"/usr/bin/kqps agent\" {KEY}");
        assert_eq!(key_lines(&format!("{KEY}\n")), Ok(vec![expected.clone()]));
        assert_eq!(key_lines(&format!("# of CI\n\n  {KEY}\r\n{KEY}")), Ok(vec![expected; 2]));
    }

    #[test]
    fn an_odd_path_is_quoted_for_the_shell_and_for_the_file() {
        let written = |path: &str| lines("ci.pub", KEY, Path::new(path)).unwrap().remove(0);
        assert!(written("/opt/my kqps").starts_with("restrict,command=\"'/opt/my kqps' agent\" ssh-"));
        // sshd takes the backslash away, and a quote stays that the shell's own quotes hold.
        let odd = written("/opt/a\"b");
        assert!(odd.contains("a\\\"b") && odd.ends_with(KEY), "{odd}");
        assert!(lines("ci.pub", KEY, Path::new("/opt/a\nb")).is_err());
    }

    #[test]
    fn what_is_no_public_key_is_refused_with_its_line() {
        for (text, expected) in [
            ("-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n", "ci.pub holds a private key"),
            ("", "ci.pub holds no public key"),
            ("# nothing\n", "ci.pub holds no public key"),
            ("no-pty ssh-ed25519 AAAAC3", "ci.pub:1: expected a public key"),
            ("\nssh-ed25519\n", "ci.pub:2: expected the key in base64"),
            ("ssh-ed25519 AAAA\"B", "ci.pub:1: expected the key in base64"),
            ("ssh-ed25519 AAAAC3 a\u{1b}[31mb", "ci.pub:1: expected a line without control characters"),
        ] {
            let error = key_lines(text).unwrap_err();
            assert!(error.starts_with(expected), "{text:?}: {error}");
        }
    }
}
