//! The Rust driver (crate scylla) against cqld: see ../../README.md.

use std::env;
use std::error::Error;
use std::fmt::Debug;
use std::io::Read;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures::TryStreamExt;
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::errors::{DbError, ExecutionError, RequestAttemptError};
use scylla::frame::Compression;
use scylla::policies::load_balancing::DefaultPolicy;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::unprepared::Statement;
use scylla::statement::Consistency;
use scylla::response::{PagingState, PagingStateResponse};
use scylla::value::{
    CqlDate, CqlDecimal, CqlDuration, CqlTime, CqlTimestamp, CqlTimeuuid, CqlValue, CqlVarint, MaybeUnset, Row,
};
use std::ops::ControlFlow;

mod login;
mod tls;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

fn setting(name: &str, otherwise: &str) -> String {
    env::var(name).ok().filter(|v| !v.is_empty()).unwrap_or(otherwise.to_string())
}

struct Settings {
    points: Vec<String>,
    dc: String,
    nodes: usize,
    rf: usize,
    ks: String,
}

impl Settings {
    fn read() -> Settings {
        Settings {
            points: setting("CQLD_CONTACT_POINTS", "127.0.0.1:9042").split(',').map(String::from).collect(),
            dc: setting("CQLD_DATACENTER", "datacenter1"),
            nodes: setting("CQLD_NODES", "1").parse().unwrap(),
            rf: setting("CQLD_RF", "1").parse().unwrap(),
            ks: setting("CQLD_KEYSPACE", "drv_rust"),
        }
    }

    async fn open(&self, compression: Option<Compression>) -> Outcome<Session> {
        Ok(self.builder(compression).build().await?)
    }

    fn builder(&self, compression: Option<Compression>) -> SessionBuilder {
        let policy = DefaultPolicy::builder().prefer_datacenter(self.dc.clone()).token_aware(true).build();
        let profile = ExecutionProfile::builder()
            .consistency(Consistency::Quorum)
            .request_timeout(Some(Duration::from_secs(15)))
            .load_balancing_policy(policy)
            .build();
        SessionBuilder::new()
            .known_nodes(&self.points)
            .tls_context(tls::context())
            .compression(compression)
            .tracing_info_fetch_attempts(NonZeroU32::new(100).unwrap())
            .tracing_info_fetch_interval(Duration::from_millis(50))
            .default_execution_profile_handle(profile.into_handle())
    }

    fn create_keyspace(&self) -> String {
        format!(
            "CREATE KEYSPACE {} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': {}}}",
            self.ks, self.rf
        )
    }
}

fn same<T: PartialEq + Debug>(got: T, want: T, what: &str) -> Outcome {
    if got == want {
        return Ok(());
    }
    Err(format!("{what}: got {got:?}, want {want:?}").into())
}

struct Suite {
    settings: Settings,
    session: Session,
}

impl Suite {
    async fn run(&self) -> i32 {
        let mut failed = 0;
        macro_rules! check {
            ($($name:ident),*) => { $(match self.$name().await {
                Ok(()) => println!("ok {}", stringify!($name)),
                Err(e) => { failed = 1; println!("fail {} {}", stringify!($name), e.to_string().replace('\n', " ")) }
            })* };
        }
        check!(connect, schema, types, collections, nulls, named, paging, batch, metadata, tokens, events, alter, errors, tracing, compression, drop_keyspace);
        failed
    }

    async fn ddl(&self, text: &str) -> Outcome {
        self.session.query_unpaged(text, &[]).await?;
        Ok(())
    }

    async fn one(&self, text: String) -> Outcome<Vec<Option<CqlValue>>> {
        let rows = self.session.query_unpaged(text, &[]).await?.into_rows_result()?;
        Ok(rows.first_row::<Row>()?.columns)
    }

