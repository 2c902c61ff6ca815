//! Glob patterns as `KEYS`, `SCAN MATCH` and `CONFIG GET` read them.
//!
//! Redis' `stringmatchlen` tries every rest of the text at every `*`, which takes exponential time on patterns such as
//! `a*a*a*b`; Redis bounds that by giving up on whole branches. Here a mismatch returns to the last `*` only, which is
//! enough: what an earlier `*` could still try, the last one covers too. The time is at most pattern times text.

/// Whether `text` matches `pattern` under Redis' `stringmatchlen` rules: `*`, `?`, `[a-z]`, `[^a]`, `\x`.
///
/// `ignore_case` folds ASCII letters. Unfinished forms mean what they mean in Redis: a class without `]` ends with the
/// pattern, a backslash at the end stands for itself.
pub fn matches(pattern: &[u8], text: &[u8], ignore_case: bool) -> bool {
    if text.is_empty() {
        // Redis' loop does not run on an empty text, so not even `*` matches it.
        return pattern.is_empty();
    }
    let (mut at_pattern, mut at_text) = (0, 0);
    // Where to go on after a mismatch: behind the last star, one byte of text further on.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        if pattern.get(at_pattern) == Some(&b'*') {
            at_pattern += 1;
            if at_pattern == pattern.len() {
                return true;
            }
            retry = Some((at_pattern, at_text));
            continue;
        }
        if at_text == text.len() {
            return at_pattern == pattern.len();
        }
        match match_one(&pattern[at_pattern..], text[at_text], ignore_case) {
            Some(used) => {
                at_pattern += used;
                at_text += 1;
            }
            None => {
                let Some((behind_star, from)) = retry else {
                    return false;
                };
                retry = Some((behind_star, from + 1));
                (at_pattern, at_text) = (behind_star, from + 1);
            }
        }
    }
}

/// Matches one byte against the element at the front of a pattern that does not begin with `*`; returns the
/// element's length. `None` at the pattern's end.
fn match_one(pattern: &[u8], byte: u8, ignore_case: bool) -> Option<usize> {
    match *pattern.first()? {
        b'?' => Some(1),
        b'[' => {
            let (hit, used) = match_class(pattern, byte, ignore_case);
            hit.then_some(used)
        }
        b'\\' if pattern.len() >= 2 => equal(pattern[1], byte, ignore_case).then_some(2),
        literal => equal(literal, byte, ignore_case).then_some(1),
    }
}

/// Matches a byte against the class at the front of a pattern; returns the class' length with it.
fn match_class(pattern: &[u8], byte: u8, ignore_case: bool) -> (bool, usize) {
    let mut at = 1;
    let negated = pattern.get(at) == Some(&b'^');
    at += usize::from(negated);
    let mut hit = false;
    while let Some(&c) = pattern.get(at) {
        let rest = &pattern[at..];
        match c {
            b'\\' if rest.len() >= 2 => {
                // Redis compares escaped bytes of a class exactly, whatever the case flag.
                hit |= rest[1] == byte;
                at += 2;
            }
            b']' => {
                return (hit != negated, at + 1);
            }
            low if rest.len() >= 3 && rest[1] == b'-' => {
                hit |= in_range(low, rest[2], byte, ignore_case);
                at += 3;
            }
            literal => {
                hit |= equal(literal, byte, ignore_case);
                at += 1;
            }
        }
    }
    (hit != negated, at)
}

/// As Redis compiled for x86-64: bytes are signed, and the ends are put in order before they are folded.
fn in_range(a: u8, b: u8, byte: u8, ignore_case: bool) -> bool {
    let fold = |c: i8| {
        if ignore_case {
            (c as u8).to_ascii_lowercase() as i8
        } else {
            c
        }
    };
    let (a, b) = (a as i8, b as i8);
    (fold(a.min(b))..=fold(a.max(b))).contains(&fold(byte as i8))
}

fn equal(a: u8, b: u8, ignore_case: bool) -> bool {
    if ignore_case {
        a.eq_ignore_ascii_case(&b)
    } else {
        a == b
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[track_caller]
    fn check(pattern: &str, yes: &[&str], no: &[&str]) {
        for text in yes {
            assert!(
                matches(pattern.as_bytes(), text.as_bytes(), false),
                "{pattern} should match {text}"
            );
        }
        for text in no {
            assert!(
                !matches(pattern.as_bytes(), text.as_bytes(), false),
                "{pattern} should not match {text}"
            );
        }
    }

    #[test]
    fn plain_forms() {
        check("h?llo", &["hello", "hxllo"], &["hllo", "heello"]);
        check("h*llo", &["hllo", "heeeello"], &["hell"]);
        check("h[ae]llo", &["hello", "hallo"], &["hillo"]);
        check("h[^e]llo", &["hallo"], &["hello"]);
        check("h[a-b]llo", &["hallo", "hbllo"], &["hcllo"]);
        check(r"h\*llo\?", &["h*llo?"], &["hxllo?", "h*llox"]);
        check(r"h\\x", &[r"h\x"], &["hx"]);
        check("a*b*c", &["abc", "aXbYc", "abbcc"], &["acb", "ab"]);
    }

    #[test]
    fn unfinished_forms() {
        check("[", &[], &["[", "a"]);
        check("[^", &["a", "^"], &["ab"]);
        check("[ab", &["a", "b"], &["c", "["]);
        check(r"a\", &[r"a\"], &["a"]);
        check("[a-", &["a", "-"], &["b"]);
        check("[z-a]", &["m"], &["-"]);
        check("[]a]", &[], &["]", "a"]);
    }

    #[test]
    fn nothing_but_the_empty_pattern_matches_the_empty_text() {
        check("", &[""], &["a"]);
        check("*", &["a"], &[""]);
        check("a*", &["a"], &[""]);
    }

    #[test]
    fn case_is_folded_on_request() {
        assert!(matches(br"A[B-D]*\E", b"aCxxe", true));
        assert!(!matches(b"A[B-D]*E", b"aCxxe", false));
    }

    #[test]
    fn many_stars_take_no_exponential_time() {
        let pattern = "a*".repeat(200) + "b";
        let text = "a".repeat(20_000);
        assert!(!matches(pattern.as_bytes(), text.as_bytes(), false));
    }
}
