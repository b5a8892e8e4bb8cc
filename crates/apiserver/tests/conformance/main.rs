//! One suite, two servers: what a real Kubernetes control plane answers was recorded, and both it and the embedded
//! server have to give those answers.
//!
//! `cases/*.yaml` hold what is asked, `golden/` what was answered. `NETFERRY_CASE=words` runs only the cases whose name
//! contains the words (or one file of them), `NETFERRY_RECORD=1` writes the real server's answers down anew.

mod admission;
mod bullets;
mod case;
mod diff;
mod golden;
mod normal;
mod run;
mod server;
mod suite;
mod vars;
mod watch;

use std::collections::BTreeSet;

#[tokio::test(flavor = "multi_thread")]
async fn the_embedded_server_gives_the_recorded_answers() {
    let server = server::embedded::Embedded::open();
    let failures = suite::run_all(&server, "the_embedded_server_gives_the_recorded_answers", false).await;
    assert_eq!(failures, 0, "{failures} cases failed");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_real_server_gives_the_recorded_answers() {
    let mut server = server::real::Real::start().await;
    let failures =
        suite::run_all(&server, "the_real_server_gives_the_recorded_answers", golden::recording()).await;
    if failures > 0 {
        let logs = server.keep_logs();
        panic!("{failures} cases failed; the real server's logs are in {}", logs.display());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn our_definitions_admit_on_the_real_server_what_their_tables_say() {
    let mut server = server::real::Real::start().await;
    let wrong = admission::run(&server, golden::recording()).await;
    if !wrong.is_empty() {
        let logs = server.keep_logs();
        panic!("{}\nthe real server's logs are in {}", wrong.join("\n"), logs.display());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn our_definitions_admit_on_the_embedded_server_what_their_tables_say() {
    let wrong = admission::run(&server::embedded::Embedded::open(), false).await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_promise_has_a_case() {
    let cases = case::all();
    let covered: BTreeSet<_> = cases.iter().flat_map(|c| c.covers.iter().map(String::as_str)).collect();
    let promised: BTreeSet<_> = bullets::BULLETS.iter().map(|(name, _)| *name).collect();
    let uncovered: Vec<_> = promised.difference(&covered).collect();
    let unknown: Vec<_> = covered.difference(&promised).collect();
    assert!(uncovered.is_empty(), "no case covers {uncovered:?}");
    assert!(unknown.is_empty(), "cases cover what was never promised: {unknown:?}");
    let without: Vec<_> = cases.iter().filter(|c| c.covers.is_empty()).map(|c| &c.case).collect();
    assert!(without.is_empty(), "cases that cover nothing: {without:?}");
}

#[test]
fn the_suite_is_as_large_as_promised_and_no_name_comes_twice() {
    let cases = case::all();
    assert!(cases.len() >= 150, "{} cases", cases.len());
    let mut names = BTreeSet::new();
    for case in &cases {
        assert!(names.insert(case.slug()), "two cases are called {:?}", case.case);
    }
}

#[test]
fn every_recorded_answer_belongs_to_a_case() {
    let known: BTreeSet<_> = case::all().iter().map(golden::path).collect();
    let golden = case::directory().join("golden");
    let mut stray = Vec::new();
    let topics =
        std::fs::read_dir(golden).expect("the golden files").map(|entry| entry.expect("a topic").path());
    for topic in topics.filter(|path| path.is_dir()) {
        for file in std::fs::read_dir(topic).expect("a topic's files") {
            let path = file.expect("a file").path();
            if !known.contains(&path) {
                stray.push(path);
            }
        }
    }
    assert!(stray.is_empty(), "no case has these recorded answers: {stray:#?}");
}

#[test]
fn every_accepted_difference_says_why() {
    let mut count = 0;
    for ignore in case::accepted_everywhere() {
        println!("everywhere [{}]: {}", ignore.at, ignore.why);
        count += 1;
    }
    for case in case::all() {
        for ignore in &case.ignore {
            println!("{} [{}]: {}", case.case, ignore.at, ignore.why);
            assert!(
                ignore.why.split_whitespace().count() > 3,
                "{}: say why {} may differ",
                case.case,
                ignore.at
            );
            count += 1;
        }
    }
    println!("{count} accepted differences");
}
