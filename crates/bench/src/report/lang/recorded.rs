//! What records hold in words, in the reader's language. Records are written in English; here stand the forms of
//! their sentences with a translation. A sentence of no known form stays as it was recorded.

mod forms;

use std::borrow::Cow;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::super::format::count;
use super::Lang;
use super::number::agreeing;

pub(crate) use forms::FORMS;

/// Fields of records that hold sentences, or lists of them.
const FIELDS: [&str; 19] = [
    "doubts",
    "ended_because",
    "knee_source",
    "not_comparable",
    "notes",
    "paper",
    "partial_reason",
    "reason",
    "reasons",
    "refused",
    "remark",
    "rule",
    "scenario",
    "sentence",
    "sentences",
    "source",
    "text",
    "title",
    "what",
];
/// Sentences within sentences are followed this deep.
const DEPTH_MAX: u32 = 6;

/// `text` in `lang`, where its form is known, with its rates as tables have them.
pub(crate) fn recorded(text: &str, lang: Lang) -> Cow<'_, str> {
    let said = match lang {
        Lang::En => agreeing(text),
        Lang::Vi => said(text, lang, DEPTH_MAX),
    };
    match with_grouped_rates(&said) {
        Some(grouped) => Cow::Owned(grouped),
        None => said,
    }
}

/// `669900/s` as `669,900/s`; `None` where nothing is to be changed.
fn with_grouped_rates(text: &str) -> Option<String> {
    const UNIT: &str = "/s";
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(UNIT) {
        let (before, after) = rest.split_at(at);
        let head = before.trim_end_matches(|c: char| c.is_ascii_digit());
        let digits = &before[head.len()..];
        let whole = !head.ends_with([',', '.']);
        out.push_str(head);
        match digits.parse::<u64>() {
            Ok(rate) if whole && !digits.starts_with('0') => out.push_str(&count(rate)),
            _ => out.push_str(digits),
        }
        out.push_str(UNIT);
        rest = &after[UNIT.len()..];
    }
    out.push_str(rest);
    (out != text).then_some(out)
}

/// A line of a run that goes on, in `lang`; the log has it in English.
pub(crate) fn live(text: &str, lang: Lang) -> Cow<'_, str> {
    match lang {
        Lang::En => agreeing(text),
        // Its parts each say something of their own.
        Lang::Vi => {
            let parts = text.split(" · ").map(|part| said(part, lang, DEPTH_MAX));
            Cow::Owned(parts.collect::<Vec<_>>().join(" · "))
        }
    }
}

/// Recorded sentences in a row, in `lang`.
pub(crate) fn recorded_all(texts: &[String], lang: Lang) -> String {
    let texts: Vec<Cow<'_, str>> = texts.iter().map(|text| recorded(text, lang)).collect();
    texts.join("; ")
}

/// A record with its sentences in `lang`, for rendering; where it cannot be read back, as it is.
pub(crate) fn in_language<T>(record: &T, lang: Lang) -> Cow<'_, T>
where
    T: Clone + Serialize + DeserializeOwned,
{
    let Ok(mut value) = serde_json::to_value(record) else {
        return Cow::Borrowed(record);
    };
    speak(&mut value, lang);
    serde_json::from_value(value).map_or(Cow::Borrowed(record), Cow::Owned)
}

fn speak(value: &mut Value, lang: Lang) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| speak(item, lang)),
        Value::Object(fields) => {
            for (name, field) in fields {
                if FIELDS.contains(&name.as_str()) {
                    say_in_place(field, lang);
                }
                speak(field, lang);
            }
        }
        _ => {}
    }
}

fn say_in_place(value: &mut Value, lang: Lang) {
    match value {
        Value::String(text) => *text = recorded(text, lang).into_owned(),
        Value::Array(items) => {
            for item in items.iter_mut().filter(|item| item.is_string()) {
                say_in_place(item, lang);
            }
        }
        _ => {}
    }
}

fn said(text: &str, lang: Lang, depth: u32) -> Cow<'_, str> {
    if depth == 0 || text.is_empty() {
        return Cow::Borrowed(text);
    }
    for form in FORMS {
        if let Some(values) = fitted(form.en, text) {
            let values: Vec<(&str, Cow<'_, str>)> = values
                .into_iter()
                .map(|(name, value)| (name, said(value, lang, depth - 1)))
                .collect();
            let values: Vec<(&str, &str)> = values
                .iter()
                .map(|(name, value)| (*name, value.as_ref()))
                .collect();
            return Cow::Owned(form.with(lang, &values));
        }
    }
    // Sentences are joined in these ways; one of no known form may have the same words in it.
    for (joint, same) in [("; ", "; "), (", and ", ", và "), (" · ", " · ")] {
        let parts = text.split(joint).map(|part| said(part, lang, depth - 1));
        let parts: Vec<Cow<'_, str>> = parts.collect();
        if parts.len() > 1 && parts.iter().any(|part| matches!(part, Cow::Owned(_))) {
            return Cow::Owned(parts.join(same));
        }
    }
    Cow::Borrowed(text)
}

