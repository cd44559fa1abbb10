//! The shared parts of the tests of the page.

pub(crate) mod browser;
pub(crate) mod comparison;
pub(crate) mod history;
pub(crate) mod hosts;
pub(crate) mod profiled;
pub(crate) mod sample;
pub(crate) mod scaling;
pub(crate) mod simulated;
pub(crate) mod starts;
pub(crate) mod study;
