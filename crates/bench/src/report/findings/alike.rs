//! Targets of one scenario that were not set up alike: their rows stand side by side, and none of them is a winner.

use crate::record::{Difference, TargetRecord, unequal};

use super::super::lang::{Lang, page as t};
use super::super::stored;
use super::{Ranked, ScenarioFindings};

/// What a target's name is followed by where it was not set up as the best one.
const MARK: &str = "≠";

impl ScenarioFindings<'_> {
    /// In what two of the targets differ that decides what a request costs.
    pub(crate) fn differences(&self, a: &str, b: &str) -> Vec<Difference> {
        let of = |name: &str| self.targets.iter().find(|target| target.name == name);
        match (of(a), of(b)) {
            (Some(a), Some(b)) => unequal(a, b),
            _ => Vec::new(),
        }
    }

    /// The same against the best.
    pub(crate) fn unlike_best(&self, target: &str) -> Vec<Difference> {
        let best: Option<&TargetRecord> = self.ranked.first().and_then(|best| {
            let named = |one: &&TargetRecord| one.name == best.cell.target;
            self.targets.iter().find(named)
        });
        best.map_or_else(Vec::new, |best| self.differences(&best.name, target))
    }

    /// Whether the targets may be ranked: they were set up alike, or it was asked for.
    pub(crate) fn may_rank(&self) -> bool {
        let alike = |one: &Ranked<'_>| self.unlike_best(&one.cell.target).is_empty();
        self.unequal_allowed || self.ranked.iter().all(alike)
    }

    /// The target's name, marked where it was not set up as the best.
    pub(crate) fn marked(&self, target: &str) -> String {
        match self.unlike_best(target).is_empty() {
            true => target.to_owned(),
            false => format!("{target} {MARK}"),
        }
    }

    /// What the mark means here; `None` where no target has one.
    pub(crate) fn legend(&self, lang: Lang) -> Option<String> {
        let best = self.ranked.first()?.cell.target.as_str();
        let mut told: Vec<(&str, String)> = Vec::new();
        for one in &self.ranked {
            let target = one.cell.target.as_str();
            let found = self.unlike_best(target);
            if !found.is_empty() && told.iter().all(|(known, _)| *known != target) {
                told.push((target, why(&found, lang)));
            }
        }
        if told.is_empty() {
            return None;
        }
        let odd: Vec<String> = told
            .iter()
            .map(|(name, why)| format!("{name} ({why})"))
            .collect();
        let text = match self.unequal_allowed {
            true => t::UNLIKE_ALLOWED,
            false => t::UNLIKE,
        };
        Some(text.with(
            lang,
            &[("mark", MARK), ("best", best), ("odd", &odd.join("; "))],
        ))
    }
}

/// Differences in a row.
pub(crate) fn why(found: &[Difference], lang: Lang) -> String {
    stored::unequal(found, lang).join(", ")
}
