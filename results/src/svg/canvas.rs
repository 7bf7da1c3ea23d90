//! Shapes as SVG elements.

use std::fmt::Write;

use itertools::Itertools;

use crate::wording::units;

/// So many curves can be distinguished by colour.
pub(crate) const COLORS: usize = 6;
/// The number of a curve's colour. Beyond the sixth the dashes differ.
pub(crate) fn color(index: usize) -> usize {
    index % COLORS + 1
}

#[derive(Debug, Default)]
pub(crate) struct Canvas {
    body: String,
}

impl Canvas {
    pub(crate) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        self.lines(class, &[[from, to]]);
    }

    /// Lines of one class as one element: a grid is in every chart, and an element per line is most of it.
    pub(crate) fn lines(&mut self, class: &str, lines: &[[(f64, f64); 2]]) {
        let each = lines.iter().map(|[from, to]| {
            let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(number);
            match (x1 == x2, y1 == y2) {
                (_, true) => format!("M{x1} {y1}H{x2}"),
                (true, _) => format!("M{x1} {y1}V{y2}"),
                _ => format!("M{x1} {y1}L{x2} {y2}"),
            }
        });
        let path = each.format("");
        self.push(format_args!("<path class=\"{class}\" d=\"{path}\"/>"));
    }

    /// A level line with a head at its end.
    pub(crate) fn arrow(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        self.line(class, from, to);
        let [x, y] = [to.0, to.1].map(number);
        let back = if to.0 > from.0 { "-8" } else { "8" };
        self.push(format_args!("<path class=\"c-head\" d=\"M{x} {y}l{back} -4v8z\"/>"));
    }

    /// A rectangle with a tip that shows on pointing; `tip` may be empty.
    pub(crate) fn rect(&mut self, class: &str, at: (f64, f64), size: (f64, f64), tip: &str) {
        let [x, y] = [at.0, at.1].map(number);
        let [width, height] = [size.0, size.1].map(|length| number(length.max(0.0)));
        let radius = match class {
            "c-lane" | "c-fault" | "c-over" => "",
            _ => " rx=\"2\"",
        };
        let end = match tip {
            "" => "/>".to_owned(),
            tip => format!("><title>{}</title></rect>", escape(tip)),
        };
        self.push(format_args!(
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"{radius}{end}"
        ));
    }

    pub(crate) fn circle(&mut self, class: &str, at: (f64, f64), radius: f64, tip: &str) {
        self.push(format_args!(
            "<circle class=\"{class}\" cx=\"{}\" cy=\"{}\" r=\"{}\"><title>{}</title></circle>",
            number(at.0),
            number(at.1),
            number(radius),
            escape(tip)
        ));
    }

    /// A square standing on its corner.
    pub(crate) fn diamond(&mut self, class: &str, at: (f64, f64), radius: f64, tip: &str) {
        self.push(format_args!(
            "<path class=\"{class}\" d=\"M{} {}l{r} {r}l-{r} {r}l-{r} -{r}z\"><title>{}</title></path>",
            number(at.0),
            number(at.1 - radius),
            escape(tip),
            r = number(radius)
        ));
    }

    /// A line through points from left to right, with a tip that shows on pointing.
    pub(crate) fn polyline(&mut self, class: &str, points: &[(f64, f64)], tip: &str) {
        if points.len() > 1 {
            self.push(format_args!(
                "<polyline class=\"{class}\" points=\"{}\"><title>{}</title></polyline>",
                joined(&bends(points)),
                escape(tip)
            ));
        }
    }

    pub(crate) fn area(&mut self, class: &str, points: &[(f64, f64)]) {
        if points.len() > 2 {
            let points = joined(points);
            self.push(format_args!("<polygon class=\"{class}\" points=\"{points}\"/>"));
        }
    }

    pub(crate) fn text(&mut self, class: &str, at: (f64, f64), text: &str) {
        let [x, y] = [at.0, at.1].map(number);
        let class = units::enclosed(" class=\"", class, "\"");
        let text = escape(text);
        self.push(format_args!("<text{class} x=\"{x}\" y=\"{y}\">{text}</text>"));
    }

    pub(crate) fn texts(&mut self, class: &str, texts: &[((f64, f64), String)]) {
        let each = texts.iter().map(|((x, y), text)| {
            let [x, y] = [*x, *y].map(number);
            format!("<tspan x=\"{x}\" y=\"{y}\">{}</tspan>", escape(text))
        });
        let each = each.format("");
        self.push(format_args!("<text class=\"{class}\">{each}</text>"));
    }

    pub(crate) fn finish(self) -> String {
        self.body
    }

    fn push(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = self.body.write_fmt(element);
    }
}

/// A coordinate with at most one decimal: the same on every machine. What is no number becomes 0.
pub(crate) fn number(value: f64) -> String {
    if !value.is_finite() {
        return "0".to_owned();
    }
    let text = format!("{value:.1}");
    match text.strip_suffix(".0").unwrap_or(&text) {
        "-0" => "0".to_owned(),
        text => text.to_owned(),
    }
}

/// Points of a line from left to right without those that lie inside of a level stretch.
fn bends(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let height = |at: usize| points.get(at).map(|(_, y)| number(*y));
    let level = |at: usize| at > 0 && height(at - 1) == height(at) && height(at) == height(at + 1);
    points.iter().enumerate().filter(|(at, _)| !level(*at)).map(|(_, point)| *point).collect()
}

fn joined(points: &[(f64, f64)]) -> String {
    points.iter().map(|(x, y)| format!("{},{}", number(*x), number(*y))).format(" ").to_string()
}

/// Text for inside an element or attribute. Characters that XML cannot hold become U+FFFD.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(' '),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// `text` cut to about `width` pixels at 12 px, with `…` where it was cut.
pub(crate) fn fit(text: &str, width: f64) -> String {
    let most = (width / CHARACTER).max(1.0) as usize;
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(most.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

/// A rather wide guess of a character's width at 12 px, since no font is at hand to measure with.
pub(crate) const CHARACTER: f64 = 6.7;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_from_outside_stays_text() {
        assert_eq!(escape("<b a='\"'>&\u{1b}"), "&lt;b a=&#39;&quot;&#39;&gt;&amp;\u{fffd}");
    }

    #[test]
    fn coordinates_are_short_and_never_nan() {
        assert_eq!(number(1.0), "1");
        assert_eq!(number(-0.01), "0");
        assert_eq!(number(2.25), "2.2");
        assert_eq!(number(f64::NAN), "0");
    }

    #[test]
    fn a_line_keeps_its_ends_and_bends() {
        let points: Vec<_> = (0..).map(f64::from).zip([0.0, 0.0, 0.01, 0.0, 5.0, 0.0, 0.0]).collect();
        let kept: Vec<f64> = bends(&points).into_iter().map(|(x, _)| x).collect();
        assert_eq!(kept, [0.0, 3.0, 4.0, 5.0, 6.0]);
    }

    #[test]
    fn long_labels_end_in_an_ellipsis() {
        assert_eq!(fit("lock-core:reentrant", 60.0), "lock-co…");
        assert_eq!(fit("short", 60.0), "short");
    }
}
