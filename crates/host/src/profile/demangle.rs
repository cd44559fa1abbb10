//! Names of functions in Rust and C++ as their sources have them, without parameters: `_ZN4echo6answer17h…E` is
//! `echo::answer`.

/// The path in a mangled name. Any other name is returned as it is.
pub(super) fn demangled(name: &str) -> String {
    let path = if let Some(rest) = name.strip_prefix("_ZN") {
        itanium(rest)
    } else if let Some(rest) = name.strip_prefix("_Z") {
        identifier(rest).map(|(word, _)| word.to_owned())
    } else if let Some(rest) = name.strip_prefix("_R") {
        rust(rest)
    } else {
        None
    };
    // A suffix of the linker or of the compiler, such as `.llvm.123`.
    path.filter(|path| !path.is_empty())
        .unwrap_or_else(|| name.split(".llvm.").next().unwrap_or(name).to_owned())
}

/// An identifier after its length, and the rest.
fn identifier(text: &str) -> Option<(&str, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let length: usize = text.get(..digits)?.parse().ok()?;
    let rest = &text[digits..];
    Some((rest.get(..length)?, rest.get(length..)?))
}

/// A nested name of C++, which Rust's older scheme has, too, with a hash at its end.
fn itanium(text: &str) -> Option<String> {
    let mut rest = text.trim_start_matches(['K', 'V', 'r', 'R', 'O']);
    let mut words: Vec<String> = Vec::new();
    while let Some((word, after)) = identifier(rest) {
        let is_hash =
            word.len() == 17 && word.starts_with('h') && word[1..].bytes().all(|b| b.is_ascii_hexdigit());
        if !(is_hash && after.starts_with('E')) {
            words.push(unescaped(word));
        }
        rest = after;
    }
    (!words.is_empty()).then(|| words.join("::"))
}

/// Replaces the escapes that Rust's older scheme writes for characters that symbols cannot have.
fn unescaped(word: &str) -> String {
    let pairs = [
        ("..", "::"),
        ("$LT$", "<"),
        ("$GT$", ">"),
        ("$RF$", "&"),
        ("$BP$", "*"),
        ("$C$", ","),
        ("$u20$", " "),
        ("$u7b$", "{"),
        ("$u7d$", "}"),
    ];
    let word = word.strip_prefix("_$").map_or_else(|| word.to_owned(), |rest| format!("${rest}"));
    pairs.iter().fold(word, |word, (escape, text)| word.replace(escape, text))
}

/// The identifiers of Rust's newer scheme (RFC 2603) up to the first generic argument.
fn rust(text: &str) -> Option<String> {
    // The path of a generic function is within `I` and `E`.
    let mut rest = text.strip_prefix('I').unwrap_or(text);
    let (mut words, mut depth): (Vec<&str>, usize) = (Vec::new(), 0);
    // Each namespace (`Nt`, `Nv`, …) promises one identifier; the crate is one more.
    while let Some(first) = rest.chars().next() {
        match first {
            'N' => {
                depth += 1;
                rest = rest.get(2..)?;
            }
            'C' | 'M' | 'X' | 'Y' => rest = &rest[1..],
            's' => rest = rest.split_once('_')?.1,
            '0'..='9' => {
                let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
                let length: usize = rest[..digits].parse().ok()?;
                let name = rest[digits..].strip_prefix('_').unwrap_or(&rest[digits..]);
                let word = name.get(..length)?;
                // A closure has no name.
                words.push(if word.is_empty() { "{closure}" } else { word });
                rest = &name[length..];
                if words.len() > depth {
                    break;
                }
            }
            _ => break,
        }
    }
    (!words.is_empty()).then(|| words.join("::"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_sources() {
        for (mangled, name) in [
            ("udp_recvmsg", "udp_recvmsg"),
            (
                "_ZN11kqps_server8services4echo6answer17h0123456789abcdefE",
                "kqps_server::services::echo::answer",
            ),
            ("_ZN13UDPNameserver7receiveER9DNSPacketRSs", "UDPNameserver::receive"),
            ("_ZNK3Foo3barEv", "Foo::bar"),
            ("_Z7receivei", "receive"),
            ("_RNvNtCs1234_7mycrate3foo3bar", "mycrate::foo::bar"),
            ("_RNCNvCs5_4echo4main0", "echo::main::{closure}"),
            ("_RINvNtCs9_4core3mem4swapmE", "core::mem::swap"),
            ("lookup.llvm.1234567", "lookup"),
            ("_Z", "_Z"),
            ("_ZN99short", "_ZN99short"),
        ] {
            assert_eq!(demangled(mangled), name, "{mangled}");
        }
        let escaped = "_ZN47_$LT$str$u20$as$u20$alloc..string..ToString$GT$9to_stringE";
        assert_eq!(demangled(escaped), "<str as alloc::string::ToString>::to_string");
    }
}
