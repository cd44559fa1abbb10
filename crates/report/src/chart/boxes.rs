//! Boxes within boxes, as `lstopo` draws a machine: packages, memory nodes, caches, cores, and in each core its
//! logical CPUs. A row holds the same number of logical CPUs on a phone as on a desktop.

use super::svg::{Anchor, Svg};
use crate::format;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    /// The contents of one package, memory node or cache.
    Group {
        /// `package 0`, `L3`, …
        label: String,
        /// The boxes inside.
        children: Vec<Node>,
    },
    /// A core with its logical CPUs.
    Core(Vec<BoxPlace>),
    /// Several equal boxes, drawn as one.
    Folded {
        /// The number and kind of the boxes, and which they are.
        label: String,
        /// The use that they share.
        place: BoxPlace,
    },
}

/// A logical CPU, or the properties that equal ones share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BoxPlace {
    /// Its number; `None` if several are folded.
    pub(crate) number: Option<u32>,
    /// Style class: `player`, `subject`, `both`, `varied` or `idle`.
    pub(crate) class: &'static str,
    /// The user in a letter or two; may be empty.
    pub(crate) mark: &'static str,
    /// Letters of the interrupts and queues that arrive at this CPU.
    pub(crate) arrives: Vec<String>,
    /// The use and the arrivals in words.
    pub(crate) description: String,
}

/// Logical CPUs in a row.
const ROW: usize = 8;
/// Width of a box on a desktop, in pixels.
const PLACE_WIDEST: usize = 104;
/// Horizontal gap, in percent of the whole width.
const GAP: f64 = 0.7;
const GAP_DOWN: f64 = 6.0;
const LABEL: f64 = 19.0;
const LINE: f64 = 15.0;
/// Letters that fit below a CPU.
const LETTERS: usize = 2;
/// Characters that fit into a folded box on a phone.
const FOLDED_LONGEST: usize = 34;

/// Draws the boxes, and returns the drawing with its greatest width in pixels; `None` if there are no boxes.
pub(crate) fn boxes(id: &str, title: &str, description: &str, nodes: &[Node]) -> Option<(String, usize)> {
    if nodes.is_empty() {
        return None;
    }
    let widest = nodes.iter().map(|node| width(node, ROW)).max().unwrap_or(ROW);
    let drawing = Drawing { row: widest as f64, with_letters: nodes.iter().any(has_letters) };
    let mut svg = Svg::default();
    let mut top = 0.0;
    for node in nodes {
        top += drawing.draw(&mut svg, node, (0.0, top), 100.0, widest) + GAP_DOWN;
    }
    let drawn = svg.finish(id, top, title, description);
    Some((drawn.replacen("class=\"chart\"", "class=\"chart topology\"", 1), (widest * PLACE_WIDEST).max(220)))
}

/// The width of a box in logical CPUs, in a row of `row` CPUs.
fn width(node: &Node, row: usize) -> usize {
    match node {
        Node::Core(places) => places.len().clamp(1, row),
        Node::Folded { .. } => row,
        Node::Group { children, .. } => {
            children.iter().map(|child| width(child, row)).sum::<usize>().clamp(1, row)
        }
    }
}

fn has_letters(node: &Node) -> bool {
    match node {
        Node::Core(places) => places.iter().any(|place| !place.arrives.is_empty()),
        Node::Folded { place, .. } => !place.arrives.is_empty(),
        Node::Group { children, .. } => children.iter().any(has_letters),
    }
}

struct Drawing {
    row: f64,
    with_letters: bool,
}

