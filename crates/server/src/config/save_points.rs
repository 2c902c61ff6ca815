//! When snapshots are taken in the background: `seconds changes` pairs.

/// A snapshot is due so long after the last one, if so much has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SavePoint {
    pub(crate) seconds: i64,
    pub(crate) changes: u64,
}

/// The text that CONFIG GET prints.
pub(super) fn normalise(text: &str) -> Result<String, String> {
    let points = parse(text).ok_or("Invalid save parameters")?;
    let pair = |point: &SavePoint| format!("{} {}", point.seconds, point.changes);
    Ok(points.iter().map(pair).collect::<Vec<_>>().join(" "))
}

/// The points in a text; `None` when it is not well formed.
pub(crate) fn parse(text: &str) -> Option<Vec<SavePoint>> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    let numbers: Vec<i64> = text
        .split(' ')
        .map(|word| word.parse().ok())
        .collect::<Option<_>>()?;
    let pairs = numbers.chunks(2).map(|pair| match *pair {
        [seconds, changes] if seconds > 0 => Some(SavePoint {
            seconds,
            changes: u64::try_from(changes).ok()?,
        }),
        _ => None,
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_of_seconds_and_changes() {
        assert_eq!(normalise(""), Ok(String::new()));
        assert_eq!(normalise("3600 1 60 0"), Ok("3600 1 60 0".to_owned()));
        for bad in ["abc", "10", "0 1", "10 -1", " 10 1", "10 1 20", "-5 1"] {
            assert_eq!(
                normalise(bad),
                Err("Invalid save parameters".to_owned()),
                "{bad}"
            );
        }
    }
}
