//! What is somebody's own: what they may have and have used, their sessions, their data; and where the interfaces are that
//! programs use. The landing page of OGC API - Processes for people.

use std::fmt::Write as _;

use fishplate_contract::interface::{OGC, QUOTA};
use fishplate_contract::lexical::escaped;
use fishplate_contract::{Fault, Principal, Verb};
use fishplate_data::HeldObject;
use fishplate_data::session::Session;
use fishplate_formats::units;
use fishplate_jobs::store::quota::{OwnerLimits, OwnerUsage, Quota};

use super::jobs::time;
use super::page::Page;
use super::upload;
use crate::data::blocking;
use crate::dispatch::authorise::{Access, Action, is_within};
use crate::faces::quota::{TOLD, room_again};
use crate::host::Host;
use crate::providers::session;

/// Sessions that are listed, and objects of the pool.
const LISTED: usize = 100;

/// The page.
///
/// # Errors
/// What the store or the pool says.
pub(crate) async fn page(host: &Host, caller: &Principal) -> Result<String, Fault> {
    let base = escaped(host.public_path());
    let mut body = String::new();
    let _ = match caller.as_str() {
        "" => writeln!(
            body,
            "<h1>Use of this server</h1>\n<p>It does not know who you are: what is told here is of all callers \
             without a name together.</p>"
        ),
        name => writeln!(body, "<h1>Account of {}</h1>", escaped(name)),
    };
    if is_within(caller, QUOTA).is_ok() {
        let (limits, usage) = host.engine.quotas_of(caller).await?;
        quotas(&mut body, &limits, &usage);
        let _ = writeln!(body, "<p><a href=\"{base}/{QUOTA}\">The same in JSON</a></p>");
    }
    data(&mut body, host, caller).await?;
    sessions(&mut body, host, caller).await?;
    let _ = writeln!(
        body,
        "<h2>For programs</h2>\n<p>OGC API - Processes: <a href=\"{base}/{OGC}?f=json\">landing page</a>, \
         <a href=\"{base}/{OGC}/processes?f=json\">processes</a>, \
         <a href=\"{base}/{OGC}/conformance\">conformance</a>, \
         <a href=\"{base}/{OGC}/openapi.json\">OpenAPI</a>. SOAP: a WSDL at each service's address, with <code>?wsdl</code>.</p>"
    );
    Ok(Page { title: "Account", ..Page::default() }.write(host, Some(caller), &body))
}

fn quotas(body: &mut String, limits: &OwnerLimits, usage: &OwnerUsage) {
    body.push_str(
        "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"Quotas\"><table class=\"quotas\">\n<thead><tr><th scope=\"col\">use</th><th scope=\"col\">used</th>\
         <th scope=\"col\">allowed</th><th scope=\"col\"></th></tr></thead>\n<tbody>\n",
    );
    for quota in TOLD {
        let used = usage.get(quota);
        let (allowed, share) = match limits.get(quota) {
            None => ("no limit".to_owned(), String::new()),
            Some(most) => (quota.told(most), meter(quota, used, most)),
        };
        let again = room_again(quota, limits, usage)
            .map_or_else(String::new, |day| format!(" There is room again on {day}."));
        let _ = writeln!(
            body,
            "<tr><th scope=\"row\">{}</th><td>{}</td><td>{allowed}</td><td>{share}{again}</td></tr>",
            label(quota, limits),
            quota.told(used),
        );
    }
    body.push_str("</tbody>\n</table></div>\n");
}

fn label(quota: Quota, limits: &OwnerLimits) -> String {
    let days = match limits.period.days() {
        1 => "today".to_owned(),
        days => format!("in {days} days"),
    };
    match quota {
        Quota::CpuTime => format!("processor time, {days}"),
        Quota::Traffic => format!("data that came and went, {days}"),
        Quota::Disk => "disk: jobs that are kept, and data".to_owned(),
        Quota::Running => "jobs that run".to_owned(),
        Quota::Queued => "jobs that wait".to_owned(),
    }
}

