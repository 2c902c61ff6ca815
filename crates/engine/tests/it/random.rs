//! Random commands of all types, alone, in transactions and in scripts, compared with a real redis-server byte for byte.
//!
//! `TOLLGATE_RANDOM_SEED` sets the first seed, `TOLLGATE_RANDOM_ROUNDS` how many follow; a failure names the seed and the
//! shortest sequence that was found to show it.

use tollgate_commands::Rng;
use tollgate_keyspace::DbIndex;
use tollgate_limiter::Timestamp;
use tollgate_testkit::random::{BY_CHANCE, Commands, Words};
use tollgate_testkit::{Client as Peer, Server, peers};
use tollgate_wire::resp::{Protocol, ReplyBuf, Value, read_value, write_command};

use super::{Client, engine};

const ROUNDS: u64 = 60;
const COMMANDS: usize = 120;

/// Sizes above which values change their form.
const LIMITS: &[(&str, &[i64])] = &[
    ("list-max-listpack-size", &[-2, 1, 3]),
    ("hash-max-listpack-entries", &[512, 0, 3]),
    ("hash-max-listpack-value", &[64, 2]),
    ("set-max-intset-entries", &[512, 0, 2]),
    ("zset-max-listpack-entries", &[128, 0, 3]),
    ("zset-max-listpack-value", &[64, 2]),
    ("stream-node-max-entries", &[100, 1, 3]),
    ("hll-sparse-max-bytes", &[3000, 0]),
];

/// Types of payloads with one form: strings, small hashes and sorted sets. A set of integers is as wide as its largest one
/// ever was.
const COMPACT: [u8; 3] = [0, 16, 17];

/// Families that meet in one round; the others come all together.
const TOGETHER: &[&[&str]] = &[
    &["string", "bitmap"],
    &["hll", "string"],
    &["list"],
    &["set"],
    &["hash"],
    &["zset"],
    &["geo"],
    &["stream"],
    &["list", "set", "zset", "hash", "keys"],
];

fn words(line: &str) -> Words {
    line.split(' ')
        .map(|word| word.as_bytes().to_vec())
        .collect()
}

fn number_in(variable: &str, otherwise: u64) -> u64 {
    let text = std::env::var(variable).ok();
    text.map_or(otherwise, |text| text.parse().expect("a number"))
}

/// One round: what is set before, and the commands.
struct Round {
    seed: u64,
    settings: Vec<Words>,
    commands: Vec<Words>,
    /// Redis unpacks a sorted set for good when it sorts it, so that forms are not compared.
    sorts: bool,
}

impl Round {
    fn draw(table: &Commands, seed: u64) -> Round {
        let mut rng = Rng::new(seed);
        let all: Vec<&str> = table.families().filter(|it| *it != BY_CHANCE).collect();
        let families = TOGETHER.get(rng.below(TOGETHER.len() + 2)).copied();
        let families = families.unwrap_or(&all);
        let mut settings = Vec::new();
        for (name, values) in LIMITS {
            let value = values[rng.below(values.len())];
            settings.push(words(&format!("CONFIG SET {name} {value}")));
        }
        if rng.below(2) == 0 {
            settings.push(words("HELLO 3"));
        }
        let odd = [0, 12, 4][rng.below(3)];
        let choose = &mut |bound| rng.below(bound);
        let mut commands = table.sequence(families, odd, COMMANDS, choose);
        let has = |words: &Words, start: &[u8]| {
            let starts = |word: &Vec<u8>| word.to_ascii_uppercase().starts_with(start);
            words.iter().any(starts)
        };
        let sorts = commands.iter().any(|words| has(words, b"SORT"));
        let tells_form = |words: &Words| has(words, b"DUMP") || has(words, b"OBJECT");
        commands.retain(|words| is_compared(inner(words)) && !(sorts && tells_form(words)));
        Round {
            seed,
            settings,
            commands,
            sorts,
        }
    }
}

/// The command that a script runs, or the command itself.
fn inner(words: &[Vec<u8>]) -> &[Vec<u8>] {
    match &words[0][..] {
        b"EVAL" => words.get(3..).unwrap_or_default(),
        _ => words,
    }
}

