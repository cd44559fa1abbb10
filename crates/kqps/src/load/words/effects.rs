//! Losses of each class by events of a scenario, and the replies that each class got for its queries.

use std::fmt::Write as _;

use kqps_observation::visible::visible_line;
use kqps_observation::{Silence, Trial};
use kqps_verdict::percent;
use kqps_verdict::scenario::{ClassFigures, Effect, figures};

use super::with_share;
use crate::table;

/// The lines; empty for a load that has neither classes nor events nor silences.
pub(super) fn effects(trial: &Trial) -> String {
    let Some(figures) = figures(trial) else { return String::new() };
    let of_replies = if trial.classes.is_empty() {
        longest_silence(&figures.classes)
    } else {
        classes(&figures.classes, trial.good().accounts.sent)
    };
    of_replies + &events(&figures.effects)
}

/// A line for the longest silence of a load without classes, if it has one.
fn longest_silence(classes: &[ClassFigures]) -> String {
    let silence = classes.first().and_then(|class| class.silence);
    silence.map_or_else(String::new, |silence| {
        format!("\nThe longest time without a correct reply: {}\n", silent(silence))
    })
}

/// A line for each class, and one for the good queries that a limit hit.
fn classes(classes: &[ClassFigures], good_sent: u64) -> String {
    let mut lines =
        table::titled(["class", "bytes out/in", "truncated", "slipped", "refused", "longest silence"]);
    for class in classes {
        lines.add_row(vec![
            visible_line(&class.name).into_owned(),
            class.amplification.map_or_else(|| "-".to_owned(), |times| format!("{times:.2}")),
            class.truncated.to_string(),
            class.slipped.to_string(),
            class.refused.to_string(),
            class.silence.map_or_else(|| "-".to_owned(), silent),
        ]);
    }
    let mut text = String::from("\n");
    for line in table::text(lines, &[1, 2, 3, 4]).lines() {
        let _ = writeln!(text, " {line}");
    }
    let limited = classes.first().and_then(|good| good.wrongly_limited).unwrap_or(0);
    if limited > 0 && classes.iter().any(ClassFigures::shows_limit) {
        let _ = writeln!(
            text,
            "  limited wrongly: {} of the good queries slipped, were refused at times, or had no reply",
            with_share(limited, good_sent)
        );
    }
    text
}

/// A line for each event and each class that it cost something.
fn events(effects: &[Effect]) -> String {
    if effects.is_empty() {
        return String::new();
    }
    let mut text = String::from("\nWhat events cost:\n\n");
    let is_same =
        |one: &Effect, next: &Effect| one.at_s.total_cmp(&next.at_s).is_eq() && one.event == next.event;
    for of_event in effects.chunk_by(is_same) {
        let Effect { event, at_s, .. } = &of_event[0];
        let head = format!("{} at {at_s:.1} s", visible_line(event));
        let costly: Vec<&Effect> = of_event.iter().filter(|effect| effect.lost_something()).collect();
        for effect in &costly {
            let _ = writeln!(text, "  {head}: {}", cost(effect));
        }
        if costly.is_empty() {
            let slower: Vec<String> = of_event.iter().filter_map(p99).map(|p99| format!(", {p99}")).collect();
            let _ = writeln!(text, "  {head}: nothing was lost{}", slower.concat());
        }
    }
    text
}

/// The losses of a class by an event: `good lost 312 answers (1.6 % of those due in 1.2 s), silent 298 ms, …`.
fn cost(effect: &Effect) -> String {
    let lost = match effect.lost {
        None => " was not answered before".to_owned(),
        Some(0) => " lost no answer".to_owned(),
        Some(lost) => {
            let share = percent::short(effect.lost_share().unwrap_or(0.0));
            let answers = if lost == 1 { "answer" } else { "answers" };
            format!(" lost {lost} {answers} ({share} % of those due in {:.1} s)", effect.span_s)
        }
    };
    let silent = effect.silence.map(|silence| format!("silent {}", time(silence.seconds)));
    let back = match (effect.answered_before, effect.recovered_s) {
        (None, _) | (Some(_), Some(0.0)) => None,
        (Some(_), None) => effect.never_back(),
        (Some(_), Some(after_s)) => Some(format!("99 % again after {after_s:.1} s")),
    };
    let p99 = effect.p99_before_us.zip(effect.p99_worst_us);
    let p99 = p99.map(|(before, worst)| format!("p99 {} → {} ms", ms(before), ms(worst)));
    let rest = [silent, back, p99].into_iter().flatten().map(|part| format!(", {part}"));
    format!("{}{lost}{}", visible_line(&effect.class), rest.collect::<String>())
}

