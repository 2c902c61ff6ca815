//! Commands that decide nothing, for comparing servers: a row each.

use tollgate_wire::resp;

/// One command, and what must stand in the store before it is asked.
#[derive(Debug, PartialEq, Eq)]
pub struct Plain {
    /// Name in records and on the command line.
    pub name: &'static str,
    /// Title for tables.
    pub title: &'static str,
    /// Its words; `{key}` stands for the key, `{value}` for 16 bytes.
    words: &'static [&'static str],
    /// What fills a key before the first request: the command, and whether each value has a field in front.
    fill: Option<(&'static str, bool)>,
    /// Most keys, where each is large.
    pub keys_max: Option<u32>,
}

/// Elements of a key that is filled.
const ELEMENTS: usize = 600;
/// Keys where each is filled.
const FILLED_KEYS: u32 = 100;
const VALUE: &str = "xxxxxxxxxxxxxxxx";

/// All of them.
pub static PLAIN: &[Plain] = &[
    small("lpush", "LPUSH", &["LPUSH", "{key}", "{value}"]),
    small("lpop", "LPOP", &["LPOP", "{key}"]),
    small("sadd", "SADD", &["SADD", "{key}", "{value}"]),
    small("hset", "HSET", &["HSET", "{key}", "field", "{value}"]),
    small("zadd", "ZADD", &["ZADD", "{key}", "1", "{value}"]),
    small(
        "mset",
        "MSET of 10",
        &[
            "MSET", "{key}:0", "{value}", "{key}:1", "{value}", "{key}:2", "{value}", "{key}:3",
            "{value}", "{key}:4", "{value}", "{key}:5", "{value}", "{key}:6", "{value}", "{key}:7",
            "{value}", "{key}:8", "{value}", "{key}:9", "{value}",
        ],
    ),
    filled(
        "lrange",
        "LRANGE of 600",
        &["LRANGE", "{key}", "0", "599"],
        "RPUSH",
        false,
    ),
    filled(
        "hgetall",
        "HGETALL of 600",
        &["HGETALL", "{key}"],
        "HSET",
        true,
    ),
];

const fn small(name: &'static str, title: &'static str, words: &'static [&'static str]) -> Plain {
    Plain {
        name,
        title,
        words,
        fill: None,
        keys_max: None,
    }
}

const fn filled(
    name: &'static str,
    title: &'static str,
    words: &'static [&'static str],
    fill: &'static str,
    fields: bool,
) -> Plain {
    Plain {
        name,
        title,
        words,
        fill: Some((fill, fields)),
        keys_max: Some(FILLED_KEYS),
    }
}

impl Plain {
    /// The command of that name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<&'static Plain> {
        PLAIN.iter().find(|plain| plain.name == name)
    }

    /// Prefix of its keys: commands on values of one kind share theirs.
    #[must_use]
    pub fn prefix(&self) -> &'static str {
        match self.name {
            "lpush" | "lpop" => "cmp:list:",
            "sadd" => "cmp:set:",
            "hset" => "cmp:hash:",
            "zadd" => "cmp:zset:",
            "mset" => "cmp:mset:",
            "lrange" => "cmp:range:",
            _ => "cmp:fields:",
        }
    }

    /// Appends the request for `key`.
    pub fn write(&self, out: &mut Vec<u8>, key: &[u8]) {
        let key = String::from_utf8_lossy(key);
        let words: Vec<Vec<u8>> = self
            .words
            .iter()
            .map(|word| {
                word.replace("{key}", &key)
                    .replace("{value}", VALUE)
                    .into_bytes()
            })
            .collect();
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        resp::write_command(out, &words);
    }

    /// The commands that fill `key` anew; none where nothing must be there.
    #[must_use]
    pub fn fill(&self, key: &[u8]) -> Vec<Vec<u8>> {
        let Some((command, fields)) = self.fill else {
            return Vec::new();
        };
        let mut del = Vec::new();
        resp::write_command(&mut del, &[b"DEL", key]);
        let names: Vec<String> = (0..ELEMENTS).map(|at| format!("field{at}")).collect();
        let mut words: Vec<&[u8]> = vec![command.as_bytes(), key];
        for name in &names {
            if fields {
                words.push(name.as_bytes());
            }
            words.push(VALUE.as_bytes());
        }
        let mut fill = Vec::new();
        resp::write_command(&mut fill, &words);
        vec![del, fill]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_requests_hold_the_key() {
        for plain in PLAIN {
            let same = PLAIN.iter().filter(|other| other.name == plain.name);
            assert_eq!(same.count(), 1);
            let mut request = Vec::new();
            plain.write(&mut request, b"some:key");
            let text = String::from_utf8(request).unwrap();
            assert!(text.contains("some:key") && !text.contains('{'), "{text}");
            assert_eq!(plain.fill(b"k").is_empty(), plain.keys_max.is_none());
        }
    }
}
