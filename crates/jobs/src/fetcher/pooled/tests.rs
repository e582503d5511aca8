//! Over a real pool, real sessions and the transport of files.

use std::fs;
use std::path::PathBuf;

use fishplate_contract::{JobId, SystemClock};
use fishplate_data::pool::PoolSettings;
use fishplate_data::session::SessionSettings;
use fishplate_data::transfer::{Files, TransferSettings, Transports};
use fishplate_data::{Pool, Resolver};
use tempfile::TempDir;

use super::*;

const ORIGIN: &str = "http://here.example/base";

struct Site {
    directory: TempDir,
    fetcher: DataFetcher,
    owner: Principal,
}

impl Site {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("root");
        fs::create_dir(&root).unwrap();
        let clock = Arc::new(SystemClock);
        let pool = Pool::open(PoolSettings::new(directory.path().join("pool")), clock).unwrap();
        let transports = Transports::new().with(Files::new(vec![root]));
        let resolver = Resolver::new(pool, transports, TransferSettings::default());
        let sessions = SessionSettings::new(directory.path().join("sessions"));
        let sessions = Sessions::new(sessions, Arc::new(SystemClock)).unwrap();
        let fetcher = DataFetcher::new(resolver, Some(sessions), ORIGIN);
        Self { directory, fetcher, owner: Principal::named("ann") }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn order(&self, url: &str) -> FetchOrder {
        FetchOrder {
            job: JobId::from_bytes([1; 16]),
            owner: self.owner.clone(),
            session: None,
            parameter: "mesh".to_owned(),
            from: DataRef::new(url),
            target: self.path("target"),
            private: false,
            link_size: 4,
        }
    }

    /// What came, and how; the target is gone again.
    async fn fetched(&self, order: &FetchOrder) -> Result<(Placing, String), Fault> {
        let progress = Progress::default();
        let placed = self.fetcher.fetch(order, &progress).await?;
        let text = fs::read_to_string(&order.target).unwrap();
        assert_eq!(progress.bytes(), text.len() as u64);
        fs::remove_file(&order.target).unwrap();
        Ok((placed, text))
    }

    fn adoption(&self, text: &str, session: Option<SessionId>) -> AdoptOrder {
        let path = self.path("output");
        let _ = fs::remove_file(&path);
        fs::write(&path, text).unwrap();
        let file = OutputFile {
            parameter: "mesh".to_owned(),
            path,
            len: text.len() as u64,
            name: "mesh.frd".to_owned(),
            media_type: "model/x".to_owned(),
        };
        let job = JobId::from_bytes([1; 16]);
        AdoptOrder { job, owner: self.owner.clone(), file, session, earlier: None }
    }
}

#[tokio::test]
async fn data_is_linked_unless_it_is_small_or_to_be_written_to() {
    let site = Site::new();
    let file = site.path("root/mesh");
    fs::write(&file, "large").unwrap();
    let url = format!("file://{}", file.display());
    let order = site.order(&url);
    let reflinks = site.fetched(&order).await.unwrap().0 == Placing::Reflink;
    let or_reflink = |placing| if reflinks { Placing::Reflink } else { placing };
    let large = "large".to_owned();
    let linked = site.fetched(&order).await.unwrap();
    assert_eq!(linked, (or_reflink(Placing::Link), large.clone()));
    let own = FetchOrder { private: true, ..order.clone() };
    assert_eq!(site.fetched(&own).await.unwrap(), (or_reflink(Placing::Copy), large.clone()));
    let small = FetchOrder { link_size: 6, ..order.clone() };
    assert_eq!(site.fetched(&small).await.unwrap(), (or_reflink(Placing::Copy), large));
    let wrong = FetchOrder { from: DataRef { len: Some(4), ..DataRef::new(&url) }, ..order };
    assert_eq!(site.fetched(&wrong).await.unwrap_err().code, FaultCode::DataMismatch);
    assert!(!site.path("target").exists());
}

