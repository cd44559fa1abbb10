//! The advice against published results, on the machines on which they were measured, and its rules on many others.

mod any_host;
mod article;
mod rigs;
mod settings;
mod studies;
