//! Links to other hosts. `many` is a program of its own, since it counts its threads.

mod links;
