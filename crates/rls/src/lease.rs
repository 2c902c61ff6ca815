//! Names of leases, which no two requests share, on whatever service.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_are_the_same() {
        assert_ne!(LeaseName::new(), LeaseName::new());
        assert!(LeaseName::new().as_bytes().len() < 64);
    }
}
