//! A communication domain while it runs: where its ranks are, what they wait for and exchange; for whom it belongs to. The page works
//! without its script, which looks again as long as somebody looks at it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use fishplate_contract::interface::DOMAINS;
use fishplate_contract::lexical::escaped;
use fishplate_contract::{Fault, Principal, Verb};
use fishplate_formats::units;
use fishplate_ranks::launch::rendezvous::Address;
use fishplate_ranks::status::{Deadlock, KnownRank, PeerRoute, Traffic};
use fishplate_ranks::{DomainId, Rank};

use super::page::Page;
use super::{all_services, framed};
use crate::dispatch::authorise::{Access, Action};
use crate::domains::{DomainView, Member};
use crate::host::Host;
use crate::providers::domain::{self, DomainRequest};

/// Of more ranks than this, the busiest so many pairs are shown in place of all.
const MATRIX: usize = 32;

/// Of more ranks than this, only so many are listed.
const ROWS: usize = 512;

/// The page of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DomainResource(pub(crate) DomainId);

impl DomainResource {
    /// That of a path below the public URL.
    pub(crate) fn of(path: &str) -> Option<Self> {
        path.strip_prefix(DOMAINS)?.strip_prefix('/')?.parse().ok().map(Self)
    }

    /// The right that it takes: who may ask the service `domain`.
    pub(crate) fn access(principal: &Principal) -> Access<'_> {
        let action = Action::Verb(Verb::Call);
        Access { principal, service: domain::NAME, operation: "", action }
    }
}

/// A domain of the caller.
///
/// # Errors
/// `InvalidValue` if there is none here; `Forbidden`.
pub(crate) async fn domain(host: &Host, caller: &Principal, id: DomainId) -> Result<String, Fault> {
    // As the operation that tells the same; rules may be of operations.
    host.authorise(&Access { operation: "state", ..DomainResource::access(caller) })?;
    let asked = DomainRequest { host, owner: caller, domain: id };
    let view = asked.look()?;
    let known = asked.known(&view.members).await?;
    let has_ended = !known.is_empty() && known.values().all(|known| known.ended);
    let mut body = format!(
        "<h1>Communication domain</h1>\n<p class=\"facts\">ID: <code>{id}</code><br>Server: {}</p>\n\
         <section id=\"state\"{}>\n",
        escaped(&host.settings.public_url),
        if has_ended { " data-ended" } else { "" },
    );
    if let Some(deadlock) = Deadlock::find(&known) {
        let _ = writeln!(body, "<p class=\"alert\">{}</p>", escaped(&deadlock.to_string()));
    }
    ranks(&mut body, host.public_path(), id, (&view, &known));
    traffic(&mut body, &known, view.addresses.len());
    body.push_str("</section>\n<p id=\"live\">Reload the page to look again.</p>\n");
    if !has_ended {
        body.push_str(
            "<details id=\"end\"><summary>End this domain</summary>\n<p>Its ranks on this server are killed; those of other \
             servers end too if they need them.</p>\n<form method=\"post\"><button>End it</button></form></details>\n",
        );
    }
    let page = Page { title: "Communication domain", scripts: &["domain.js"], ..Page::default() };
    Ok(page.write(host, Some(caller), &body))
}

/// Where each rank is, and what it does; of many, those of this server first.
fn ranks(
    body: &mut String,
    base: &str,
    id: DomainId,
    (DomainView { members, addresses }, known): (&DomainView, &BTreeMap<Rank, KnownRank>),
) {
    let mut all: Vec<(Rank, &Option<Address>)> = (0..).zip(addresses).collect();
    if all.len() > ROWS {
        all.sort_by_key(|(rank, _)| !members.contains_key(rank));
    }
    body.push_str("<h2>Ranks</h2>\n<div class=\"wide\"><table>\n<tr><th>rank</th><th>where</th><th>what it does</th></tr>\n");
    for (rank, address) in all.iter().copied().take(ROWS) {
        let (place, state) = match (members.get(&rank), address) {
            (Some(member), _) => {
                let (base, service) = (escaped(base), escaped(&member.service));
                let job = member.job;
                let place =
                    format!("<a href=\"{base}/{service}\">{service}</a> <small>job {job}</small>");
                (place, state(member, &known[&rank]))
            }
            (None, Some(address)) => (elsewhere(id, address), "runs on another server".to_owned()),
            (None, None) => ("not known yet".to_owned(), "not started here".to_owned()),
        };
        let _ =
            writeln!(body, "<tr><td>{rank}</td><td>{place}</td><td>{}</td></tr>", escaped(&state));
    }
    body.push_str("</table></div>\n");
    if let Some(more @ 1..) = all.len().checked_sub(ROWS) {
        let _ = writeln!(
            body,
            "<p>Ranks that are not shown: {more}. <code>fishplate domain status</code> tells of all.</p>"
        );
    }
}

