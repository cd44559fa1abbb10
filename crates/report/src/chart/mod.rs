//! Charts: pure functions from data to SVG.
//!
//! A chart fills the width it is given, and its text keeps its size: horizontal places are shares of the
//! width, vertical ones are pixels. So one drawing serves a phone, a desk and paper.

mod bars;
mod lines;
mod scale;
mod svg;

pub(crate) use bars::{Bar, Bars, Fill, bars};
pub(crate) use lines::{Lines, Point, Series, lines};
