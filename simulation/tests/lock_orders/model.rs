//! The model of a kind with a line: up to three clients, each with a few steps, in every order, with crashes,
//! lost answers, lost messages and time that passes in between. The scripts are the library's own texts; only
//! the clients are modelled.

use stateright::{Model, Property};

use super::store::Store;

/// The lease of every hold.
pub(crate) const LEASE_MS: u64 = 3000;
/// How long a kind may take until everybody who lives has had the lock, when nothing more goes wrong.
const SETTLED_MS: u64 = 12_000;
/// Rounds of that take so long.
const ROUND_MS: u64 = 500;
pub(crate) const LOCK: &str = "n";

/// A client as a script sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asker {
    pub(crate) client: String,
    pub(crate) owner: String,
    /// It hears what is said to it.
    pub(crate) listens: bool,
    /// For how long it has waited.
    pub(crate) waited_us: u64,
}

/// What a client makes of an answer or a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum News {
    /// It holds the lock up to this moment of the server's clock.
    Held { until_us: u64 },
    /// It has, or keeps, a place.
    Waits,
    /// It should ask for the lock again.
    Again,
}

/// A kind: its scripts, and what it promises about order.
pub(crate) trait Rules: Send + Sync + 'static {
    fn take(&self, server: &mut Store, asker: &Asker) -> News;
    /// Gives the lock or the place back. The successors are those who wait in the same client, in the order
    /// in which they came; the answer says what became of the first.
    fn give(&self, server: &mut Store, asker: &Asker, successors: &[Asker]) -> News;
    fn beat(&self, server: &mut Store, asker: &Asker) -> News;
    /// Whether a hold that was given unasked must be claimed, and is.
    fn claim(&self, server: &mut Store, asker: &Asker) -> bool;
    /// The channel on which it hears.
    fn channel(&self, asker: &Asker) -> String;
    fn read(&self, asker: &Asker, payload: &str) -> Option<News>;
    /// Whether a client has one place for all its owners. It is as good as the moment at which the first
    /// came, also when it was lost in between.
    fn shares_places(&self) -> bool;
    /// Whether a message on its channel says that it is called.
    fn calls(&self, asker: &Asker, message: &(String, String)) -> bool;
    fn has_place(&self, server: &mut Store, asker: &Asker) -> bool;
    /// Whether others may enter before somebody who was last heard at `heard_us`, and called at `called_us`,
    /// heard or not.
    fn may_pass(&self, now_us: u64, heard_us: u64, called: Option<Called>) -> bool;
    /// Moments of the clock at which something changes for such a client.
    fn deadlines(&self, heard_us: u64, called: Option<Called>) -> Vec<u64>;
    /// Keys that may stay for ever.
    fn stays(&self, key: &str) -> bool;
    /// After so long no other key is left of any of them.
    fn forgotten_ms(&self) -> u64 {
        40_000
    }
}

/// A waiter was notified that it is its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Called {
    pub(crate) at_us: u64,
    pub(crate) heard: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Phase {
    /// It will ask for the lock: at first, or again.
    Asks,
    Waits,
    Holds {
        until_us: u64,
    },
    /// Its release was sent and not answered.
    Gives,
    Over,
    Dead,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Party {
    client: usize,
    phase: Phase,
    /// When it came, and whether the server has said since that it has a place.
    came_us: Option<u64>,
    placed: bool,
    steps: u8,
    /// Owners that it had before; a lapsed one never comes again.
    turn: u8,
    listens: bool,
    /// Its last question that the server saw.
    heard_us: u64,
    called: Option<Called>,
    inbox: Vec<String>,
}

/// Where everything is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct State {
    server: Store,
    parties: Vec<Party>,
    /// Who has a place, in the order in which it was given.
    order: Vec<usize>,
    crashes: u8,
    losses: u8,
    ticks: u8,
    failovers: u8,
    /// What must not be.
    wrong: Option<String>,
}

/// What happens next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Joins those who wait in its client.
    Come(usize),
    /// Asks for the lock, or a place.
    Take(usize),
    /// The same, and the answer is lost.
    TakeLost(usize),
    /// Its subscription comes to be.
    Listen(usize),
    /// It hears the next message.
    Hear(usize),
    /// It never hears it.
    Lose(usize),
    Beat(usize),
    Claim(usize),
    /// Gives the lock or its place back.
    Give(usize),
    GiveLost(usize),
    Crash(usize),
    /// Another node is the master. A listener does so at the old one still, where it hears what the new one
    /// says and is not counted.
    Failover,
    /// Time passes until something ends.
    Tick,
}