/// Whether both must answer the same, and leave the same: not how many keys of a table one SCAN looks at, what has no order of
/// its own, what 7.2 and later take.
fn is_compared(words: &[Vec<u8>]) -> bool {
    let Some(name) = words.first() else {
        return true;
    };
    let has = |word: &[u8]| words.iter().any(|it| it.eq_ignore_ascii_case(word));
    match &name[..] {
        b"SCAN" | b"SSCAN" | b"HSCAN" | b"ZSCAN" => has(b"COUNT"),
        b"ZRANK" | b"ZREVRANK" => words.len() <= 3,
        b"XREAD" => !has(b"+"),
        // Its time is the server's own.
        b"XADD" => !has(b"*"),
        b"LPOS" => !has(b"-9223372036854775808"),
        b"SORT" | b"SORT_RO" => is_sorted_whole(words),
        // Names are ordered only where all scores are equal.
        b"ZADD" if words.get(1).is_some_and(|key| key == b"lex") => {
            let scores = words[2..].iter().step_by(2);
            words.len().is_multiple_of(2) && scores.clone().all(|score| score == b"0")
        }
        name if name.ends_with(b"LEX") || name == b"ZLEXCOUNT" || has(b"BYLEX") => {
            words.get(1).is_some_and(|key| key == b"lex")
        }
        _ => true,
    }
}

/// Whether what a SORT leaves out, and the order that it stores, are told by its words: not where it keeps a set's order,
/// which has none, and not where texts to sort by are equal.
fn is_sorted_whole(words: &[Vec<u8>]) -> bool {
    let has = |word: &[u8]| words.iter().any(|it| it.eq_ignore_ascii_case(word));
    let behind_by = words
        .windows(2)
        .filter(|pair| pair[0].eq_ignore_ascii_case(b"BY"))
        .map(|pair| &pair[1]);
    let keeps_order = behind_by.clone().any(|pattern| !pattern.contains(&b'*'));
    let may_tie = has(b"BY") && has(b"ALPHA");
    !(has(b"LIMIT") && keeps_order || (has(b"LIMIT") || has(b"STORE")) && may_tie)
}

/// Collections whose order is nobody's promise, sorted; clocks, which differ by what has passed, cut short.
fn normal(words: &Words, value: Value) -> Value {
    let name = |at: usize| {
        words
            .get(at)
            .map_or(Vec::new(), |it| it.to_ascii_uppercase())
    };
    let outer = name(0);
    let inner = if outer == b"EVAL" { name(3) } else { outer };
    match &inner[..] {
        b"EXEC" => sorted(timeless(value)),
        b"SMEMBERS" | b"SINTER" | b"SUNION" | b"SDIFF" | b"KEYS" | b"HKEYS" | b"HVALS"
        | b"HGETALL" | b"SSCAN" | b"HSCAN" | b"ZSCAN" | b"SORT" | b"SORT_RO" => sorted(value),
        b"TTL" | b"PTTL" | b"EXPIRETIME" | b"PEXPIRETIME" | b"XPENDING" => timeless(value),
        b"DUMP" => timeless(value),
        _ => value,
    }
}

/// Times to live, clocks and idle times are far apart, or differ by no more than a test takes. Of a payload only the type is
/// left where its parts lie in the order of a table, or are cut where the history of the value has it.
fn timeless(value: Value) -> Value {
    match value {
        Value::Int(number) if number > 50_000 => Value::Int(number / 1_000_000_000 * 1_000_000_000),
        Value::Bulk(bytes) if is_payload(&bytes) && !COMPACT.contains(&bytes[0]) => {
            Value::Bulk(bytes[..1].to_vec())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(timeless).collect()),
        other => other,
    }
}

/// Whether DUMP has made this: the version of the format stands before the checksum.
fn is_payload(bytes: &[u8]) -> bool {
    bytes.len() > 10 && bytes[bytes.len() - 10..].starts_with(&[10, 0])
}

fn sorted(value: Value) -> Value {
    let all = |items: Vec<Value>| {
        let mut items: Vec<Value> = items.into_iter().map(sorted).collect();
        items.sort_by_cached_key(|item| format!("{item:?}"));
        Value::Array(items)
    };
    match value {
        Value::Array(items) | Value::Set(items) => all(items),
        Value::Map(pairs) => all(pairs
            .into_iter()
            .map(|(field, value)| Value::Array(vec![field, value]))
            .collect()),
        other => other,
    }
}

/// Both servers, and what one has answered otherwise.
struct Pair {
    redis: Peer,
    client: Client,
}

impl Pair {
    fn new(redis: &Server, round: &Round) -> Pair {
        let mut redis = redis.connect().expect("redis-server listens");
        let engine = engine(if round.seed.is_multiple_of(2) { 1 } else { 64 });
        let mut client = Client::new(&engine);
        redis.call(&["FLUSHALL"]).expect("redis-server answers");
        let Ok(Value::Array(time)) = redis.call(&["TIME"]) else {
            panic!("redis-server tells the time")
        };
        let secs = String::from_utf8_lossy(time[0].as_bytes().expect("a text")).parse();
        client.now = Timestamp::from_secs(secs.expect("a number"));
        for setting in &round.settings {
            redis.call(setting).expect("redis-server answers");
            match &setting[..] {
                [_, _, name, value] => {
                    let text = |word: &Vec<u8>| String::from_utf8_lossy(word).into_owned();
                    let value = text(value).parse().expect("a number");
                    assert!(engine.set_limit(&text(name), value));
                }
                _ => {
                    client.session.protocol = Protocol::Resp3;
                    client.out = ReplyBuf::new(Protocol::Resp3);
                }
            }
        }
        Pair { redis, client }
    }

