//! What held a ladder back and what a decision cost, in a line.

use super::format::{rate, significant};
use super::lang::recorded::recorded;
use super::lang::{Lang, found as f};
use super::words;
use crate::record::Step;

/// Bottleneck and cost of the first row of a ladder that did not hold, or of its last row; `None` if nothing was watched.
pub(crate) fn limit_line(steps: &[Step], lang: Lang) -> Option<String> {
    let step = steps
        .iter()
        .find(|step| !step.holds())
        .or_else(|| steps.last())?;
    let found = step.attribution.as_ref()?;
    let mut line = f::F_AT.with(
        lang,
        &[
            ("load", &rate(step.target_rps)),
            ("what", &recorded(&found.bottleneck.sentence, lang)),
        ],
    );
    let costs: Vec<String> = found
        .cost
        .iter()
        .filter_map(|cost| {
            let us = significant(cost.cpu_us_per_decision?);
            Some(format!("{} {us}", words::role(cost.role, lang)))
        })
        .collect();
    if !costs.is_empty() {
        line.push_str(&f::F_CPU_PER.with(lang, &[("costs", &costs.join(", "))]));
    }
    if let Some(cost) = found.cost_per_million {
        line.push_str(&f::F_PER_MILLION.with(lang, &[("cost", &amount(cost))]));
    }
    if let Some(joules) = found.joules_per_million {
        line.push_str(&f::F_JOULES.with(lang, &[("joules", &significant(joules))]));
    }
    Some(line)
}

/// An amount of money with three digits, however small.
fn amount(value: f64) -> String {
    let digits = 2.0 - value.abs().max(1e-9).log10().floor();
    format!("{value:.*}", digits.clamp(0.0, 9.0) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::attribution::{Attribution, Bottleneck, Limit, Role, RoleCost};
    use crate::record::{Level, Status};

    #[test]
    fn the_first_row_that_did_not_hold_is_explained() {
        let step = |target_rps: f64, level, us| Step {
            target_rps,
            status: Status {
                level,
                rule: String::new(),
            },
            attribution: Some(Attribution {
                bottleneck: Bottleneck {
                    limit: Limit::Store,
                    sentence: "limited by the store".into(),
                },
                cost: vec![
                    RoleCost {
                        role: Role::Store,
                        cpu_us_per_decision: us,
                    },
                    RoleCost::default(),
                ],
                cost_per_million: Some(0.00642),
                ..Attribution::default()
            }),
            ..Step::default()
        };
        let mut steps = vec![
            step(10_000.0, Level::Ok, Some(7.0)),
            step(20_000.0, Level::Failed, Some(8.25)),
            step(30_000.0, Level::Collapsed, None),
        ];
        assert_eq!(
            limit_line(&steps, Lang::En).unwrap(),
            "at 20,000/s limited by the store; CPU us per decision: store 8.25; 0.00642 per million decisions"
        );
        steps.truncate(1);
        assert!(
            limit_line(&steps, Lang::En)
                .unwrap()
                .starts_with("at 10,000/s")
        );
        steps[0].attribution = None;
        assert_eq!(limit_line(&steps, Lang::En), None);
        assert_eq!(limit_line(&[], Lang::En), None);
    }
}