    async fn connect(&self) -> Outcome {
        let state = self.session.get_cluster_state();
        same(state.get_nodes_info().len(), self.settings.nodes, "nodes seen")?;
        for node in state.get_nodes_info() {
            same(node.datacenter.as_deref(), Some(self.settings.dc.as_str()), "data center")?;
            // A pool may still be filling when the session is handed out.
            let began = Instant::now();
            while !node.is_connected() {
                if began.elapsed() > Duration::from_secs(5) {
                    return Err(format!("not connected to {:?}", node.address).into());
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        Ok(())
    }

    async fn schema(&self) -> Outcome {
        self.ddl(&format!("DROP KEYSPACE IF EXISTS {}", self.settings.ks)).await?;
        self.ddl(&self.settings.create_keyspace()).await?;
        self.session.use_keyspace(&self.settings.ks, false).await?;
        let began = Instant::now();
        for i in 0..5 {
            self.ddl(&format!("CREATE TABLE quick{i} (k int PRIMARY KEY)")).await?;
        }
        same(began.elapsed() < Duration::from_secs(10), true, "five CREATE TABLE in 10 s")?;
        self.session.await_schema_agreement().await?;
        Ok(())
    }

    async fn types(&self) -> Outcome {
        use CqlValue::*;
        let columns = "a ascii, bi bigint, bl blob, bo boolean, da date, de decimal, dou double, du duration, f float, i inet, n int, sm smallint, te text, ti time, ts timestamp, tu timeuuid, ty tinyint, u uuid, vc varchar, vi varint";
        self.ddl(&format!("CREATE TABLE types (k int PRIMARY KEY, {columns})")).await?;
        let names: Vec<&str> = columns.split(", ").map(|c| c.split(' ').next().unwrap()).collect();
        let names_list = names.join(", ");
        let insert = self
            .session
            .prepare(format!("INSERT INTO types (k, {names_list}) VALUES (?{})", ", ?".repeat(names.len())))
            .await?;
        let select = self.session.prepare(format!("SELECT {names_list} FROM types WHERE k = ?")).await?;
        let big = |digits: &[u8]| CqlVarint::from_signed_bytes_be(digits.to_vec());
        let rows = vec![
            vec![
                Ascii("ascii".into()), BigInt(i64::MAX), Blob(vec![0, 255]), Boolean(true), Date(CqlDate((1 << 31) + 18321)),
                Decimal(CqlDecimal::from_signed_be_bytes_and_exponent(vec![1, 0xe2, 0x3a], 3)), Double(1.5e300),
                Duration(CqlDuration { months: 14, days: 3, nanoseconds: 5000 }), Float(1.5), Inet("127.0.0.1".parse()?), Int(i32::MAX),
                SmallInt(i16::MAX), Text("Grüße 世界".into()), Time(CqlTime(86_399_999_999_999)), Timestamp(CqlTimestamp(1_577_934_245_678)),
                Timeuuid(CqlTimeuuid::from(uuid::Uuid::parse_str("50554d6e-29bb-11e5-b345-feff819cdc9f")?)), TinyInt(i8::MAX),
                Uuid(uuid::Uuid::parse_str("123e4567-e89b-42d3-a456-426614174000")?), Text("v".into()), Varint(big(&[1, 0, 0, 0, 0, 0, 0, 0, 0])),
            ],
            vec![
                Ascii("".into()), BigInt(i64::MIN), Blob(vec![]), Boolean(false), Date(CqlDate((1 << 31) - 1)),
                Decimal(CqlDecimal::from_signed_be_bytes_and_exponent(vec![0xff], 10)), Double(f64::NEG_INFINITY),
                Duration(CqlDuration { months: -1, days: -2, nanoseconds: -3 }), Float(-0.5), Inet("2001:db8::1".parse()?), Int(i32::MIN),
                SmallInt(i16::MIN), Text("".into()), Time(CqlTime(0)), Timestamp(CqlTimestamp(-1000)),
                Timeuuid(CqlTimeuuid::from(uuid::Uuid::parse_str("00000000-0000-1000-8000-000000000000")?)), TinyInt(i8::MIN),
                Uuid(uuid::Uuid::nil()), Text("".into()), Varint(big(&[0xff, 0, 0, 0, 0, 0, 0, 0, 0])),
            ],
        ];
        for (k, row) in rows.iter().enumerate() {
            let mut values = vec![Int(k as i32)];
            values.extend(row.iter().cloned());
            self.session.execute_unpaged(&insert, &values).await?;
            let got = self.session.execute_unpaged(&select, (k as i32,)).await?.into_rows_result()?;
            let got = got.first_row::<Row>()?.columns;
            for (i, name) in names.iter().enumerate() {
                same(got[i].as_ref(), Some(&row[i]), name)?;
            }
        }
        Ok(())
    }

    async fn collections(&self) -> Outcome {
        use std::collections::{BTreeMap, BTreeSet};
        type All = (Option<Vec<i32>>, Option<BTreeSet<String>>, Option<BTreeMap<String, i32>>, Option<Vec<i32>>, Option<BTreeMap<i32, BTreeSet<String>>>);
        self.ddl("CREATE TABLE collections (k int PRIMARY KEY, l list<int>, s set<text>, m map<text, int>, fl frozen<list<int>>, fm frozen<map<int, frozen<set<text>>>>)").await?;
        let insert = self.session.prepare("INSERT INTO collections (k, l, s, m, fl, fm) VALUES (?, ?, ?, ?, ?, ?)").await?;
        let select = self.session.prepare("SELECT l, s, m, fl, fm FROM collections WHERE k = ?").await?;
        let text = |v: &[&str]| v.iter().map(|s| s.to_string()).collect::<BTreeSet<String>>();
        let m = BTreeMap::from([("x".to_string(), 1), ("y".to_string(), 2)]);
        let fm = BTreeMap::from([(1, text(&["p", "q"])), (2, text(&[]))]);
        self.session.execute_unpaged(&insert, (1, vec![3, 1, 3], text(&["b", "a"]), &m, vec![9, 8], &fm)).await?;
        let read = async |k: i32| -> Outcome<All> {
            Ok(self.session.execute_unpaged(&select, (k,)).await?.into_rows_result()?.first_row::<All>()?)
        };
        same(read(1).await?, (Some(vec![3, 1, 3]), Some(text(&["a", "b"])), Some(m.clone()), Some(vec![9, 8]), Some(fm.clone())), "written")?;
        let update = self.session.prepare("UPDATE collections SET l = l + ?, s = s - ?, m[?] = ? WHERE k = ?").await?;
        self.session.execute_unpaged(&update, (vec![7], text(&["a"]), "z", 26, 1)).await?;
        let mut grown = m.clone();
        grown.insert("z".into(), 26);
        same(read(1).await?, (Some(vec![3, 1, 3, 7]), Some(text(&["b"])), Some(grown), Some(vec![9, 8]), Some(fm)), "updated")?;
        let none: (i32, Vec<i32>, BTreeSet<String>, BTreeMap<String, i32>, Vec<i32>, Option<BTreeMap<i32, BTreeSet<String>>>) =
            (2, vec![], text(&[]), BTreeMap::new(), vec![], None);
        self.session.execute_unpaged(&insert, &none).await?;
        same(read(2).await?, (None, None, None, Some(vec![]), None), "empty")
    }

    async fn nulls(&self) -> Outcome {
        self.ddl("CREATE TABLE nulls (k int PRIMARY KEY, a text, b int)").await?;
        let insert = self.session.prepare("INSERT INTO nulls (k, a, b) VALUES (?, ?, ?)").await?;
        let read = || self.one("SELECT a, b FROM nulls WHERE k = 1".into());
        let text = |s: &str| Some(CqlValue::Text(s.into()));
        self.session.execute_unpaged(&insert, (1, "a", 1)).await?;
        self.session.execute_unpaged(&insert, (1, MaybeUnset::<String>::Unset, 2)).await?;
        same(read().await?, vec![text("a"), Some(CqlValue::Int(2))], "unset leaves the value")?;
        self.session.execute_unpaged(&insert, (1, None::<String>, MaybeUnset::<i32>::Unset)).await?;
        same(read().await?, vec![None, Some(CqlValue::Int(2))], "null deletes")?;
        self.session.execute_unpaged(&insert, (1, "", None::<i32>)).await?;
        same(read().await?, vec![text(""), None], "empty is not null")
    }

    async fn named(&self) -> Outcome {
        let insert = self.session.prepare("INSERT INTO nulls (k, a, b) VALUES (:k, :a, :b)").await?;
        let values = std::collections::HashMap::from([("b", CqlValue::Int(5)), ("a", CqlValue::Text("named".into())), ("k", CqlValue::Int(7))]);
        self.session.execute_unpaged(&insert, values).await?;
        same(self.one("SELECT b FROM nulls WHERE k = 7".into()).await?, vec![Some(CqlValue::Int(5))], "named binds")
    }

    async fn paging(&self) -> Outcome {
        self.ddl("CREATE TABLE paging (k int, c int, v text, PRIMARY KEY (k, c))").await?;
        let insert = self.session.prepare("INSERT INTO paging (k, c, v) VALUES (?, ?, ?)").await?;
        futures::future::try_join_all((0..500).map(|i| self.session.execute_unpaged(&insert, (i % 5, i, format!("v{i}"))))).await?;
        let mut all = Statement::new("SELECT c FROM paging");
        all.set_page_size(37);
        let mut seen: Vec<i32> = self.session.query_iter(all, &[]).await?.rows_stream::<(i32,)>()?.map_ok(|r| r.0).try_collect().await?;
        seen.sort();
        same(seen, (0..500).collect(), "rows over all pages")?;
        let mut one = self.session.prepare("SELECT c FROM paging WHERE k = 1").await?;
        one.set_page_size(10);
        let (mut state, mut values, mut pages) = (PagingState::start(), vec![], 0);
        loop {
            let (page, next): (_, PagingStateResponse) = self.session.execute_single_page(&one, &[], state).await?;
            for row in page.into_rows_result()?.rows::<(i32,)>()? {
                values.push(row?.0);
            }
            pages += 1;
            match next.into_paging_control_flow() {
                ControlFlow::Continue(s) => state = s,
                ControlFlow::Break(()) => break,
            }
        }
        same(pages >= 10, true, "at least ten pages")?;
        same(values, (0..100).map(|i| 1 + 5 * i).collect(), "rows of one partition")
    }

    async fn batch(&self) -> Outcome {
        for (kind, a, b) in [(BatchType::Unlogged, 20, 21), (BatchType::Logged, 22, 22)] {
            let mut batch = Batch::new(kind);
            batch.append_statement(self.session.prepare("INSERT INTO nulls (k, a, b) VALUES (?, ?, ?)").await?);
            batch.append_statement("UPDATE nulls SET b = ? WHERE k = ?");
            self.session.batch(&batch, ((a, "x", 1), (9, b))).await?;
            same(self.one(format!("SELECT b FROM nulls WHERE k = {b}")).await?, vec![Some(CqlValue::Int(9))], "batch")?;
        }
        Ok(())
    }

    async fn metadata(&self) -> Outcome {
        self.ddl("CREATE TABLE meta (a int, b text, c int, d list<int>, s int STATIC, PRIMARY KEY ((a, b), c)) WITH CLUSTERING ORDER BY (c DESC)").await?;
        self.session.refresh_metadata().await?;
        let state = self.session.get_cluster_state();
        let table = &state.get_keyspace(&self.settings.ks).ok_or("no keyspace")?.tables["meta"];
        same(table.partition_key.clone(), vec!["a".to_string(), "b".to_string()], "partition key")?;
        same(table.clustering_key.clone(), vec!["c".to_string()], "clustering key")?;
        same(table.columns.len(), 5, "columns")
    }

    async fn tokens(&self) -> Outcome {
        self.ddl("CREATE TABLE tokens (k text PRIMARY KEY)").await?;
        self.session.refresh_metadata().await?;
        let state = self.session.get_cluster_state();
        same(state.replica_locator().ring().len(), 16 * self.settings.nodes, "tokens")?;
        for key in ["theo", "Grüße", "a key of more than sixteen bytes é"] {
            self.session.query_unpaged("INSERT INTO tokens (k) VALUES (?)", (key,)).await?;
            let rows = self.session.query_unpaged("SELECT token(k) FROM tokens WHERE k = ?", (key,)).await?.into_rows_result()?;
            let (token,) = rows.first_row::<(i64,)>()?;
            same(state.compute_token(&self.settings.ks, "tokens", &(key,))?.value(), token, key)?;
            same(state.get_endpoints(&self.settings.ks, "tokens", &(key,))?.len(), self.settings.rf, "replicas")?;
        }
        Ok(())
    }

    async fn events(&self) -> Outcome {
        let other = self.settings.open(None).await?;
        other.query_unpaged(format!("CREATE TABLE {}.seen (k int PRIMARY KEY)", self.settings.ks), &[]).await?;
        // This driver refreshes its metadata on an interval and on request; agreement must hold at once.
        self.session.await_schema_agreement().await?;
        self.session.refresh_metadata().await?;
        let state = self.session.get_cluster_state();
        same(state.get_keyspace(&self.settings.ks).ok_or("no keyspace")?.tables.contains_key("seen"), true, "the table another session made")
    }

    async fn alter(&self) -> Outcome {
        self.ddl("CREATE TABLE altered (k int PRIMARY KEY, a int)").await?;
        let select = self.session.prepare("SELECT * FROM altered").await?;
        self.session.query_unpaged("INSERT INTO altered (k, a) VALUES (1, 2)", &[]).await?;
        self.session.execute_unpaged(&select, &[]).await?;
        self.ddl("ALTER TABLE altered ADD aa text").await?;
        self.ddl("UPDATE altered SET aa = 'new' WHERE k = 1").await?;
        for _ in 0..3 * self.settings.nodes {
            let rows = self.session.execute_unpaged(&select, &[]).await?.into_rows_result()?;
            same(rows.first_row::<Row>()?.columns, vec![Some(CqlValue::Int(1)), Some(CqlValue::Int(2)), Some(CqlValue::Text("new".into()))], "the new column")?;
        }
        Ok(())
    }

    async fn errors(&self) -> Outcome {
        for (text, want) in [("SELEC", "syntax"), ("SELECT * FROM nosuch", "invalid"), ("CREATE TABLE altered (k int PRIMARY KEY)", "exists")] {
            let got = match self.session.query_unpaged(text, &[]).await {
                Err(ExecutionError::LastAttemptError(RequestAttemptError::DbError(e, _))) => match e {
                    DbError::SyntaxError => "syntax",
                    DbError::Invalid => "invalid",
                    DbError::AlreadyExists { .. } => "exists",
                    _ => "another error",
                },
                Err(e) => return Err(e.into()),
                Ok(_) => "no error",
            };
            same(got, want, text)?;
        }
        Ok(())
    }

    async fn tracing(&self) -> Outcome {
        let mut statement = Statement::new("SELECT * FROM nulls WHERE k = 7");
        statement.set_tracing(true);
        let id = self.session.query_unpaged(statement, &[]).await?.tracing_id().ok_or("no tracing id")?;
        let info = self.session.get_tracing_info(&id).await?;
        same(info.events.is_empty(), false, "trace without events")
    }

    async fn compression(&self) -> Outcome {
        for kind in [Compression::Lz4, Compression::Snappy] {
            let session = self.settings.open(Some(kind)).await?;
            let long = "compressible ".repeat(5000);
            session.query_unpaged(format!("INSERT INTO {}.nulls (k, a) VALUES (50, ?)", self.settings.ks), (&long,)).await?;
            let rows = session.query_unpaged(format!("SELECT a FROM {}.nulls WHERE k = 50", self.settings.ks), &[]).await?.into_rows_result()?;
            same(rows.first_row::<(String,)>()?.0, long, "a long text")?;
        }
        Ok(())
    }

    async fn drop_keyspace(&self) -> Outcome {
        self.ddl(&format!("DROP KEYSPACE {}", self.settings.ks)).await
    }
}

fn millis() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()
}

async fn failover(settings: &Settings) -> Outcome {
    let session = settings.open(None).await?;
    let ks = &settings.ks;
    session.query_unpaged(format!("DROP KEYSPACE IF EXISTS {ks}"), &[]).await?;
    session.query_unpaged(settings.create_keyspace(), &[]).await?;
    session.query_unpaged(format!("CREATE TABLE {ks}.acked (id int PRIMARY KEY)"), &[]).await?;
    let mut insert = session.prepare(format!("INSERT INTO {ks}.acked (id) VALUES (?)")).await?;
    let mut select = session.prepare(format!("SELECT id FROM {ks}.acked WHERE id = ?")).await?;
    insert.set_is_idempotent(true);
    select.set_is_idempotent(true);
    let present = async |id: i32| -> Outcome<bool> { Ok(session.execute_unpaged(&select, (id,)).await?.into_rows_result()?.rows_num() == 1) };
    let stop = Arc::new(AtomicBool::new(false));
    let stopper = stop.clone();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        stopper.store(true, Ordering::Relaxed);
    });
    println!("ready");
    let (mut acked, mut id) = (vec![], 0);
    while !stop.load(Ordering::Relaxed) {
        match session.execute_unpaged(&insert, (id,)).await {
            Ok(_) => {
                acked.push(id);
                println!("acked {} {id}", millis());
                if id % 10 == 0 {
                    match present(id).await {
                        Ok(true) => {}
                        Ok(false) => println!("missing {id}"),
                        Err(e) => println!("error {} {}", millis(), e.to_string().replace('\n', " ")),
                    }
                }
            }
            Err(e) => println!("error {} {}", millis(), e.to_string().replace('\n', " ")),
        }
        id += 1;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    for id in acked {
        if !present(id).await? {
            println!("missing {id}");
        }
    }
    println!("done");
    session.query_unpaged(format!("DROP KEYSPACE {ks}"), &[]).await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Outcome {
    let settings = Settings::read();
    match env::args().nth(1).as_deref() {
        Some("suite") => {
            let session = settings.open(None).await?;
            let code = Suite { settings, session }.run().await;
            std::process::exit(code)
        }
        Some("failover") => failover(&settings).await,
        Some("login") => std::process::exit(login::run(&settings).await),
        _ => Err("usage: suite | failover | login".into()),
    }
}
