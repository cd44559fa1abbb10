//! Charts: pure functions from data to SVG.
//!
//! A chart fills the width that it gets, and its text keeps its size: horizontal places are shares of
//! the width, vertical ones are pixels. One drawing therefore serves a phone, a desktop and paper.

mod bars;
mod boxes;
mod course;
mod flow;
mod icicle;
mod lines;
mod links;
mod moments;
mod ratios;
mod scale;
mod spreads;
mod strip;
mod svg;

pub(crate) use bars::{Bar, Bars, Fill, bars};
pub(crate) use boxes::{BoxPlace, Node, boxes};
pub(crate) use course::{Course, Dot as CourseDot, Line, LineKind, course};
pub(crate) use flow::{Branch, Flow, flow};
pub(crate) use icicle::{Icicle, Piece, icicle};
pub(crate) use lines::{Lines, Point, Series, lines};
pub(crate) use links::{Dot, Link, Links, links};
pub(crate) use moments::{Course as MomentCourse, Kind as MomentKind, Moments, moments};
pub(crate) use ratios::{Ratios, ratios};
pub(crate) use spreads::{CurvePoint, Spread, Spreads, spreads};
pub(crate) use strip::{Stretch, Strip, strip};

/// The outline of the mark of a published figure, in pixels around its place.
const DIAMOND: &str = "M0 -5.5L5.5 0L0 5.5L-5.5 0Z";

/// The word for a refused figure.
pub(crate) const REFUSED: &str = "no number";

/// The style class of the mark that stands where there is no figure.
fn absence_class(missing: &str) -> &'static str {
    if missing == REFUSED { "refused" } else { "unmeasured" }
}
