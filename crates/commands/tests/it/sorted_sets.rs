//! Sorted sets: their events, and random commands compared with a real redis-server.

use tollgate_commands::Rng;
use tollgate_testkit::{Client, Server, peers};
use tollgate_wire::resp::write_command;

use crate::world::World;

/// Runs commands and compares the events that each of them logs.
#[track_caller]
fn check_events(cases: &[(&str, &[&str])]) {
    let mut world = World::new(4);
    world.effects.set_listening(true);
    for (line, expected) in cases {
        world.run(line);
        let touches = world.effects.touches();
        let events: Vec<String> = touches
            .filter(|touch| touch.event.name() != "new")
            .map(|touch| format!("{} {}", touch.event.name(), touch.key.escape_ascii()))
            .collect();
        assert_eq!(events, *expected, "{line}");
    }
}

#[test]
fn sorted_sets_log_their_changes() {
    check_events(&[
        ("ZADD k 1 a 2 b 3 c 4 d 5 e 6 f 7 g 8 h", &["zadd k"]),
        ("ZADD k 1 a", &[]),
        ("ZADD k NX 5 a", &[]),
        ("ZADD k XX 5 none", &[]),
        ("ZADD none XX 5 a", &[]),
        ("ZADD k INCR 1 a", &["zincr k"]),
        ("ZINCRBY k 0 a", &[]),
        ("ZINCRBY k 1 a", &["zincr k"]),
        ("ZREM k none", &[]),
        ("ZREM k a b none", &["zrem k"]),
        ("ZREMRANGEBYRANK k 0 0", &["zremrangebyrank k"]),
        ("ZREMRANGEBYRANK k 9 9", &[]),
        ("ZREMRANGEBYSCORE k 4 4", &["zremrangebyscore k"]),
        ("ZPOPMIN k", &["zpopmin k"]),
        ("ZPOPMAX k 0", &[]),
        ("ZPOPMAX k", &["zpopmax k"]),
        ("ZMPOP 2 none k MAX", &["zpopmax k"]),
        ("BZPOPMIN k 0", &["zpopmin k", "del k"]),
        ("ZADD l 0 x 0 y", &["zadd l"]),
        ("ZRANGESTORE dst l 0 -1", &["zrangestore dst"]),
        ("ZUNIONSTORE dst 1 l", &["zunionstore dst"]),
        ("ZINTERSTORE dst 1 l", &["zinterstore dst"]),
        ("ZDIFFSTORE dst 1 l", &["zdiffstore dst"]),
        ("ZDIFFSTORE dst 2 l l", &["del dst"]),
        ("ZDIFFSTORE dst 2 l l", &[]),
        ("ZREMRANGEBYLEX l - +", &["zremrangebylex l", "del l"]),
        ("GEOADD geo 1 1 here", &["zadd geo"]),
        (
            "GEOSEARCHSTORE dst geo FROMLONLAT 1 1 BYRADIUS 1 km",
            &["geosearchstore dst"],
        ),
        ("GEORADIUS geo 1 1 1 km STORE dst", &["georadiusstore dst"]),
        ("GEORADIUS geo 3 3 1 km STORE dst", &["del dst"]),
        ("ZREM geo here", &["zrem geo", "del geo"]),
    ]);
}

/// Makes commands out of few names, so that they meet.
struct Source(Rng);