fn meter(quota: Quota, used: u64, most: u64) -> String {
    let name = quota.name();
    format!(
        "<meter min=\"0\" max=\"{most}\" high=\"{}\" value=\"{}\" aria-label=\"{name}\"></meter>",
        most / 10 * 9,
        used.min(most)
    )
}

async fn data(body: &mut String, host: &Host, caller: &Principal) -> Result<(), Fault> {
    if !upload::is_allowed(host, caller) {
        return Ok(());
    }
    let (pool, owner) = (host.data.pool.clone(), caller.clone());
    // Without a name it is of all callers together: what others gave is none of anybody's business.
    let listed = if owner.is_anonymous() { 0 } else { LISTED };
    let (charged, held) = blocking(move || -> Result<_, Fault> {
        Ok((pool.charged(&owner)?, pool.held(&owner, listed)?))
    })
    .await?;
    let _ =
        writeln!(body, "<h2>Data</h2>\n<p>You have {} in the pool.</p>", units::rounded(charged));
    if !held.is_empty() {
        body.push_str(
            "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"Data\"><table>\n<thead><tr><th scope=\"col\">name</th>\
             <th scope=\"col\">digest</th><th scope=\"col\">size</th><th scope=\"col\">used (UTC)</th></tr></thead>\n<tbody>\n",
        );
        for HeldObject { name, digest, len, used } in &held {
            let digest = digest.as_ref().map_or_else(String::new, ToString::to_string);
            let (len, used) = (units::rounded(*len), time(*used));
            let _ = writeln!(
                body,
                "<tr><td>{}</td><td><code>{digest}</code></td><td>{len}</td><td>{used}</td></tr>",
                escaped(name)
            );
        }
        body.push_str("</tbody></table></div>\n");
    }
    if held.len() == LISTED {
        let _ = writeln!(body, "<p>These are the {LISTED} that were used last.</p>");
    }
    upload::how(body, host);
    Ok(())
}

async fn sessions(body: &mut String, host: &Host, caller: &Principal) -> Result<(), Fault> {
    let action = Action::Verb(Verb::Call);
    let access = Access { principal: caller, service: session::NAME, operation: "list", action };
    let Some(sessions) = host.data.sessions.clone() else { return Ok(()) };
    // Without a name a session is theirs who have its ID: none is listed.
    if caller.is_anonymous()
        || !caller.is_for(session::NAME)
        || host.authoriser.authorise(&access).is_err()
    {
        return Ok(());
    }
    let owner = caller.clone();
    let listed = blocking(move || -> Result<Vec<(Session, usize, u64)>, Fault> {
        let mut listed = Vec::new();
        for session in sessions.list(&owner)?.into_iter().take(LISTED) {
            // It may have been closed meanwhile.
            let Ok(files) = sessions.files(&owner, &session.id) else { continue };
            listed.push((session, files.len(), files.iter().map(|file| file.len).sum()));
        }
        Ok(listed)
    })
    .await?;
    body.push_str("<h2>Sessions</h2>\n");
    if listed.is_empty() {
        body.push_str("<p>There are none.</p>\n");
        return Ok(());
    }
    body.push_str(
        "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"Sessions\"><table>\n<thead><tr>\
         <th scope=\"col\">session</th><th scope=\"col\">opened (UTC)</th><th scope=\"col\">used</th>\
         <th scope=\"col\">ends</th><th scope=\"col\">files</th><th scope=\"col\"></th></tr></thead>\n<tbody>\n",
    );
    let base = escaped(host.public_path());
    for (session, files, bytes) in listed {
        let id = &session.id;
        let _ = writeln!(
            body,
            "<tr><td><code>{}</code></td><td>{}</td><td>{}</td><td>{}</td><td>{files}, {}</td>\
             <td><details class=\"ask\"><summary class=\"button\">Close</summary>\n\
             <form method=\"post\" action=\"{base}/{OGC}/sessions/{id}/close\"><span>Its files will be gone.</span> \
             <button class=\"bad\">Close for good</button></form></details></td></tr>",
            id,
            time(session.opened),
            time(session.used),
            time(session.expires),
            units::rounded(bytes),
        );
    }
    body.push_str("</tbody></table></div>\n");
    Ok(())
}