#[tokio::test]
async fn an_output_has_one_address_as_long_as_it_stands_and_is_this_servers_shortcut() {
    let site = Site::new();
    let order = site.adoption("a mesh", None);
    let adopted = site.fetcher.adopt(&order).await.unwrap();
    let DataRef { url, len, .. } = adopted.reference.clone();
    assert!(url.starts_with(&format!("{ORIGIN}/data/")) && url.ends_with("/mesh.frd"), "{url}");
    assert_eq!(len, Some(6));
    assert!(adopted.expires.is_some());
    // The job may be removed.
    fs::remove_file(&order.file.path).unwrap();
    let (_, text) = site.fetched(&site.order(&url)).await.unwrap();
    assert_eq!(text, "a mesh");
    let again = AdoptOrder { earlier: Some(adopted.reference.clone()), ..order };
    assert_eq!(site.fetcher.adopt(&again).await.unwrap().reference.url, url);
    site.fetcher.resolver.pool().revoke(&site.owner, &url).unwrap();
    let order = site.adoption("a mesh", None);
    let anew = AdoptOrder { earlier: Some(adopted.reference), ..order };
    assert_ne!(site.fetcher.adopt(&anew).await.unwrap().reference.url, url, "it was revoked");
    let gone = site.fetched(&site.order(&url)).await.unwrap_err();
    assert_ne!(gone.code, FaultCode::Internal);
}

#[tokio::test]
async fn sessions_files_come_and_go_by_name_and_by_address() {
    let site = Site::new();
    let sessions = site.fetcher.sessions.clone().unwrap();
    let session = sessions.open(&site.owner, None).unwrap().id;
    let adopted = site.fetcher.adopt(&site.adoption("a mesh", Some(session))).await.unwrap();
    let url = adopted.reference.url;
    assert_eq!(url, format!("{ORIGIN}/session/{session}/mesh.frd"));
    let by_name = FetchOrder { session: Some(session), ..site.order("session:mesh.frd") };
    assert_eq!(site.fetched(&by_name).await.unwrap().1, "a mesh");
    assert_eq!(site.fetched(&site.order(&url)).await.unwrap().1, "a mesh");
    let nowhere = site.fetched(&site.order("session:mesh.frd")).await.unwrap_err();
    assert_eq!(nowhere.code, FaultCode::NoSuchSession);
    let stranger = FetchOrder { owner: Principal::named("bob"), ..by_name.clone() };
    assert_eq!(site.fetched(&stranger).await.unwrap_err().code, FaultCode::NoSuchSession);
    let no_file = FetchOrder { from: DataRef::new("session:grid"), ..by_name.clone() };
    assert_eq!(site.fetched(&no_file).await.unwrap_err().code, FaultCode::NoSuchData);
    // What the reference says must be so.
    let digest = digest_of(&site.path("output"), &Digest::Sha256([0; 32])).unwrap();
    let from = |digest| DataRef { digest: Some(digest), ..DataRef::new("session:mesh.frd") };
    let right = FetchOrder { from: from(digest), ..by_name.clone() };
    assert_eq!(site.fetched(&right).await.unwrap().1, "a mesh");
    let wrong = FetchOrder { from: from(Digest::Sha512([0; 64])), ..by_name };
    assert_eq!(site.fetched(&wrong).await.unwrap_err().code, FaultCode::DataMismatch);
    sessions.close(&site.owner, &session).unwrap();
    assert_eq!(site.fetched(&site.order(&url)).await.unwrap_err().code, FaultCode::NoSuchSession);
}

#[tokio::test]
async fn what_cannot_be_delivered_is_a_fault() {
    let site = Site::new();
    let AdoptOrder { job, owner, file, .. } = site.adoption("a mesh", None);
    let to = format!("file://{}", site.path("elsewhere").display());
    let order = DeliverOrder { job, owner, file, to, subject: String::new() };
    let fault = site.fetcher.deliver(&order, &Progress::default()).await.unwrap_err();
    assert_ne!(fault.code, FaultCode::Internal, "{fault}");
}

#[test]
fn a_segment_is_read_as_it_is_meant() {
    assert_eq!(unescaped("a%20b%C3%A9%zz%2?x#y"), "a bé%zz%2");
}
