//! The table of the locks of other systems, and of what is known to be wrong: a row each.

use super::{Baseline, Connect, HoldExpiry};

/// What a function of a system's file is, if that is built in.
macro_rules! built {
    ($feature:literal, $own:ident => $connect:expr) => {{
        #[cfg(feature = $feature)]
        let connect: Option<Connect> = Some(|$own| Box::pin($connect));
        #[cfg(not(feature = $feature))]
        let connect: Option<Connect> = None;
        connect
    }};
}

const ETCD: Baseline = Baseline {
    name: "etcd:lock",
    about: "etcd's lock API on a lease, waiters in a queue; token: the store's revision at the grant; session: the lease, kept alive each \
            third; loss: reported once a keep-alive finds no lease, or two thirds of its time after the last one that worked",
    system: "etcd",
    topologies: &["etcd", "etcd-3"],
    kept: HoldExpiry::Session,
    durability: "fsync",
    connect: built!("etcd", own => super::etcd::lock(own, false)),
};

const ZOOKEEPER: Baseline = Baseline {
    name: "zookeeper:ephemeral",
    about: "ZooKeeper's ephemeral sequential nodes, Curator's recipe, waiters in a queue; token: the node's czxid; session: one per client, \
            kept by pings; loss: reported once the session is expired, or two thirds of its time after the last sync that worked",
    system: "zookeeper",
    topologies: &["zookeeper", "zookeeper-3"],
    kept: HoldExpiry::Session,
    durability: "fsync",
    connect: built!("zookeeper", own => super::zookeeper::ephemeral(own, false)),
};

const MYSQL_ROW: Baseline = Baseline {
    name: "mysql:row",
    about: "a row of MySQL or MariaDB that one update takes over when its lease is over by the server's clock, polled each 1 to 3 ms; token: \
            the row's fence; session: none, the row has the lease; loss: reported once a renewal finds no such row, or none works for a lease",
    system: "mysql",
    topologies: &["mysql"],
    kept: HoldExpiry::Lease,
    durability: "fsync",
    connect: built!("mysql", own => super::mysql::row(own, super::mysql::TAKE, super::mysql::GIVE)),
};

const GET_LOCK: Baseline = Baseline {
    name: "mysql:get-lock",
    about: "GET_LOCK of MySQL or MariaDB, a connection per hold and waiter; token: none; session: the connection, ended by wait_timeout; \
            loss: reported once a heartbeat finds no lock, or two thirds of the session after the last that worked",
    kept: HoldExpiry::Session,
    durability: "none",
    connect: built!("mysql", own => super::mysql::get_lock(own, false)),
    ..MYSQL_ROW
};

const FOR_UPDATE: Baseline = Baseline {
    name: "mysql:for-update",
    about: "SELECT … FOR UPDATE of MySQL or MariaDB, a transaction and its connection per hold and waiter; token: none; session: the connection, \
            ended by wait_timeout; loss: reported once the connection breaks, or two thirds of the session after the last heartbeat that worked",
    connect: built!("mysql", own => super::mysql::for_update(own, Some("SET autocommit = 0"))),
    ..GET_LOCK
};

const ADVISORY: Baseline = Baseline {
    name: "postgres:advisory",
    about: "pg_advisory_lock of PostgreSQL, a connection per hold and waiter; token: a sequence, asked after the grant; session: the connection, ended by \
            idle_session_timeout; loss: reported at once when the connection breaks, or two thirds of the session after the last heartbeat",
    system: "postgres",
    topologies: &["postgres"],
    kept: HoldExpiry::Session,
    durability: "none",
    connect: built!("postgres", own => super::postgres::advisory(own, false)),
};

const POSTGRES_ROW: Baseline = Baseline {
    name: "postgres:row",
    about: "a row of PostgreSQL that one upsert takes over when its lease is over by the server's clock, polled each 1 to 3 ms; token: the row's \
            fence; session: none, the row has the lease; loss: reported once a renewal finds no such row, or none works for a lease",
    kept: HoldExpiry::Lease,
    durability: "fsync",
    connect: built!("postgres", own => super::postgres::row(own, false)),
    ..ADVISORY
};

const MONGODB: Baseline = Baseline {
    name: "mongodb:find-and-modify",
    about: "a document of MongoDB that one findAndModify takes over when its lease is over by the server's clock, with a TTL index, polled; untested \
            here, for want of a server; token: the document's fence; session: none; loss: reported once a renewal finds no such document",
    system: "mongodb",
    topologies: &["mongodb"],
    kept: HoldExpiry::Lease,
    durability: "fsync",
    connect: built!("mongodb", own => super::mongodb::document(own, false)),
};

pub(super) static BASELINES: &[Baseline] =
    &[ETCD, ZOOKEEPER, MYSQL_ROW, GET_LOCK, FOR_UPDATE, ADVISORY, POSTGRES_ROW, MONGODB];

pub(super) static BROKEN: &[Baseline] = rows! { Baseline;
    // The lock API takes calls with one lease for one caller.
    "broken:etcd-shared-lease": ETCD { connect: built!("etcd", own => super::etcd::lock(own, true)) }
        "etcd's lock API with one lease for all tasks of a client: the server takes them for one holder"
    // The library hears of it from a server, and so only after the successor.
    "broken:zookeeper-acts-on-expired": ZOOKEEPER {
        connect: built!("zookeeper", own => super::zookeeper::ephemeral(own, true))
    }
        "a ZooKeeper lock whose holder believes until the library says Expired, which may be after somebody else was let in"
    "broken:mysql-row-without-expiry": MYSQL_ROW {
        connect: built!("mysql", own => super::mysql::row(own, super::mysql::TAKE_ANY, super::mysql::GIVE))
    }
        "a row that is taken over whether the last holder's lease is over or not"
    "broken:mysql-row-releases-any": MYSQL_ROW {
        connect: built!("mysql", own => super::mysql::row(own, super::mysql::TAKE, super::mysql::GIVE_ANY))
    }
        "a row that is given back without a look whose it is, so a late holder frees somebody else's lock"
    // The server knows connections and nothing else.
    "broken:mysql-get-lock-shared": GET_LOCK {
        connect: built!("mysql", own => super::mysql::get_lock(own, true))
    }
        "GET_LOCK over one connection for all tasks of a client: the server takes them for one holder"
    "broken:mysql-for-update-autocommit": FOR_UPDATE {
        connect: built!("mysql", own => super::mysql::for_update(own, None))
    }
        "SELECT … FOR UPDATE without a transaction: the row is free again when the statement ends"
    "broken:postgres-advisory-shared": ADVISORY {
        connect: built!("postgres", own => super::postgres::advisory(own, true))
    }
        "advisory locks over one connection for all tasks of a client, as behind a pooler: the server takes them for one holder"
    "broken:postgres-row-read-then-write": POSTGRES_ROW {
        connect: built!("postgres", own => super::postgres::row(own, true))
    }
        "a row that is read, found free, and then written, in two statements instead of one"
    "broken:mongodb-find-then-update": MONGODB {
        connect: built!("mongodb", own => super::mongodb::document(own, true))
    }
        "a document that is read, found free, and then written, in two commands instead of one"
};
