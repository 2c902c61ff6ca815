//! The frame every chart shares: scales, ticks, axes, marks. Coordinates are those of the view box; the
//! page scales the drawing, and colours come from its style sheet.

use crate::report::format::short;

/// View box of a chart.
pub(super) const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 340.0;
const LEFT: f64 = 66.0;
const RIGHT: f64 = 28.0;
/// Lines on which texts of near dividers stand.
const DIVIDE_LINES: u32 = 3;
/// Right margin of a chart whose bands are named beside it.
const RIGHT_OF_BANDS: f64 = 76.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 54.0;

/// Most ticks on a linear axis.
const TICKS: f64 = 5.0;

/// A map from values to one axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    log: bool,
}

impl Scale {
    /// From 0 to a round number at or above `high`.
    pub(super) fn linear(high: f64) -> Self {
        let high = if high.is_finite() && high > 0.0 {
            high
        } else {
            1.0
        };
        let step = nice_step(high);
        Self {
            low: 0.0,
            high: (high / step).ceil() * step,
            log: false,
        }
    }

    /// From `low` to `high` without rounding; falls back to something drawable.
    pub(super) fn between(low: f64, high: f64) -> Self {
        if low.is_finite() && high.is_finite() && high > low {
            Self {
                low,
                high,
                log: false,
            }
        } else {
            let middle = if low.is_finite() { low } else { 0.0 };
            let half = (middle.abs() * 0.5).max(0.5);
            Self {
                low: middle - half,
                high: middle + half,
                log: false,
            }
        }
    }

    /// A logarithmic scale with some room around the positive values; one decade if there are none.
    pub(super) fn log(values: impl Iterator<Item = f64>) -> Self {
        let usable = values.filter(|v| v.is_finite() && *v > 0.0);
        let (low, high) = usable.fold((f64::MAX, 0.0_f64), |(low, high), v| {
            (low.min(v), high.max(v))
        });
        if high <= 0.0 {
            return Self {
                low: 1.0,
                high: 10.0,
                log: true,
            };
        }
        let (low, high) = ((low / 1.4).max(f64::MIN_POSITIVE), (high * 1.6).min(1e300));
        Self {
            low,
            high: high.max(low * 4.0),
            log: true,
        }
    }

    /// 0 at the low end, 1 at the high end, not beyond.
    fn share(&self, value: f64) -> f64 {
        let share = if self.log {
            let value = value.max(self.low);
            (value.ln() - self.low.ln()) / (self.high.ln() - self.low.ln())
        } else {
            (value - self.low) / (self.high - self.low)
        };
        if share.is_finite() {
            share.clamp(0.0, 1.0)
        } else {
            0.0
        }
    }

    /// Values worth a label, in order.
    fn ticks(&self) -> Vec<f64> {
        if self.log {
            self.log_ticks()
        } else {
            self.linear_ticks()
        }
    }

    fn linear_ticks(&self) -> Vec<f64> {
        let step = nice_step(self.high - self.low);
        let first = (self.low / step - 1e-9).ceil();
        (0..=TICKS as i32 + 3)
            .map(|at| (first + f64::from(at)) * step)
            .filter(|tick| *tick <= self.high + step * 1e-6)
            .collect()
    }

    fn log_ticks(&self) -> Vec<f64> {
        let decades = (self.high / self.low).log10();
        let factors: &[f64] = match decades {
            d if d < 1.6 => &[1.0, 2.0, 5.0],
            d if d < 2.6 => &[1.0, 3.0],
            _ => &[1.0],
        };
        let first = self.low.log10().floor() as i32;
        let last = self.high.log10().ceil() as i32;
        let every = ((last - first) / 7).max(1);
        let mut out = Vec::new();
        for exponent in (first..=last).filter(|exponent| (exponent - first) % every == 0) {
            out.extend(factors.iter().map(|factor| factor * 10_f64.powi(exponent)));
        }
        out.retain(|tick| *tick >= self.low && *tick <= self.high);
        out
    }
}

/// A step of 1, 2, 2.5 or 5 times a power of ten, for about [`TICKS`] ticks.
fn nice_step(span: f64) -> f64 {
    let rough = span / TICKS;
    let power = 10_f64.powf(rough.log10().floor());
    let lead = rough / power;
    let nice = [1.0, 2.0, 2.5, 5.0]
        .into_iter()
        .find(|nice| lead <= *nice * 1.0001)
        .unwrap_or(10.0);
    let step = nice * power;
    if step.is_finite() && step > 0.0 {
        step
    } else {
        1.0
    }
}

/// A chart being drawn.
pub(super) struct Plot {
    x: Scale,
    y: Scale,
    right: f64,
    body: String,
    /// Where the texts of [`Plot::divide`] so far end, and the line that the next one takes if it begins before.
    divided: (f64, u32),
}