/// How much is tried.
pub(crate) struct Orders<R> {
    pub(crate) rules: R,
    pub(crate) clients: usize,
    /// So many of them are owners of the first client, and have one place.
    pub(crate) mates: usize,
    /// Questions that each client may ask.
    pub(crate) steps: u8,
    pub(crate) crashes: u8,
    pub(crate) losses: u8,
    pub(crate) ticks: u8,
    pub(crate) failovers: u8,
}

impl Party {
    fn may_ask(&self) -> bool {
        self.steps > 0 && !matches!(self.phase, Phase::Over | Phase::Dead)
    }

    fn is_done(&self) -> bool {
        matches!(self.phase, Phase::Over | Phase::Dead)
    }
}

impl State {
    fn asker(&self, who: usize) -> Asker {
        let party = &self.parties[who];
        let now_us = self.server.now_us;
        Asker {
            client: format!("c{}", party.client),
            // A fair lock's scripts know owners of ours by their form.
            owner: format!("00000000-0000-8000-8000-{who:012}:{}", party.turn),
            listens: party.listens,
            waited_us: now_us - party.came_us.unwrap_or(now_us),
        }
    }

    /// All owners of the same client.
    fn mates(&self, who: usize) -> impl Iterator<Item = usize> + use<> {
        let client = self.parties[who].client;
        let mates: Vec<usize> =
            (0..self.parties.len()).filter(|other| self.parties[*other].client == client).collect();
        mates.into_iter()
    }

    /// Those who wait in a client, in the order in which they came.
    fn waiting(&self, who: usize) -> Vec<usize> {
        let mut waiting: Vec<usize> = (self.mates(who))
            .filter(|mate| {
                let party = &self.parties[*mate];
                party.came_us.is_some() && matches!(party.phase, Phase::Asks | Phase::Waits)
            })
            .collect();
        waiting.sort_by_key(|mate| self.parties[*mate].came_us);
        waiting
    }

    /// Whether it is this one's to ask the server.
    fn asks(&self, who: usize) -> bool {
        self.waiting(who).first().is_none_or(|first| *first == who)
    }

    fn holder(&self) -> Option<String> {
        self.server.first_field(LOCK)
    }
}

impl<R: Rules> Orders<R> {
    /// A question to the server, and everything that follows from it at once.
    fn ask(&self, state: &mut State, who: usize, question: impl Fn(&R, &mut Store, &Asker) -> News) -> News {
        let asker = state.asker(who);
        // What time has taken away before this question.
        self.dropped(state);
        let before = state.holder();
        let now_us = state.server.now_us;
        state.mates(who).for_each(|mate| state.parties[mate].heard_us = now_us);
        let answer = question(&self.rules, &mut state.server, &asker);
        self.carry(state);
        let after = state.holder();
        if after != before
            && let Some(owner) = after
        {
            self.entered(state, &owner);
        }
        self.dropped(state);
        answer
    }

    /// Messages come to those who listen.
    fn carry(&self, state: &mut State) {
        let now_us = state.server.now_us;
        let said = std::mem::take(&mut state.server.said);
        let published = std::mem::take(&mut state.server.published);
        for who in 0..state.parties.len() {
            let asker = state.asker(who);
            let channel = self.rules.channel(&asker);
            let party = &mut state.parties[who];
            for message in published.iter().filter(|message| self.rules.calls(&asker, message)) {
                let heard = said.contains(message);
                party.called = Some(Called { at_us: now_us, heard });
            }
            // The owners of one client each hear what is for them.
            let is_mine = |payload: &str| self.mates == 1 || self.rules.read(&asker, payload).is_some();
            let mine = said.iter().filter(|(to, payload)| *to == channel && is_mine(payload));
            party.inbox.extend(mine.map(|(_, payload)| payload.clone()));
        }
    }

    /// Somebody has the lock who had it not: was it its turn?
    fn entered(&self, state: &mut State, owner: &str) {
        let who = (0..state.parties.len()).find(|who| state.asker(*who).owner == owner);
        let Some(who) = who else {
            // An owner that its client has given up already: it gives the lock back when it hears of it.
            return;
        };
        let ahead = state.order.iter().take_while(|other| **other != who);
        let now_us = state.server.now_us;
        let came_us = state.parties[who].came_us;
        let passed = ahead.copied().find(|other| {
            let party = &state.parties[*other];
            // A waiter that was called, and did not hear it, still has its rank.
            let is_later = self.rules.shares_places() && party.came_us > came_us;
            !is_later
                && party.phase != Phase::Dead
                // Nothing tells that a waiter lives that no client counts.
                && !self.is_far(state, *other)
                && !self.rules.may_pass(now_us, party.heard_us, party.called)
        });
        if let Some(other) = passed {
            state.wrong = Some(format!("c{who} entered before c{other}, who came first"));
        }
        state.order.retain(|other| *other != who);
        state.parties[who].called = None;
        state.parties[who].placed = false;
    }

