//! Random commands, drawn from the table `commands.txt`: mostly right, some with a word too many, too few or out of place.
//!
//! Where the choices come from is the caller's: a seeded generator, or the bytes of a fuzzer.
//!
//! What the commands of all families but [`BY_CHANCE`] answer is the same on every server, and so is what they leave.

mod values;

use std::iter::Peekable;

/// The family of commands that depend on chance or on the clock.
pub const BY_CHANCE: &str = "chance";

/// Commands as words.
pub type Words = Vec<Vec<u8>>;

/// A choice among so many, from 0 on.
pub type Choose<'a> = &'a mut dyn FnMut(usize) -> usize;

/// A part of a command's line.
#[derive(Debug)]
enum Part {
    Word(&'static str),
    /// A word drawn by [`values::draw`].
    Drawn(&'static str),
    Maybe(Vec<Part>),
    OneOf(Vec<Vec<Part>>),
    /// Once or more often.
    Several(Vec<Part>),
}

/// The commands about one type.
#[derive(Debug)]
struct Family {
    name: &'static str,
    /// The first letter of its keys; `?` for those of all families.
    letter: char,
    /// Each as often as the table says.
    lines: Vec<Vec<Part>>,
}

/// The table of commands.
#[derive(Debug)]
pub struct Commands(Vec<Family>);

impl Commands {
    /// The table.
    #[must_use]
    pub fn table() -> Commands {
        let mut families: Vec<Family> = Vec::new();
        let lines = include_str!("commands.txt").lines();
        for line in lines.filter(|line| !line.starts_with('#')) {
            let (first, rest) = line.split_once(' ').expect("two words");
            if let Ok(weight) = first.parse::<usize>() {
                let family = families.last_mut().expect("a family comes first");
                let parse = || parts(&mut tokens(rest).into_iter().peekable());
                family.lines.extend((0..weight).map(|_| parse()));
            } else {
                families.push(Family {
                    name: first,
                    letter: rest.chars().next().expect("a letter"),
                    lines: Vec::new(),
                });
            }
        }
        Commands(families)
    }

    /// So many commands of these families or a few more, some of them in transactions or in scripts, as [`Commands::draw`] draws
    /// them. What needs hundreds of megabytes is left out.
    pub fn sequence(
        &self,
        families: &[&str],
        odd: usize,
        count: usize,
        choose: Choose<'_>,
    ) -> Vec<Words> {
        let word = |text: &str| vec![text.as_bytes().to_vec()];
        let mut commands = Vec::new();
        let mut in_transaction = false;
        while commands.len() < count {
            let drawn = self.draw(families, odd, choose);
            let chance = choose(40);
            if !is_modest(&drawn) {
                continue;
            }
            match chance {
                0 => {
                    in_transaction = !in_transaction;
                    commands.push(word(if in_transaction { "MULTI" } else { "EXEC" }));
                    commands.push(drawn);
                }
                1 | 2 if !in_transaction => {
                    let call = ["call", "pcall"][choose(2)];
                    let script = format!("return redis.{call}(unpack(ARGV))");
                    let mut script: Words = vec![b"EVAL".to_vec(), script.into(), b"0".to_vec()];
                    script.extend(drawn);
                    commands.push(script);
                }
                _ => commands.push(drawn),
            }
        }
        if in_transaction {
            commands.push(word("EXEC"));
        }
        commands
    }

    /// Names of the families.
    pub fn families(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().map(|family| family.name)
    }

    /// A command of one of these families; about one of `odd` is spoilt, none when that is 0.
    ///
    /// # Panics
    /// When there is no such family.
    pub fn draw(&self, families: &[&str], odd: usize, choose: Choose<'_>) -> Words {
        let name = families[choose(families.len())];
        let family = self.0.iter().find(|family| family.name == name);
        let family = family.expect("a family of the table");
        let mut words = Vec::new();
        let line = &family.lines[choose(family.lines.len())];
        write(line, family.letter, &mut words, choose);
        if odd > 0 && choose(odd) == 0 {
            spoil(&mut words, choose);
        }
        words.into_iter().map(String::into_bytes).collect()
    }
}

/// Whether the command makes no string of hundreds of megabytes.
fn is_modest(words: &[Vec<u8>]) -> bool {
    let has = |word: &[u8]| words.iter().any(|it| it.eq_ignore_ascii_case(word));
    let far = |word: &Vec<u8>| {
        let text = String::from_utf8_lossy(word);
        let number = text.trim_start_matches('#').parse::<u64>();
        number.is_ok_and(|number| (1_000_000..1 << 32).contains(&number))
    };
    let bits = has(b"SETBIT") || has(b"SETRANGE") || has(b"BITFIELD");
    !(bits && words.iter().any(far))
}

/// A line as words and marks.
fn tokens(line: &'static str) -> Vec<&'static str> {
    let mut tokens = Vec::new();
    let mut rest = line.trim_start();
    while let Some(first) = rest.chars().next() {
        let end = match first {
            '[' | ']' | '(' | ')' | '{' | '}' | '|' => 1,
            '<' => rest.find('>').expect("a closed word") + 1,
            _ => rest
                .find(|it: char| it.is_whitespace() || "[](){}|".contains(it))
                .unwrap_or(rest.len()),
        };
        tokens.push(&rest[..end]);
        rest = rest[end..].trim_start();
    }
    tokens
}

/// The parts up to a mark that ends them, which is left.
fn parts(tokens: &mut Peekable<impl Iterator<Item = &'static str>>) -> Vec<Part> {
    let mut all = Vec::new();
    while let Some(token) = tokens.next_if(|token| !["]", ")", "}", "|"].contains(token)) {
        all.push(match token {
            "[" => Part::Maybe(parts(tokens)),
            "{" => Part::Several(parts(tokens)),
            "(" => {
                let mut choices = vec![parts(tokens)];
                while tokens.next_if_eq(&"|").is_some() {
                    choices.push(parts(tokens));
                }
                Part::OneOf(choices)
            }
            _ => match token.strip_prefix('<').and_then(|it| it.strip_suffix('>')) {
                Some(name) => Part::Drawn(name),
                None => Part::Word(token),
            },
        });
        if matches!(token, "[" | "{" | "(") {
            tokens.next();
        }
    }
    all
}

fn write(parts: &[Part], letter: char, out: &mut Vec<String>, choose: Choose<'_>) {
    let mut at = 0;
    while let Some(part) = parts.get(at) {
        // Options beside each other begin anywhere among them.
        let options = parts[at..]
            .iter()
            .take_while(|part| matches!(part, Part::Maybe(_)))
            .count();
        let turn = if options > 1 { choose(options) } else { 0 };
        for option in 0..options {
            if let Part::Maybe(inner) = &parts[at + (option + turn) % options]
                && choose(3) == 0
            {
                write(inner, letter, out, choose);
            }
        }
        at += options.max(1);
        match part {
            Part::Word(word) => out.push((*word).to_owned()),
            Part::Drawn(name) => values::draw(name, letter, out, choose),
            Part::OneOf(choices) => write(&choices[choose(choices.len())], letter, out, choose),
            Part::Several(inner) => {
                let count = [1, 1, 2, 1, 2, 3, 3, 8][choose(8)];
                (0..count).for_each(|_| write(inner, letter, out, choose));
            }
            Part::Maybe(_) => {}
        }
    }
}

/// Takes a word away, doubles one, puts in an odd one, or exchanges two; never the command's name.
fn spoil(words: &mut Vec<String>, choose: Choose<'_>) {
    let other = |choose: Choose<'_>, words: &[String]| 1 + choose(words.len().max(2) - 1);
    let at = other(choose, words);
    if at >= words.len() {
        return words.push(values::odd(choose));
    }
    match choose(5) {
        0 => drop(words.remove(at)),
        1 => words.insert(at, words[at].clone()),
        2 => words.insert(at, values::odd(choose)),
        3 => words[at] = values::odd(choose),
        _ => {
            let with = other(choose, words);
            words.swap(at, with);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_can_be_drawn() {
        let table = Commands::table();
        let names: Vec<&str> = table.families().collect();
        assert!(names.contains(&"stream"));
        let mut state = 1usize;
        let mut choose = |bound: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % bound
        };
        for _ in 0..5_000 {
            let words = table.draw(&names, 4, &mut choose);
            assert!(
                words[0]
                    .iter()
                    .all(|byte| byte.is_ascii_uppercase() || *byte == b'_')
            );
        }
    }

    #[test]
    fn a_line_is_written_as_its_marks_say() {
        let mut parsed = tokens("SET <k> [(NX|XX)] [GET]").into_iter().peekable();
        let parsed = parts(&mut parsed);
        let mut words = Vec::new();
        // Key 0 of its own family, the second option first, both there, and the second word of the first.
        let mut choices = [0, 1, 1, 0, 0, 1].into_iter();
        write(&parsed, 's', &mut words, &mut |_| {
            choices.next().expect("no more choices")
        });
        assert_eq!(words, ["SET", "s0", "GET", "XX"]);
    }
}
