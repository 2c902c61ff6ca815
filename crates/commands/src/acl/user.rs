//! One user.

use super::password::PasswordHash;
use super::selector::{Patterns, Selector};

/// A user: how it authenticates and what it may do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct User {
    /// Its name: any bytes but spaces.
    pub name: Box<[u8]>,
    /// Connections may authenticate as this user.
    pub enabled: bool,
    /// Every password is right.
    pub any_password: bool,
    /// Whether payloads of RESTORE are checked in depth; `None` until a rule says so.
    pub(super) sanitize: Option<bool>,
    /// The right passwords.
    pub passwords: Vec<PasswordHash>,
    /// The first one is the user's own; there is always one.
    pub(super) selectors: Vec<Selector>,
}

impl User {
    /// A user that may do nothing, unless every channel is allowed by default.
    pub fn new(name: &[u8], all_channels: bool) -> User {
        User {
            name: name.into(),
            enabled: false,
            any_password: false,
            sanitize: None,
            passwords: Vec::new(),
            selectors: vec![Selector::new(all_channels)],
        }
    }

    /// A user that may do everything without a password: the default user at the start.
    pub fn unrestricted(name: &[u8]) -> User {
        let mut user = User::new(name, true);
        user.enabled = true;
        user.any_password = true;
        for rule in [&b"+@all"[..], b"~*"] {
            user.selectors[0]
                .apply(rule)
                .expect("these rules always apply");
        }
        user
    }

    /// True when no command of it need be checked.
    pub fn is_unrestricted(&self) -> bool {
        self.selectors.iter().any(Selector::is_unrestricted)
    }

    /// Whether a connection may authenticate with this password. Compares all hashes whatever the first ones say.
    pub fn accepts(&self, password: &[u8]) -> bool {
        if !self.enabled {
            return false;
        }
        if self.any_password {
            return true;
        }
        let hash = PasswordHash::of(password);
        self.passwords
            .iter()
            .fold(false, |right, known| right | known.matches(&hash))
    }

    /// Makes `password` the only one; without one every password is right (`requirepass`).
    pub fn set_only_password(&mut self, password: Option<&[u8]>) {
        self.passwords = password.map(PasswordHash::of).into_iter().collect();
        self.any_password = password.is_none();
    }

    /// The user's own selector and the others.
    pub fn selectors(&self) -> &[Selector] {
        &self.selectors
    }

    /// The words that ACL GETUSER shows as flags, in the order of ACL LIST.
    pub fn flags(&self) -> impl Iterator<Item = &'static str> {
        let sanitize = self.sanitize.map(|check| match check {
            true => "sanitize-payload",
            false => "skip-sanitize-payload",
        });
        let state = if self.enabled { "on" } else { "off" };
        let nopass = self.any_password.then_some("nopass");
        [Some(state), nopass, sanitize].into_iter().flatten()
    }

    /// Whether subscribers that `before` allowed must be asked again: true unless `self` allows every channel that
    /// `before` did, as far as the lists of patterns tell.
    pub fn narrows_channels_of(&self, before: &User) -> bool {
        let mut allowed: Vec<&[u8]> = Vec::new();
        for selector in &self.selectors {
            match &selector.channels {
                Patterns::All => return false,
                Patterns::Some(channels) => allowed.extend(channels.iter().map(|it| &**it)),
            }
        }
        before
            .selectors
            .iter()
            .any(|selector| match &selector.channels {
                Patterns::All => true,
                Patterns::Some(channels) => channels.iter().any(|it| !allowed.contains(&&**it)),
            })
    }

    /// Whether a selector allows the channel, or the pattern taken literally.
    pub fn allows_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        self.selectors
            .iter()
            .any(|selector| selector.allows_channel(channel, is_pattern))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(rules: &[&str]) -> User {
        let mut user = User::new(b"u", false);
        for rule in rules {
            user.apply(rule.as_bytes(), false).expect("a rule");
        }
        user
    }

    #[test]
    fn passwords_come_and_go() {
        let mut it = user(&["on", ">one", ">two", ">two"]);
        assert_eq!(it.passwords.len(), 2);
        assert!(it.accepts(b"one") && it.accepts(b"two") && !it.accepts(b"three"));
        it.apply(b"<one", false).expect("a password of the user");
        assert!(!it.accepts(b"one"));
        it.apply(b"nopass", false).expect("a rule");
        assert!(it.accepts(b"anything") && it.passwords.is_empty());
        it.apply(b"resetpass", false).expect("a rule");
        assert!(!it.accepts(b"anything"));
        assert!(
            !user(&["nopass"]).accepts(b""),
            "users are disabled at first"
        );
    }

    #[test]
    fn flags_stand_in_redis_order() {
        let flags = |rules: &[&str]| user(rules).flags().collect::<Vec<_>>();
        assert_eq!(flags(&[]), ["off"]);
        assert_eq!(
            flags(&["skip-sanitize-payload", "nopass", "on"]),
            ["on", "nopass", "skip-sanitize-payload"]
        );
        assert_eq!(flags(&["reset"]), ["off", "sanitize-payload"]);
    }

    #[test]
    fn unrestricted_is_every_command_key_and_channel() {
        assert!(User::unrestricted(b"default").is_unrestricted());
        assert!(user(&["allcommands", "allkeys", "allchannels"]).is_unrestricted());
        assert!(!user(&["+@all", "~*"]).is_unrestricted());
        assert!(!user(&["+@all", "-get", "~*", "&*"]).is_unrestricted());
        assert!(user(&["(+@all ~* &*)"]).is_unrestricted());
    }

    #[test]
    fn fewer_channels_are_noticed() {
        let old = user(&["&a", "&b"]);
        assert!(!user(&["&*"]).narrows_channels_of(&old));
        assert!(!user(&["&b", "(&a)"]).narrows_channels_of(&old));
        assert!(user(&["&a"]).narrows_channels_of(&old));
        assert!(user(&["&a"]).narrows_channels_of(&user(&["&*"])));
    }
}