impl Source {
    fn pick<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.0.below(choices.len())]
    }

    fn chance(&mut self, one_in: usize) -> bool {
        self.0.below(one_in) == 0
    }

    fn key(&mut self) -> &'static str {
        self.pick(&["a", "b", "c", "set", "none"])
    }

    fn member(&mut self) -> String {
        match self.0.below(8) {
            0 => self.pick(&["", "long-member-beyond-ten", "-1"]).to_owned(),
            _ => format!("m{}", self.0.below(14)),
        }
    }

    fn score(&mut self) -> String {
        match self.0.below(6) {
            0 => self
                .pick(&["inf", "-inf", "-0", "1e300", "-1e-300", "0.1", "x", "1e17"])
                .to_owned(),
            1 => format!("{}.{}", self.0.below(4), self.0.below(1000)),
            _ => (self.0.below(9) as i64 - 4).to_string(),
        }
    }

    fn bound(&mut self) -> String {
        let open = if self.chance(3) { "(" } else { "" };
        format!("{open}{}", self.score())
    }

    fn lex_bound(&mut self) -> String {
        match self.0.below(4) {
            0 => self.pick(&["-", "+", "x"]).to_owned(),
            1 => format!("({}", self.member()),
            _ => format!("[{}", self.member()),
        }
    }

    fn rank(&mut self) -> String {
        (self.0.below(24) as i64 - 12).to_string()
    }

    /// Words with some of the options behind them.
    fn with_options(&mut self, mut words: Vec<String>, options: &[&str]) -> Vec<String> {
        for option in options {
            if self.chance(3) {
                words.extend(option.split(' ').map(str::to_owned));
            }
        }
        if self.chance(4) {
            let (offset, count) = (self.0.below(6) as i64 - 1, self.0.below(6) as i64 - 1);
            words.extend(["LIMIT".to_owned(), offset.to_string(), count.to_string()]);
        }
        words
    }

    fn add(&mut self) -> Vec<String> {
        let mut words = vec!["ZADD".to_owned(), self.key().to_owned()];
        for option in ["NX", "XX", "GT", "LT", "CH", "INCR"] {
            if self.chance(8) {
                words.push(option.to_owned());
            }
        }
        for _ in 0..=self.0.below(4) {
            words.extend([self.score(), self.member()]);
        }
        words
    }

    fn combination(&mut self) -> Vec<String> {
        let name = self.pick(&[
            "ZUNION",
            "ZINTER",
            "ZDIFF",
            "ZINTERCARD",
            "ZUNIONSTORE",
            "ZINTERSTORE",
            "ZDIFFSTORE",
        ]);
        let mut words = vec![name.to_owned()];
        if name.ends_with("STORE") {
            words.push(self.pick(&["b", "c", "d"]).to_owned());
        }
        let inputs = 1 + self.0.below(3);
        words.push(inputs.to_string());
        words.extend((0..inputs).map(|_| self.key().to_owned()));
        if self.chance(3) {
            words.push("WEIGHTS".to_owned());
            words.extend((0..inputs).map(|_| self.score()));
        }
        if self.chance(3) {
            let aggregate = self.pick(&["SUM", "MIN", "MAX"]).to_owned();
            words.extend(["AGGREGATE".to_owned(), aggregate]);
        }
        if self.chance(2) {
            words.push("WITHSCORES".to_owned());
        }
        words
    }

    fn range(&mut self) -> Vec<String> {
        let key = self.key().to_owned();
        match self.0.below(5) {
            0 => {
                let name = self
                    .pick(&["ZRANGE", "ZREVRANGE", "ZREMRANGEBYRANK"])
                    .to_owned();
                let words = vec![name, key, self.rank(), self.rank()];
                self.with_options(words, &["WITHSCORES"])
            }
            1 => {
                let name = self.pick(&["ZRANGEBYSCORE", "ZREVRANGEBYSCORE"]).to_owned();
                let words = vec![name, key, self.bound(), self.bound()];
                self.with_options(words, &["WITHSCORES"])
            }
            2 => {
                let words = vec!["ZRANGE".to_owned(), key, self.bound(), self.bound()];
                self.with_options(words, &["BYSCORE", "REV", "WITHSCORES"])
            }
            3 => {
                let name = self.pick(&["ZCOUNT", "ZREMRANGEBYSCORE"]).to_owned();
                vec![name, key, self.bound(), self.bound()]
            }
            _ => {
                // Names are ordered only where all scores are equal.
                let name = self
                    .pick(&["ZRANGEBYLEX", "ZREVRANGEBYLEX", "ZLEXCOUNT"])
                    .to_owned();
                let bounds = (self.lex_bound(), self.lex_bound());
                vec![name, "lex".to_owned(), bounds.0, bounds.1]
            }
        }
    }

    fn position(&mut self) -> [String; 2] {
        let longitude = self.0.below(3_600_000) as f64 / 10_000.0 - 180.0;
        let latitude = self.0.below(1_700_000) as f64 / 10_000.0 - 85.0;
        [longitude.to_string(), latitude.to_string()]
    }

    fn geo(&mut self) -> Vec<String> {
        let mut words: Vec<String>;
        if self.chance(2) {
            words = vec!["GEOADD".to_owned(), "geo".to_owned()];
            for _ in 0..3 {
                words.extend(self.position());
                words.push(self.member());
            }
            return words;
        }
        if self.chance(3) {
            let name = self.pick(&["GEODIST", "GEOPOS", "GEOHASH"]).to_owned();
            return vec![name, "geo".to_owned(), self.member(), self.member()];
        }
        words = vec!["GEOSEARCH".to_owned(), "geo".to_owned()];
        if self.chance(3) {
            words.extend(["FROMMEMBER".to_owned(), self.member()]);
        } else {
            words.push("FROMLONLAT".to_owned());
            words.extend(self.position());
        }
        let length = |source: &mut Source| (source.0.below(12_000)).to_string();
        if self.chance(2) {
            words.extend(["BYRADIUS".to_owned(), length(self)]);
        } else {
            words.extend(["BYBOX".to_owned(), length(self), length(self)]);
        }
        words.push(self.pick(&["km", "mi"]).to_owned());
        words.push(self.pick(&["ASC", "DESC"]).to_owned());
        for option in ["WITHDIST", "WITHCOORD", "WITHHASH", "COUNT 3"] {
            if self.chance(2) {
                words.extend(option.split(' ').map(str::to_owned));
            }
        }
        words
    }

    fn command(&mut self) -> Vec<String> {
        let key = self.key().to_owned();
        match self.0.below(20) {
            0..5 => self.add(),
            5..9 => self.range(),
            9..11 => self.combination(),
            11..14 => self.geo(),
            14 => vec!["ZINCRBY".to_owned(), key, self.score(), self.member()],
            15 => vec!["ZREM".to_owned(), key, self.member(), self.member()],
            16 => {
                let name = self.pick(&["ZPOPMIN", "ZPOPMAX"]).to_owned();
                vec![name, key, self.0.below(4).to_string()]
            }
            17 => {
                let name = self
                    .pick(&["ZRANK", "ZREVRANK", "ZSCORE", "ZMSCORE"])
                    .to_owned();
                vec![name, key, self.member()]
            }
            18 => vec![
                "ZADD".to_owned(),
                "lex".to_owned(),
                "0".to_owned(),
                self.member(),
            ],
            _ => match self.0.below(4) {
                0 => vec!["SADD".to_owned(), "set".to_owned(), self.member()],
                1 => vec!["DEL".to_owned(), key],
                2 => vec!["OBJECT".to_owned(), "ENCODING".to_owned(), key],
                _ => {
                    let mut words = vec!["ZRANGESTORE".to_owned(), "d".to_owned(), key];
                    words.extend([self.rank(), self.rank()]);
                    words
                }
            },
        }
    }
}

