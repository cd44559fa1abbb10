//! Keeps secrets out of command lines that are stored or shown: keys, tokens, passwords and TSIG secrets. A secret is
//! recognised by the name before it or by its form, so a secret without either stays. Names of files stay readable.

/// The mark in place of a secret. A command line with it cannot be run again.
pub const MARK: &str = "<secret>";

/// The last words of names whose value is a secret, whatever its form.
const SECRET_NAMES: [&str; 12] = [
    "apikey",
    "authorization",
    "bearer",
    "cookie",
    "credential",
    "credentials",
    "pass",
    "passphrase",
    "passwd",
    "password",
    "secret",
    "token",
];

/// Ends of names in one word, such as `dbpassword`.
const SECRET_ENDS: [&str; 5] = ["apikey", "passphrase", "passwd", "password", "secret"];

/// The last words of names whose value is a secret if it has the form of one, since it may be a file or a number.
const KEY_NAMES: [&str; 5] = ["key", "psk", "sig", "signature", "tsig"];

/// The least length of a value that has the form of a secret, in characters.
const SECRET_LEAST: usize = 16;

/// Whether a text has the mark of a secret that was left out.
pub fn is_masked(text: &str) -> bool {
    text.contains(MARK)
}

/// The words of a command line with [`MARK`] in place of each secret. A word that is a command line itself, such as the
/// value of `--command`, is read as one. Masking twice changes nothing more.
pub fn masked(words: &[String]) -> Vec<String> {
    let mut shown: Vec<String> = Vec::with_capacity(words.len());
    let mut before: Option<&str> = None;
    for word in words {
        let value = before.and_then(|flag| of_flag(flag, word));
        shown.push(value.unwrap_or_else(|| of_word(word)));
        before = Some(word);
    }
    shown
}

/// A command line as a user typed it, with [`MARK`] in place of each secret. Unchanged if it has none, or if a shell
/// could not read it and no part of it looks like a secret.
pub fn masked_line(line: &str) -> String {
    let split = shlex::split(line);
    let is_whole = split.is_some();
    let words = split.unwrap_or_else(|| line.split_whitespace().map(str::to_owned).collect());
    let shown = masked(&words);
    if shown == words {
        return line.to_owned();
    }
    match shlex::try_join(shown.iter().map(String::as_str)) {
        Ok(joined) if is_whole => joined,
        _ => shown.join(" "),
    }
}

/// The value of a variable or of another setting with this name.
pub fn masked_value(name: &str, value: &str) -> String {
    if is_secret(name, value) { MARK.to_owned() } else { of_word(value) }
}

/// The word behind a flag without `=`; `None` if the flag says nothing about it.
fn of_flag(flag: &str, word: &str) -> Option<String> {
    let name = flag.strip_prefix('-')?.trim_start_matches('-');
    if flag == "-y" {
        return of_tsig(word, true);
    }
    let is_value = !word.starts_with('-') && !name.contains('=') && is_secret(name, word);
    is_value.then(|| MARK.to_owned())
}

/// A word that no flag before it explains.
fn of_word(word: &str) -> String {
    if let Some(shown) = of_header(word) {
        return shown;
    }
    // A shell splits at these alone. A word with another kind of space is one word.
    if word.contains([' ', '\t', '\n']) {
        return masked_line(word);
    }
    // A whole word `name=value`, before parts of its value are looked at: a secret may have any character.
    if let Some((name, value)) = word.split_once('=')
        && is_secret(name, value)
    {
        return format!("{name}={MARK}");
    }
    let tsig = word.strip_prefix("-y").and_then(|key| Some(format!("-y{}", of_tsig(key, true)?)));
    if let Some(shown) = tsig.or_else(|| of_tsig(word, false)) {
        return shown;
    }
    of_assignments(&of_url(word))
}

/// `name=value` within a word, as in the query of a URL or in a list of options.
fn of_assignments(word: &str) -> String {
    let mut shown = String::with_capacity(word.len());
    for part in word.split_inclusive(['?', '&', ',', ';']) {
        let end = part.len() - usize::from(part.ends_with(['?', '&', ',', ';']));
        let (said, sign) = part.split_at(end);
        match said.split_once('=') {
            Some((name, value)) if is_secret(name, value) => shown.extend([name, "=", MARK, sign]),
            _ => shown.push_str(part),
        }
    }
    shown
}

