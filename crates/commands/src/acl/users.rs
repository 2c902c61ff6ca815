//! The table of users, and the text of the ACL file.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::rules::{RuleError, has_spaces, join_selectors};
use super::user::User;

/// The user of connections that have not authenticated as another.
pub const DEFAULT_USER: &[u8] = b"default";

/// All users by name. A clone is as cheap as its map: users are shared.
#[derive(Clone, Debug)]
pub struct Users {
    map: BTreeMap<Box<[u8]>, Arc<User>>,
    /// New selectors allow every channel (`acl-pubsub-default`).
    all_channels: bool,
}

impl Default for Users {
    fn default() -> Users {
        let default = Arc::new(User::unrestricted(DEFAULT_USER));
        Users {
            map: BTreeMap::from([(DEFAULT_USER.into(), default)]),
            all_channels: false,
        }
    }
}

impl Users {
    /// The user of that name.
    pub fn get(&self, name: &[u8]) -> Option<&Arc<User>> {
        self.map.get(name)
    }

    /// The default user.
    ///
    /// # Panics
    ///
    /// Never: it cannot be removed.
    pub fn default_user(&self) -> &Arc<User> {
        self.get(DEFAULT_USER).expect("the default user stays")
    }

    /// All users in the order of their names.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<User>> {
        self.map.values()
    }

    /// Sets what new selectors allow of channels.
    pub fn set_channel_default(&mut self, all: bool) {
        self.all_channels = all;
    }

    /// Puts a user in the place of the one of its name.
    pub fn insert(&mut self, user: User) {
        self.map.insert(user.name.clone(), Arc::new(user));
    }

    /// Removes a user; the default one stays.
    pub fn remove(&mut self, name: &[u8]) -> bool {
        name != DEFAULT_USER && self.map.remove(name).is_some()
    }

    /// ACL SETUSER: what the rules make of the user of that name, or of a new one; all rules or none. The error is the
    /// text of the reply.
    pub fn changed(&self, name: &[u8], rules: &[&[u8]]) -> Result<User, Vec<u8>> {
        if has_spaces(name) {
            return Err(b"Usernames can't contain spaces or null characters".to_vec());
        }
        let joined = join_selectors(rules).map_err(|at| {
            let head = b"Unmatched parenthesis in acl selector starting at '";
            [head, rules[at], b"'."].concat()
        })?;
        let mut user = match self.get(name) {
            Some(user) => User::clone(user),
            None => User::new(name, self.all_channels),
        };
        for rule in &joined {
            user.apply(rule, self.all_channels).map_err(|error| {
                let head = b"Error in ACL SETUSER modifier '";
                [head, &**rule, b"': ", error.text().as_bytes()].concat()
            })?;
        }
        Ok(user)
    }

    /// The text of the ACL file: a line for each user.
    pub fn save(&self) -> Vec<u8> {
        let mut text = Vec::new();
        for user in self.iter() {
            text.extend_from_slice(&describe_line(user));
            text.push(b'\n');
        }
        text
    }

    /// Users of an ACL file, all or none; `file` names it in errors, which stand in one line as in Redis. Without a line
    /// for the default user it may do everything.
    pub fn load(&self, file: &str, text: &[u8]) -> Result<Users, String> {
        let mut loaded = Users {
            map: BTreeMap::new(),
            all_channels: self.all_channels,
        };
        let mut errors = String::new();
        for (at, line) in text.split(|&b| b == b'\n').enumerate() {
            if let Err(error) = loaded.load_line(file, at + 1, trim(line)) {
                errors.push_str(&error);
            }
        }
        if !errors.is_empty() {
            errors.push_str(
                "WARNING: ACL errors detected, no change to the previously active ACL rules was performed",
            );
            return Err(errors);
        }
        if loaded.get(DEFAULT_USER).is_none() {
            loaded.insert(User::unrestricted(DEFAULT_USER));
        }
        Ok(loaded)
    }

    fn load_line(&mut self, file: &str, number: usize, line: &[u8]) -> Result<(), String> {
        if line.is_empty() {
            return Ok(());
        }
        let words: Vec<&[u8]> = line.split(|&b| b == b' ').collect();
        let [b"user", name, rules @ ..] = &words[..] else {
            return Err(format!(
                "{file}:{number} should start with user keyword followed by the username. "
            ));
        };
        let shown = String::from_utf8_lossy(name);
        if has_spaces(name) {
            return Err(format!(
                "'{file}:{number}: username '{shown}' contains invalid characters. "
            ));
        }
        if self.get(name).is_some() {
            return Err(format!(
                "WARNING: Duplicate user '{shown}' found on line {number}. "
            ));
        }
        let joined = join_selectors(rules).map_err(|_| {
            format!("{file}:{number}: Unmatched parenthesis in selector definition.")
        })?;
        let mut user = User::new(name, self.all_channels);
        let (mut errors, mut told) = (String::new(), false);
        for rule in &joined {
            let rule = trim(rule);
            match user.apply(rule, self.all_channels) {
                Ok(()) => {}
                Err(error @ RuleError::UnknownCommand) => {
                    let rule = String::from_utf8_lossy(rule);
                    let text = error.text();
                    errors.push_str(&format!(
                        "{file}:{number}: Error in applying operation '{rule}': {text}. "
                    ));
                }
                // What follows a mistake may be wrong because of it only; and it may hold a password.
                Err(error) if !told => {
                    told = true;
                    errors.push_str(&format!("{file}:{number}: {}. ", error.text()));
                }
                Err(_) => {}
            }
        }
        self.insert(user);
        if errors.is_empty() {
            Ok(())
        } else {
            Err(errors)
        }
    }

    /// A `user` line of the configuration file: the name and the rules behind the word. The error is the reason.
    pub fn configure(&mut self, words: &[&[u8]]) -> Result<(), String> {
        let Some((name, rules)) = words.split_first() else {
            return Err("a user name is missing".to_owned());
        };
        if has_spaces(name) {
            return Err("Spaces not allowed in ACL usernames".to_owned());
        }
        let joined = join_selectors(rules)
            .map_err(|_| "Unmatched parenthesis in selector definition".to_owned())?;
        let mut user = User::new(name, self.all_channels);
        if *name == DEFAULT_USER {
            user.apply(b"reset", self.all_channels)
                .map_err(|error| error.text().to_owned())?;
        }
        for rule in &joined {
            user.apply(rule, self.all_channels).map_err(|error| {
                let rule = String::from_utf8_lossy(rule);
                format!("Error loading ACL rule '{rule}': {}", error.text())
            })?;
        }
        self.insert(user);
        Ok(())
    }
}

