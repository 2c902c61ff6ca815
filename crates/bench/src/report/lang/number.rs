//! One of a thing: English texts are written for several.

use std::borrow::Cow;

/// What follows a number in the texts, for several and for one. Longer ones stand before those that they begin with.
const WORDS: [(&str, &str); 49] = [
    ("answers", "answer"),
    ("buckets", "bucket"),
    ("connections", "connection"),
    ("cores", "core"),
    ("criteria", "criterion"),
    ("decisions", "decision"),
    ("deciding trials", "deciding trial"),
    ("descriptors", "descriptor"),
    ("digits", "digit"),
    ("events", "event"),
    ("figures", "figure"),
    ("files", "file"),
    ("fresh starts", "fresh start"),
    ("histograms", "histogram"),
    (
        "keys already, which stay as they are",
        "key already, which stays as it is",
    ),
    ("keys", "key"),
    ("loads of searches", "load of searches"),
    ("loads", "load"),
    ("measurements were", "measurement was"),
    ("minutes", "minute"),
    ("open requests", "open request"),
    ("pairs", "pair"),
    ("questions", "question"),
    ("recovery runs", "recovery run"),
    // The words of redis-benchmark, whatever the number.
    ("requests completed", "requests completed"),
    ("requests were", "request was"),
    ("requests", "request"),
    ("retries", "retry"),
    ("rounds", "round"),
    ("rows have", "row has"),
    ("rows that were", "row that was"),
    ("rows were", "row was"),
    ("rows", "row"),
    ("runs", "run"),
    ("samples", "sample"),
    ("searches", "search"),
    ("services", "service"),
    ("starts were", "start was"),
    ("starts", "start"),
    ("steps", "step"),
    ("strategies", "strategy"),
    ("streams", "stream"),
    ("systems", "system"),
    ("tests", "test"),
    ("threads", "thread"),
    ("times", "time"),
    ("trials were", "trial was"),
    ("trials", "trial"),
    ("units", "unit"),
];

/// English `text` with one of a thing where it says `1 things`.
pub(crate) fn agreeing(text: &str) -> Cow<'_, str> {
    const ONE: &str = "1 ";
    if !text.contains(ONE) {
        return Cow::Borrowed(text);
    }
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find(ONE) {
        let (before, after) = rest.split_at(at + ONE.len());
        out.push_str(before);
        // Not the end of another number, and no factor: 1.1 times, 21 keys, -c 1 requests.
        let head = &before[..before.len() - ONE.len()];
        let alone = |c: char| c.is_whitespace() || "([\"'/".contains(c);
        let counts = head.chars().next_back().is_none_or(alone);
        let word = WORDS.iter().find(|(several, _)| {
            let next = after.strip_prefix(several);
            next.is_some_and(|next| !next.starts_with(|c: char| c.is_alphanumeric() || c == '-'))
        });
        rest = match word.filter(|_| counts) {
            Some((several, one)) => {
                out.push_str(one);
                &after[several.len()..]
            }
            None => after,
        };
    }
    out.push_str(rest);
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::super::{Lang, all, recorded::FORMS, recorded::recorded};
    use super::*;

    #[test]
    fn one_of_a_thing_is_one() {
        for (several, one) in [
            (
                "1 searches, at most 1 minutes",
                "1 search, at most 1 minute",
            ),
            (
                "none of 1 rows shows it (1 starts)",
                "none of 1 row shows it (1 start)",
            ),
            (
                "1 of 1 rows that were held is valid",
                "1 of 1 row that was held is valid",
            ),
            (
                "recovery with 1 retries and no deadline",
                "recovery with 1 retry and no deadline",
            ),
        ] {
            assert_eq!(agreeing(several), one);
        }
        for same in [
            "2 searches in 11 starts",
            "1.1 times, 0,1 keys, 21 rows, -1 keys, x1 keys, 1–1 keys",
            "  1 requests completed in 0.00 seconds",
            "1 rows-per-key, 1 rowsets, 1",
            "",
        ] {
            assert_eq!(agreeing(same), same);
        }
    }

    /// Every text of the catalogue and of records, with 1 for every count, says one of a thing.
    #[test]
    fn no_text_says_one_of_several_things() {
        let counted = [
            "answers",
            "connections",
            "cores",
            "depth",
            "of",
            "questions",
            "retries",
            "rounds",
            "runs",
            "services",
        ];
        let texts = all().map(|(_, text)| text).chain(FORMS.iter().copied());
        let mut wrong = Vec::new();
        for text in texts {
            let mut ones = String::new();
            for (at, part) in text.en.split('{').enumerate() {
                match part.split_once('}').filter(|_| at > 0) {
                    Some((name, after)) => {
                        let number = name
                            .strip_prefix('n')
                            .is_some_and(|rest| rest.parse::<u32>().is_ok() || rest.is_empty());
                        let number = number || counted.contains(&name);
                        ones.extend([if number { "1" } else { ";" }, after]);
                    }
                    None => ones.push_str(part),
                }
            }
            let said = recorded(&ones, Lang::En).into_owned();
            for (at, _) in said.match_indices("1 ") {
                let own = said[..at].chars().next_back();
                let word: String = said[at + 2..]
                    .chars()
                    .take_while(|c| c.is_alphabetic())
                    .collect();
                let several = word.len() > 2 && word.ends_with('s');
                let counts = own.is_none_or(|c| c.is_whitespace() || c == '(');
                if several && counts {
                    wrong.push(format!("{word}: {}", text.en));
                }
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}