/// `Name: value`, as in a header field of HTTP.
fn of_header(word: &str) -> Option<String> {
    let (name, value) = word.split_once(':')?;
    let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    let is_field = is_name && value.starts_with(char::is_whitespace);
    (is_field && is_secret(name, value.trim())).then(|| format!("{name}: {MARK}"))
}

/// The key of a transaction signature, `[algorithm:]name:secret`, as dig, nsupdate and dnsperf take it. Without `-y`
/// before it, the name of an algorithm must begin it.
fn of_tsig(word: &str, is_key: bool) -> Option<String> {
    let (name, secret) = word.rsplit_once(':')?;
    let is_named = name.to_ascii_lowercase().starts_with("hmac-") && name.contains(':');
    let is_secret = secret.len() >= 8 && is_base64(secret);
    (is_secret && (is_key || is_named)).then(|| format!("{name}:{MARK}"))
}

/// The password in `scheme://user:password@host`.
fn of_url(word: &str) -> String {
    let password = || {
        let user = word.find("://")? + 3;
        let authority = word[user..].find(['/', '?', '#']).map_or(word.len(), |end| user + end);
        let host = word[user..authority].rfind('@').map(|at| user + at)?;
        let password = word[user..host].find(':').map(|at| user + at + 1)?;
        (password < host).then_some((password, host))
    };
    match password() {
        Some((from, to)) => format!("{}{MARK}{}", &word[..from], &word[to..]),
        None => word.to_owned(),
    }
}

/// Whether a value under this name is a secret. A path and a placeholder are none.
fn is_secret(name: &str, value: &str) -> bool {
    let lower = name.trim_start_matches('-').to_ascii_lowercase();
    let last = lower.rsplit(['-', '_', '.', ':']).next().unwrap_or_default();
    if value.is_empty() || value == MARK || is_path(value) || is_placeholder(value) {
        return false;
    }
    if SECRET_NAMES.contains(&last) || SECRET_ENDS.iter().any(|end| last.ends_with(end)) {
        return true;
    }
    (KEY_NAMES.contains(&last) || last.ends_with("key")) && has_form(value)
}

/// Whether a value is the name of a file, by its beginning or by its ending.
fn is_path(value: &str) -> bool {
    const ENDS: [&str; 9] = [".pem", ".key", ".crt", ".conf", ".txt", ".toml", ".private", ".json", ".env"];
    ["/", "./", "../", "~/", "@/", "file:"].iter().any(|begin| value.starts_with(begin))
        || ENDS.iter().any(|end| value.ends_with(end))
}

/// Whether a value is a placeholder of a command line, such as `{port}`, or a variable of a shell.
fn is_placeholder(value: &str) -> bool {
    (value.starts_with('{') && value.ends_with('}')) || value.starts_with('$')
}

/// Whether a value has the form of a key: hexadecimal digits, or base64 with letters of both cases and digits.
fn has_form(value: &str) -> bool {
    let has = |is: fn(&u8) -> bool| value.as_bytes().iter().any(is);
    let is_hex = value.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_mixed = has(u8::is_ascii_digit) && has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase);
    value.len() >= SECRET_LEAST && (is_hex || (is_mixed && is_base64(value)))
}