impl Plot {
    pub(super) fn new(x: Scale, y: Scale) -> Self {
        Self {
            x,
            y,
            right: WIDTH - RIGHT,
            body: String::new(),
            divided: (0.0, 0),
        }
    }

    /// A chart with room for the names of bands at its right side.
    pub(super) fn with_bands(x: Scale, y: Scale) -> Self {
        Self {
            x,
            y,
            right: WIDTH - RIGHT_OF_BANDS,
            body: String::new(),
            divided: (0.0, 0),
        }
    }

    pub(super) fn px(&self, value: f64) -> f64 {
        LEFT + self.x.share(value) * (self.right - LEFT)
    }

    pub(super) fn py(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - self.y.share(value) * (HEIGHT - TOP - BOTTOM)
    }

    /// Pixels of a span of x values.
    pub(super) fn width_of(&self, span: f64) -> f64 {
        self.px(self.x.low + span) - LEFT
    }

    /// Grid lines and labels of both axes; `x_text` and `y_text` print a tick. Drawn first, under the data.
    pub(super) fn axes(
        &mut self,
        titles: [&str; 2],
        x_ticks: Option<Vec<f64>>,
        x_text: impl Fn(f64) -> String,
        y_text: impl Fn(f64) -> String,
    ) {
        let (right, bottom) = (self.right, HEIGHT - BOTTOM);
        for tick in self.y.ticks() {
            let y = self.py(tick);
            self.raw(&format!(
                "<path class=\"grid\" d=\"M{LEFT} {}H{right}\"/>",
                px(y)
            ));
            self.label("tick end", LEFT - 7.0, y + 4.5, &y_text(tick));
        }
        for tick in x_ticks.unwrap_or_else(|| self.x.ticks()) {
            let x = self.px(tick);
            self.raw(&format!(
                "<path class=\"grid\" d=\"M{} {TOP}V{bottom}\"/>",
                px(x)
            ));
            self.label("tick mid", x, bottom + 19.0, &x_text(tick));
        }
        self.raw(&format!(
            "<path class=\"axis\" d=\"M{LEFT} {TOP}V{bottom}H{right}\"/>"
        ));
        self.label("title", 4.0, 17.0, titles[1]);
        self.label(
            "title mid",
            f64::midpoint(LEFT, right),
            HEIGHT - 8.0,
            titles[0],
        );
    }

    /// Grid and labels of the x axis alone, where y only stacks rows.
    pub(super) fn axes_of_x(&mut self, name: &str, x_text: impl Fn(f64) -> String) {
        let (right, bottom) = (self.right, HEIGHT - BOTTOM);
        for tick in self.x.ticks() {
            let x = px(self.px(tick));
            self.raw(&format!("<path class=\"grid\" d=\"M{x} {TOP}V{bottom}\"/>"));
            self.label("tick mid", self.px(tick), bottom + 19.0, &x_text(tick));
        }
        self.raw(&format!(
            "<path class=\"axis\" d=\"M{LEFT} {bottom}H{right}\"/>"
        ));
        self.label("title mid", f64::midpoint(LEFT, right), HEIGHT - 8.0, name);
    }

    /// A horizontal band between two y values, clipped to the frame.
    pub(super) fn band(&mut self, class: &str, from: f64, to: f64, name: &str) {
        let (top, bottom) = (self.py(to), self.py(from));
        if bottom - top < 1.0 {
            return;
        }
        self.raw(&format!(
            "<rect class=\"{class}\" x=\"{LEFT}\" y=\"{}\" width=\"{}\" height=\"{}\"/>",
            px(top),
            px(self.right - LEFT),
            px(bottom - top)
        ));
        if bottom - top > 17.0 && !name.is_empty() {
            self.label(
                "band",
                self.right + 5.0,
                f64::midpoint(top, bottom) + 4.5,
                name,
            );
        }
    }

    /// A vertical band between two x values, clipped to the frame, with its name where there is room.
    pub(super) fn zone(&mut self, class: &str, from: f64, to: f64, name: &str) {
        let (left, right) = (self.px(from), self.px(to));
        if right - left < 0.5 {
            return;
        }
        self.raw(&format!(
            "<rect class=\"{class}\" x=\"{}\" y=\"{TOP}\" width=\"{}\" height=\"{}\"/>",
            px(left),
            px(right - left),
            px(HEIGHT - BOTTOM - TOP)
        ));
        if right - left > name.chars().count() as f64 * 7.0 + 8.0 {
            self.label("step", left + 4.0, TOP - 5.0, name);
        }
    }

