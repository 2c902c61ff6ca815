//! `client-output-buffer-limit`: hard, soft and seconds for each class of clients.

use super::kind::parse_bytes;

/// The classes as CONFIG GET names them; other names mean the same.
const CLASSES: [&str; 3] = ["normal", "slave", "pubsub"];

/// As CONFIG GET prints the default.
pub(super) const DEFAULT: &str =
    "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60";

fn class(word: &str) -> Option<usize> {
    let word = if word.eq_ignore_ascii_case("replica") {
        "slave"
    } else {
        word
    };
    CLASSES
        .iter()
        .position(|class| class.eq_ignore_ascii_case(word))
}

/// The limits in a value that [`merge`] made.
pub(crate) fn parse(text: &str) -> [[u64; 3]; 3] {
    let mut limits = [[0; 3]; 3];
    let words: Vec<&str> = text.split(' ').collect();
    for (limits, words) in limits.iter_mut().zip(words.chunks(4)) {
        for (limit, word) in limits.iter_mut().zip(words.iter().skip(1)) {
            *limit = word.parse().unwrap_or_default();
        }
    }
    limits
}

/// The value that CONFIG GET prints after `text`, which names some of the classes, was set over `old`.
pub(super) fn merge(old: &str, text: &str) -> Result<String, String> {
    let mut limits = parse(old);
    let words: Vec<&str> = match text {
        "" => Vec::new(),
        _ => text.split(' ').collect(),
    };
    let (groups, rest) = words.as_chunks::<4>();
    if !rest.is_empty() {
        return Err("Wrong number of arguments in buffer limit configuration.".to_owned());
    }
    for [name, hard, soft, secs] in groups {
        let class =
            class(name).ok_or("Invalid client class specified in buffer limit configuration.")?;
        let numbers = (parse_bytes(hard), parse_bytes(soft), secs.parse::<u32>());
        let (Some(hard), Some(soft), Ok(secs)) = numbers else {
            let text = "Error in hard, soft or soft_seconds setting in buffer limit configuration.";
            return Err(text.to_owned());
        };
        limits[class] = [hard, soft, secs.into()];
    }
    let parts = CLASSES
        .iter()
        .zip(limits)
        .map(|(class, [hard, soft, secs])| format!("{class} {hard} {soft} {secs}"));
    Ok(parts.collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_that_are_not_named_stay() {
        let text = merge(DEFAULT, "PubSub 1mb 512kb 7").unwrap();
        assert_eq!(
            text,
            "normal 0 0 0 slave 268435456 67108864 60 pubsub 1048576 524288 7"
        );
        let text = merge(&text, "replica 5 4 3 normal 1 0 0").unwrap();
        assert_eq!(text, "normal 1 0 0 slave 5 4 3 pubsub 1048576 524288 7");
        assert_eq!(
            parse(&text),
            [[1, 0, 0], [5, 4, 3], [1_048_576, 524_288, 7]]
        );
        assert_eq!(merge(DEFAULT, "").as_deref(), Ok(DEFAULT));
        assert_eq!(merge(DEFAULT, DEFAULT).as_deref(), Ok(DEFAULT));
    }

    #[test]
    fn what_is_wrong_is_told_in_redis_words() {
        for (text, error) in [
            (
                "normal 1 2",
                "Wrong number of arguments in buffer limit configuration.",
            ),
            (
                "normal 1  2 3",
                "Wrong number of arguments in buffer limit configuration.",
            ),
            (
                "other 1 2 3",
                "Invalid client class specified in buffer limit configuration.",
            ),
            (
                "normal 1 x 3",
                "Error in hard, soft or soft_seconds setting in buffer limit configuration.",
            ),
            (
                "normal 1 2 -3",
                "Error in hard, soft or soft_seconds setting in buffer limit configuration.",
            ),
        ] {
            assert_eq!(merge(DEFAULT, text).unwrap_err(), error);
        }
    }
}
