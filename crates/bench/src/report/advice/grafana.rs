//! A Grafana dashboard of the measured targets, its thresholds by the measured capacity.

use serde_json::{Value, json};

use crate::record::RunRecord;

use super::super::lang::Lang;
use super::prometheus::{Source, expression, in_label, load_expression};
use super::thresholds::{Metric, Threshold};
use super::{Capacity, capacities};

/// Version of the dashboard schema (Grafana 9 and later read it).
const SCHEMA_VERSION: u32 = 37;
/// Panels in a row of the 24 columns wide grid.
const PER_ROW: u32 = 3;
const PANEL_WIDTH: u32 = 24 / PER_ROW;
const PANEL_HEIGHT: u32 = 8;

/// The dashboard as JSON, ready for import; it asks for the Prometheus data source.
pub(crate) fn dashboard(
    record: &RunRecord,
    thresholds: &[Threshold],
    job: Option<&str>,
    lang: Lang,
) -> Value {
    let mut panels = Vec::new();
    let mut y = 0;
    for capacity in &capacities(record) {
        y = target_panels(&mut panels, y, record, thresholds, job, capacity, lang);
    }
    json!({
        "__inputs": [{
            "name": "DS_PROMETHEUS", "label": "Prometheus", "type": "datasource",
            "pluginId": "prometheus", "pluginName": "Prometheus"
        }],
        "title": "Tollgate capacity",
        "description": format!("Measured {} by tollgate {}", record.manifest.started_at, record.manifest.tool.version),
        "tags": ["tollgate", "rate-limit"],
        "timezone": "browser",
        "schemaVersion": SCHEMA_VERSION,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "panels": panels,
    })
}

fn target_panels(
    panels: &mut Vec<Value>,
    mut y: u32,
    record: &RunRecord,
    thresholds: &[Threshold],
    job: Option<&str>,
    capacity: &Capacity<'_>,
    lang: Lang,
) -> u32 {
    let cell = capacity.cell;
    let source = Source::of(record, capacity);
    let target = record
        .targets
        .iter()
        .find(|target| target.name == cell.target);
    let threads = target.and_then(|target| target.threads).unwrap_or(1).max(1);
    let job = job.unwrap_or(&cell.target);
    panels.push(json!({
        "type": "row", "title": cell.title(), "collapsed": false, "id": panels.len() + 1,
        "gridPos": {"x": 0, "y": y, "w": 24, "h": 1},
    }));
    y += 1;
    let mut place = 0;
    for row in thresholds.iter().map(|row| row.at(capacity)) {
        let Some(relative) = expression(source, row.metric, job, capacity, threads) else {
            continue;
        };
        // The load panel shows requests per second, so its thresholds are those of the measured capacity.
        let (query, unit, scale) = match row.metric {
            Metric::Load => {
                let job = format!("job=\"{}\"", in_label(job));
                (
                    load_expression(source, &job, capacity),
                    "reqps",
                    capacity.sustained_rps / 100.0,
                )
            }
            Metric::P99 => (relative, "ms", 1.0),
            _ => (relative, "percent", 1.0),
        };
        let (x, line) = (
            place % PER_ROW * PANEL_WIDTH,
            place / PER_ROW * PANEL_HEIGHT,
        );
        panels.push(json!({
            "type": "timeseries",
            "id": panels.len() + 1,
            "title": row.metric.name().of(lang),
            "datasource": {"type": "prometheus", "uid": "${DS_PROMETHEUS}"},
            "gridPos": {"x": x, "y": y + line, "w": PANEL_WIDTH, "h": PANEL_HEIGHT},
            "targets": [{"refId": "A", "expr": query, "legendFormat": cell.target}],
            "fieldConfig": {"defaults": {
                "unit": unit,
                "min": 0,
                "custom": {"thresholdsStyle": {"mode": "area"}},
                "thresholds": {"mode": "absolute", "steps": [
                    {"color": "green", "value": null},
                    {"color": "orange", "value": row.warning * scale},
                    {"color": "red", "value": row.critical * scale},
                ]},
            }, "overrides": []},
        }));
        place += 1;
    }
    y + place.div_ceil(PER_ROW) * PANEL_HEIGHT
}