    /// Who has lost a place: had it to be?
    fn dropped(&self, state: &mut State) {
        let now_us = state.server.now_us;
        for who in state.order.clone() {
            let asker = state.asker(who);
            if !state.parties[who].placed || self.rules.has_place(&mut state.server, &asker) {
                continue;
            }
            state.order.retain(|other| *other != who);
            let party = &mut state.parties[who];
            party.placed = false;
            if party.phase != Phase::Dead && !self.rules.may_pass(now_us, party.heard_us, party.called) {
                state.wrong = Some(format!("c{who} lost its place"));
            }
            party.called = None;
        }
    }

    /// No two come at the same moment.
    fn come(state: &mut State, who: usize) {
        state.server.now_us += 1;
        state.parties[who].came_us = Some(state.server.now_us);
    }

    /// From now on it has a rank.
    fn ranks(&self, state: &mut State, who: usize) {
        if !state.order.contains(&who) {
            state.order.push(who);
        }
        if self.rules.shares_places() {
            let parties = &state.parties;
            state.order.sort_by_key(|who| parties[*who].came_us);
        }
    }

    fn take(&self, state: &mut State, who: usize) -> News {
        if state.parties[who].came_us.is_none() {
            Self::come(state, who);
        }
        let news = self.ask(state, who, |rules, server, asker| rules.take(server, asker));
        if news == News::Waits {
            self.ranks(state, who);
            state.parties[who].placed = true;
        }
        news
    }

    /// Gives the lock or the place back; says who was named, and what the answer says of the first of them.
    fn give(&self, state: &mut State, who: usize) -> (Vec<usize>, News) {
        state.order.retain(|other| *other != who);
        state.parties[who].placed = false;
        let holds = matches!(state.parties[who].phase, Phase::Holds { .. } | Phase::Gives);
        let mut successors = Vec::new();
        if self.mates > 1 && holds {
            successors = state.waiting(who);
            successors.truncate(2);
        }
        if let Some(first) = successors.first() {
            self.ranks(state, *first);
        }
        let named: Vec<Asker> = successors.iter().map(|successor| state.asker(*successor)).collect();
        let heard: Vec<u64> = state.parties.iter().map(|party| party.heard_us).collect();
        let news = self.ask(state, who, |rules, server, asker| rules.give(server, asker, &named));
        // A release does not stand for a beat.
        for (party, heard_us) in state.parties.iter_mut().zip(heard) {
            party.heard_us = heard_us;
        }
        for successor in &successors {
            let asker = state.asker(*successor);
            if self.rules.has_place(&mut state.server, &asker) {
                self.ranks(state, *successor);
                state.parties[*successor].placed = true;
            } else {
                state.order.retain(|other| other != successor);
            }
        }
        (successors, news)
    }

    /// The answer to a release comes to those whom it has named.
    fn tell(&self, state: &mut State, successors: &[usize], news: News) {
        let mut placed = successors.iter();
        if let (News::Held { .. }, Some(first)) = (news, successors.first()) {
            self.hear(state, *first, news);
            placed.next();
        }
        if news != News::Again
            && let Some(next) = placed.next()
        {
            state.parties[*next].phase = Phase::Waits;
        }
    }

    /// What a client does with an answer or a message.
    fn hear(&self, state: &mut State, who: usize, news: News) {
        state.parties[who].phase = match news {
            News::Held { until_us } if until_us > state.server.now_us => Phase::Holds { until_us },
            // A grant that comes after its lease is none: it is given back, and asked for under another name.
            News::Held { .. } => {
                self.give(state, who);
                state.parties[who].turn += 1;
                state.parties[who].came_us = None;
                Phase::Asks
            }
            News::Waits => Phase::Waits,
            News::Again => Phase::Asks,
        };
    }

    fn listen(&self, state: &mut State, who: usize) {
        (state.mates(who)).for_each(|mate| state.parties[mate].listens = true);
        let channel = self.rules.channel(&state.asker(who));
        state.server.far_ears.remove(&channel);
        state.server.ears.insert(channel);
    }

