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
mod percentiles;
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
pub(crate) use moments::{Course as MomentCourse, Kind as MomentKind, Mark as MomentMark, Moments, moments};
pub(crate) use percentiles::{Percentiles, Replies, percentiles};
pub(crate) use ratios::{Ratios, ratios};
pub(crate) use spreads::{CurvePoint, Spread, Spreads, spreads};
pub(crate) use strip::{Stretch, Strip, strip};

/// The outline of the mark of a published figure, in pixels around its place.
const DIAMOND: &str = "M0 -5.5L5.5 0L0 5.5L-5.5 0Z";

/// Why there is no figure where one was meant to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// It was measured, and is refused.
    Refused,
    /// No start could be measured.
    Crashed,
    /// The run left it out.
    Skipped,
    /// No trial of it was made.
    NotMeasured,
}

impl Missing {
    /// The words for it in a chart.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Refused => "no number",
            Self::Crashed => "crashed",
            Self::Skipped => "skipped",
            Self::NotMeasured => "not measured",
        }
    }

    /// The style class of its mark.
    fn class(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Crashed | Self::Skipped | Self::NotMeasured => "unmeasured",
        }
    }
}
