//! Outlines and markup in few characters: marks, paths, escaped text. A page holds thousands of them.

/// A point of a path that lies this near to the line through its neighbours, in pixels, is left out: it could not be seen.
const UNSEEN: f64 = 0.3;

/// The mark number `shape` (they repeat): disc, square, triangle, diamond, cross; with a text that shows on hovering. Its
/// looks are those of the group that it stands in.
pub(super) fn mark(shape: usize, (x, y): (f64, f64), r: f64, tip: &str) -> String {
    let from = |dx: f64, dy: f64| format!("M{} {}", px(x + dx), px(y + dy));
    let path = match shape % 5 {
        0 => {
            let attributes = format!("cx=\"{}\" cy=\"{}\" r=\"{}\"", px(x), px(y), px(r));
            return element("circle", &attributes, tip);
        }
        1 => format!("{}h{d}v{d}h-{d}z", from(-r, -r), d = px(2.0 * r)),
        2 => format!(
            "{}l{} {}h-{}z",
            from(0.0, -r * 1.2),
            px(r * 1.15),
            px(r * 2.2),
            px(r * 2.3)
        ),
        3 => format!(
            "{}l{d} {d}-{d} {d}-{d}-{d}z",
            from(0.0, -r * 1.3),
            d = px(r * 1.3)
        ),
        _ => format!("{}l{d} {d}m0-{d}l-{d} {d}", from(-r, -r), d = px(2.0 * r)),
    };
    element("path", &format!("d=\"{path}\""), tip)
}

/// An element without content, or with a text that shows on hovering.
pub(super) fn element(name: &str, attributes: &str, tip: &str) -> String {
    if tip.is_empty() {
        format!("<{name} {attributes}/>")
    } else {
        format!("<{name} {attributes}>{}</{name}>", title(tip))
    }
}

fn title(tip: &str) -> String {
    format!("<title>{}</title>", escape(tip))
}

/// The data of a path through points in pixels, without those that could not be seen; empty for less than two.
pub(super) fn path(points: &[(f64, f64)]) -> String {
    let Some((&first, rest)) = points.split_first().filter(|(_, rest)| !rest.is_empty()) else {
        return String::new();
    };
    let kept = kept(points);
    // Steps are taken between rounded places, so that their errors do not add up.
    let place = |(x, y): (f64, f64)| (tenths(x), tenths(y));
    let (mut x, mut y) = place(first);
    let mut out = format!("M{} {}l", tenth(x), tenth(y));
    for (point, _) in rest.iter().zip(&kept[1..]).filter(|(_, kept)| **kept) {
        let (next_x, next_y) = place(*point);
        let (dx, dy) = (tenth(next_x - x), tenth(next_y - y));
        for step in [dx, dy] {
            if !out.ends_with('l') && !step.starts_with('-') {
                out.push(' ');
            }
            out.push_str(&step);
        }
        (x, y) = (next_x, next_y);
    }
    out
}

/// Which points a line needs so that no other lies further than [`UNSEEN`] from it (Douglas and Peucker).
fn kept(points: &[(f64, f64)]) -> Vec<bool> {
    let mut kept = vec![false; points.len()];
    let last = points.len() - 1;
    (kept[0], kept[last]) = (true, true);
    let mut open = vec![(0, last)];
    while let Some((from, to)) = open.pop() {
        let far = (from + 1..to)
            .map(|at| (at, distance(points[at], points[from], points[to])))
            .max_by(|a, b| a.1.total_cmp(&b.1));
        if let Some((at, _)) = far.filter(|(_, distance)| *distance > UNSEEN) {
            kept[at] = true;
            open.extend([(from, at), (at, to)]);
        }
    }
    kept
}

/// From a point to the stretch between two others.
fn distance(point: (f64, f64), a: (f64, f64), b: (f64, f64)) -> f64 {
    let (dx, dy) = (b.0 - a.0, b.1 - a.1);
    let length = dx.hypot(dy);
    let (px, py) = (point.0 - a.0, point.1 - a.1);
    if length < 1e-9 {
        return px.hypot(py);
    }
    let along = ((px * dx + py * dy) / (length * length)).clamp(0.0, 1.0);
    (px - along * dx).hypot(py - along * dy)
}

/// A coordinate with one decimal; 0 if it is not finite.
pub(super) fn px(value: f64) -> String {
    tenth(tenths(value))
}

fn tenths(value: f64) -> i64 {
    if value.is_finite() {
        (value * 10.0).round() as i64
    } else {
        0
    }
}

/// A number of tenths, without what a path does not need: `.5`, `-12`.
fn tenth(value: i64) -> String {
    let (sign, whole, part) = (
        if value < 0 { "-" } else { "" },
        value.unsigned_abs() / 10,
        value.unsigned_abs() % 10,
    );
    match (whole, part) {
        (whole, 0) => format!("{sign}{whole}"),
        (0, part) => format!("{sign}.{part}"),
        (whole, part) => format!("{sign}{whole}.{part}"),
    }
}

/// Text for markup and attributes.
pub(in crate::report) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_keeps_its_corners_and_drops_what_lies_on_the_way() {
        let straight: Vec<(f64, f64)> = (0..100).map(|x| (f64::from(x), 5.0)).collect();
        assert_eq!(path(&straight), "M0 5l99 0");
        assert_eq!(
            path(&[(0.0, 0.0), (10.0, 0.1), (20.0, -8.5), (20.5, 0.0)]),
            "M0 0l10 .1 10-8.6 .5 8.5"
        );
        assert_eq!(path(&[(1.0, 1.0)]), "");
        assert_eq!(path(&[]), "");
    }

    #[test]
    fn a_jagged_path_stays_where_it_was() {
        let points: Vec<(f64, f64)> = (0..500)
            .map(|at| (f64::from(at), 50.0 + 40.0 * (f64::from(at) * 0.7).sin()))
            .collect();
        let kept = kept(&points);
        let line: Vec<(f64, f64)> = points
            .iter()
            .zip(&kept)
            .filter_map(|(point, kept)| kept.then_some(*point))
            .collect();
        assert!(line.len() > 100, "{}", line.len());
        for point in &points {
            let off = line
                .windows(2)
                .map(|pair| distance(*point, pair[0], pair[1]))
                .fold(f64::MAX, f64::min);
            assert!(off <= UNSEEN + 1e-9, "{off}");
        }
    }

    #[test]
    fn coordinates_are_short() {
        let texts = [0.0, 0.04, 0.5, -0.5, 12.0, -3.25, f64::NAN].map(px);
        assert_eq!(texts, ["0", "0", ".5", "-.5", "12", "-3.3", "0"]);
    }
}