    /// Whether it listens at a node that is not the master any more.
    fn is_far(&self, state: &State, who: usize) -> bool {
        let channel = self.rules.channel(&state.asker(who));
        state.server.far_ears.contains(&channel)
    }

    /// The next message of a client that waits; one that waits no more ignores it.
    fn read(&self, state: &mut State, who: usize) {
        let payload = state.parties[who].inbox.remove(0);
        let asker = state.asker(who);
        if matches!(state.parties[who].phase, Phase::Waits | Phase::Asks)
            && let Some(news) = self.rules.read(&asker, &payload)
        {
            self.hear(state, who, news);
        }
    }

    fn pass_time(&self, state: &mut State, to_us: u64) {
        state.server.now_us = to_us;
        for party in &mut state.parties {
            if matches!(party.phase, Phase::Holds { until_us } if until_us <= to_us) {
                // It was told in time, and does nothing more.
                party.phase = Phase::Over;
            }
        }
    }

    /// The next moment at which something ends.
    fn next_moment(&self, state: &State) -> Option<u64> {
        let waiting = state.parties.iter().filter(|party| !party.is_done());
        let deadlines = waiting.flat_map(|party| self.rules.deadlines(party.heard_us, party.called));
        let ends = state.server.ends().chain(deadlines);
        ends.filter(|end| *end > state.server.now_us).min()
    }

    /// From here on nothing goes wrong: everybody who lives gets the lock, and in the end nothing stays.
    fn settles(&self, from: &State) -> Result<(), String> {
        let mut state = from.clone();
        let start_us = state.server.now_us;
        while state.server.now_us < start_us + SETTLED_MS * 1000 {
            for who in 0..state.parties.len() {
                while !state.parties[who].inbox.is_empty() {
                    self.read(&mut state, who);
                }
                if state.parties[who].came_us.is_none() {
                    Self::come(&mut state, who);
                }
                if state.parties[who].phase == Phase::Asks && state.asks(who) {
                    let news = self.take(&mut state, who);
                    self.hear(&mut state, who, news);
                }
                if state.parties[who].phase == Phase::Waits {
                    self.listen(&mut state, who);
                    let news = self.ask(&mut state, who, |rules, server, asker| rules.beat(server, asker));
                    self.hear(&mut state, who, news);
                }
                if matches!(state.parties[who].phase, Phase::Holds { .. } | Phase::Gives) {
                    let (successors, news) = self.give(&mut state, who);
                    state.parties[who].phase = Phase::Over;
                    self.tell(&mut state, &successors, news);
                }
            }
            if let Some(wrong) = state.wrong {
                return Err(wrong);
            }
            if state.parties.iter().all(Party::is_done) {
                let end_us = state.server.now_us + self.rules.forgotten_ms() * 1000;
                self.pass_time(&mut state, end_us);
                let left: Vec<_> = state.server.names();
                let left = left.into_iter().find(|key| !self.rules.stays(key));
                return left.map_or(Ok(()), |key| Err(format!("{key} stays for ever")));
            }
            let next_us = state.server.now_us + ROUND_MS * 1000;
            self.pass_time(&mut state, next_us);
        }
        let waits = state.parties.iter().position(|party| !party.is_done());
        Err(format!("c{} never gets the lock", waits.unwrap_or_default()))
    }
}

