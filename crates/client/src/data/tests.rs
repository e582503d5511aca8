use std::path::Path;
use std::sync::Arc;

use fishplate_contract::DataRef;

use super::*;
use crate::{Meter, Settings};

fn is_send<T: Send>(_: &T) {}

#[tokio::test]
async fn what_moves_data_may_be_sent_between_threads() {
    let (meter, reference) = (Arc::new(Meter::default()), DataRef::new("http://h/x"));
    let sources = Sources::new(&Settings::default()).unwrap();
    is_send(&sources.get(&reference, &DownloadTarget::Stdout, &meter));
    is_send(&UploadTarget::find("http://h", Settings::default()));
    is_send(&Offer::towards("http://h"));
    let putting = async {
        let target = UploadTarget::find("http://h", Settings::default()).await?;
        target.put(Path::new("x"), &meter).await
    };
    is_send(&putting);
}
