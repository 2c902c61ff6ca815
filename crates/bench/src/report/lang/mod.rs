//! The words of the reports in English and Vietnamese: one catalogue, so that no renderer holds a text of its own.
//!
//! A text may have placeholders `{name}`; both languages have the same ones (a test checks it). What a record says in words
//! (reasons, events, notes) is English in the record, and said in the reader's language by [`recorded`].

pub(crate) mod advice;
pub(crate) mod decision;
pub(crate) mod found;
pub(crate) mod index;
pub(crate) mod mitigations;
pub(crate) mod number;
pub(crate) mod page;
pub(crate) mod paired;
pub(crate) mod recorded;
pub(crate) mod sentences;
pub(crate) mod stored;
pub(crate) mod study;
pub(crate) mod terminal;

/// Language of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Lang {
    /// English.
    #[default]
    En,
    /// Vietnamese.
    Vi,
}

impl Lang {
    /// The code for `<html lang>`, by BCP 47.
    pub(crate) fn code(self) -> &'static str {
        match self {
            Self::En => "en",
            Self::Vi => "vi",
        }
    }
}

/// One text in both languages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Text {
    pub(crate) en: &'static str,
    pub(crate) vi: &'static str,
}

impl Text {
    /// The text as it stands, for one without placeholders.
    pub(crate) fn of(self, lang: Lang) -> &'static str {
        match lang {
            Lang::En => self.en,
            Lang::Vi => self.vi,
        }
    }

    /// The text with its placeholders replaced. Values are not read again, so a name with braces stays a name.
    pub(crate) fn with(self, lang: Lang, values: &[(&str, &str)]) -> String {
        let mut out = String::new();
        let mut rest = self.of(lang);
        while let Some((before, after)) = rest.split_once('{') {
            out.push_str(before);
            let Some((name, after)) = after.split_once('}') else {
                rest = after;
                break;
            };
            let value = values.iter().find(|(key, _)| *key == name);
            debug_assert!(value.is_some(), "no value for {{{name}}}");
            out.push_str(value.map_or("", |(_, value)| value));
            rest = after;
        }
        out.push_str(rest);
        match lang {
            Lang::En => number::agreeing(&out).into_owned(),
            Lang::Vi => out,
        }
    }
}

/// Declares texts, and `ALL` with their names for lookup and for the test of the catalogue.
macro_rules! texts {
    ($($name:ident = $en:literal | $vi:literal;)*) => {
        $(pub(crate) const $name: $crate::report::lang::Text = $crate::report::lang::Text { en: $en, vi: $vi };)*
        /// Every text of this part with its name.
        pub(crate) const ALL: &[(&str, $crate::report::lang::Text)] = &[$((stringify!($name), $name)),*];
    };
}
pub(crate) use texts;

/// The text of the page with this name; for templates, which name texts at run time.
pub(crate) fn named(name: &str) -> Option<Text> {
    all().find(|(key, _)| *key == name).map(|(_, text)| text)
}

/// The whole catalogue.
pub(crate) fn all() -> impl Iterator<Item = (&'static str, Text)> {
    [
        page::ALL,
        sentences::ALL,
        advice::ALL,
        decision::ALL,
        terminal::ALL,
        found::ALL,
        mitigations::ALL,
        index::ALL,
        stored::ALL,
        study::ALL,
        paired::ALL,
    ]
    .into_iter()
    .flatten()
    .copied()
}

/// ASCII in place of a Vietnamese letter; `None` for any other character.
pub(crate) fn without_marks(c: char) -> Option<char> {
    const LETTERS: [(char, &str); 7] = [
        ('a', "àáảãạăằắẳẵặâầấẩẫậ"),
        ('e', "èéẻẽẹêềếểễệ"),
        ('i', "ìíỉĩị"),
        ('o', "òóỏõọôồốổỗộơờớởỡợ"),
        ('u', "ùúủũụưừứửữự"),
        ('y', "ỳýỷỹỵ"),
        ('d', "đ"),
    ];
    let lower = c.to_lowercase().next().unwrap_or(c);
    let (plain, _) = LETTERS.iter().find(|(_, marked)| marked.contains(lower))?;
    Some(if c == lower {
        *plain
    } else {
        plain.to_ascii_uppercase()
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn placeholders(text: &str) -> Vec<&str> {
        let mut names: Vec<&str> = text
            .split('{')
            .skip(1)
            .map(|part| part.split('}').next().unwrap())
            .collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn every_text_has_both_languages_and_the_same_placeholders() {
        for (name, text) in all() {
            assert!(
                !text.en.trim().is_empty() && !text.vi.trim().is_empty(),
                "{name}"
            );
            assert_eq!(placeholders(text.en), placeholders(text.vi), "{name}");
        }
    }

    #[test]
    fn no_name_is_used_twice() {
        let mut seen = BTreeSet::new();
        for (name, _) in all() {
            assert!(seen.insert(name), "{name}");
        }
    }

    #[test]
    fn values_are_not_read_as_placeholders() {
        let text = Text {
            en: "{a} and {b}",
            vi: "{b} và {a}",
        };
        assert_eq!(
            text.with(Lang::En, &[("a", "{b}"), ("b", "2")]),
            "{b} and 2"
        );
        assert_eq!(text.with(Lang::Vi, &[("a", "1"), ("b", "2")]), "2 và 1");
    }

    #[test]
    fn vietnamese_without_marks_is_ascii() {
        let plain: String = "Đạt đến giới hạn ổn định ở ngưỡng Ứng"
            .chars()
            .map(|c| without_marks(c).unwrap_or(c))
            .collect();
        assert_eq!(plain, "Dat den gioi han on dinh o nguong Ung");
    }
}