/// `user name rules`, as ACL LIST shows it.
pub(crate) fn describe_line(user: &User) -> Vec<u8> {
    [b"user ", &*user.name, b" ", &user.describe()].concat()
}

impl User {
    /// `user name rules`, as ACL LIST shows it and the ACL file holds it.
    pub fn to_line(&self) -> Vec<u8> {
        describe_line(self)
    }
}

fn trim(line: &[u8]) -> &[u8] {
    let blank = |b: &u8| matches!(b, b' ' | b'\t' | b'\r' | b'\n');
    let start = line.iter().position(|b| !blank(b)).unwrap_or(line.len());
    let end = line
        .iter()
        .rposition(|b| !blank(b))
        .map_or(start, |at| at + 1);
    &line[start..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_all_or_nothing() {
        let mut users = Users::default();
        let user = users
            .changed(b"bob", &[b"on", b"+get", b"~a"])
            .expect("rules");
        users.insert(user);
        let error = users
            .changed(b"bob", &[b"off", b"+nosuch"])
            .expect_err("no command");
        assert_eq!(
            String::from_utf8_lossy(&error),
            "Error in ACL SETUSER modifier '+nosuch': Unknown command or category name in ACL"
        );
        assert!(users.get(b"bob").expect("bob").enabled);
        let error = users.changed(b"bob", &[b"(+get", b"~a"]).expect_err("open");
        assert_eq!(
            String::from_utf8_lossy(&error),
            "Unmatched parenthesis in acl selector starting at '(+get'."
        );
        assert!(users.changed(b"a b", &[]).is_err());
        assert!(!users.remove(DEFAULT_USER) && users.remove(b"bob") && !users.remove(b"bob"));
    }

    #[test]
    fn a_file_loads_whole_or_not_at_all() {
        let users = Users::default();
        let loaded = users
            .load(
                "f",
                b"user bob on nopass +@all ~* &*\r\n\n  user eve off (+get ~x)\n",
            )
            .expect("a file");
        assert_eq!(loaded.iter().len(), 3);
        assert!(loaded.default_user().is_unrestricted());
        assert_eq!(
            users.load("f", &loaded.save()).expect("a file").save(),
            loaded.save()
        );
        let error = users
            .load(
                "f",
                b"bob on\nuser a +nosuch >x #y\nuser b\nuser b\nuser c (\n",
            )
            .expect_err("a bad file");
        assert_eq!(
            error,
            "f:1 should start with user keyword followed by the username. \
             f:2: Error in applying operation '+nosuch': Unknown command or category name in ACL. \
             f:2: The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters. \
             WARNING: Duplicate user 'b' found on line 4. \
             f:5: Unmatched parenthesis in selector definition.\
             WARNING: ACL errors detected, no change to the previously active ACL rules was performed"
        );
    }
}