/// The rise of the latency of a class by an event: `p99 of good 0.4 → 12 ms`; `None` if it did not rise.
fn p99(effect: &Effect) -> Option<String> {
    let (before, worst) =
        effect.p99_before_us.zip(effect.p99_worst_us).filter(|(before, worst)| worst > before)?;
    Some(format!("p99 of {} {} → {} ms", visible_line(&effect.class), ms(before), ms(worst)))
}

/// A silence with its begin: `298 ms from 5.0 s on`.
fn silent(silence: Silence) -> String {
    format!("{} from {:.1} s on", time(silence.seconds), silence.at_s)
}

/// Milliseconds below a second, otherwise seconds.
fn time(seconds: f64) -> String {
    if seconds < 0.9995 { format!("{:.0} ms", seconds * 1e3) } else { format!("{seconds:.1} s") }
}

/// Microseconds as milliseconds with two digits.
fn ms(us: f64) -> String {
    let decimals = usize::from(us < 9_950.0) + usize::from(us < 95.0);
    format!("{:.decimals$}", us / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reload() -> Effect {
        Effect {
            event: "reload".into(),
            at_s: 5.0,
            class: "good".into(),
            span_s: 1.2,
            intended: 19_500,
            answered_before: Some(1.0),
            lost: Some(312),
            silence: Some(Silence { at_s: 5.01, seconds: 0.298 }),
            recovered_s: Some(0.4),
            p99_before_us: Some(412.0),
            p99_worst_us: Some(11_800.0),
        }
    }

    #[test]
    fn an_event_has_a_line_for_each_class_that_it_cost_something() {
        let unharmed = Effect { class: "crowd".into(), lost: Some(0), silence: None, ..reload() };
        assert_eq!(
            events(&[reload(), unharmed.clone()]),
            "\nWhat events cost:\n\n  reload at 5.0 s: good lost 312 answers (1.6 % of those due in 1.2 s), \
             silent 298 ms, 99 % again after 0.4 s, p99 0.4 → 12 ms\n"
        );
        let slower = "\nWhat events cost:\n\n  reload at 5.0 s: nothing was lost, p99 of crowd 0.4 → 12 ms\n";
        assert_eq!(events(std::slice::from_ref(&unharmed)), slower);
        let alike = Effect { p99_worst_us: unharmed.p99_before_us, ..unharmed };
        assert_eq!(events(&[alike]), "\nWhat events cost:\n\n  reload at 5.0 s: nothing was lost\n");
        assert_eq!(events(&[]), "");
    }

    #[test]
    fn figures_that_are_not_known_are_left_out() {
        let still = Effect { lost: Some(0), recovered_s: Some(0.0), p99_worst_us: None, ..reload() };
        assert_eq!(cost(&still), "good lost no answer, silent 298 ms");
        let dead = Effect { lost: Some(1), silence: None, recovered_s: None, ..still };
        assert_eq!(
            cost(&dead),
            "good lost 1 answer (0.0 % of those due in 1.2 s), below 99 % to the end of 1.2 s"
        );
        let first = Effect { answered_before: None, lost: None, p99_before_us: None, ..reload() };
        assert_eq!(cost(&first), "good was not answered before, silent 298 ms");
    }

    #[test]
    fn classes_have_a_line_each_and_a_load_without_them_its_silence() {
        let class = |name: &str, slipped| ClassFigures {
            name: name.into(),
            amplification: Some(4.5),
            truncated: slipped,
            slipped,
            silence: Some(Silence { at_s: 5.01, seconds: 1.25 }),
            ..ClassFigures::default()
        };
        let good = ClassFigures { wrongly_limited: Some(131), silence: None, ..class("good", 0) };
        let text = classes(&[good.clone(), class("attack", 20)], 1_000);
        let words: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(words[2], ["good", "4.50", "0", "0", "0", "-"], "{text}");
        assert_eq!(words[3], ["attack", "4.50", "20", "20", "0", "1.2", "s", "from", "5.0", "s", "on"]);
        assert!(text.contains("limited wrongly: 131 (13.10%) of the good queries"), "{text}");
        assert!(!classes(&[good, class("attack", 0)], 1_000).contains("limited"), "nothing shows a limit");
        assert_eq!(
            longest_silence(&[class("good", 0)]),
            "\nThe longest time without a correct reply: 1.2 s from 5.0 s on\n"
        );
        assert_eq!(effects(&Trial::default()), "");
    }
}
