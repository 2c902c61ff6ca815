//! Values with `*`: each stands for zero or more characters.

/// A value that holds at least one `*`, cut at the stars.
#[derive(Debug)]
pub(crate) struct Pattern {
    first: Box<str>,
    middle: Box<[Box<str>]>,
    last: Box<str>,
}

impl Pattern {
    /// `None` for a plain value.
    pub(crate) fn parse(value: &str) -> Option<Self> {
        let (first, rest) = value.split_once('*')?;
        let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
        let middle = middle
            .split('*')
            .filter(|part| !part.is_empty())
            .map(Box::from)
            .collect();
        Some(Self {
            first: first.into(),
            middle,
            last: last.into(),
        })
    }

    /// Takes the first place for every part in turn, which is enough because stars take anything; so the time
    /// grows with the text and not with the ways to match it.
    pub(crate) fn matches(&self, text: &str) -> bool {
        let Some(rest) = text.strip_prefix(&*self.first) else {
            return false;
        };
        let Some(mut rest) = rest.strip_suffix(&*self.last) else {
            return false;
        };
        for part in &self.middle {
            let Some(at) = rest.find(&**part) else {
                return false;
            };
            rest = &rest[at + part.len()..];
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_take_zero_or_more_characters() {
        let matches = |pattern, text| Pattern::parse(pattern).expect("a star").matches(text);
        for (pattern, yes, no) in [
            ("*", &["", "a", "é"][..], &[][..]),
            ("files*", &["files", "files/a"], &["file", "xfiles"]),
            ("*.png", &[".png", "a.png", "a.png.png"], &["png", "a.pngx"]),
            ("a*b*c", &["abc", "aXbYc", "abbcc"], &["ac", "acb", "abcd"]),
            ("a*a", &["aa", "aba"], &["a", "ab"]),
            ("a**b", &["ab", "a-b"], &["a"]),
            ("*ab*ab*", &["abab", "xabyabz"], &["ab", "aab"]),
        ] {
            for text in yes {
                assert!(matches(pattern, text), "{pattern} {text}");
            }
            for text in no {
                assert!(!matches(pattern, text), "{pattern} {text}");
            }
        }
        assert!(Pattern::parse("plain").is_none());
    }
}