    /// An interval on the y axis.
    pub(super) fn whisker(&mut self, class: &str, x: f64, low: f64, high: f64) {
        let (x, top, bottom) = (self.px(x), self.py(high), self.py(low));
        self.raw(&format!(
            "<path class=\"whisker {class}\" d=\"M{x} {top}V{bottom}M{left} {top}H{right}M{left} {bottom}H{right}\"/>",
            x = px(x),
            top = px(top),
            bottom = px(bottom),
            left = px(x - 4.0),
            right = px(x + 4.0)
        ));
    }

    /// An interval on the x axis.
    pub(super) fn interval(&mut self, class: &str, y: f64, low: f64, high: f64) {
        let (y, left, right) = (self.py(y), self.px(low), self.px(high));
        self.raw(&format!(
            "<path class=\"whisker {class}\" d=\"M{left} {y}H{right}M{left} {top}V{bottom}M{right} {top}V{bottom}\"/>",
            y = px(y),
            left = px(left),
            right = px(right),
            top = px(y - 4.0),
            bottom = px(y + 4.0)
        ));
    }

    /// A tile between two x and two y values, as dark as `share` (0 to 1).
    pub(super) fn tile(
        &mut self,
        (x0, x1): (f64, f64),
        (y0, y1): (f64, f64),
        share: f64,
        tip: &str,
    ) {
        let (left, right) = (self.px(x0), self.px(x1));
        let (top, bottom) = (self.py(y1), self.py(y0));
        let tip = title(tip);
        self.raw(&format!(
            "<rect class=\"tile\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill-opacity=\"{:.2}\">{tip}</rect>",
            px(left),
            px(top),
            px((right - left).max(0.5)),
            px((bottom - top).max(0.5)),
            share.clamp(0.0, 1.0)
        ));
    }

    /// A thin vertical line with a text at its top.
    pub(super) fn divide(&mut self, x: f64, text: &str) {
        let at = self.px(x);
        let bottom = HEIGHT - BOTTOM;
        self.raw(&format!(
            "<path class=\"divide\" d=\"M{} {TOP}V{bottom}\"/>",
            px(at)
        ));
        if !text.is_empty() {
            // Texts of near lines stand below each other.
            if at + 3.0 >= self.divided.0 {
                self.divided = (0.0, 0);
            }
            let (free, line) = self.divided;
            self.label("step", at + 3.0, TOP + 11.0 + 12.0 * f64::from(line), text);
            let end = at + 6.0 + text.chars().count() as f64 * 6.2;
            self.divided = (free.max(end), (line + 1) % DIVIDE_LINES);
        }
    }

    /// Text at a place in the data, right of it or, where that leaves no room, left.
    pub(super) fn name(&mut self, x: f64, y: f64, text: &str) {
        let (at, y) = (self.px(x), self.py(y));
        let room = text.chars().count() as f64 * 7.0 + 8.0;
        if at + room < self.right {
            self.label("name", at + 8.0, y - 6.0, text);
        } else {
            self.label("name end", at - 8.0, y - 6.0, text);
        }
    }

    /// A bar from one y value to another, centred on x.
    pub(super) fn bar(&mut self, class: &str, x: f64, width: f64, from: f64, to: f64, tip: &str) {
        let (top, bottom) = (self.py(to), self.py(from));
        if bottom - top < 0.05 {
            return;
        }
        let left = (self.px(x) - width / 2.0).max(LEFT);
        let right = (self.px(x) + width / 2.0).min(self.right);
        self.raw(&format!(
            "<rect class=\"{class}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\">{}</rect>",
            px(left),
            px(top),
            px(right - left),
            px(bottom - top),
            title(tip)
        ));
    }

    /// A line through the points.
    pub(super) fn line(&mut self, class: &str, points: &[(f64, f64)]) {
        if points.len() < 2 {
            return;
        }
        let path: Vec<String> = points
            .iter()
            .map(|(x, y)| format!("{} {}", px(self.px(*x)), px(self.py(*y))))
            .collect();
        self.raw(&format!(
            "<path class=\"line {class}\" d=\"M{}\"/>",
            path.join("L")
        ));
    }

    /// A mark at a point, with a text that shows on hovering.
    pub(super) fn mark(&mut self, class: &str, shape: usize, x: f64, y: f64, tip: &str) {
        let at = (self.px(x), self.py(y));
        self.raw(&format!(
            "<g class=\"mark {class}\">{}{}</g>",
            shape_at(shape, at, 4.5),
            title(tip)
        ));
    }

    /// A small mark, for series of many points.
    pub(super) fn dot(&mut self, class: &str, shape: usize, x: f64, y: f64, tip: &str) {
        let at = (self.px(x), self.py(y));
        self.raw(&format!(
            "<g class=\"mark {class}\">{}{}</g>",
            shape_at(shape, at, 2.4),
            title(tip)
        ));
    }

