//! The file of a subject that a proof plants.

/// A subject with this command that counts as started once it replies.
pub(super) fn planted(name: &str, io: &str, command: &[&str]) -> String {
    format!(
        r#"
name = "{name}"
title = "The subject {name} of a proof"
programs = ["{}"]
io = "{io}"

[start]
command = {command:?}

[ready]
kind = "reply"
within_s = 30

[stop]
signal = "TERM"
within_s = 5
"#,
        command[0]
    )
}
