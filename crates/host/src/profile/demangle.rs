//! Names of functions in Rust and C++ as their sources have them, without parameters: `_ZN4echo6answer17h…E` is
//! `echo::answer`.

/// The path in a mangled name. Any other name is returned as it is.
pub(super) fn demangled(name: &str) -> String {
    let path = rust(name).or_else(|| cpp(name)).filter(|path| !path.is_empty());
    path.unwrap_or_else(|| name.split(".llvm.").next().unwrap_or(name).to_owned())
}

/// The path in a name of Rust, by its older scheme or by RFC 2603.
fn rust(name: &str) -> Option<String> {
    let is_new = name.starts_with("_R");
    // `rustc_demangle` also reads names without an underscore, as functions of C may have.
    if !is_new && !name.starts_with("_ZN") {
        return None;
    }
    // A suffix of the linker or of the compiler, such as `.cold`, is left out.
    let end = if is_new { name.find('.') } else { name.rfind("E.").map(|at| at + 1) };
    let path = rustc_demangle::try_demangle(&name[..end.unwrap_or(name.len())]);
    let path = path.or_else(|_| rustc_demangle::try_demangle(name)).ok()?;
    // `#` leaves out the hash.
    let path = format!("{path:#}");
    Some(if is_new { without_arguments(&path) } else { path })
}

/// Leaves out generic arguments (`::<u32>`) and the numbers of closures (`#0`), so that all instances of a function have
/// one name, as in the older scheme.
fn without_arguments(path: &str) -> String {
    let (mut kept, mut rest) = (String::new(), path);
    while let Some((before, arguments)) = rest.split_once("::<") {
        kept.push_str(before);
        rest = behind(arguments);
    }
    kept.push_str(rest);
    kept.split('#').map(|part| part.trim_start_matches(|letter: char| letter.is_ascii_digit())).collect()
}

/// The text behind the bracket that ends generic arguments.
fn behind(arguments: &str) -> &str {
    let mut depth = 1_u32;
    let end = arguments.match_indices(['<', '>']).find(|(at, bracket)| {
        if *bracket == "<" {
            depth += 1;
        } else if !arguments[..*at].ends_with('-') {
            // An arrow is no bracket.
            depth -= 1;
        }
        depth == 0
    });
    end.map_or("", |(at, _)| &arguments[at + 1..])
}

/// The path in a name of C++, up to the first part that is more than an identifier.
fn cpp(name: &str) -> Option<String> {
    let Some(nested) = name.strip_prefix("_ZN") else {
        return identifier(name.strip_prefix("_Z")?).map(|(word, _)| word.to_owned());
    };
    // The qualifiers of a member function stand first.
    let mut rest = nested.trim_start_matches(['K', 'V', 'r', 'R', 'O']);
    let mut words = Vec::new();
    while let Some((word, after)) = identifier(rest) {
        words.push(word);
        rest = after;
    }
    Some(words.join("::"))
}

/// An identifier after its length, and the rest.
fn identifier(text: &str) -> Option<(&str, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let length: usize = text.get(..digits)?.parse().ok()?;
    let rest = &text[digits..];
    Some((rest.get(..length)?, rest.get(length..)?))
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

    #[test]
    fn what_linkers_and_compilers_add_is_left_out() {
        for (mangled, name) in [
            ("_ZN4echo6answer17h0123456789abcdefE.llvm.1234567", "echo::answer"),
            ("_ZN4echo6answer17h0123456789abcdefE.cold", "echo::answer"),
            ("_RNvCs5_4echo6answer.llvm.1234567", "echo::answer"),
            ("_RNvCs5_4echo6answer.cold", "echo::answer"),
            ("_ZN3Foo3barEv.part.0", "Foo::bar"),
            ("_Z7receivei.cold", "receive"),
        ] {
            assert_eq!(demangled(mangled), name, "{mangled}");
        }
    }

    /// `B` and a number refer to an earlier part of the name.
    #[test]
    fn back_references_are_followed() {
        for (mangled, name) in [
            ("_RNvMCs1234_7mycrateNtB2_3Foo3bar", "<mycrate::Foo>::bar"),
            (
                "_RNvXCs1234_7mycrateNtB2_3FooNtNtCs9_4core5clone5Clone5clone",
                "<mycrate::Foo as core::clone::Clone>::clone",
            ),
            ("_RINvCs5_4echo4callNtB2_5OwnedE", "echo::call"),
        ] {
            assert_eq!(demangled(mangled), name, "{mangled}");
        }
    }

    #[test]
    fn all_instances_of_a_function_have_one_name() {
        for (mangled, name) in [
            ("_RNCNvCs5_4echo4mains_0", "echo::main::{closure}"),
            ("_RNCINvCs5_4echo4callFmEmE0", "echo::call::{closure}"),
            ("_RNCINvCs5_4echo4callINtCs5_4echo3OneTFmEmmEEE0", "echo::call::{closure}"),
        ] {
            assert_eq!(demangled(mangled), name, "{mangled}");
        }
    }

    #[test]
    fn functions_of_c_keep_their_names() {
        for name in ["ZN4testE", "RNvCs5_4echo4main", "_Rb_tree"] {
            assert_eq!(demangled(name), name);
        }
    }
}
