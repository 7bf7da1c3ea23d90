//! Half-open spans of time: unions, differences and intersections.

/// From a nanosecond, included, to a nanosecond, excluded.
pub(crate) type Span = (u64, u64);

/// Sorted spans that neither touch nor are empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Spans(Vec<Span>);

impl FromIterator<Span> for Spans {
    fn from_iter<I: IntoIterator<Item = Span>>(spans: I) -> Self {
        let mut spans: Vec<Span> = spans.into_iter().filter(|(from, to)| from < to).collect();
        spans.sort_unstable();
        let mut union: Vec<Span> = Vec::with_capacity(spans.len());
        for (from, to) in spans {
            match union.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => union.push((from, to)),
            }
        }
        Self(union)
    }
}

impl Spans {
    pub(crate) const EMPTY: Self = Self(Vec::new());

    pub(crate) fn iter(&self) -> impl Iterator<Item = Span> + '_ {
        self.0.iter().copied()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The total length.
    pub(crate) fn length(&self) -> u64 {
        self.iter().map(|(from, to)| to - from).sum()
    }

    pub(crate) fn union(&self, other: &Self) -> Self {
        self.iter().chain(other.iter()).collect()
    }

    /// The parts of one span that are in these spans. Finds its place by bisection.
    pub(crate) fn within(&self, (from, to): Span) -> impl Iterator<Item = Span> + '_ {
        let first = self.0.partition_point(|span| span.1 <= from);
        self.0
            .iter()
            .skip(first)
            .take_while(move |span| span.0 < to)
            .map(move |span| (span.0.max(from), span.1.min(to)))
    }

    /// The parts of one span that are in none of these spans.
    pub(crate) fn outside(&self, (from, to): Span) -> Vec<Span> {
        let mut rest = Vec::new();
        let mut at = from;
        for (start, end) in self.within((from, to)) {
            if at < start {
                rest.push((at, start));
            }
            at = end;
        }
        if at < to {
            rest.push((at, to));
        }
        rest
    }
}
