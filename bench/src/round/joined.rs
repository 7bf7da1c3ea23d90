//! Rounds of several generators that were made at the same time, as one round.

use super::{ResourceUse, Round, ledger::HandoffCounts};

impl Round {
    /// Leaves out what one generator cannot know of locks that others take too: who had them between.
    pub(crate) fn forget_hand_offs(&mut self) {
        self.passed = HandoffCounts { grants: self.passed.grants, ..HandoffCounts::default() };
        self.most_inside = None;
        self.share_min = None;
    }

    /// Leaves out what the servers spent: they served the other generators too.
    pub(crate) fn forget_servers(&mut self) {
        self.spent = ResourceUse {
            server_calls: None,
            server_cpu_us: None,
            server_bytes: None,
            server_memory: None,
            ..self.spent
        };
    }

    /// Adds what another generator measured in the window. All read what the servers spent: the first counts.
    pub(crate) fn join(&mut self, mut other: Round) {
        self.spent.join(&other.spent, self.cycles, other.cycles);
        self.cycles += other.cycles;
        self.elapsed = self.elapsed.max(other.elapsed);
        self.per_task.append(&mut other.per_task);
        self.samples.merge(&other.samples);
        self.passed.merge(&other.passed);
        if let (Some(offered), Some(more)) = (&mut self.offered, &other.offered) {
            offered.due += more.due;
            offered.lag.merge(&more.lag);
        }
        self.renewed.join(&other.renewed);
        self.starved += other.starved;
        self.most_inside = None;
        self.share_min = None;
        self.judge.seen += other.judge.seen;
        self.little.sampled += other.little.sampled;
        self.little.reckoned += other.little.reckoned;
        self.little.error = self.little.error.hypot(other.little.error);
        let (here, there) = (&mut self.disturbance, &other.disturbance);
        here.steal = here.steal.max(there.steal);
        here.pressure = here.pressure.zip(there.pressure).map(|(a, b)| a.max(b));
        here.switches_per_s = here.switches_per_s.max(there.switches_per_s);
        self.apart = self.apart.max(other.apart);
    }
}

impl ResourceUse {
    fn join(&mut self, other: &ResourceUse, cycles: u64, more: u64) {
        let sum = |a: Option<f64>, b: Option<f64>| a.zip(b).map(|(a, b)| a + b);
        self.cycles += other.cycles;
        self.cycles_at_servers += other.cycles_at_servers;
        self.commands = sum(self.commands, other.commands);
        self.client_cpu_us = sum(self.client_cpu_us, other.client_cpu_us);
        self.client_memory = sum(self.client_memory, other.client_memory);
        let (cycles, more) = (cycles as f64, more as f64);
        self.generator_cpu_us = (self.generator_cpu_us)
            .zip(other.generator_cpu_us)
            .map(|(a, b)| (a * cycles + b * more) / (cycles + more).max(1.0));
        self.server_calls = self.server_calls.or(other.server_calls);
        self.server_cpu_us = self.server_cpu_us.or(other.server_cpu_us);
        self.server_bytes = self.server_bytes.or(other.server_bytes);
        self.server_memory = self.server_memory.or(other.server_memory);
    }
}
