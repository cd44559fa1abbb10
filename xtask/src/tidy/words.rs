//! Forbidden words: `unsafe` outside the kernel crate, code that is not written yet, tests that do not run,
//! dead code that is kept, and functions called `of`. Only tokens are searched, so that text and comments may mention them.

use std::path::Path;

use proc_macro2::{TokenStream, TokenTree};

use super::Source;

/// The only crate that may contain `unsafe`.
const KERNEL: &str = "crates/kernel";

/// Every forbidden word, with its file and line.
pub(super) fn faults(sources: &[Source]) -> Vec<String> {
    sources.iter().flat_map(faults_of).collect()
}

fn faults_of(source: &Source) -> Vec<String> {
    let Ok(tokens) = source.text.parse::<TokenStream>() else {
        return vec![format!("{} has no tokens", source.path.display())];
    };
    let mut found = Vec::new();
    walk(tokens, source.path.starts_with(Path::new(KERNEL)), &mut found);
    found.into_iter().map(|(line, what)| format!("{}:{line} {what}", source.path.display())).collect()
}

/// Checks every token and the one after it, also within brackets.
fn walk(tokens: TokenStream, is_kernel: bool, found: &mut Vec<(usize, &'static str)>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    for (place, token) in tokens.iter().enumerate() {
        let line = token.span().start().line;
        match token {
            TokenTree::Ident(word) if word == "unsafe" && !is_kernel => {
                found.push((line, "`unsafe` outside the kernel crate"));
            }
            TokenTree::Ident(word)
                if (word == "todo" || word == "unimplemented") && bang_follows(&tokens, place) =>
            {
                found.push((line, "code that is not written yet"));
            }
            TokenTree::Ident(word) if word == "fn" && word_follows(&tokens, place, "of") => {
                found.push((line, "a function called `of`: name what it returns, or from what it is made"));
            }
            TokenTree::Group(group) => {
                if is_hash(place.checked_sub(1).and_then(|before| tokens.get(before))) {
                    found.extend(attribute_fault(&group.stream()).map(|what| (line, what)));
                }
                walk(group.stream(), is_kernel, found);
            }
            _ => {}
        }
    }
}

fn word_follows(tokens: &[TokenTree], place: usize, wanted: &str) -> bool {
    matches!(tokens.get(place + 1), Some(TokenTree::Ident(word)) if word == wanted)
}

fn bang_follows(tokens: &[TokenTree], place: usize) -> bool {
    matches!(tokens.get(place + 1), Some(TokenTree::Punct(mark)) if mark.as_char() == '!')
}

fn is_hash(token: Option<&TokenTree>) -> bool {
    matches!(token, Some(TokenTree::Punct(mark)) if mark.as_char() == '#')
}

/// The fault of an attribute, given the contents of its brackets.
fn attribute_fault(content: &TokenStream) -> Option<&'static str> {
    let text = content.to_string();
    if text == "ignore" || text.starts_with("ignore ") {
        return Some("a test that does not run");
    }
    (text.starts_with("allow") && text.contains("dead_code")).then_some("dead code that is kept")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<String> {
        faults_of(&Source { path: path.into(), text: text.into(), syntax: syn::parse_file(text).unwrap() })
    }

    #[test]
    fn unsafe_is_for_the_kernel_crate() {
        let text = "fn f() {\n    unsafe { g() }\n}";
        assert_eq!(lines("crates/kernel/src/a.rs", text).len(), 0);
        assert_eq!(
            lines("crates/player/src/a.rs", text),
            ["crates/player/src/a.rs:2 `unsafe` outside the kernel crate"]
        );
    }

    #[test]
    fn words_in_text_and_comments_are_not_code() {
        assert!(
            lines("a.rs", "// todo!() and unsafe\nconst A: &str = \"unsafe #[ignore] todo!()\";").is_empty()
        );
    }

    #[test]
    fn unwritten_code_and_idle_tests_are_found() {
        assert_eq!(lines("a.rs", "fn f() { todo!() }").len(), 1);
        assert_eq!(lines("a.rs", "#[test]\n#[ignore = \"slow\"]\nfn f() {}").len(), 1);
        assert_eq!(lines("a.rs", "#[allow(dead_code)]\nfn f() {}").len(), 1);
    }

    #[test]
    fn a_function_has_a_name() {
        assert_eq!(lines("a.rs", "impl A { fn of(&self) {} }").len(), 1);
        assert!(lines("a.rs", "fn of_a() { let of = 1; }").is_empty());
    }
}