/// Whether all characters are those of base64 (RFC 4648, sections 4 and 5).
fn is_base64(value: &str) -> bool {
    value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=_-".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A shell keeps these words whole.
    #[test]
    fn another_kind_of_space_splits_no_word() {
        for word in ["a\rb", "a\u{a0}b", "a\u{3000}b", "a\u{c}b"] {
            assert_eq!(of_word(word), word);
        }
        assert_eq!(of_word("token=a\rb"), format!("token={MARK}"));
    }

    #[test]
    fn secrets_are_left_out() {
        for (line, shown) in [
            (
                "dig -y hmac-sha256:k.example:c2VjcmV0c2VjcmV0 @ns",
                "dig -y 'hmac-sha256:k.example:<secret>' @ns",
            ),
            ("dnsperf -y k.example:c2VjcmV0c2VjcmV0 -d q", "dnsperf -y 'k.example:<secret>' -d q"),
            ("dig -yhmac-md5:k:c2VjcmV0c2VjcmV0", "dig '-yhmac-md5:k:<secret>'"),
            ("x --tsig hmac-sha512:k:c2VjcmV0c2VjcmV0", "x --tsig 'hmac-sha512:k:<secret>'"),
            ("x --token=abc -p {port}", "x '--token=<secret>' -p '{port}'"),
            ("x --token abc", "x --token '<secret>'"),
            ("x --password hunter2", "x --password '<secret>'"),
            ("x -password hunter2", "x -password '<secret>'"),
            ("x --db-password=a,b=c", "x '--db-password=<secret>'"),
            ("x password=hunter2", "x 'password=<secret>'"),
            (
                "env DB_PASSWORD=x AWS_SECRET=y my -p {port}",
                "env 'DB_PASSWORD=<secret>' 'AWS_SECRET=<secret>' my -p '{port}'",
            ),
            ("SECRET_KEY=00112233445566778899aabbccddeeff my", "'SECRET_KEY=<secret>' my"),
            ("x --key 00112233445566778899aabbccddeeff", "x --key '<secret>'"),
            ("x --api-key=sk-live-1", "x --api-key=sk-live-1"),
            ("x --apikey=sk-live-1", "x '--apikey=<secret>'"),
            ("x --api-key=Zm9vYmFyYmF6cXV4MTIz", "x '--api-key=<secret>'"),
            ("x postgres://u:p@db/zone", "x 'postgres://u:<secret>@db/zone'"),
            ("x mysql://u:p@x@db", "x 'mysql://u:<secret>@db'"),
            ("x https://h/dns?token=abc&a=1", "x 'https://h/dns?token=<secret>&a=1'"),
            ("x -o host=db,password=x,port=1", "x -o 'host=db,password=<secret>,port=1'"),
            ("curl -H 'Authorization: Bearer abc'", "curl -H 'Authorization: <secret>'"),
            ("sh -c 'my --password x -p {port}'", "sh -c \"my --password '<secret>' -p '{port}'\""),
        ] {
            assert_eq!(masked_line(line), shown, "{line}");
            assert_eq!(masked_line(shown), shown, "masking twice changes nothing");
        }
    }

    #[test]
    fn all_else_stays_readable() {
        for line in [
            "my-server -p {port} -z {zone}",
            "nsd -k key.pem -c /etc/nsd.conf",
            "x --key /etc/keys/0123456789abcdef0123 --token-file t --password-file p",
            "x --tls-key=server.key --secret=./secret.txt --token {token} --password=$PASSWORD",
            "x --key 4 --keys=16 --monkey business --keytag 12345",
            "dig -y k.example @192.0.2.1 -p 5300",
            "x -y 2001:db8::1 --listen [::1]:53 192.0.2.1:5300",
            "kqps run --target https://127.0.0.1:443/dns-query --token-bucket 5",
            "x user@host https://user@host/ file:///a:b@c",
            "x --hash 00112233445566778899aabbccddeeff",
            "x -u bind:bind --bypass 1 --passes 2",
            "x 'an unclosed quote",
            "",
        ] {
            assert_eq!(masked_line(line), line);
        }
    }

    #[test]
    fn words_and_nested_lines_are_masked_as_one() {
        let words = ["kqps", "run", "--command", "x --token a -p {port}", "--seed", "7"].map(String::from);
        let shown = ["kqps", "run", "--command", "x --token '<secret>' -p '{port}'", "--seed", "7"];
        assert_eq!(masked(&words), shown);
        let broken = masked_line("x --token abc 'open");
        assert_eq!(broken, "x --token <secret> 'open");
        assert!(is_masked(&broken) && !is_masked("x"));
        assert_eq!(masked_value("PGPASSWORD", "abc"), MARK);
        assert_eq!(masked_value("PATH", "/usr/bin"), "/usr/bin");
    }
}