impl<R: Rules> Model for Orders<R> {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let party = Party {
            client: 0,
            phase: Phase::Asks,
            came_us: None,
            placed: false,
            steps: self.steps,
            turn: 0,
            listens: false,
            heard_us: 0,
            called: None,
            inbox: Vec::new(),
        };
        vec![State {
            server: Store::at(1_000_000_000),
            parties: (0..self.clients)
                .map(|who| Party { client: (who + 1).saturating_sub(self.mates), ..party.clone() })
                .collect(),
            order: Vec::new(),
            crashes: self.crashes,
            losses: self.losses,
            ticks: self.ticks,
            failovers: self.failovers,
            wrong: None,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.wrong.is_some() {
            return;
        }
        for (who, party) in state.parties.iter().enumerate() {
            let may_lose = state.losses > 0;
            if party.may_ask() {
                match party.phase {
                    Phase::Asks if self.mates > 1 && party.came_us.is_none() => {
                        actions.push(Action::Come(who));
                    }
                    Phase::Asks => {
                        if state.asks(who) {
                            actions.push(Action::Take(who));
                            if may_lose {
                                actions.push(Action::TakeLost(who));
                            }
                        }
                        // Before its first question there is nothing to give back.
                        if party.heard_us > 0 || party.came_us.is_some() {
                            actions.push(Action::Give(who));
                        }
                    }
                    Phase::Waits => actions.extend([Action::Beat(who), Action::Give(who)]),
                    Phase::Holds { until_us } => {
                        actions.push(Action::Give(who));
                        if may_lose {
                            actions.push(Action::GiveLost(who));
                        }
                        if until_us < state.server.now_us + LEASE_MS * 1000 {
                            actions.push(Action::Claim(who));
                        }
                    }
                    Phase::Gives => actions.push(Action::Give(who)),
                    Phase::Over | Phase::Dead => {}
                }
            }
            if party.phase == Phase::Waits && (!party.listens || self.is_far(state, who)) {
                actions.push(Action::Listen(who));
            }
            if !party.inbox.is_empty() {
                actions.push(Action::Hear(who));
                if may_lose {
                    actions.push(Action::Lose(who));
                }
            }
            if state.crashes > 0 && !party.is_done() && party.heard_us > 0 {
                actions.push(Action::Crash(who));
            }
        }
        if state.failovers > 0 && !state.server.ears.is_empty() {
            actions.push(Action::Failover);
        }
        if state.ticks > 0 && self.next_moment(state).is_some() {
            actions.push(Action::Tick);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Come(who) => Self::come(&mut state, who),
            Action::Take(who) | Action::TakeLost(who) => {
                state.parties[who].steps -= 1;
                let news = self.take(&mut state, who);
                if matches!(action, Action::Take(_)) {
                    self.hear(&mut state, who, news);
                } else {
                    state.losses -= 1;
                }
            }
            Action::Listen(who) => self.listen(&mut state, who),
            Action::Hear(who) => self.read(&mut state, who),
            Action::Lose(who) => {
                state.losses -= 1;
                state.parties[who].inbox.remove(0);
            }
            Action::Beat(who) => {
                state.parties[who].steps -= 1;
                let news = self.ask(&mut state, who, |rules, server, asker| rules.beat(server, asker));
                self.hear(&mut state, who, news);
            }
            Action::Claim(who) => {
                state.parties[who].steps -= 1;
                let asker = state.asker(who);
                let held = self.rules.claim(&mut state.server, &asker);
                state.parties[who].phase = if held {
                    let until_us = state.server.now_us + LEASE_MS * 1000;
                    Phase::Holds { until_us }
                } else {
                    state.wrong = Some(format!("c{who} lost the lock in mid-lease"));
                    Phase::Over
                };
            }
            Action::Give(who) | Action::GiveLost(who) => {
                state.parties[who].steps -= 1;
                let (successors, news) = self.give(&mut state, who);
                if matches!(action, Action::Give(_)) {
                    state.parties[who].phase = Phase::Over;
                    self.tell(&mut state, &successors, news);
                } else {
                    state.losses -= 1;
                    state.parties[who].phase = Phase::Gives;
                    // They ask what came of it.
                    for successor in successors {
                        state.parties[successor].phase = Phase::Asks;
                    }
                }
            }
            Action::Crash(who) => {
                state.crashes -= 1;
                let channel = self.rules.channel(&state.asker(who));
                state.server.ears.remove(&channel);
                state.server.far_ears.remove(&channel);
                for mate in state.mates(who) {
                    let party = &mut state.parties[mate];
                    if party.phase != Phase::Over {
                        party.phase = Phase::Dead;
                    }
                    party.listens = false;
                    party.inbox.clear();
                }
            }
            Action::Failover => {
                state.failovers -= 1;
                let server = &mut state.server;
                server.far_ears.append(&mut server.ears);
            }
            Action::Tick => {
                state.ticks -= 1;
                // A moment later, so that no comparison depends on equality.
                let to_us = self.next_moment(last)? + 1000;
                self.pass_time(&mut state, to_us);
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("who believes to hold the lock holds it", |_, state: &State| {
                let holder = state.holder();
                let mut who = 0..state.parties.len();
                who.all(|who| {
                    let holds = matches!(state.parties[who].phase, Phase::Holds { .. });
                    !holds || holder.as_ref() == Some(&state.asker(who).owner)
                })
            }),
            Property::always("who came first enters first", |_, state: &State| state.wrong.is_none()),
            Property::always("everybody who lives gets the lock", |model: &Self, state: &State| {
                // Every run ends in such a state, since steps are counted.
                let at_its_end = !state.parties.iter().any(Party::may_ask);
                !at_its_end || model.settles(state).is_ok()
            }),
        ]
    }
}
