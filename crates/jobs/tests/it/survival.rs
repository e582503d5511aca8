//! kill -9 of supervisors at random moments: no job runs twice, and what is told is true.

use std::fs;
use std::time::{Duration, Instant};

use fishplate_jobs::executor::local::LocalExecutor;
use fishplate_jobs::executor::{
    Executor, Handle, Observation, ProgramExit, StartError, StartOrder, StartTrace,
};

use crate::bed::{Bed, NOBODY, eventually};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victims {
    Runners,
    Supervisor,
    Both,
}

const ROUNDS: usize = 198;
const JOBS: usize = 3;

#[tokio::test(flavor = "multi_thread")]
async fn killed_supervisors_at_random_moments() {
    let bed = Bed::new();
    let mut told = Told::default();
    for round in 0..ROUNDS {
        let victims = [Victims::Runners, Victims::Supervisor, Victims::Both][round % 3];
        // Half of the time the server is killed too: another one goes on.
        let another = (round / 3 % 2 == 0).then(|| bed.another_executor());
        let orders: Vec<StartOrder> = (0..JOBS).map(|_| order(&bed)).collect();
        let starts = orders.iter().map(|order| {
            let (executor, order) = (bed.executor.clone(), order.clone());
            tokio::spawn(async move { executor.start(&order).await })
        });
        let starts: Vec<_> = starts.collect();
        tokio::time::sleep(Duration::from_micros(random(60_000))).await;
        if victims != Victims::Supervisor {
            bed.kill_runners();
        }
        if victims != Victims::Runners {
            bed.kill_supervisors();
        }
        if victims == Victims::Both {
            // One that the supervisor forked in between.
            bed.kill_runners();
        }
        let executor = another.as_ref().unwrap_or(&bed.executor);
        for (order, start) in orders.iter().zip(starts) {
            let started = start.await.unwrap();
            settle(executor, order, started, victims, &mut told).await;
            assert_eq!(Bed::carriers(order), NOBODY, "nothing is left of it");
        }
    }
    // The moments were random; but if any of these never came about, nothing was tested.
    assert!(told.ended > ROUNDS, "{told:?}");
    assert!(told.lost > 0, "{told:?}");
}

#[derive(Debug, Default)]
struct Told {
    ended: usize,
    lost: usize,
    again: usize,
}

/// Follows a job to what is told of it, and compares that with what it did.
async fn settle(
    executor: &LocalExecutor,
    order: &StartOrder,
    started: Result<Handle, StartError>,
    victims: Victims,
    told: &mut Told,
) {
    let mut order = order.clone();
    let handle = match started {
        Ok(handle) => Ok(handle),
        Err(StartError::NotStarted(_) | StartError::Exhausted(_)) => {
            assert_eq!(ran(&order), 0, "it was said not to have started");
            told.again += 1;
            order.fence += 1;
            executor.start(&order).await
        }
        Err(error) => Err(error),
    };
    // A server that was killed after the start, before it could note the handle.
    match (executor.locate(&order).await, &handle) {
        (StartTrace::Started(found), Ok(handle)) => assert_eq!(found, *handle),
        (StartTrace::Unproven(_), _) => assert_eq!(victims, Victims::Both),
        (located, handle) => panic!("{located:?} for {handle:?}"),
    }
    let Ok(handle) = handle else {
        assert_eq!(victims, Victims::Both, "{handle:?}");
        told.lost += 1;
        assert!(ran(&order) <= 1);
        return;
    };
    match end(executor, &handle).await {
        Ok(ending) => {
            told.ended += 1;
            assert_eq!(ending.exit_code, Some(7), "{victims:?} {ending:?}");
            assert_eq!(ran(&order), 1);
        }
        Err(why) => {
            told.lost += 1;
            assert_eq!(victims, Victims::Both, "{why}");
            assert!(ran(&order) <= 1);
        }
    }
}

fn order(bed: &Bed) -> StartOrder {
    let script = format!("echo ran >> ../ran; sleep 0.0{}; exit 7", random(6));
    bed.order(&script, |_| {})
}

fn ran(order: &StartOrder) -> usize {
    fs::read_to_string(order.directory.join("ran")).map_or(0, |text| text.lines().count())
}

fn random(below: u64) -> u64 {
    getrandom::u64().unwrap() % below
}

