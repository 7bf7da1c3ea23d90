//! What a server says of itself: TIME, CONFIG and INFO.

use crate::server::Server;
use crate::server::command::{unknown_part, wrong_number};
use crate::server::keys::keyspace::is;
use crate::server::keys::number;
use crate::server::keys::strings::fits;
use crate::server::reply::Reply;
use crate::server::settings::Persistence;

impl Server {
    pub(super) fn about_server(&mut self, name: &str, args: &[Vec<u8>]) -> Reply {
        match (name, args) {
            ("time", _) => {
                Reply::texts([&self.now.as_secs().to_string(), &self.now.subsec_micros().to_string()])
            }
            ("info", sections) => {
                let asked = |section: &str| {
                    sections.is_empty() || sections.iter().any(|word| is(word, section) || is(word, "all"))
                };
                Reply::text(self.info(asked))
            }
            (_, args) => self.config(args),
        }
    }

    fn info(&self, asked: impl Fn(&str) -> bool) -> String {
        let mut info = String::new();
        let mut section = |name: &str, lines: Vec<(&str, String)>| {
            if asked(name) {
                if !info.is_empty() {
                    info += "\r\n";
                }
                info += &format!("# {}{}\r\n", name[..1].to_uppercase(), &name[1..]);
                info.extend(lines.iter().flat_map(|(name, value)| [name, ":", value.as_str(), "\r\n"]));
            }
        };
        let uptime = self.now.saturating_sub(self.started).as_secs();
        let flag = |yes: bool| u8::from(yes).to_string();
        section(
            "server",
            vec![
                ("redis_version", self.settings.version_text()),
                ("redis_mode", self.mode().to_owned()),
                ("run_id", self.stream.run_id.clone()),
                ("tcp_port", self.settings.address.port.to_string()),
                ("uptime_in_seconds", uptime.to_string()),
            ],
        );
        section("clients", vec![("connected_clients", self.connections.len().to_string())]);
        section(
            "memory",
            vec![
                ("used_memory", self.keyspace.bytes().to_string()),
                ("maxmemory", self.settings.max_memory.to_string()),
                ("maxmemory_policy", "noeviction".to_owned()),
            ],
        );
        section(
            "persistence",
            vec![
                ("loading", flag(self.loading_until.is_some())),
                ("aof_enabled", flag(self.settings.persistence != Persistence::None)),
            ],
        );
        section("replication", self.replication_lines());
        section("cluster", vec![("cluster_enabled", flag(self.cluster.is_some()))]);
        info
    }

    pub(super) fn mode(&self) -> &'static str {
        match (&self.sentinel, &self.cluster) {
            (Some(_), _) => "sentinel",
            (None, Some(_)) => "cluster",
            (None, None) => "standalone",
        }
    }

    fn directives(&self) -> Vec<(&'static str, String)> {
        let settings = &self.settings;
        let on_disk = settings.persistence != Persistence::None;
        let words = Persistence::WORDS.iter();
        let word = words.clone().find(|(persistence, _)| *persistence == settings.persistence);
        let coverage = (settings.cluster.as_ref()).is_none_or(|membership| membership.full_coverage);
        vec![
            ("cluster-require-full-coverage", if coverage { "yes" } else { "no" }.to_owned()),
            ("maxmemory", settings.max_memory.to_string()),
            ("maxmemory-policy", "noeviction".to_owned()),
            ("appendonly", if on_disk { "yes" } else { "no" }.to_owned()),
            ("appendfsync", word.map_or("everysec", |(_, word)| word).to_owned()),
            ("save", String::new()),
            ("min-replicas-to-write", "0".to_owned()),
        ]
    }

    fn config(&mut self, args: &[Vec<u8>]) -> Reply {
        let (word, rest) = args.split_first().expect("a word");
        match rest {
            patterns if is(word, "get") && !patterns.is_empty() => {
                let fitting = self.directives().into_iter().filter(|(name, _)| {
                    patterns.iter().any(|pattern| fits(&pattern.to_ascii_lowercase(), name.as_bytes()))
                });
                Reply::Array(
                    fitting.flat_map(|(name, value)| [Reply::text(name), Reply::text(value)]).collect(),
                )
            }
            [name, value] if is(word, "set") => self.set_directive(name, value),
            [] if is(word, "rewrite") => {
                self.settings.replica_of = self.master_address().cloned();
                self.settings_in_file = self.settings.clone();
                Reply::OK
            }
            _ if is(word, "set") || is(word, "get") => {
                wrong_number(&format!("config|{}", String::from_utf8_lossy(word).to_lowercase()))
            }
            _ => unknown_part("config", word),
        }
    }

    fn set_directive(&mut self, name: &[u8], value: &[u8]) -> Reply {
        if !is(name, "maxmemory") {
            let name = String::from_utf8_lossy(name).to_lowercase();
            return Reply::error(format!(
                "ERR Unknown option or number of arguments for CONFIG SET - '{name}'"
            ));
        }
        let number = number::whole(value).and_then(|number| u64::try_from(number).ok());
        let Some(number) = number else {
            return Reply::error(
                "ERR CONFIG SET failed (possibly related to argument 'maxmemory') - argument must be a memory value",
            );
        };
        self.settings.max_memory = number;
        Reply::OK
    }
}
