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
    /// What stands in a key before the first request.
    fill: Option<Fill>,
    /// Beginning of the error that is the good answer, for a request that is to be refused.
    pub refused_as: Option<&'static str>,
    /// Whether it says something only of a node of a cluster.
    pub of_cluster: bool,
    /// Most keys, where each is large.
    pub keys_max: Option<u32>,
}

/// What stands in a key before the first request.
#[derive(Debug, PartialEq, Eq)]
enum Fill {
    /// Elements put there by this command, each value with a field in front or not.
    Elements(&'static str, bool),
    /// A value in each of the keys that the request names.
    Named,
}

/// Elements of a key that is filled.
const ELEMENTS: usize = 600;
/// Keys where each is filled.
const FILLED_KEYS: u32 = 100;
const VALUE: &str = "xxxxxxxxxxxxxxxx";

/// All of them.
pub(crate) static PLAIN: &[Plain] = &[
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
        Fill::Elements("RPUSH", false),
    ),
    filled(
        "hgetall",
        "HGETALL of 600",
        &["HGETALL", "{key}"],
        Fill::Elements("HSET", true),
    ),
    Plain {
        of_cluster: true,
        ..filled(
            "cluster-hashtag",
            "MGET of 10, one hash tag",
            &[
                "MGET",
                "{{key}}:0",
                "{{key}}:1",
                "{{key}}:2",
                "{{key}}:3",
                "{{key}}:4",
                "{{key}}:5",
                "{{key}}:6",
                "{{key}}:7",
                "{{key}}:8",
                "{{key}}:9",
            ],
            Fill::Named,
        )
    },
    Plain {
        of_cluster: true,
        refused_as: Some("CROSSSLOT"),
        // The tags lie in slots far apart, whatever the key is.
        ..small(
            "cluster-crossslot",
            "MGET of 2 slots, refused",
            &["MGET", "{a}{key}", "{b}{key}"],
        )
    },
];

const fn small(name: &'static str, title: &'static str, words: &'static [&'static str]) -> Plain {
    Plain {
        name,
        title,
        words,
        fill: None,
        refused_as: None,
        of_cluster: false,
        keys_max: None,
    }
}

const fn filled(
    name: &'static str,
    title: &'static str,
    words: &'static [&'static str],
    fill: Fill,
) -> Plain {
    Plain {
        fill: Some(fill),
        keys_max: Some(FILLED_KEYS),
        ..small(name, title, words)
    }
}

impl Plain {
    /// The command of that name.
    #[must_use]
    pub(crate) fn by_name(name: &str) -> Option<&'static Plain> {
        PLAIN.iter().find(|plain| plain.name == name)
    }

    /// Prefix of its keys: commands on values of one kind share theirs.
    #[must_use]
    pub(crate) fn prefix(&self) -> &'static str {
        match self.name {
            "lpush" | "lpop" => "cmp:list:",
            "sadd" => "cmp:set:",
            "hset" => "cmp:hash:",
            "zadd" => "cmp:zset:",
            "mset" => "cmp:mset:",
            "lrange" => "cmp:range:",
            "cluster-hashtag" | "cluster-crossslot" => "cmp:slot:",
            _ => "cmp:fields:",
        }
    }

    /// Appends the request for `key`.
    pub(crate) fn write(&self, out: &mut Vec<u8>, key: &[u8]) {
        let words = self.words_of(key);
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        resp::write_command(out, &words);
    }

    fn words_of(&self, key: &[u8]) -> Vec<Vec<u8>> {
        let key = String::from_utf8_lossy(key);
        let word = |word: &&str| word.replace("{key}", &key).replace("{value}", VALUE);
        self.words
            .iter()
            .map(|text| word(text).into_bytes())
            .collect()
    }

    /// The commands that fill `key` anew; none where nothing must be there.
    #[must_use]
    pub(crate) fn fill(&self, key: &[u8]) -> Vec<Vec<u8>> {
        let (command, fields) = match self.fill {
            None => return Vec::new(),
            Some(Fill::Elements(command, fields)) => (command, fields),
            Some(Fill::Named) => {
                let words = self.words_of(key);
                let mut pairs: Vec<&[u8]> = vec![b"MSET"];
                for name in &words[1..] {
                    pairs.extend([name.as_slice(), VALUE.as_bytes()]);
                }
                let mut fill = Vec::new();
                resp::write_command(&mut fill, &pairs);
                return vec![fill];
            }
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
            assert!(
                text.contains("some:key") && !text.contains("{key}"),
                "{text}"
            );
            assert_eq!(plain.fill(b"k").is_empty(), plain.keys_max.is_none());
        }
    }

    #[test]
    fn requests_of_clusters_name_one_slot_or_two() {
        let request = |name: &str| {
            let mut bytes = Vec::new();
            Plain::by_name(name).unwrap().write(&mut bytes, b"k7");
            String::from_utf8(bytes).unwrap()
        };
        let one = request("cluster-hashtag");
        assert_eq!(one.matches("{k7}:").count(), 10, "{one}");
        let two = request("cluster-crossslot");
        assert!(two.contains("{a}k7") && two.contains("{b}k7"), "{two}");
        let fill = Plain::by_name("cluster-hashtag").unwrap().fill(b"k7");
        let text = String::from_utf8(fill.concat()).unwrap();
        assert!(
            text.starts_with("*21\r\n$4\r\nMSET\r\n$6\r\n{k7}:0\r\n"),
            "{text}"
        );
    }
}
