//! What a paired comparison found, in a few sentences of the index.

use std::fmt::Write as _;

use serde_json::Value;

use crate::Failure;

/// How many of the design's budgets are met, which are not, and what the rows remark.
pub(super) fn summary(record: &Value) -> Result<String, Failure> {
    let list = |name: &str| record[name].as_array().cloned().unwrap_or_default();
    let (rows, memory) = (list("rows"), list("memory"));
    let of_rows = rows.iter().filter_map(of_row);
    let budgets: Vec<Budget> = of_rows.chain(memory.iter().filter_map(of_memory)).collect();
    let missed: Vec<&Budget> = budgets.iter().filter(|one| one.found < one.asked).collect();
    let met = budgets.len() - missed.len();
    let mut out = format!(
        "- {met} of {} budgets of the design are met: how many times less server CPU per request, or memory per record, \
         than redis-server needs. Every ratio stands in the report.\n",
        budgets.len()
    );
    for one in missed {
        let Budget {
            title,
            found,
            asked,
        } = one;
        writeln!(
            out,
            "- Not met: {title}: {found:.2} times, {asked} is asked for."
        )?;
    }
    for row in &rows {
        let notes = row["notes"].as_array().into_iter().flatten();
        for note in notes.filter_map(Value::as_str) {
            writeln!(out, "- {}: {note}.", title(row))?;
        }
    }
    Ok(out.trim_end().to_owned())
}

/// A ratio that is asked for.
struct Budget {
    title: String,
    found: f64,
    asked: f64,
}

fn title(row: &Value) -> String {
    row["title"].as_str().unwrap_or_default().to_owned()
}

fn of_row(row: &Value) -> Option<Budget> {
    Some(Budget {
        title: title(row),
        found: row["ratios"]["server_cpu_b_over_a"]["median"].as_f64()?,
        asked: row["budget_server_cpu_b_over_a"].as_f64()?,
    })
}

fn of_memory(row: &Value) -> Option<Budget> {
    let (a, b) = (&row["a_bytes_per_record"], &row["b_bytes_per_record"]);
    Some(Budget {
        title: title(row),
        found: b.as_f64()? / a.as_f64()?,
        asked: row["budget_b_over_a"].as_f64()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_counted_and_those_missed_are_named() {
        let row = |title: &str, median: f64| {
            serde_json::json!({
                "title": title, "budget_server_cpu_b_over_a": 1.2,
                "ratios": {"server_cpu_b_over_a": {"median": median}}, "notes": [],
            })
        };
        let record = serde_json::json!({
            "rows": [row("GET", 1.25), row("SET", 1.15), {"title": "beside", "notes": ["P99 1 ms"]}],
            "memory": [{"title": "records", "a_bytes_per_record": 20.0, "b_bytes_per_record": 100.0, "budget_b_over_a": 3.5}],
        });
        let found = summary(&record).unwrap();
        assert!(found.starts_with("- 2 of 3 budgets"), "{found}");
        assert!(
            found.ends_with("\n- Not met: SET: 1.15 times, 1.2 is asked for.\n- beside: P99 1 ms."),
            "{found}"
        );
    }
}