fn state(member: &Member, known: &KnownRank) -> String {
    let wait = known.status.as_ref().and_then(|status| status.wait.as_ref());
    match (wait, member.left, known.ended, &member.address) {
        (_, true, ..) => "has left".to_owned(),
        (_, _, true, _) => "has ended".to_owned(),
        (_, _, _, None) => "starts".to_owned(),
        (Some(wait), ..) => wait.to_string(),
        (None, ..) => "runs".to_owned(),
    }
}

/// The server of a rank that is not ours, which has a page of it; its user logs in there.
fn elsewhere(id: DomainId, address: &Address) -> String {
    let suffix = format!("/{DOMAINS}/{id}/");
    match address.endpoint().rsplit_once(&suffix) {
        Some((server, _)) if server.starts_with("http") => {
            let server = escaped(server);
            format!("<a href=\"{server}/{DOMAINS}/{id}\">{server}</a>")
        }
        _ => escaped(&address.to_string()),
    }
}

/// Who sent how much to whom, as far as ranks of this server told.
fn traffic(body: &mut String, known: &BTreeMap<Rank, KnownRank>, ranks: usize) {
    let sent = |known: &KnownRank| known.status.clone().map(|status| status.traffic);
    let rows: Vec<(Rank, Vec<Traffic>)> =
        known.iter().map(|(rank, known)| (*rank, sent(known).unwrap_or_default())).collect();
    body.push_str("<h2>Messages</h2>\n");
    let routes: BTreeMap<(Rank, Rank), &PeerRoute> = known
        .iter()
        .flat_map(|(from, known)| {
            let all = known.status.iter().flat_map(|status| &status.routes);
            all.map(|route| ((*from, route.peer), route))
        })
        .collect();
    if ranks <= MATRIX {
        matrix(body, &rows, &routes, ranks);
    } else {
        pairs(body, rows);
    }
    rejected(body, &routes);
    let omitted = known.values().flat_map(|known| &known.status).map(|of| of.omitted_routes);
    let omitted = omitted.map(u64::from).sum::<u64>();
    if omitted > 0 {
        let _ = writeln!(
            body,
            "<p>Of {omitted} pairs it is not kept how they reach each other (limit <code>domain_routes</code>).</p>"
        );
    }
}

/// Pairs that did not come about at an address, the first of them.
fn rejected(body: &mut String, routes: &BTreeMap<(Rank, Rank), &PeerRoute>) {
    let all: Vec<_> = routes.iter().filter(|(_, route)| !route.rejected.is_empty()).collect();
    if all.is_empty() {
        return;
    }
    let _ = writeln!(
        body,
        "<h2>Addresses that were not reached</h2>\n<p>Pairs of ranks: {}.</p>\n\
         <table>\n<tr><th>from</th><th>to</th><th>how</th></tr>",
        all.len()
    );
    for ((from, to), route) in all.into_iter().take(MATRIX) {
        let route = escaped(&route.to_string());
        let _ = writeln!(body, "<tr><td>{from}</td><td>{to}</td><td>{route}</td></tr>");
    }
    body.push_str("</table>\n");
}

