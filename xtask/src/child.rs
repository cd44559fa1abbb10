//! A program that runs beside this one: started with its output taken, watched through `/proc`, signalled,
//! and ended at the latest when it is dropped.
