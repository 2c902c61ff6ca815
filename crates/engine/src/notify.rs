//! Which keyspace notifications are published: the setting `notify-keyspace-events`.

use tollgate_commands::EventClass;

/// A set of classes, and where they are published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Notify(u32);

/// The letters with their bits, in the order in which the setting is shown.
const LETTERS: &[(u8, u32)] = &[
    (b'g', 1 << 2),
    (b'$', 1 << 3),
    (b'l', 1 << 4),
    (b's', 1 << 5),
    (b'h', 1 << 6),
    (b'z', 1 << 7),
    (b'x', 1 << 8),
    (b'e', 1 << 9),
    (b't', 1 << 10),
    (b'd', 1 << 13),
    (b'n', 1 << 14),
    (b'K', KEYSPACE),
    (b'E', KEYEVENT),
    (b'm', 1 << 11),
];
const KEYSPACE: u32 = 1;
const KEYEVENT: u32 = 1 << 1;
/// What the letter A stands for: all classes but key misses and new keys.
const ALL: u32 = 0x07FC | 1 << 13;

impl Notify {
    /// No notification.
    pub const NONE: Notify = Notify(0);

    /// Reads the setting; `None` for an unknown letter.
    pub fn parse(text: &[u8]) -> Option<Notify> {
        let bit = |letter: &u8| match letter {
            b'A' => Some(ALL),
            _ => Some(LETTERS.iter().find(|(other, _)| other == letter)?.1),
        };
        text.iter()
            .map(bit)
            .try_fold(0, |bits, bit| Some(bits | bit?))
            .map(Notify)
    }

    /// The setting as CONFIG GET shows it. It can be set again, so the class of new keys is shown beside `A` too.
    pub fn text(self) -> String {
        let all = self.0 & ALL == ALL;
        let shown = |bit: u32| self.0 & bit & !(if all { ALL } else { 0 }) != 0;
        let letters = LETTERS.iter().filter(|(_, bit)| shown(*bit));
        all.then_some('A')
            .into_iter()
            .chain(letters.map(|(letter, _)| char::from(*letter)))
            .collect()
    }

    pub(crate) fn bits(self) -> u32 {
        self.0
    }

    pub(crate) fn from_bits(bits: u32) -> Notify {
        Notify(bits)
    }

    /// Whether events of that class are published.
    pub(crate) fn wants(self, class: EventClass) -> bool {
        let letter = match class {
            EventClass::Generic => b'g',
            EventClass::String => b'$',
            EventClass::List => b'l',
            EventClass::Set => b's',
            EventClass::Hash => b'h',
            EventClass::SortedSet => b'z',
            EventClass::Stream => b't',
            EventClass::Expired => b'x',
            EventClass::Evicted => b'e',
            EventClass::KeyMiss => b'm',
            EventClass::New => b'n',
            // Rate limiters are modules where they come from.
            EventClass::RateLimit => b'd',
        };
        let bit = LETTERS.iter().find(|(other, _)| *other == letter);
        bit.is_some_and(|(_, bit)| self.0 & bit != 0)
    }

    /// Published on the key's channel.
    pub(crate) fn keyspace(self) -> bool {
        self.0 & KEYSPACE != 0
    }

    /// Published on the event's channel.
    pub(crate) fn keyevent(self) -> bool {
        self.0 & KEYEVENT != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_read_and_print_as_in_redis() {
        let shown = |text: &str| Notify::parse(text.as_bytes()).map(Notify::text);
        assert_eq!(shown("").as_deref(), Some(""));
        assert_eq!(shown("KEA").as_deref(), Some("AKE"));
        assert_eq!(shown("g$lshzxetdKE").as_deref(), Some("AKE"));
        assert_eq!(shown("Em").as_deref(), Some("Em"));
        assert_eq!(shown("xKEn$").as_deref(), Some("$xnKE"));
        assert_eq!(shown("AnKE").as_deref(), Some("AnKE"));
        assert_eq!(shown("q"), None);
    }
}