async fn end(executor: &LocalExecutor, handle: &Handle) -> Result<ProgramExit, String> {
    let begin = Instant::now();
    loop {
        match executor.observe(std::slice::from_ref(handle)).await.remove(0) {
            Observation::Ended(ending) => return Ok(*ending),
            Observation::Lost(why) | Observation::Died(why) => return Err(why),
            other => assert!(begin.elapsed() < Duration::from_secs(20), "{other:?}"),
        }
        let _ = tokio::time::timeout(Duration::from_millis(5), executor.changed()).await;
    }
}

async fn up(order: &StartOrder) {
    eventually("the program is up", || order.directory.join("work/up").exists()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_supervisor_sees_the_exit_code_when_the_runner_is_killed() {
    let bed = Bed::new();
    let order = bed.order(": > up; while [ ! -e go ]; do sleep 0.01; done; exit 9", |_| {});
    let handle = bed.start(&order).await;
    up(&order).await;
    bed.kill_runners();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let seen = bed.executor.observe(std::slice::from_ref(&handle)).await;
    assert!(matches!(seen[0], Observation::Running { .. }), "{seen:?}");
    fs::write(order.directory.join("work/go"), "").unwrap();
    assert_eq!(end(&bed.executor, &handle).await.unwrap().exit_code, Some(9));
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_hold_when_the_runner_is_killed() {
    let bed = Bed::new();
    let order =
        bed.order(": > up; while :; do echo yes; done", |plan| plan.limits.log_size = 1 << 30);
    let wall = bed.order(": > up; sleep 1000", |plan| plan.limits.wall_time = Some(1.0));
    let (noisy, slow) = (bed.start(&order).await, bed.start(&wall).await);
    up(&order).await;
    up(&wall).await;
    bed.kill_runners();
    bed.executor.cancel(&noisy).await;
    assert!(end(&bed.executor, &noisy).await.unwrap().cancelled);
    let ending = end(&bed.executor, &slow).await.unwrap();
    assert_eq!(ending.limit, Some(("wall_time".to_owned(), "1 s".to_owned())));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_to_end_a_job_is_not_lost_with_its_runner() {
    let bed = Bed::new();
    for round in 0..40 {
        let order = bed.order(": > up; sleep 1000", |_| {});
        let handle = bed.start(&order).await;
        up(&order).await;
        bed.kill_runners();
        // The request comes before, while and after it is seen that the runner is dead.
        tokio::time::sleep(Duration::from_micros(round * 20)).await;
        bed.executor.cancel(&handle).await;
        assert!(end(&bed.executor, &handle).await.unwrap().cancelled, "round {round}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn runners_go_on_without_a_supervisor_and_a_new_one_starts() {
    let bed = Bed::new();
    let order = bed.order(": > up; while [ ! -e go ]; do sleep 0.01; done; exit 9", |_| {});
    let handle = bed.start(&order).await;
    up(&order).await;
    bed.kill_supervisors();
    let (_, ending) = bed.run_script("exit 3", |_| {}).await;
    assert_eq!(ending.exit_code, Some(3));
    fs::write(order.directory.join("work/go"), "").unwrap();
    assert_eq!(end(&bed.executor, &handle).await.unwrap().exit_code, Some(9));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_supervisors_are_all_dead_is_witnessed_or_lost() {
    let bed = Bed::new();
    let script = ": > up; while [ ! -e go ]; do sleep 0.01; done; echo done > result; exit 0";
    let order = bed.order(script, |_| {});
    let handle = bed.start(&order).await;
    up(&order).await;
    // Who looks before they are dead is no witness: it has supervisors still.
    bed.kill_supervisors_and_wait().await;
    let other = bed.another_executor();
    let seen = other.observe(std::slice::from_ref(&handle)).await;
    assert!(matches!(seen[0], Observation::Running { .. }), "{seen:?}");
    fs::write(order.directory.join("work/go"), "").unwrap();
    match end(&other, &handle).await {
        Ok(ending) => {
            assert_eq!(ending.exit_code, Some(0));
            // It stands in the journal for whoever comes later.
            let later = end(&bed.another_executor(), &handle).await.unwrap();
            assert_eq!(later.exit_code, Some(0));
        }
        Err(why) => {
            assert!(!kernel_tells_witnesses(), "{why}");
            assert!(why.contains("exit status"), "{why}");
        }
    }
    assert_eq!(fs::read_to_string(order.directory.join("work/result")).unwrap(), "done\n");
}

/// Whether the kernel tells how a process ended to whoever held a descriptor of it (Linux 6.15).
fn kernel_tells_witnesses() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (6, 15)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_ends_with_nobody_alive_is_lost() {
    let bed = Bed::new();
    let order = bed.order(": > up; while [ ! -e go ]; do sleep 0.01; done; : > end", |_| {});
    let handle = bed.start(&order).await;
    up(&order).await;
    bed.kill_supervisors();
    bed.kill_runners();
    fs::write(order.directory.join("work/go"), "").unwrap();
    eventually("it has ended", || Bed::carriers(&order).is_empty()).await;
    let why = end(&bed.another_executor(), &handle).await.unwrap_err();
    assert!(why.contains("exit status"), "{why}");
    assert!(order.directory.join("work/end").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_works_in_every_situation() {
    for victims in [Victims::Runners, Victims::Supervisor, Victims::Both] {
        let bed = Bed::new();
        let deaf = "(setsid sh -c \"trap '' TERM; : > up; while :; do sleep 0.05; done\" &) & \
                    sleep 1000";
        let order = bed.order(deaf, |plan| plan.limits.kill_grace = 0.2);
        let handle = bed.start(&order).await;
        up(&order).await;
        if victims != Victims::Runners {
            bed.kill_supervisors();
        }
        if victims != Victims::Supervisor {
            bed.kill_runners();
        }
        let other = bed.another_executor();
        other.cancel(&handle).await;
        let ending = end(&other, &handle).await.unwrap();
        assert!(ending.cancelled, "{victims:?}");
        assert_eq!(ending.ended_by, "sweep", "{victims:?} {ending:?}");
        assert_eq!(Bed::carriers(&order), NOBODY, "{victims:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_intent_without_a_start_is_adopted_or_never_run_again() {
    let bed = Bed::new();
    let order = bed.order("sleep 1000", |_| {});
    let handle = bed.start(&order).await;
    bed.kill_supervisors();
    bed.kill_runners();
    // As if the runner had been killed between the spawn and its record.
    let journal = order.directory.join("run");
    let text = fs::read_to_string(&journal).unwrap();
    let intent = text.lines().next().unwrap();
    assert!(intent.contains("intent"), "{text}");
    fs::write(&journal, format!("{intent}\n")).unwrap();
    let other = bed.another_executor();
    assert_eq!(other.locate(&order).await, StartTrace::Started(handle.clone()));
    let seen = other.observe(std::slice::from_ref(&handle)).await;
    assert!(matches!(seen[0], Observation::Running { .. }), "{seen:?}");
    crate::bed::kill_all(&Bed::carriers(&order));
    eventually("it is gone", || Bed::carriers(&order).is_empty()).await;
    assert!(matches!(other.locate(&order).await, StartTrace::Unproven(_)));
    assert!(end(&other, &handle).await.is_err());
    let again = StartOrder { fence: 2, ..order };
    assert!(matches!(other.start(&again).await, Err(StartError::Unproven(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_another_boot_died_with_the_machine() {
    let bed = Bed::new();
    let order = bed.order("sleep 1000", |_| {});
    let handle = bed.start(&order).await;
    bed.kill_supervisors();
    bed.kill_runners();
    let journal = order.directory.join("run");
    let boot = fishplate_jobs::process::boot();
    let text = fs::read_to_string(&journal).unwrap();
    assert!(text.contains(boot));
    fs::write(&journal, text.replace(boot, "another boot")).unwrap();
    let other = bed.another_executor();
    let seen = other.observe(std::slice::from_ref(&handle)).await.remove(0);
    assert!(
        matches!(&seen, Observation::Died(why) if why.contains("died with the machine")),
        "{seen:?}"
    );
    let before = Bed::carriers(&order);
    other.cancel(&handle).await;
    assert!(!before.is_empty());
    assert_eq!(Bed::carriers(&order), before, "numbers of another boot are nobody's");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_servers_that_start_at_once_share_one_supervisor() {
    let bed = Bed::new();
    let mut tasks = Vec::new();
    for _ in 0..8 {
        let (executor, order) = (bed.another_executor(), bed.order("exit 7", |_| {}));
        tasks.push(tokio::spawn(async move {
            let handle = executor.start(&order).await.unwrap();
            end(&executor, &handle).await.unwrap().exit_code
        }));
    }
    for task in tasks {
        assert_eq!(task.await.unwrap(), Some(7));
    }
    assert_eq!(bed.job_processes("fishplate-super").len(), 1);
}
