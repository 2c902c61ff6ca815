//! The tests of redis-benchmark 7.0, in its order.

use tollgate_wire::resp;

/// What stands for a random number in a request.
pub(super) const RANDOM: &str = "__rand_int__";

/// One test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Test {
    /// Title in the output.
    pub(super) title: String,
    /// The request as it is written, [`RANDOM`] in it.
    pub(super) request: Vec<u8>,
}

/// A row: names that choose it, its title, and its words. `{value}` stands for the value of `-d`, `{score}` for a random
/// number with `-r` and 0 without.
struct Row(
    &'static [&'static str],
    &'static str,
    &'static [&'static str],
);

const KEY: &str = "key:__rand_int__";
const ELEMENT: &str = "element:__rand_int__";

const ROWS: &[Row] = &[
    Row(&["ping", "ping_inline"], "PING_INLINE", &[]),
    Row(&["ping", "ping_mbulk"], "PING_MBULK", &["PING"]),
    Row(&["set"], "SET", &["SET", KEY, "{value}"]),
    Row(&["get"], "GET", &["GET", KEY]),
    Row(&["incr"], "INCR", &["INCR", "counter:__rand_int__"]),
    Row(&["lpush"], "LPUSH", &["LPUSH", "mylist", "{value}"]),
    Row(&["rpush"], "RPUSH", &["RPUSH", "mylist", "{value}"]),
    Row(&["lpop"], "LPOP", &["LPOP", "mylist"]),
    Row(&["rpop"], "RPOP", &["RPOP", "mylist"]),
    Row(&["sadd"], "SADD", &["SADD", "myset", ELEMENT]),
    Row(&["hset"], "HSET", &["HSET", "myhash", ELEMENT, "{value}"]),
    Row(&["spop"], "SPOP", &["SPOP", "myset"]),
    Row(&["zadd"], "ZADD", &["ZADD", "myzset", "{score}", ELEMENT]),
    Row(&["zpopmin"], "ZPOPMIN", &["ZPOPMIN", "myzset"]),
    Row(
        &[
            "lrange",
            "lrange_100",
            "lrange_300",
            "lrange_500",
            "lrange_600",
        ],
        "LPUSH (needed to benchmark LRANGE)",
        &["LPUSH", "mylist", "{value}"],
    ),
    Row(
        &["lrange", "lrange_100"],
        "LRANGE_100 (first 100 elements)",
        &["LRANGE", "mylist", "0", "99"],
    ),
    Row(
        &["lrange", "lrange_300"],
        "LRANGE_300 (first 300 elements)",
        &["LRANGE", "mylist", "0", "299"],
    ),
    Row(
        &["lrange", "lrange_500"],
        "LRANGE_500 (first 500 elements)",
        &["LRANGE", "mylist", "0", "499"],
    ),
    Row(
        &["lrange", "lrange_600"],
        "LRANGE_600 (first 600 elements)",
        &["LRANGE", "mylist", "0", "599"],
    ),
    Row(
        &["mset"],
        "MSET (10 keys)",
        &[
            "MSET", KEY, "{value}", KEY, "{value}", KEY, "{value}", KEY, "{value}", KEY, "{value}",
            KEY, "{value}", KEY, "{value}", KEY, "{value}", KEY, "{value}", KEY, "{value}",
        ],
    ),
];

/// The tests that `names` choose, all without a name. Fails at a name that no test has.
pub(super) fn chosen(
    names: &[String],
    value_bytes: u32,
    random: bool,
) -> Result<Vec<Test>, String> {
    let names: Vec<String> = names
        .iter()
        .map(|name| name.trim().to_ascii_lowercase())
        .collect();
    for name in &names {
        if !ROWS
            .iter()
            .any(|Row(known, ..)| known.contains(&name.as_str()))
        {
            let mut known: Vec<&str> = ROWS
                .iter()
                .flat_map(|Row(known, ..)| known.iter().copied())
                .collect();
            known.sort_unstable();
            known.dedup();
            return Err(format!("'{name}' is not a test: give {}", known.join(", ")));
        }
    }
    let value = "x".repeat(value_bytes as usize);
    let wanted = |Row(known, ..): &&Row| {
        names.is_empty() || names.iter().any(|name| known.contains(&name.as_str()))
    };
    Ok(ROWS
        .iter()
        .filter(wanted)
        .map(|Row(_, title, words)| {
            let words = words.iter().map(|word| match *word {
                "{value}" => value.as_str(),
                "{score}" if random => RANDOM,
                "{score}" => "0",
                other => other,
            });
            let words: Vec<String> = words.map(str::to_owned).collect();
            Test {
                title: (*title).into(),
                request: if words.is_empty() {
                    b"PING\r\n".to_vec()
                } else {
                    rendered(&words)
                },
            }
        })
        .collect())
}

/// The test that asks what `words` say.
pub(super) fn of_command(words: &[String]) -> Test {
    Test {
        title: words.join(" "),
        request: rendered(words),
    }
}

fn rendered(words: &[String]) -> Vec<u8> {
    let mut request = Vec::new();
    let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
    resp::write_command(&mut request, &words);
    request
}

#[cfg(test)]
mod unit {
    use super::*;

    fn titles(names: &[&str]) -> Vec<String> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let tests = chosen(&names, 3, false).unwrap();
        tests.into_iter().map(|test| test.title).collect()
    }

    #[test]
    fn names_choose_in_the_order_of_redis_benchmark() {
        assert_eq!(titles(&[]).len(), 20);
        assert_eq!(
            titles(&["GET", "ping"]),
            ["PING_INLINE", "PING_MBULK", "GET"]
        );
        assert_eq!(
            titles(&["lrange_300"]),
            [
                "LPUSH (needed to benchmark LRANGE)",
                "LRANGE_300 (first 300 elements)"
            ]
        );
        let error = chosen(&["gett".into()], 3, false).unwrap_err();
        assert!(
            error.contains("'gett' is not a test") && error.contains("zpopmin"),
            "{error}"
        );
    }

    #[test]
    fn requests_are_those_of_redis_benchmark() {
        let tests = chosen(&["set".into(), "zadd".into()], 3, true).unwrap();
        assert_eq!(
            tests[0].request,
            b"*3\r\n$3\r\nSET\r\n$16\r\nkey:__rand_int__\r\n$3\r\nxxx\r\n"
        );
        let zadd = String::from_utf8(tests[1].request.clone()).unwrap();
        assert!(
            zadd.contains("$12\r\n__rand_int__\r\n$20\r\nelement:__rand_int__"),
            "{zadd}"
        );
        let plain = chosen(&["zadd".into()], 3, false).unwrap();
        assert!(String::from_utf8_lossy(&plain[0].request).contains("$1\r\n0\r\n"));
    }
}
