//! Names of leases, which no two requests share, on whatever service.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_limiter::Act;
use tollgate_limiter::codec::ID_MAX;
use tollgate_policy::{LimitCheck, MAX_DESCRIPTORS, MAX_LIMITS, Resolved};

use crate::backend::Checks;

/// The name under which a request holds places that may be in use at the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeaseName(String);

impl LeaseName {
    /// That of a request which takes none.
    pub(crate) const NONE: Self = Self(String::new());

    /// A new one: what tells this process from others, and a number.
    pub(crate) fn new() -> Self {
        static PROCESS: OnceLock<u128> = OnceLock::new();
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let process = PROCESS.get_or_init(|| {
            // Seeded by the system, and differently each time.
            let random = || u128::from(RandomState::new().hash_one(std::process::id()));
            random() << 64 | random()
        });
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        Self(format!("{process:032x}-{count:x}"))
    }

    pub(crate) fn as_text(&self) -> &str {
        &self.0
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// Longest name of a caller's own, in bytes: behind it there is room for what tells apart as many checks as a request can have.
pub(crate) const OWN_MAX: usize = ID_MAX - "_16384".len();
const _: () = assert!(MAX_DESCRIPTORS * MAX_LIMITS <= 16_384);

/// The names under which the checks of one request hold. Those that name one counter have one each: by the same name the second
/// would only renew what the first holds, though each gives its own back.
pub(crate) struct HoldNames<'n> {
    own: &'n [u8],
    /// Of checks whose counter an earlier one names, by their index.
    further: OnceCell<HashMap<usize, Box<[u8]>>>,
}

impl<'n> HoldNames<'n> {
    /// `own` is empty for a request that holds nothing.
    pub(crate) const fn new(own: &'n [u8]) -> Self {
        Self {
            own,
            further: OnceCell::new(),
        }
    }

    /// The checks of the request, each under its name.
    pub(crate) fn checks<'a>(&'a self, resolved: &'a Resolved<'_>) -> Checks<'a> {
        let mut checks: Checks<'a> = resolved.checks(self.own).collect();
        if checks.len() > 1 && !self.own.is_empty() {
            self.further.get_or_init(|| self.further_of(&checks));
            for (at, check) in checks.iter_mut().enumerate() {
                if let Act::Hold { id, .. } = &mut check.act {
                    *id = self.of(at);
                }
            }
        }
        checks
    }

    /// The name by which the check at an index holds.
    pub(crate) fn of(&self, at: usize) -> &[u8] {
        let further = self.further.get().and_then(|further| further.get(&at));
        further.map_or(self.own, |name| name)
    }

    fn further_of(&self, checks: &[LimitCheck<'_>]) -> HashMap<usize, Box<[u8]>> {
        let mut named: HashMap<&[u8], usize> = HashMap::with_capacity(checks.len());
        let mut further = HashMap::new();
        for (at, check) in checks.iter().enumerate() {
            let times = named.entry(check.key).or_default();
            if *times > 0 {
                // No caller's own name: those are UTF-8, and short enough.
                let name = [self.own, b"\xff", times.to_string().as_bytes()].concat();
                further.insert(at, name.into());
            }
            *times += 1;
        }
        further
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_are_the_same() {
        assert_ne!(LeaseName::new(), LeaseName::new());
        assert!(LeaseName::new().as_bytes().len() < 64);
    }
}
