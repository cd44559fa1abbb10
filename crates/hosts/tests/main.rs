//! Links to other hosts, and their merged trials. `many` is a program of its own, since it counts its threads.

mod links;
mod merge;
