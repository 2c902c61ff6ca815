//! Users as rules: what ACL LIST, GETUSER and SAVE show.

use super::command_set::{CommandSet, every_row};
use super::selector::{KeyPattern, Patterns, Selector};
use super::user::User;
use crate::Acl;

impl User {
    /// The rules that make this user out of a new one, on one line.
    pub fn describe(&self) -> Vec<u8> {
        let mut line = Vec::new();
        for flag in self.flags() {
            line.extend_from_slice(flag.as_bytes());
            line.push(b' ');
        }
        for hash in &self.passwords {
            line.push(b'#');
            line.extend_from_slice(hash.as_str().as_bytes());
            line.push(b' ');
        }
        for (at, selector) in self.selectors().iter().enumerate() {
            if at == 0 {
                line.extend_from_slice(&selector.describe());
            } else {
                line.extend_from_slice(b" (");
                line.extend_from_slice(&selector.describe());
                line.push(b')');
            }
        }
        line
    }
}

impl KeyPattern {
    fn prefix(&self) -> &'static [u8] {
        match (self.read, self.write) {
            (true, false) => b"%R~",
            (false, true) => b"%W~",
            _ => b"~",
        }
    }
}

impl Selector {
    fn describe(&self) -> Vec<u8> {
        let mut line = self.describe_keys();
        if !line.is_empty() {
            line.push(b' ');
        }
        if matches!(self.channels, Patterns::Some(_)) {
            line.extend_from_slice(b"resetchannels ");
        }
        let channels = self.describe_channels();
        line.extend_from_slice(&channels);
        if !channels.is_empty() {
            line.push(b' ');
        }
        line.extend_from_slice(self.describe_commands().as_bytes());
        line
    }

    /// The rules on keys, separated by spaces.
    pub fn describe_keys(&self) -> Vec<u8> {
        match &self.keys {
            Patterns::All => b"~*".to_vec(),
            Patterns::Some(patterns) => {
                let all: Vec<Vec<u8>> = patterns
                    .iter()
                    .map(|it| [it.prefix(), &it.glob].concat())
                    .collect();
                all.join(&b' ')
            }
        }
    }

    /// The rules on channels, separated by spaces.
    pub fn describe_channels(&self) -> Vec<u8> {
        match &self.channels {
            Patterns::All => b"&*".to_vec(),
            Patterns::Some(channels) => {
                let all: Vec<Vec<u8>> = channels.iter().map(|it| [b"&", &**it].concat()).collect();
                all.join(&b' ')
            }
        }
    }

    /// The rules on commands: everything or nothing, the categories that fit best, then single commands.
    pub fn describe_commands(&self) -> String {
        // Starting from nothing and adding, or from everything and taking away.
        let adds = !self.commands.has_future();
        let (mut line, mut built) = match adds {
            true => ("-@all".to_owned(), CommandSet::none()),
            false => ("+@all".to_owned(), CommandSet::all()),
        };
        let sign = |adds: bool| if adds { '+' } else { '-' };
        for (category, name) in self.best_categories(adds) {
            built.set_category(category, adds);
            line.extend([' ', sign(adds), '@']);
            line.push_str(name);
        }
        for row in every_row() {
            let allowed = self.commands.contains(row);
            if allowed != built.contains(row) {
                built.set(row, allowed);
                line.extend([' ', sign(allowed)]);
                line.push_str(&row.name.to_ascii_lowercase());
            }
            let first_words = self.first_words.get(row.name).filter(|_| !allowed);
            for word in first_words.into_iter().flatten() {
                line.push_str(" +");
                line.push_str(&row.name.to_ascii_lowercase());
                line.push('|');
                line.push_str(&String::from_utf8_lossy(word));
            }
        }
        line
    }

    /// Categories that say most of what the selector allows (or, from everything on, does not) with the fewest
    /// exceptions; each is chosen on what those before it have left.
    fn best_categories(&self, adds: bool) -> Vec<(Acl, &'static str)> {
        let mut left = self.commands.clone();
        let mut chosen: Vec<(Acl, &'static str)> = Vec::new();
        loop {
            let mut best: Option<(usize, usize, (Acl, &'static str))> = None;
            for &(category, name) in Acl::NAMES {
                if chosen.iter().any(|(earlier, _)| *earlier == category) {
                    continue;
                }
                let (inside, outside) = left.count(category);
                let (same, different) = if adds {
                    (inside, outside)
                } else {
                    (outside, inside)
                };
                let better = best.is_none_or(|(least, most, _)| {
                    different < least || (different == least && same > most)
                });
                if same > different && better {
                    best = Some((different, same, (category, name)));
                }
            }
            let Some((_, _, category)) = best else {
                return chosen;
            };
            left.set_category(category.0, !adds);
            chosen.push(category);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acl::rules::join_selectors;

    fn user(rules: &str) -> User {
        let mut user = User::new(b"u", false);
        let rules: Vec<&[u8]> = rules.split(' ').map(str::as_bytes).collect();
        for rule in join_selectors(&rules).expect("closed") {
            user.apply(&rule, false).expect("a rule");
        }
        user
    }

    #[test]
    fn rules_stand_in_redis_order() {
        for (rules, shown) in [
            ("", "off resetchannels -@all"),
            ("on nopass +@all ~* &*", "on nopass ~* &* +@all"),
            (
                "+get ~a %R~b %W~c &x &y",
                "off ~a %R~b %W~c resetchannels &x &y -@all +get",
            ),
            ("+config|get", "off resetchannels -@all +config|get"),
            (
                "+config -config|set",
                "off resetchannels -@all +config -config|set",
            ),
            (
                "+select|0 +select|1",
                "off resetchannels -@all +select|0 +select|1",
            ),
            (
                "+@all -select +select|0",
                "off resetchannels +@all -select +select|0",
            ),
            ("+@ratelimit", "off resetchannels -@all +@ratelimit"),
            ("+@all -@ratelimit", "off resetchannels +@all -@ratelimit"),
            (
                "(~a +get)",
                "off resetchannels -@all (~a resetchannels -@all +get)",
            ),
        ] {
            assert_eq!(
                String::from_utf8_lossy(&user(rules).describe()),
                shown,
                "{rules}"
            );
        }
    }

    #[test]
    fn what_is_described_gives_the_same_user() {
        for rules in [
            "+@all -@admin -@dangerous +info",
            "+@read -@fast +config|get -client",
            "+@all -@all +@string +@keyspace -del",
            "on >secret +@connection -client|kill &news.* (%W~q:* +@write) (+@all -@write ~r)",
            "+@all -config +config|get -@slow +select|1",
        ] {
            let first = user(rules);
            let text = String::from_utf8(first.describe()).expect("ASCII rules");
            let second = user(&text);
            assert_eq!(String::from_utf8_lossy(&second.describe()), text, "{rules}");
            for (a, b) in first.selectors().iter().zip(second.selectors()) {
                assert_eq!(
                    (&a.commands, &a.keys, &a.channels),
                    (&b.commands, &b.keys, &b.channels)
                );
            }
        }
    }
}