/// What stands at the placeholders of `form`, if `text` has that form.
fn fitted<'f, 't>(form: &'f str, text: &'t str) -> Option<Vec<(&'f str, &'t str)>> {
    let Some((before, after)) = form.split_once('{') else {
        return (form == text).then(Vec::new);
    };
    let (name, rest) = after.split_once('}')?;
    let text = text.strip_prefix(before)?;
    let next = rest.split('{').next().unwrap_or_default();
    // Nearest first; what follows decides whether it is the right one.
    let ends: Vec<usize> = if rest.is_empty() {
        vec![text.len()]
    } else {
        text.match_indices(next).map(|(at, _)| at).collect()
    };
    ends.into_iter().find_map(|end| {
        let value = &text[..end];
        let fits = match name.strip_prefix('n') {
            Some(digits) if digits.chars().all(|c| c.is_ascii_digit()) => is_number(value),
            _ => !value.is_empty(),
        };
        let mut values = fitted(rest, &text[end..]).filter(|_| fits)?;
        values.insert(0, (name, value));
        Some(values)
    })
}

fn is_number(text: &str) -> bool {
    let figure = |c: char| c.is_ascii_digit() || ",.+-".contains(c);
    text.contains(|c: char| c.is_ascii_digit()) && text.chars().all(figure)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vi(text: &str) -> String {
        recorded(text, Lang::Vi).into_owned()
    }

    #[test]
    fn every_form_is_found_again_and_said() {
        for form in FORMS {
            let sample = |text: &str| {
                let mut out = String::new();
                let mut rest = text;
                while let Some((before, after)) = rest.split_once('{') {
                    let (name, after) = after.split_once('}').unwrap();
                    let number =
                        name.starts_with('n') && name[1..].parse::<u32>().is_ok() || name == "n";
                    out.push_str(before);
                    out.push_str(if number { "12.5" } else { "Xyz" });
                    rest = after;
                }
                out.push_str(rest);
                out
            };
            assert_eq!(vi(&sample(form.en)), sample(form.vi), "{}", form.en);
        }
    }

    #[test]
    fn lines_of_a_run_that_goes_on_are_said_part_by_part() {
        assert_eq!(
            live(
                "step 2/5 · 100 keys uniform · redis EVALSHA · 500/s: goodput 499/s, p99 8.09 ms, fail 0.00 %, degraded, invalid",
                Lang::Vi
            ),
            "bậc 2/5 · 100 khóa đều · redis EVALSHA · 500/s: goodput 499/s, p99 8.09 ms, lỗi 0.00 %, suy giảm, không hợp lệ"
        );
        let unknown = "looks like nothing known · at all";
        assert_eq!(live(unknown, Lang::Vi), unknown);
        assert_eq!(
            live("looking at the machine", Lang::En),
            "looking at the machine"
        );
    }

    #[test]
    fn sentences_within_sentences_are_said_too() {
        assert_eq!(
            vi(
                "tollgate · EVALSHA · single key: 1 of 4 rows is indicative; at 5000/s start 2: P99 of the send lag is 0.80 ms, tolerated are 1.00 ms, and the generator used 78.8 % of its core"
            ),
            "tollgate · EVALSHA · một khóa: 1 trong 4 dòng là tham khảo; ở 5,000/s lần khởi động 2: P99 của độ trễ gửi là 0.80 ms, mức cho phép là 1.00 ms, và bộ phát dùng 78.8 % nhân CPU của nó"
        );
        assert_eq!(
            vi(
                "tollgate · EVALSHA · 100 keys uniform: a deciding trial: start 1: 108000/s: 3 of 4 trials, one because the generator waited for a core 20.9 % of the time"
            ),
            "tollgate · EVALSHA · 100 khóa đều: một lần thử quyết định: lần khởi động 1: 108,000/s: 3 trong 4 lần thử, một lần vì bộ phát phải chờ nhân CPU 20.9 % thời gian"
        );
        assert_eq!(
            vi("limited by the store (redis-server): its thread redis-server used 98 % of a core"),
            "bị giới hạn bởi kho dữ liệu (redis-server): luồng redis-server của nó dùng 98 % một nhân"
        );
    }

    #[test]
    fn rates_are_said_as_tables_have_them() {
        let en = |text| recorded(text, Lang::En).into_owned();
        assert_eq!(
            en("good again at 669900/s 3 s after 3 s at 1435500/s"),
            "good again at 669,900/s 3 s after 3 s at 1,435,500/s"
        );
        for same in [
            "at 500/s",
            "at 5,000/s",
            "at 1234.5/s",
            "/s",
            "requests/s",
            "at 0005/s",
        ] {
            assert_eq!(en(same), same);
        }
        assert_eq!(vi("{n} % 12345/s"), "{n} % 12,345/s");
    }

    #[test]
    fn what_is_not_known_stays() {
        for text in [
            "",
            "a note of one's own",
            "a note, and another; of one's own",
            "the generator used a lot % of its core",
        ] {
            assert_eq!(vi(text), text);
        }
        assert_eq!(recorded("interrupted", Lang::En), "interrupted");
    }
}
