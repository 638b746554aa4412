//! Checks of credentials with the Rust driver.

use std::env;
use std::error::Error;

use scylla::client::session::Session;

use crate::{same, Outcome, Settings};

/// Connects with correct and with wrong credentials.
pub async fn run(settings: &Settings) -> i32 {
    let user = env::var("CQLD_USER").unwrap_or_default();
    let password = env::var("CQLD_PASSWORD").unwrap_or_default();
    let checks = [
        ("correct", correct(settings, &user, &password).await),
        ("wrong", refused(settings, &user).await),
        ("unknown", refused(settings, "no_such_role").await),
    ];
    let mut failed = 0;
    for (name, outcome) in checks {
        match outcome {
            Ok(()) => println!("ok {name}"),
            Err(e) => {
                failed = 1;
                println!("fail {name} {}", e.to_string().replace('\n', " "))
            }
        }
    }
    failed
}

async fn open(settings: &Settings, user: &str, password: &str) -> Outcome<Session> {
    Ok(settings.builder(None).user(user, password).build().await?)
}

async fn correct(settings: &Settings, user: &str, password: &str) -> Outcome {
    let session = open(settings, user, password).await?;
    let rows = session.query_unpaged("SELECT key FROM system.local", &[]).await?.into_rows_result()?;
    same(rows.first_row::<(String,)>()?.0.as_str(), "local", "key")?;
    let (ks, drop) = (&settings.ks, format!("DROP KEYSPACE IF EXISTS {}", settings.ks));
    session.query_unpaged(drop.as_str(), &[]).await?;
    session.query_unpaged(settings.create_keyspace(), &[]).await?;
    session.query_unpaged(format!("CREATE TABLE {ks}.t (k int PRIMARY KEY, v text)"), &[]).await?;
    session.query_unpaged(format!("INSERT INTO {ks}.t (k, v) VALUES (1, 'written')"), &[]).await?;
    let rows = session.query_unpaged(format!("SELECT v FROM {ks}.t WHERE k = 1"), &[]).await?.into_rows_result()?;
    same(rows.first_row::<(String,)>()?.0.as_str(), "written", "value")?;
    session.query_unpaged(drop.as_str(), &[]).await?;
    Ok(())
}

async fn refused(settings: &Settings, user: &str) -> Outcome {
    match open(settings, user, "wrong").await {
        Ok(_) => Err(format!("{user} is logged in").into()),
        Err(e) => {
            let text = chain(e.as_ref());
            let want = format!("Provided username {user} and/or password are incorrect");
            same(text.contains(&want), true, &text)
        }
    }
}

/// Returns the messages of an error and of its causes.
fn chain(e: &dyn Error) -> String {
    match e.source() {
        Some(cause) => format!("{e}: {}", chain(cause)),
        None => e.to_string(),
    }
}
