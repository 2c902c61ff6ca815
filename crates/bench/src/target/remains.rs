//! What a run leaves in a store that was running before: its keys are found by how they begin, and deleted.

use std::time::{Duration, Instant};

use tollgate_wire::resp::Value;

use super::client::Client;
use crate::load::address::Endpoint;

/// Longest that is sought in a store: a large one is somebody's, and has other things to do.
const PATIENCE: Duration = Duration::from_secs(5);
/// Keys that a store looks at in one step, and that are deleted at once.
const BATCH: usize = 1_000;

/// Deletes all keys that begin with `prefix`. Gives their number.
///
/// # Errors
/// If the store cannot be asked, does not know SCAN, or is so large that it takes too long.
pub(super) fn clear(endpoint: &Endpoint, prefix: &str) -> Result<u64, String> {
    let mut client = Client::connect(endpoint)?;
    let (begun, batch) = (Instant::now(), BATCH.to_string());
    let (pattern, mut cursor, mut deleted) = (beginning_with(prefix), b"0".to_vec(), 0);
    loop {
        let found = client.ask(&[
            b"SCAN",
            &cursor,
            b"MATCH",
            pattern.as_bytes(),
            b"COUNT",
            batch.as_bytes(),
        ])?;
        let Some([next, keys]) = found.as_array() else {
            return Err("it does not answer SCAN as Redis does".into());
        };
        let keys = keys.as_array().unwrap_or_default();
        let keys: Vec<&[u8]> = keys.iter().filter_map(Value::as_bytes).collect();
        deleted += delete(&mut client, &keys)?;
        cursor = next.as_bytes().unwrap_or(b"0").to_vec();
        if cursor == b"0" {
            return Ok(deleted);
        }
        if begun.elapsed() > PATIENCE {
            return Err(format!("not found all within {} s", PATIENCE.as_secs()));
        }
    }
}

/// Deletes `keys`. Gives the number of those that were there.
pub(super) fn delete(client: &mut Client, keys: &[&[u8]]) -> Result<u64, String> {
    let mut deleted = 0;
    for some in keys.chunks(BATCH) {
        let words: Vec<&[u8]> = std::iter::once(&b"UNLINK"[..])
            .chain(some.iter().copied())
            .collect();
        match client.call(&words)? {
            Value::Int(count) => deleted += u64::try_from(count).unwrap_or(0),
            // A node of a cluster takes keys of one slot only, and older servers do not know the command.
            _ => {
                for key in some {
                    let answer = client.ask(&[b"DEL", key])?;
                    deleted += u64::from(matches!(answer, Value::Int(1)));
                }
            }
        }
    }
    Ok(deleted)
}

/// The pattern of all that begins with `text`.
fn beginning_with(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len() + 1);
    for c in text.chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '\\') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern.push('*');
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_means_itself() {
        assert_eq!(beginning_with("b1.2:"), "b1.2:*");
        assert_eq!(beginning_with(r"a*[x]\?"), r"a\*\[x\]\\\?*");
    }
}
