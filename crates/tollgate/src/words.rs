//! The words of `tollgate serve` as redis-server takes them: an option may have several values, and stand more than once.

use tollgate_server::config::{Kind, find};

/// Puts the values of each option into one word, as `--save 3600 1 --save 60 100` into `--save "3600 1 60 100"`; an option
/// whose value is several words may have none, and `"--maxmemory 10mb"` is two words. Of other options that come twice the
/// last counts. `is_file`: whether a word names a file that can be read, and so is no value.
pub(crate) fn gather(
    words: impl IntoIterator<Item = String>,
    is_file: impl Fn(&str) -> bool,
) -> Vec<String> {
    let mut words = words.into_iter().flat_map(split).peekable();
    let mut others = Vec::new();
    let mut options: Vec<(String, String)> = Vec::new();
    while let Some(word) = words.next() {
        // Behind the file an option may stand without its hyphens, as a line of that file.
        let bare = match others.is_empty() {
            true => "",
            false => &word,
        };
        let name = word.strip_prefix("--").unwrap_or(bare);
        if is_user(name) {
            let rule = |word: &String| !word.starts_with("--") && !is_file(word);
            let user: Vec<String> = std::iter::from_fn(|| words.next_if(rule)).collect();
            options.push(("--user".to_owned(), user.join(" ")));
            continue;
        }
        let Some(setting) = find(name) else {
            others.push(word);
            continue;
        };
        let mut values: Vec<String> = Vec::new();
        if setting.kind.takes_words() {
            let is_value = |word: &String| !word.starts_with("--") && !is_file(word);
            while let Some(value) = words.next_if(is_value) {
                values.push(value);
            }
        } else {
            // Without one it is for the command line to say what is missing.
            let Some(value) = words.next() else {
                others.push(word);
                break;
            };
            values.push(value);
        }
        let value = values.join(" ");
        let option = format!("--{}", setting.name);
        match options.iter_mut().find(|(one, _)| *one == option) {
            Some((_, before))
                if matches!(setting.kind, Kind::SavePoints)
                    && !before.is_empty()
                    && !value.is_empty() =>
            {
                *before = format!("{before} {value}");
            }
            Some((_, before)) => *before = value,
            None => options.push((option, value)),
        }
    }
    let options = options
        .into_iter()
        .flat_map(|(option, value)| [option, value]);
    options.chain(others).collect()
}

/// Whether the option is a user, of which there may be several.
fn is_user(name: &str) -> bool {
    name.eq_ignore_ascii_case("user")
}

/// `--name value` in one word is two, if `name` is a setting.
fn split(word: String) -> Vec<String> {
    let parts = word.trim_end().split_once(' ');
    match parts.filter(|(name, _)| {
        name.strip_prefix("--")
            .is_some_and(|name| find(name).is_some() || is_user(name))
    }) {
        Some((name, value)) => vec![name.to_owned(), value.trim_start().to_owned()],
        None => vec![word],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gathered(words: &[&str]) -> Vec<String> {
        let words = words.iter().map(|&word| word.to_owned());
        gather(words, |word| word == "redis.conf")
    }

    #[test]
    fn values_of_an_option_become_one_word() {
        for (given, expected) in [
            (
                &["--save", "3600", "1", "--port", "7"][..],
                &["--save", "3600 1", "--port", "7"][..],
            ),
            (
                &["--save", "3600", "1", "--save", "60 100"],
                &["--save", "3600 1 60 100"],
            ),
            (&["--save", "60", "1", "--save", ""], &["--save", ""]),
            (&["--save", "--port", "7"], &["--save", "", "--port", "7"]),
            (
                &["redis.conf", "--slaveof", "host", "6379"],
                &["--replicaof", "host 6379", "redis.conf"],
            ),
            (
                &["--bind", "127.0.0.1", "-::1", "redis.conf"],
                &["--bind", "127.0.0.1 -::1", "redis.conf"],
            ),
            (&["--port", "1", "--port", "2"], &["--port", "2"]),
            (
                &["--maxmemory 700mb", "--unknown x"],
                &["--maxmemory", "700mb", "--unknown x"],
            ),
            (
                &["--client-output-buffer-limit", "normal", "0", "0", "0"],
                &["--client-output-buffer-limit", "normal 0 0 0"],
            ),
            (&["--requirepass", "--x"], &["--requirepass", "--x"]),
            (&["--port=7", "-", "--port"], &["--port=7", "-", "--port"]),
            (
                &["redis.conf", "loglevel", "verbose", "--port", "7"],
                &["--loglevel", "verbose", "--port", "7", "redis.conf"],
            ),
            (&["port", "7"], &["port", "7"]),
            (
                &["--user", "a", "on", "+@all", "--port", "7", "--user b on"],
                &["--user", "a on +@all", "--port", "7", "--user", "b on"],
            ),
        ] {
            assert_eq!(gathered(given), expected, "{given:?}");
        }
    }
}