const ROUNDS: u64 = 60;
const COMMANDS: usize = 250;

fn compare(client: &mut Client, seed: u64, limits: [(&str, i64); 2]) {
    let mut source = Source(Rng::new(seed));
    let commands: Vec<Vec<String>> = (0..COMMANDS).map(|_| source.command()).collect();
    let mut world = World::new(if seed.is_multiple_of(2) { 1 } else { 64 });
    let mut bytes = Vec::new();
    write_command(&mut bytes, &[b"FLUSHALL"]);
    for (name, value) in limits {
        assert!(world.limits.set(name, value), "{name}");
        let words = ["CONFIG", "SET", name, &value.to_string()];
        write_command(&mut bytes, &words.map(str::as_bytes));
    }
    for words in &commands {
        let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
        write_command(&mut bytes, &words);
    }
    client.send(&bytes).expect("redis-server listens");
    for _ in 0..=limits.len() {
        let reply = client.frame().expect("redis-server answers");
        assert_eq!(reply, b"+OK\r\n");
    }
    for (index, words) in commands.iter().enumerate() {
        let expected = client.frame().expect("redis-server answers");
        let expected = String::from_utf8_lossy(&expected).replace("\r\n", "|");
        let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
        let got = world.run_words(&words);
        assert_eq!(
            got,
            expected,
            "round {seed}, after {:#?}",
            &commands[..=index]
        );
    }
}

#[test]
fn random_commands_are_answered_as_by_redis() {
    let name = "random_commands_are_answered_as_by_redis";
    let Some(redis) = Server::redis(&[]).expect("redis-server starts") else {
        return peers::skip(name, "redis-server");
    };
    let mut client = redis.connect().expect("redis-server listens");
    for round in 0..ROUNDS {
        let entries = [0, 5, 128][round as usize % 3];
        let value = [64, 10][round as usize % 2];
        let limits = [
            ("zset-max-listpack-entries", entries),
            ("zset-max-listpack-value", value),
        ];
        compare(&mut client, round, limits);
    }
}
