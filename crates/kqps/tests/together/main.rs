//! What starts many programs and mostly waits for them, so that tests share the cores: on a busy host they find the
//! same.

mod known_counts;
mod peers;
