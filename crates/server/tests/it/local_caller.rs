//! What a caller of this process is given, and for how long.

use std::time::Duration;

use fishplate_contract::{
    Argument, CallError, CallOptions, Caller as _, FaultCode, Principal, Results,
};
use fishplate_jobs::function::Functions;
use fishplate_server::caller::LocalCaller;

use crate::bed::Setup;

#[tokio::test]
async fn outputs_in_memory_count_as_long_as_they_are_used() {
    let many = Functions::new("test", "urn:test").function(
        "many",
        ["count"],
        ["numbers"],
        |count: i32| Ok(vec![0_i64; usize::try_from(count).unwrap_or_default()]),
    );
    let mut setup = Setup::new().with_functions(many);
    setup.limits.faces.message_memory = 12 << 20;
    setup.limits.faces.body_stall = Duration::from_millis(50);
    let (_directory, _engine, host) = setup.assemble().unwrap();
    let caller = LocalCaller::new(&host, "test", Principal::anonymous()).unwrap();
    let call = async || -> Result<Results, CallError> {
        let count = vec![Argument::text("count", (1 << 20).to_string())];
        caller.call("many", count, CallOptions::default()).await
    };
    // The second goes on whatever the first holds; who comes after it waits.
    let used = [call().await.unwrap(), call().await.unwrap()];
    let refused = call().await.map(drop).unwrap_err();
    let fault = refused.fault().unwrap();
    assert_eq!(fault.code, FaultCode::TimedOut);
    assert_eq!(fault.limit.as_ref().unwrap().name, "message_memory");
    drop(used);
    call().await.unwrap();
}