fn matrix(
    body: &mut String,
    rows: &[(Rank, Vec<Traffic>)],
    routes: &BTreeMap<(Rank, Rank), &PeerRoute>,
    ranks: usize,
) {
    let all = || rows.iter().flat_map(|(_, row)| row).filter(|of| of.messages > 0);
    let bytes = || all().map(|of| of.bytes);
    let range = (bytes().min().unwrap_or(0), bytes().max().unwrap_or(0));
    body.push_str(
        "<p>Bytes, and below them messages, from each rank of this server to each rank; how it is reached, under the pointer.</p>\n",
    );
    body.push_str("<div class=\"wide\"><table class=\"matrix\">\n<tr><th>from \\ to</th>");
    for to in 0..ranks {
        let _ = write!(body, "<th>{to}</th>");
    }
    body.push_str("</tr>\n");
    for (from, row) in rows {
        let _ = write!(body, "<tr><th>{from}</th>");
        for to in 0..ranks {
            let of = row.iter().find(|of| of.peer as usize == to && of.messages > 0);
            let Some(of) = of else {
                body.push_str("<td></td>");
                continue;
            };
            let (bytes, messages) = (units::rounded(of.bytes), of.messages);
            let heat = heat(of.bytes, range).div_ceil(10);
            let route = routes.get(&(*from, of.peer)).map(ToString::to_string);
            let route = escaped(&route.unwrap_or_default());
            let _ = write!(
                body,
                "<td class=\"heat{heat}\" title=\"{route}\">{bytes}<br><small>{messages}</small></td>"
            );
        }
        body.push_str("</tr>\n");
    }
    body.push_str("</table></div>\n");
}

/// How warm a pair is shown between the least and the most, in per cent: by the digits of its bytes, because they differ so much.
fn heat(bytes: u64, (least, most): (u64, u64)) -> u32 {
    let digits = |bytes: u64| 64 - bytes.leading_zeros();
    let above = |bytes: u64| 1 + digits(bytes) - digits(least);
    100 * above(bytes) / above(most)
}

fn pairs(body: &mut String, rows: Vec<(Rank, Vec<Traffic>)>) {
    let all = rows.into_iter().flat_map(|(from, row)| row.into_iter().map(move |of| (from, of)));
    let mut all: Vec<(Rank, Traffic)> = all.filter(|(_, of)| of.messages > 0).collect();
    all.sort_by_key(|(from, of)| (std::cmp::Reverse(of.bytes), *from, of.peer));
    let _ = writeln!(
        body,
        "<p>The busiest of {} pairs, of those that send from this server.</p>",
        all.len()
    );
    body.push_str("<table>\n<tr><th>from</th><th>to</th><th>bytes</th><th>messages</th></tr>\n");
    for (from, Traffic { peer, bytes, messages, .. }) in all.into_iter().take(MATRIX) {
        let bytes = units::rounded(bytes);
        let _ = writeln!(
            body,
            "<tr><td>{from}</td><td>{peer}</td><td>{bytes}</td><td>{messages}</td></tr>"
        );
    }
    body.push_str("</table>\n");
}

/// What became of a domain that somebody ended.
///
/// # Errors
/// See [`DomainRequest::end`].
pub(crate) async fn end(host: &Host, caller: &Principal, id: DomainId) -> Result<String, Fault> {
    host.authorise(&Access { operation: "end", ..DomainResource::access(caller) })?;
    let asked = DomainRequest { host, owner: caller, domain: id };
    // Whether there is one: what is not known has no ranks to end.
    asked.ranks(Action::Describe)?;
    let (_, killed) = asked.end().await?;
    tracing::info!(domain = %id, killed, "a domain was ended from its page");
    let body = format!(
        "<h1>Communication domain</h1>\n<p class=\"facts\">ID: <code>{id}</code></p>\n\
         <p>It was ended here. Ranks that were killed: {killed}.</p>\n{}",
        all_services(host)
    );
    Ok(framed(host, Some(caller), "Communication domain", &body))
}

/// Why there is no page of a domain.
pub(crate) fn not_found(host: &Host, caller: &Principal) -> String {
    let what = "There is no such domain of yours here, or it has ended. If the server was started anew, its ranks go on as jobs of their services.";
    let body = format!("<h1>No such domain</h1>\n<p>{what}</p>\n{}", all_services(host));
    framed(host, Some(caller), "No such domain", &body)
}

