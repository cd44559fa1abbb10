//! Pages of runs and of the history.

mod page;
mod scaling;
mod support;