    /// A cross at the upper edge: there is no value to draw.
    pub(super) fn missing(&mut self, class: &str, x: f64, tip: &str) {
        let at = (self.px(x), TOP + 7.0);
        self.raw(&format!(
            "<g class=\"mark {class}\">{}{}</g>",
            shape_at(4, at, 4.5),
            title(tip)
        ));
    }

    /// Text in the data area, e.g. where a chart has no data.
    pub(super) fn notice(&mut self, text: &str) {
        self.label(
            "notice mid",
            f64::midpoint(LEFT, self.right),
            HEIGHT / 2.0,
            text,
        );
    }

    /// The finished drawing. `what` is read out in place of the picture.
    pub(super) fn finish(self, what: &str) -> String {
        format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">{}</svg>",
            escape(what),
            self.body
        )
    }

    fn label(&mut self, class: &str, x: f64, y: f64, text: &str) {
        let text = escape(text);
        self.raw(&format!(
            "<text class=\"{class}\" x=\"{}\" y=\"{}\">{text}</text>",
            px(x),
            px(y)
        ));
    }

    fn raw(&mut self, markup: &str) {
        self.body.push_str(markup);
    }
}

/// Rates on an axis.
pub(super) fn rate_tick(value: f64) -> String {
    short(value)
}

/// Microseconds on an axis.
pub(super) fn latency_tick(us: f64) -> String {
    match us {
        v if v < 999.5 => format!("{} µs", short(v)),
        v if v < 999_500.0 => format!("{} ms", short(v / 1e3)),
        v => format!("{} s", short(v / 1e6)),
    }
}

/// Outline of the mark number `shape` (they repeat): disc, square, triangle, diamond, cross.
pub(super) fn shape_at(shape: usize, (x, y): (f64, f64), r: f64) -> String {
    let p = |dx: f64, dy: f64| format!("{} {}", px(x + dx), px(y + dy));
    let path = match shape % 5 {
        0 => {
            return format!(
                "<circle cx=\"{}\" cy=\"{}\" r=\"{}\"/>",
                px(x),
                px(y),
                px(r)
            );
        }
        1 => format!("M{}L{}L{}L{}Z", p(-r, -r), p(r, -r), p(r, r), p(-r, r)),
        2 => format!(
            "M{}L{}L{}Z",
            p(0.0, -r * 1.2),
            p(r * 1.15, r),
            p(-r * 1.15, r)
        ),
        3 => format!(
            "M{}L{}L{}L{}Z",
            p(0.0, -r * 1.3),
            p(r * 1.3, 0.0),
            p(0.0, r * 1.3),
            p(-r * 1.3, 0.0)
        ),
        _ => format!("M{}L{}M{}L{}", p(-r, -r), p(r, r), p(-r, r), p(r, -r)),
    };
    format!("<path d=\"{path}\"/>")
}

fn title(tip: &str) -> String {
    if tip.is_empty() {
        String::new()
    } else {
        format!("<title>{}</title>", escape(tip))
    }
}

/// A coordinate with one decimal; 0 if it is not finite.
fn px(value: f64) -> String {
    let text = format!("{:.1}", if value.is_finite() { value } else { 0.0 });
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// Text for markup and attributes.
pub(super) fn escape(text: &str) -> String {
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
    fn linear_ticks_are_round_and_few() {
        let ticks = Scale::linear(30_000.0).ticks();
        assert_eq!(ticks, [0.0, 10_000.0, 20_000.0, 30_000.0]);
        let ticks = Scale::between(10_000.0, 30_000.0).ticks();
        assert_eq!(ticks, [10_000.0, 15_000.0, 20_000.0, 25_000.0, 30_000.0]);
        for high in [0.003, 1.0, 7.3, 99_999.0, 1e300] {
            let count = Scale::linear(high).ticks().len();
            assert!((2..=8).contains(&count), "{count} ticks up to {high}");
        }
    }

    #[test]
    fn log_ticks_cover_narrow_and_wide_ranges() {
        for values in [[900.0, 1_000.0], [1.0, 1e3], [10.0, 3.6e8], [1e-3, 1e18]] {
            let count = Scale::log(values.into_iter()).ticks().len();
            assert!((1..=9).contains(&count), "{count} ticks for {values:?}");
        }
    }

    #[test]
    fn bad_values_stay_in_the_frame() {
        let plot = Plot::new(
            Scale::between(f64::NAN, 1.0),
            Scale::log([0.0, f64::NAN].into_iter()),
        );
        for value in [f64::NAN, f64::INFINITY, -1e300, 0.0, 1e300] {
            assert!((LEFT..=WIDTH - RIGHT).contains(&plot.px(value)), "{value}");
            assert!((TOP..=HEIGHT - BOTTOM).contains(&plot.py(value)), "{value}");
        }
    }
}
