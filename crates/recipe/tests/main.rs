//! Recipes as files, and what is generated from them.

mod generate;
mod recipes;
