//! Targets of one run that were not set up alike, and what stores say of themselves.

use super::super::{
    Lang, TextStyle, compare_markdown, compare_summary, run_markdown, run_summary, summary_csv,
};
use super::{UNICODE, fixture, html_in, markup, run_html};
use crate::record::{RunRecord, Setting};

fn set(record: &mut RunRecord, target: &str, name: &str, value: &str) {
    let found = record.targets.iter_mut().find(|one| one.name == target);
    found.unwrap().settings.push(Setting {
        name: name.into(),
        value: value.into(),
    });
}

/// The fixture's run, in which redis alone syncs what it writes.
fn unlike() -> RunRecord {
    let mut record = fixture::run();
    set(&mut record, "tollgate", "appendonly", "no");
    set(&mut record, "redis", "appendonly", "yes");
    record
}

/// The text in one line.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn nobody_wins_who_was_set_up_otherwise() {
    let alike = flat(&run_summary(UNICODE, &fixture::run()));
    assert!(alike.contains(" times what redis"), "{alike}");
    assert!(!alike.contains('≠'));

    let record = unlike();
    let text = flat(&run_summary(UNICODE, &record));
    assert!(!text.contains(" times what redis"), "{text}");
    assert!(
        text.contains(
            "not compared, since the two were not set up alike (setting appendonly: no against yes)"
        ),
        "{text}"
    );
    assert!(text.contains("redis ≠"), "{text}");
    assert!(
        text.contains("≠: not set up as tollgate was, and so not ranked against it: redis (setting appendonly: no against yes)."),
        "{text}"
    );
    // Where both were asked the same, what each held is told with the mark.
    assert!(
        text.contains("(NOT SET UP ALIKE: setting appendonly"),
        "{text}"
    );
    let markdown = run_markdown(&record, Lang::En);
    assert!(markdown.contains("| redis ≠ |"), "{markdown}");
    assert!(markdown.contains("no choice by these rows"), "{markdown}");
    let html = run_html(&record).unwrap();
    assert!(html.contains("redis ≠") && html.contains("no choice by these rows"));
    let ascii = run_summary(TextStyle::default(), &record);
    assert!(ascii.contains("redis !=") && ascii.is_ascii(), "{ascii}");
    let csv = summary_csv(&record);
    let of = |target: &str| {
        csv.lines()
            .filter(|line| line.starts_with(target))
            .collect::<Vec<_>>()
    };
    assert!(
        of("redis,")
            .iter()
            .all(|line| line.ends_with(",setting appendonly")),
        "{csv}"
    );
    assert!(
        of("tollgate,").iter().all(|line| line.ends_with(',')),
        "{csv}"
    );
    let vi = html_in(&record, Lang::Vi);
    assert!(vi.contains("không so sánh được vì hai bên không được thiết lập như nhau"));
}

#[test]
fn budgets_are_not_judged_where_the_arms_were_set_up_unlike() {
    let mut record = fixture::comparison();
    record.b.settings.push(Setting {
        name: "appendonly".into(),
        value: "yes".into(),
    });
    let text = flat(&compare_summary(UNICODE, &record));
    assert!(text.contains("≥6 not judged"), "{text}");
    let markdown = compare_markdown(&record, Lang::En);
    assert!(
        markdown.matches("not judged: not set up alike").count() >= 4,
        "three rows and the memory: {markdown}"
    );
    for text in [text, markdown] {
        assert!(
            !text.contains("missed") && !text.contains(" met "),
            "{text}"
        );
    }
}

#[test]
fn unequal_arms_are_ranked_where_it_was_asked_for_and_marked() {
    let record = RunRecord {
        unequal_allowed: true,
        ..unlike()
    };
    let text = flat(&run_summary(UNICODE, &record));
    assert!(text.contains(" times what redis"), "{text}");
    assert!(
        text.contains("(NOT SET UP ALIKE: setting appendonly: no against yes)"),
        "{text}"
    );
    assert!(
        text.contains("ranked because --allow-unequal asked for it"),
        "{text}"
    );
    assert!(!run_markdown(&record, Lang::En).contains("no choice by these rows"));
}

#[test]
fn what_a_store_says_of_itself_is_printed_and_steers_nothing() {
    let mut record = fixture::run();
    for (name, value) in [
        ("redis_version", "7.0.15"),
        ("os", "Linux ``` <b>\u{1b}[31m"),
    ] {
        record.targets[0].info_server.push(Setting {
            name: name.into(),
            value: value.into(),
        });
    }
    let html = run_html(&record).unwrap();
    markup::check(&html);
    assert!(html.contains("INFO server of redis") && html.contains("redis_version:7.0.15"));
    let markdown = run_markdown(&record, Lang::En);
    assert!(
        markdown.contains("redis_version:7.0.15\nos:Linux ` ` ` <b> [31m\n```"),
        "{markdown}"
    );
}
