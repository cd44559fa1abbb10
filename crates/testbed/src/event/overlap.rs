//! Events of a load that would undo each other: two that suspend the subject at the same time, or two faults of the path.

use std::time::Duration;

use super::{Action, Event};

/// Refuses two `stop` events, or two faults of the path, whose times meet: the end of the first would end the second.
///
/// # Errors
///
/// The later of two such events in the list, and why.
pub fn check(events: &[Event]) -> Result<(), String> {
    let spans: Vec<Option<Span>> = events.iter().map(Span::of_event).collect();
    for (number, span) in spans.iter().enumerate() {
        let Some(span) = span else { continue };
        let before =
            spans[..number].iter().position(|other| other.as_ref().is_some_and(|other| span.meets(other)));
        if let Some(other) = before {
            return Err(format!(
                "event {} ({}): its time meets that of event {} ({}), whose end would end it as well: let the first be over \
                 before the second begins",
                number + 1,
                events[number],
                other + 1,
                events[other]
            ));
        }
    }
    Ok(())
}

/// The time during which an event holds something that a second one must not hold.
struct Span {
    /// Whether that is the path, and not the subject.
    is_path: bool,
    from: Duration,
    until: Duration,
}

impl Span {
    /// The span of an event; `None` if it holds nothing.
    fn of_event(event: &Event) -> Option<Self> {
        let (is_path, lasting) = match event.action {
            Action::Stop(lasting) => (false, lasting.unwrap_or(Duration::MAX)),
            Action::Path { lasting, .. } => (true, lasting),
            _ => return None,
        };
        Some(Self { is_path, from: event.at, until: event.at.saturating_add(lasting) })
    }

    fn meets(&self, other: &Self) -> bool {
        self.is_path == other.is_path && self.from <= other.until && other.from <= self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The outcome for these events, each with its time and its text.
    fn checked(events: &[(&str, &str)]) -> Result<(), String> {
        let event = |(at, text): &(&str, &str)| toml::from_str(&format!("at = \"{at}\"\n{text}")).unwrap();
        check(&events.iter().map(event).collect::<Vec<Event>>())
    }

    #[test]
    fn events_that_would_undo_each_other_are_refused() {
        let stop = "do = \"stop\"\nfor = \"2s\"";
        let (loss, still) = ("loss = \"5%\"\nfor = \"2s\"", "do = \"standstill\"\nfor = \"1s\"");
        let refused = checked(&[("1s", stop), ("0", "do = \"flush\""), ("2s", stop)]).unwrap_err();
        assert!(
            refused.starts_with("event 3 (stop for 2s): its time meets that of event 1 (stop for 2s)"),
            "{refused}"
        );
        assert!(checked(&[("4s", stop), ("2s", stop)]).is_err(), "the second begins as the first ends");
        assert!(checked(&[("5s", stop), ("1s", "do = \"stop\"")]).is_err(), "it lasts until the load ends");
        assert!(checked(&[("1s", loss), ("2s", still)]).is_err());
        assert_eq!(checked(&[("1s", stop), ("3001ms", stop)]), Ok(()));
        assert_eq!(checked(&[("1s", loss), ("4s", still)]), Ok(()));
        assert_eq!(checked(&[("1s", stop), ("1s", loss), ("1s", "do = \"kill\"")]), Ok(()));
    }
}
