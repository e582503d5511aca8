// A job while it goes on: its state and what its program writes, as the server tells it. Nobody looks at a hidden page, so it asks for
// nothing. Each connection begins with all there is to tell: a server that was started anew, or a lid that was closed, makes no difference.
const job = document.getElementById("job");
const live = document.getElementById("live");
const AGAIN = 5000; // milliseconds after a refusal; EventSource itself tries again after anything else
let source;
let timer;

function say(text) {
  if (live.textContent !== text) live.textContent = text;
}

function write({ stream, text, anew }) {
  const log = document.getElementById(stream);
  const isAtEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
  if (anew) log.textContent = text;
  else log.append(text);
  log.normalize();
  const MOST = 1 << 20;
  if (log.textContent.length > MOST) log.textContent = log.textContent.slice(-MOST / 2);
  log.closest("details").hidden = log.textContent === "";
  if (isAtEnd) log.scrollTop = log.scrollHeight;
}

function stop() {
  clearTimeout(timer);
  source?.close();
  source = undefined;
}

function start() {
  stop();
  if (document.hidden) return;
  source = new EventSource(job.dataset.events);
  source.addEventListener("open", () => say("This page follows the job."));
  source.addEventListener("state", (event) => {
    const state = new DOMParser().parseFromString(event.data, "text/html").body;
    document.getElementById("state").replaceChildren(...state.childNodes);
  });
  source.addEventListener("log", (event) => write(JSON.parse(event.data)));
  source.addEventListener("end", () => {
    stop();
    // The page of an ended job has its results.
    location.reload();
  });
  source.addEventListener("error", () => {
    say("The server does not answer, or not now. It is asked again.");
    if (source?.readyState === EventSource.CLOSED) timer = setTimeout(start, AGAIN);
  });
}

for (const log of document.querySelectorAll("pre.log")) log.scrollTop = log.scrollHeight;
document.addEventListener("visibilitychange", () => (document.hidden ? stop() : start()));
addEventListener("pagehide", stop);
addEventListener("pageshow", (event) => event.persisted && start());
start();
