//! Were two targets set up alike? What one of them writes to disk, evicts or runs on more threads, the other saves.

use super::{Difference, Setting, TargetRecord};

/// Settings that change what a request costs, each with the value at which it costs nothing. A target that does not tell a
/// setting is taken to have that value: a server without the setting does not do what it stands for.
const TELLING: [(&str, &str); 3] = [("appendonly", "no"), ("save", ""), ("maxmemory", "0")];
/// Settings that count only where another one, which they belong to, is in force on both sides.
const DEPENDENT: [(&str, &str); 2] = [
    ("appendfsync", "appendonly"),
    ("maxmemory-policy", "maxmemory"),
];
/// Redis' name for the number of threads that serve connections; Tollgate takes it for its own.
const THREADS: &str = "io-threads";

impl TargetRecord {
    /// The value of a setting; `None` if the target does not tell it.
    #[must_use]
    pub(crate) fn setting(&self, name: &str) -> Option<&str> {
        let of = |setting: &&Setting| setting.name == name;
        self.settings
            .iter()
            .find(of)
            .map(|found| found.value.as_str())
    }

    /// The value of a setting, or of one that is not told the value at which it does nothing; `None` where that is not known.
    #[must_use]
    pub(crate) fn setting_or_rest(&self, name: &str) -> Option<&str> {
        let at_rest = || TELLING.iter().find(|(known, _)| *known == name);
        self.setting(name).or_else(|| Some(at_rest()?.1))
    }

    /// Threads that serve requests, as far as they are known: those it was started with, or as many as it says.
    #[must_use]
    pub(crate) fn serving_threads(&self) -> Option<u32> {
        let told = self.setting(THREADS).and_then(|text| text.parse().ok());
        self.threads.max(told)
    }

    /// What a Unix socket saves, TCP costs.
    fn transport(&self) -> &'static str {
        match self.url.starts_with("unix:") {
            true => "unix socket",
            false => "TCP",
        }
    }
}

/// In what the settings of two targets of one run differ that decide what a request costs: threads, transport, place, and
/// what they keep, evict and sync. Empty if they may be ranked against each other.
#[must_use]
pub(crate) fn unequal(a: &TargetRecord, b: &TargetRecord) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut differ = |what: &str, a: &str, b: &str| {
        if a != b {
            let shown = |text: &str| match text {
                "" => "none".to_owned(),
                text => text.to_owned(),
            };
            found.push(Difference {
                what: what.to_owned(),
                a: shown(a),
                b: shown(b),
            });
        }
    };
    if let (Some(a), Some(b)) = (a.serving_threads(), b.serving_threads()) {
        differ("target's threads", &a.to_string(), &b.to_string());
    }
    differ("transport", a.transport(), b.transport());
    differ(
        "target on the generator's machine",
        &a.co_located.to_string(),
        &b.co_located.to_string(),
    );
    for (name, at_rest) in TELLING {
        let value = |target: &TargetRecord| target.setting(name).unwrap_or(at_rest).to_owned();
        let (a_has, b_has) = (value(a), value(b));
        differ(&format!("setting {name}"), &a_has, &b_has);
        if a_has == at_rest || b_has == at_rest {
            continue;
        }
        for (detail, _) in DEPENDENT.iter().filter(|(_, of)| *of == name) {
            if let (Some(a), Some(b)) = (a.setting(detail), b.setting(detail)) {
                differ(&format!("setting {detail}"), a, b);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(settings: &[(&str, &str)]) -> TargetRecord {
        let setting = |(name, value): &(&str, &str)| Setting {
            name: (*name).into(),
            value: (*value).into(),
        };
        TargetRecord {
            settings: settings.iter().map(setting).collect(),
            threads: Some(1),
            co_located: true,
            url: "redis://127.0.0.1:1".into(),
            ..TargetRecord::default()
        }
    }

    fn named(a: &TargetRecord, b: &TargetRecord) -> Vec<String> {
        let text = |found: Difference| format!("{}: {} | {}", found.what, found.a, found.b);
        unequal(a, b).into_iter().map(text).collect()
    }

    #[test]
    fn what_costs_nothing_is_no_difference() {
        let redis = target(&[
            ("save", ""),
            ("appendonly", "no"),
            ("appendfsync", "everysec"),
            ("maxmemory", "0"),
            ("maxmemory-policy", "noeviction"),
            ("io-threads", "1"),
        ]);
        let other = target(&[
            ("appendfsync", "always"),
            ("maxmemory-policy", "allkeys-lru"),
        ]);
        assert_eq!(named(&redis, &other), Vec::<String>::new());
        assert_eq!(
            named(
                &redis,
                &TargetRecord {
                    threads: None,
                    ..other
                }
            ),
            Vec::<String>::new()
        );
    }

    #[test]
    fn each_setting_that_costs_is_named() {
        let plain = target(&[]);
        let keeps = target(&[("appendonly", "yes"), ("appendfsync", "always")]);
        assert_eq!(named(&plain, &keeps), ["setting appendonly: no | yes"]);
        let lazier = target(&[("appendonly", "yes"), ("appendfsync", "everysec")]);
        assert_eq!(
            named(&keeps, &lazier),
            ["setting appendfsync: always | everysec"]
        );
        let saves = target(&[("save", "60 1")]);
        assert_eq!(named(&plain, &saves), ["setting save: none | 60 1"]);
        let bound = target(&[("maxmemory", "1000"), ("maxmemory-policy", "noeviction")]);
        assert_eq!(named(&bound, &plain), ["setting maxmemory: 1000 | 0"]);
        let evicts = target(&[("maxmemory", "1000"), ("maxmemory-policy", "allkeys-lru")]);
        assert_eq!(
            named(&bound, &evicts),
            ["setting maxmemory-policy: noeviction | allkeys-lru"]
        );
    }

    #[test]
    fn threads_count_whoever_tells_them() {
        let (one, four) = (target(&[]), target(&[("io-threads", "4")]));
        assert_eq!(named(&one, &four), ["target's threads: 1 | 4"]);
        let started = TargetRecord {
            threads: Some(4),
            ..target(&[])
        };
        assert_eq!(named(&four, &started), Vec::<String>::new());
        let socket = TargetRecord {
            url: "unix:///s".into(),
            ..target(&[])
        };
        assert_eq!(named(&one, &socket), ["transport: TCP | unix socket"]);
    }
}
