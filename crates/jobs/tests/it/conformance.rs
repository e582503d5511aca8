use fishplate_jobs::executor::conformance;

use crate::bed::Bed;

#[tokio::test(flavor = "multi_thread")]
async fn the_local_executor_does_what_every_executor_must() {
    let bed = Bed::new();
    std::fs::create_dir(bed.jobs()).unwrap();
    conformance::run(&bed.executor, &bed.jobs()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_data_directory_with_a_long_name_will_do() {
    let bed = Bed::new();
    let data = bed.directory.path().join("d".repeat(200));
    std::fs::create_dir(&data).unwrap();
    let settings = fishplate_jobs::executor::local::LocalSettings::new(&data);
    let executor = fishplate_jobs::executor::local::LocalExecutor::new(settings).unwrap();
    let order = conformance::order(&data.join("jobs"), "exit 4");
    let handle = fishplate_jobs::executor::Executor::start(&executor, &order).await.unwrap();
    assert_eq!(conformance::ended(&executor, &handle).await.exit_code, Some(4));
}