    /// The place of the first command that is answered otherwise, and both answers.
    fn difference(&mut self, commands: &[Words]) -> Option<(usize, String)> {
        let mut bytes = Vec::new();
        for words in commands {
            write_command(
                &mut bytes,
                &words.iter().map(Vec::as_slice).collect::<Vec<_>>(),
            );
        }
        self.redis.send(&bytes).expect("redis-server listens");
        for (at, words) in commands.iter().enumerate() {
            let expected = self.redis.frame().expect("redis-server answers");
            let got = self.client.bytes(words);
            if got == expected {
                continue;
            }
            let read = |bytes: &[u8]| {
                read_value(bytes)
                    .ok()
                    .flatten()
                    .map(|it| normal(words, it.0))
            };
            if read(&got) != read(&expected) {
                let shown = |bytes: &[u8]| bytes.escape_ascii().to_string();
                return Some((at, format!("{}\nnot {}", shown(&got), shown(&expected))));
            }
        }
        None
    }

    /// What differs in what both have in the end.
    fn ending(&mut self, sorts: bool) -> Option<String> {
        self.client.bytes(&["DISCARD"]);
        self.ask(&["DISCARD"]);
        for db in ["0", "1", "2"] {
            self.ask(&["SELECT", db]);
            self.client.session.db = db.parse().ok().and_then(DbIndex::new).expect("a database");
            let (Value::Array(keys) | Value::Set(keys)) = self.ask(&["KEYS", "*"]) else {
                panic!("KEYS lists keys")
            };
            let mut questions = vec![words("KEYS *")];
            for key in &keys {
                let key = key.as_bytes().expect("a key").to_vec();
                let skipped = if sorts { 2 } else { 0 };
                for line in &["OBJECT ENCODING", "DUMP", "TYPE", "PEXPIRETIME", "SORT"][skipped..] {
                    let mut question = words(line);
                    question.push(key.clone());
                    if *line == "SORT" {
                        question.extend(words("BY nosort ALPHA"));
                    }
                    questions.push(question);
                }
            }
            if let Some((at, found)) = self.difference(&questions) {
                return Some(format!("in the end {}: {found}", shown(&questions[at])));
            }
        }
        None
    }

    fn ask(&mut self, words: &[&str]) -> Value {
        self.redis.call(words).expect("redis-server answers")
    }
}

/// What differs when these commands are run on new data, if anything.
fn failure(redis: &Server, round: &Round, commands: &[Words]) -> Option<(usize, String)> {
    let mut pair = Pair::new(redis, round);
    if let Some(found) = pair.difference(commands) {
        return Some(found);
    }
    pair.ending(round.sorts)
        .map(|found| (commands.len(), found))
}

fn shown(words: &Words) -> String {
    let words: Vec<String> = words
        .iter()
        .map(|word| format!("\"{}\"", word.escape_ascii()))
        .collect();
    words.join(" ")
}

/// Leaves out what is not needed to see a difference.
fn shortest(redis: &Server, round: &Round, at: usize) -> (Vec<Words>, String) {
    let mut commands = round.commands[..round.commands.len().min(at + 1)].to_vec();
    let mut step = commands.len().div_ceil(2);
    let mut told = String::new();
    loop {
        let mut from = 0;
        while from < commands.len() {
            let mut fewer = commands.clone();
            fewer.drain(from..commands.len().min(from + step));
            match failure(redis, round, &fewer) {
                Some((_, found)) => (commands, told) = (fewer, found),
                None => from += step,
            }
        }
        if step == 1 {
            return (commands, told);
        }
        step = step.div_ceil(2);
    }
}

#[test]
fn random_commands_are_answered_as_by_redis() {
    let name = "random_commands_are_answered_as_by_redis";
    let Some(redis) = Server::redis(&[]).expect("redis-server starts") else {
        return peers::skip(name, "redis-server");
    };
    let table = Commands::table();
    let first = number_in("TOLLGATE_RANDOM_SEED", 1);
    for seed in first..first + number_in("TOLLGATE_RANDOM_ROUNDS", ROUNDS) {
        let round = Round::draw(&table, seed);
        let Some((at, found)) = failure(&redis, &round, &round.commands) else {
            continue;
        };
        let (commands, told) = shortest(&redis, &round, at);
        let all = round.settings.iter().chain(&commands);
        let all: Vec<String> = all.map(shown).collect();
        let told = if told.is_empty() { found } else { told };
        panic!(
            "TOLLGATE_RANDOM_SEED={seed}: {told}\nafter\n{}",
            all.join("\n")
        );
    }
}
