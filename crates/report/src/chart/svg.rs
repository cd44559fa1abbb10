//! A drawing surface: `x` in percent of the width (0 to 100), `y` in pixels. It escapes all text, and draws a
//! number that is not finite at 0.

use std::fmt::Write as _;

/// The part of a text that lies at its `x`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

#[derive(Debug, Default)]
pub(super) struct Svg {
    body: String,
}

impl Svg {
    pub(super) fn rect(&mut self, class: &str, x: f64, y: f64, width: f64, height: f64) {
        let (x, width) = (number(x), number(width.max(0.0)));
        let (y, height) = (number(y), number(height.max(0.0)));
        self.push(format_args!(
            r#"<rect class="{class}" x="{x}%" y="{y}" width="{width}%" height="{height}"/>"#
        ));
    }

    pub(super) fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        let (x1, y1, x2, y2) = (number(x1), number(y1), number(x2), number(y2));
        self.push(format_args!(r#"<line class="{class}" x1="{x1}%" y1="{y1}" x2="{x2}%" y2="{y2}"/>"#));
    }

    pub(super) fn text(&mut self, class: &str, x: f64, y: f64, anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let (x, y, text) = (number(x), number(y), escaped(text));
        self.push(format_args!(
            r#"<text class="{class}" x="{x}%" y="{y}" text-anchor="{anchor}">{text}</text>"#
        ));
    }

    /// A dot that shows its figure when the pointer is on it.
    pub(super) fn dot(&mut self, class: &str, (x, y): (f64, f64), radius: f64, tooltip: &str) {
        let (x, y, tooltip) = (number(x), number(y), escaped(tooltip));
        self.push(format_args!(
            r#"<circle class="{class}" cx="{x}%" cy="{y}" r="{radius}"><title>{tooltip}</title></circle>"#
        ));
    }

    /// A line through several points. It lies in a box that is stretched horizontally, since the points of an
    /// SVG polyline cannot be percentages.
    pub(super) fn polyline(&mut self, class: &str, points: &[(f64, f64)], height: f64) {
        let points: Vec<String> =
            points.iter().map(|&(x, y)| format!("{},{}", number(x), number(y))).collect();
        let (height, points) = (number(height), points.join(" "));
        self.push(format_args!(
            r#"<svg width="100%" height="{height}" viewBox="0 0 100 {height}" preserveAspectRatio="none"><polyline class="{class}" points="{points}"/></svg>"#
        ));
    }

    /// Many short lines, each from one point to another, as one path. A line without a length is a dot.
    pub(super) fn strokes(&mut self, class: &str, strokes: &[[(f64, f64); 2]], height: f64) {
        let mut path = String::new();
        for [(x1, y1), (x2, y2)] in strokes {
            let (x1, y1) = (number(*x1), number(*y1));
            let _ = write!(path, "M{x1} {y1}L{} {}", number(*x2), number(*y2));
        }
        let height = number(height);
        self.push(format_args!(
            r#"<svg width="100%" height="{height}" viewBox="0 0 100 {height}" preserveAspectRatio="none"><path class="{class}" d="{path}"/></svg>"#
        ));
    }

    /// A path in pixels around a point, for shapes that must not be stretched. It shows its figure when the
    /// pointer is on it.
    pub(super) fn glyph(&mut self, class: &str, (x, y): (f64, f64), path: &str, tooltip: &str) {
        let (x, y, tooltip) = (number(x), number(y), escaped(tooltip));
        self.push(format_args!(
            r#"<svg x="{x}%" y="{y}" overflow="visible"><path class="{class}" d="{path}"><title>{tooltip}</title></path></svg>"#
        ));
    }

    /// Shapes that belong together. They show `tooltip` when the pointer is on them.
    pub(super) fn group(&mut self, tooltip: &str, draw: impl FnOnce(&mut Self)) {
        let tooltip = escaped(tooltip);
        self.push(format_args!("<g><title>{tooltip}</title>"));
        draw(self);
        self.body.push_str("</g>");
    }

    /// Shapes that lead to a place of the page: the trials of a cell. `None` draws them without a link.
    pub(super) fn of_cell(&mut self, cell: Option<u32>, draw: impl FnOnce(&mut Self)) {
        let Some(cell) = cell else { return draw(self) };
        self.push(format_args!("<a href=\"#trials-{cell}\">"));
        draw(self);
        self.body.push_str("</a>");
    }

    /// The whole drawing. `id` is unique on the page; title and description are for screen readers.
    pub(super) fn finish(self, id: &str, height: f64, title: &str, description: &str) -> String {
        let (id, title, description) = (escaped(id), escaped(title), escaped(description));
        let height = number(height);
        format!(
            "<svg class=\"chart\" xmlns=\"http://www.w3.org/2000/svg\" width=\"100%\" height=\"{height}\" \
             role=\"img\" aria-labelledby=\"{id}-t {id}-d\"><title id=\"{id}-t\">{title}</title>\
             <desc id=\"{id}-d\">{description}</desc>{}</svg>",
            self.body
        )
    }

    fn push(&mut self, element: std::fmt::Arguments<'_>) {
        self.body.write_fmt(element).expect("writing to memory succeeds");
    }
}

/// A number with at most two decimals, and never `NaN` or `inf`, which would spoil the whole drawing.
fn number(value: f64) -> String {
    if !value.is_finite() {
        return "0".to_owned();
    }
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// Escapes text for XML.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_is_no_number_reaches_the_drawing() {
        let mut svg = Svg::default();
        svg.rect("bar", f64::NAN, 0.0, f64::INFINITY, 3.0);
        svg.line("grid", (f64::NEG_INFINITY, 0.0), (12.345_678, -0.0));
        let drawn = svg.finish("c", 10.0, "t", "d");
        assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{drawn}");
        assert!(drawn.contains(r#"x2="12.35%" y2="0""#), "{drawn}");
    }

    #[test]
    fn text_cannot_become_markup() {
        let mut svg = Svg::default();
        svg.text("label", 0.0, 0.0, Anchor::Start, "</text><script>alert('x')</script>");
        let drawn = svg.finish("c", 10.0, "\"<t>", "&d");
        assert!(!drawn.contains("<script") && !drawn.contains("<t>"));
        assert!(drawn.contains("&lt;script&gt;") && drawn.contains("&amp;d"));
    }
}
