//! The table lints itself.

use std::collections::HashSet;

use tollgate_commands::{BeginSearch, FindKeys, Flags, KeyFlags, Row, Run, families, lookup, rows};

fn all_rows() -> impl Iterator<Item = &'static Row> {
    rows().flat_map(|row| std::iter::once(row).chain(row.subs))
}

#[test]
fn names_are_unique_upper_case_and_sorted() {
    let mut seen = HashSet::new();
    for row in all_rows() {
        assert!(seen.insert(row.name), "{} stands twice", row.name);
        assert_eq!(row.name, row.name.to_ascii_uppercase());
    }
    for family in families() {
        assert!(
            family.rows.is_sorted_by_key(|row| row.name),
            "{}",
            family.name
        );
        assert!(
            family
                .rows
                .iter()
                .all(|row| row.subs.is_sorted_by_key(|sub| sub.name))
        );
    }
}

#[test]
fn every_name_is_found_in_any_case() {
    for row in rows() {
        assert_eq!(
            lookup(row.name.as_bytes()).map(|it| it.name),
            Some(row.name)
        );
        let lower = row.name.to_ascii_lowercase();
        assert_eq!(lookup(lower.as_bytes()).map(|it| it.name), Some(row.name));
        for sub in row.subs {
            assert_eq!(sub.name.split('|').next(), Some(row.name), "{}", sub.name);
            let word = sub.word().to_ascii_lowercase();
            assert_eq!(row.sub(word.as_bytes()).map(|it| it.name), Some(sub.name));
            assert_eq!(sub.name_words(), 2);
        }
        assert_eq!(row.name_words(), 1);
    }
    for name in [
        "",
        "X",
        "GE",
        "GETX",
        "SE\0",
        "\u{7}ET",
        "GET ",
        "cl-throttle",
    ] {
        assert!(lookup(name.as_bytes()).is_none(), "{name:?}");
    }
}

#[test]
fn flags_agree_with_keys() {
    for row in all_rows() {
        let reads = row.flags.contains(Flags::READONLY);
        assert!(!(reads && row.writes()), "{} reads and writes", row.name);
        if let Run::Keys(_) = row.run {
            assert!(
                reads || row.writes(),
                "{} neither reads nor writes",
                row.name
            );
            assert!(!row.keys.is_empty(), "{} has no keys", row.name);
        }
        // MIGRATE locks its keys by itself, when there is a server to hand them to.
        let locks = row.name == "MIGRATE";
        if let (false, Run::Keyspace(_) | Run::Local(_) | Run::Node(_)) = (locks, row.run) {
            assert!(
                row.keys
                    .iter()
                    .all(|spec| spec.flags.contains(KeyFlags::NOT_KEY)),
                "the keys of {} would not be locked",
                row.name
            );
        }
        if reads {
            let only_read = row
                .keys
                .iter()
                .all(|spec| spec.flags.intersects(KeyFlags::RO.or(KeyFlags::NOT_KEY)));
            // PFCOUNT may keep the count that it computed.
            let only_read = only_read || row.name == "PFCOUNT";
            assert!(only_read, "{} reads but its keys are written", row.name);
        }
        if row.flags.contains(Flags::DENYOOM) {
            assert!(row.writes(), "{} cannot grow", row.name);
        }
    }
}

#[test]
fn arity_covers_the_key_specs() {
    for row in all_rows() {
        let keys = row
            .keys
            .iter()
            .filter(|spec| !spec.flags.contains(KeyFlags::NOT_KEY));
        for spec in keys {
            let BeginSearch::Index(begin) = spec.begin else {
                continue;
            };
            let last = match spec.find {
                FindKeys::Range { last, step } => {
                    assert!(step > 0, "{}", row.name);
                    usize::from(begin) + last.max(0) as usize
                }
                FindKeys::KeyNum { .. } => usize::from(begin),
                FindKeys::Unknown | FindKeys::Part { .. } => continue,
            };
            // PFMERGE may have no source.
            assert!(
                row.arity.least() > last || row.name == "PFMERGE",
                "{} can be called without its keys",
                row.name
            );
        }
        assert!(row.arity.least() >= row.name_words(), "{}", row.name);
    }
}

#[test]
fn docs_are_whole() {
    for row in all_rows() {
        assert!(row.summary.ends_with('.'), "{}: {}", row.name, row.summary);
        assert!(
            !row.complexity.is_empty() && !row.complexity.ends_with('.'),
            "{}",
            row.name
        );
        assert_eq!(
            row.since.split('.').count(),
            3.min(row.since.split('.').count())
        );
        assert!(
            row.since.starts_with(|c: char| c.is_ascii_digit()),
            "{}",
            row.name
        );
        let takes = row.arity.least() > row.name_words();
        if row.subs.is_empty() {
            assert!(
                !takes || !row.syntax.is_empty(),
                "{} says not what it takes",
                row.name
            );
        }
        assert_eq!(
            matches!(row.run, Run::Container),
            !row.subs.is_empty() && row.name != "COMMAND"
        );
    }
}

#[test]
fn containers_hold_sub_commands_one_level_deep() {
    for row in rows() {
        assert!(row.subs.iter().all(|sub| sub.subs.is_empty()));
        assert!(
            row.subs
                .iter()
                .all(|sub| !matches!(sub.run, Run::Container))
        );
    }
}

#[test]
fn calls_about_a_few_elements_are_short() {
    let may_be_long = |name: &str, words| {
        let row = lookup(name.as_bytes()).expect(name);
        row.may_be_long_with(words)
    };
    let pops = [
        "LPOP",
        "RPOP",
        "SPOP",
        "SRANDMEMBER",
        "ZPOPMIN",
        "ZPOPMAX",
        "HRANDFIELD",
        "ZRANDMEMBER",
    ];
    for name in pops {
        assert!(!may_be_long(name, 2), "{name} of one element");
        assert!(may_be_long(name, 3), "{name} with a count");
    }
    for name in [
        "SADD", "HSET", "ZADD", "ZREM", "MSET", "MGET", "DEL", "ZMSCORE",
    ] {
        assert!(!may_be_long(name, 4), "{name} of a few");
        assert!(may_be_long(name, 1000), "{name} of many");
    }
    for name in ["GET", "SET", "ZINCRBY", "ZRANK", "RL.TAKE", "RL.ACQUIRE"] {
        assert!(!may_be_long(name, 20), "{name}");
    }
    for name in [
        "LRANGE", "SMEMBERS", "HGETALL", "KEYS", "ZRANGE", "SORT", "LINDEX",
    ] {
        assert!(may_be_long(name, 2), "{name}");
    }
}
