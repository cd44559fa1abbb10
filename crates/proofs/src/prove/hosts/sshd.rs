//! The processes of OpenSSH's server, by their titles. Before OpenSSH 9.8 a connection is another process of `sshd`, and
//! from then on one of `sshd-session`.

/// The role of a process of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sshd {
    /// It accepts connections.
    Listener,
    /// It holds the connection of root, who has logged in or is about to.
    Session,
    /// It makes a connection ready.
    Other,
}

impl Sshd {
    /// Reads a command line; `None` if it is that of another program.
    pub(super) fn parse(words: &str) -> Option<Self> {
        let mut each = words.split(' ');
        let first = each.next().unwrap_or_default();
        let name = first.trim_end_matches(':').rsplit('/').next().unwrap_or_default();
        if !["sshd", "sshd-session", "sshd-auth"].contains(&name) {
            return None;
        }
        let is_title = first.ends_with(':');
        if is_title && each.next().is_some_and(|user| user == "root" || user.starts_with("root@")) {
            return Some(Self::Session);
        }
        // The process of a new connection has the listener's words and `-R`, until it knows the user.
        let is_listener = name == "sshd" && words.contains("/sshd ") && !words.ends_with(" -R");
        Some(if is_listener { Self::Listener } else { Self::Other })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_and_sessions_of_old_and_new_versions_are_known() {
        for (words, expected) in [
            ("/usr/sbin/sshd -D -e -f /tmp/a/sshd_config", Some(Sshd::Listener)),
            (
                "sshd: /usr/sbin/sshd -D -e -f /a/sshd_config [listener] 0 of 100-100 startups",
                Some(Sshd::Listener),
            ),
            ("/usr/sbin/sshd -D -e -f /tmp/a/sshd_config -R", Some(Sshd::Other)),
            ("sshd: [accepted]", Some(Sshd::Other)),
            ("sshd: root [priv]", Some(Sshd::Session)),
            ("sshd: root@notty", Some(Sshd::Session)),
            ("sshd-session: root@notty", Some(Sshd::Session)),
            ("/usr/lib/openssh/sshd-session -D -e -f /tmp/a/sshd_config -R", Some(Sshd::Other)),
            ("sshd-auth: root [net]", Some(Sshd::Session)),
            ("/tmp/kqps agent", None),
            ("sh -c /usr/sbin/sshd -D", None),
            ("", None),
        ] {
            assert_eq!(Sshd::parse(words), expected, "{words}");
        }
    }
}