impl Drawing {
    /// Draws a box and returns its height.
    fn draw(&self, svg: &mut Svg, node: &Node, at: (f64, f64), wide: f64, units: usize) -> f64 {
        match node {
            Node::Core(places) => self.core(svg, places, at, wide),
            Node::Folded { label, place } => self.folded(svg, label, place, at, wide),
            Node::Group { label, children } => {
                let height = self.height(node, units);
                svg.rect("box", at.0, at.1, wide, height);
                let fits = (units * 5).max(8);
                let label = format::shortened(label, fits);
                svg.text("tick", at.0 + GAP, at.1 + 14.0, Anchor::Start, &label);
                let inner = wide - 2.0 * GAP;
                let mut top = at.1 + LABEL;
                for row in rows(children, units) {
                    let mut left = at.0 + GAP;
                    for child in row {
                        let part = width(child, units) as f64 / units as f64 * inner;
                        self.draw(svg, child, (left, top), part - GAP / 2.0, width(child, units));
                        left += part;
                    }
                    top += self.row_height(row, units) + GAP_DOWN;
                }
                height
            }
        }
    }

    fn height(&self, node: &Node, units: usize) -> f64 {
        match node {
            Node::Core(_) => self.place_height() + 4.0,
            Node::Folded { .. } => 2.0 * LINE + 10.0,
            Node::Group { children, .. } => {
                let rows = rows(children, units);
                LABEL + rows.iter().map(|row| self.row_height(row, units) + GAP_DOWN).sum::<f64>()
            }
        }
    }

    fn row_height(&self, row: &[Node], units: usize) -> f64 {
        row.iter().map(|child| self.height(child, width(child, units))).fold(0.0, f64::max)
    }

    fn place_height(&self) -> f64 {
        LINE * if self.with_letters { 3.0 } else { 2.0 } + 6.0
    }

    fn core(&self, svg: &mut Svg, places: &[BoxPlace], (left, top): (f64, f64), wide: f64) -> f64 {
        let height = self.place_height();
        let part = wide / places.len().max(1) as f64;
        for (index, place) in places.iter().enumerate() {
            let left = left + part * index as f64;
            let middle = left + part / 2.0;
            svg.group(&place.description, |svg| {
                svg.rect(&class(place), left, top, part, height + 4.0);
                let number = place.number.map_or(String::new(), |number| number.to_string());
                svg.text("label", middle, top + 2.0 + LINE, Anchor::Middle, &number);
                svg.text("who", middle, top + 2.0 + 2.0 * LINE, Anchor::Middle, place.mark);
                if !place.arrives.is_empty() {
                    let letters = letters(&place.arrives);
                    svg.text("arrives", middle, top + 2.0 + 3.0 * LINE, Anchor::Middle, &letters);
                }
            });
        }
        svg.rect("core", left, top, wide, height + 4.0);
        height + 4.0
    }

    fn folded(
        &self,
        svg: &mut Svg,
        label: &str,
        place: &BoxPlace,
        (left, top): (f64, f64),
        wide: f64,
    ) -> f64 {
        let height = 2.0 * LINE + 10.0;
        // A narrower row fits fewer characters.
        let fits = (FOLDED_LONGEST as f64 * wide / 100.0 * self.row / ROW as f64 * 1.1) as usize;
        svg.group(&format!("{label}: {}", place.description), |svg| {
            svg.rect(&class(place), left, top, wide, height);
            let label = format::shortened(label, fits);
            let description = format::shortened(&place.description, fits);
            svg.text("label", left + GAP, top + LINE + 1.0, Anchor::Start, &label);
            svg.text("who", left + GAP, top + 2.0 * LINE + 2.0, Anchor::Start, &description);
        });
        height
    }
}

fn class(place: &BoxPlace) -> String {
    format!("place {}", place.class)
}

/// `a b`, or `a +7` if there are too many.
fn letters(arrives: &[String]) -> String {
    if arrives.len() <= LETTERS {
        return arrives.join(" ");
    }
    format!("{} +{}", arrives[0], arrives.len() - 1)
}

/// Splits children into rows, each with as many as fit side by side.
fn rows(children: &[Node], units: usize) -> Vec<&[Node]> {
    let mut rows = Vec::new();
    let (mut first, mut used) = (0, 0);
    for (index, child) in children.iter().enumerate() {
        let wide = width(child, units);
        if used + wide > units && index > first {
            rows.push(&children[first..index]);
            (first, used) = (index, 0);
        }
        used += wide;
    }
    rows.push(&children[first..]);
    rows
}
