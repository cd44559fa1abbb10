//! Sentences of the verdict on the page. Commands between backticks become code, and the warning at the
//! beginning becomes a link to its meaning.

use std::fmt;

use askama::filters::{Escaper as _, Html, HtmlSafe};

use crate::section::glossary::{anchor, leading_warning};

/// A sentence that `Display` writes as HTML.
#[derive(Clone, Debug)]
pub(crate) struct Prose(pub(crate) String);

impl HtmlSafe for Prose {}

impl fmt::Display for Prose {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.as_str();
        if let Some((warning, after)) = leading_warning(rest) {
            write!(formatter, "<a href=\"#{}\">{warning}</a>", anchor(warning))?;
            rest = after;
        }
        while let Some((before, (command, after))) =
            rest.split_once('`').and_then(|(before, behind)| Some((before, behind.split_once('`')?)))
        {
            Html.write_escaped_str(&mut *formatter, before)?;
            formatter.write_str("<code>")?;
            Html.write_escaped_str(&mut *formatter, command)?;
            formatter.write_str("</code>")?;
            rest = after;
        }
        Html.write_escaped_str(formatter, rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_set_as_such_and_all_else_is_text() {
        let html = |text: &str| Prose(text.to_owned()).to_string();
        assert_eq!(html("`kqps compare` does that."), "<code>kqps compare</code> does that.");
        assert_eq!(html("`a <b>` & `c`"), "<code>a &#60;b&#62;</code> &#38; <code>c</code>");
        assert_eq!(html("one ` alone"), "one ` alone");
        assert_eq!(html("canary: <it>"), "<a href=\"#term-canary\">canary</a>: &#60;it&#62;");
    }
}