/// The caller's domains that have ranks here, for the list of services.
pub(super) fn list(body: &mut String, host: &Host, caller: &Principal) {
    if host.authoriser.authorise(&DomainResource::access(caller)).is_err() {
        return;
    }
    let domains = host.domains.of(caller);
    if domains.is_empty() {
        return;
    }
    body.push_str("<h2>Communication domains</h2>\n<dl class=\"services\">\n");
    for (id, ranks, connected) in domains {
        let _ = writeln!(
            body,
            "<dt><a href=\"{}/{DOMAINS}/{id}\"><code>{id}</code></a></dt><dd>ranks here: {ranks}, connected: {connected}</dd>",
            escaped(host.public_path()),
        );
    }
    body.push_str("</dl>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_of_a_domain() {
        let id = DomainId::from_bytes([7; 16]);
        assert_eq!(DomainResource::of(&format!("domains/{id}")), Some(DomainResource(id)));
        for other in ["domains", "domains/", "domains/nothing", "domain/live.js"] {
            assert_eq!(DomainResource::of(other), None, "{other}");
        }
        assert_eq!(DomainResource::of(&format!("domains/{id}/0")), None);
    }

    #[test]
    fn of_very_many_ranks_not_all_are_listed() {
        let shown = |ranks| {
            let view = DomainView { members: BTreeMap::new(), addresses: vec![None; ranks] };
            let mut body = String::new();
            let id = DomainId::from_bytes([7; 16]);
            super::ranks(&mut body, "", id, (&view, &BTreeMap::new()));
            (body.matches("<tr><td>").count(), body.contains("not shown: 3."))
        };
        assert_eq!((shown(ROWS), shown(ROWS + 3)), ((ROWS, false), (ROWS, true)));
    }

    #[test]
    fn the_busiest_pair_is_the_warmest() {
        let heats = [1, 40, 1000, 1 << 20].map(|bytes| heat(bytes, (1, 1 << 20)));
        assert!(heats.is_sorted() && heats[0] == 4 && heats[3] == 100, "{heats:?}");
        assert_eq!(heat(0, (0, 0)), 100);
    }

    #[test]
    fn of_many_ranks_the_busiest_pairs_are_shown() {
        let of = |peer, bytes| Traffic { peer, messages: 1, bytes, sent: 1, received: 0 };
        let mut body = String::new();
        pairs(&mut body, (0..40).map(|from| (from, vec![of(0, u64::from(from))])).collect());
        assert_eq!(body.matches("<tr><td>").count(), MATRIX);
        let first = body.find("<tr><td>39</td>").unwrap();
        assert!(first < body.find("<tr><td>38</td>").unwrap() && !body.contains("<tr><td>7</td>"));
    }

    #[test]
    fn addresses_that_were_not_reached_are_shown_with_the_reason() {
        let line = "0 2:1:5:1:0 1;memory,2;10.0.0.1:5;<b>=refused";
        let status = Some(line.parse().unwrap());
        let known = BTreeMap::from([(0, KnownRank { status, ended: false })]);
        let mut body = String::new();
        traffic(&mut body, &known, 3);
        let how = "over 10.0.0.1:5, not &lt;b&gt; (refused)";
        assert!(body.contains(&format!("<td>0</td><td>2</td><td>{how}</td>")), "{body}");
        assert!(body.contains(&format!("title=\"{how}\">5 B")), "{body}");
        assert!(!body.contains("<td>0</td><td>1</td>"), "{body}");
    }

    #[test]
    fn ranks_elsewhere_are_led_to_at_their_servers() {
        let id = DomainId::from_bytes([7; 16]);
        let at = |text: &str| elsewhere(id, &text.parse().unwrap());
        let page = format!("https://there:1/x/domains/{id}");
        assert_eq!(
            at(&format!("upgrade+{page}/3")),
            format!("<a href=\"{page}\">https://there:1/x</a>")
        );
        assert_eq!(at("10.0.0.1:4000"), "10.0.0.1:4000");
        let hostile = format!("javascript:'<b>/domains/{id}/3");
        assert!(!at(&hostile).contains(['<', '\'']));
    }
}
