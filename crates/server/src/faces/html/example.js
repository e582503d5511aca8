// Calls from programs that are shown with what the form beside them holds: asked of the server anew when it changes. No file
// is sent for it, only its name.
"use strict";
(() => {
  const LONGEST = 4000; // characters of an address

  for (const examples of document.querySelectorAll("[data-examples]")) {
    const operation = examples.dataset.examples;
    const address = `/ogc/processes/${examples.dataset.process}/execution`;
    const form = Array.from(document.forms).find((it) => it.getAttribute("action")?.endsWith(address));
    if (!form) continue;
    let timer;
    let last; // what aborts the newest request

    const update = async () => {
      last?.abort();
      last = new AbortController();
      const query = new URLSearchParams({ examples: operation });
      for (const [name, value] of new FormData(form)) {
        if (value instanceof File) {
          if (value.name) query.append(`${name}:file`, value.name);
        } else if (value.length + query.toString().length < LONGEST) {
          query.append(name, value);
        } else {
          query.append(`${name}:long`, "");
        }
      }
      try {
        const answer = await fetch(`${location.pathname}?${query}`, { signal: last.signal });
        if (!answer.ok) return;
        const made = new DOMParser().parseFromString(await answer.text(), "text/html");
        for (const text of made.querySelectorAll("[data-example]")) {
          const shown = examples.querySelector(`[data-example="${text.dataset.example}"]`);
          if (shown) shown.textContent = text.textContent;
        }
        examples.dataset.updated = query;
      } catch {
        // What was there stays until the form changes again.
      }
    };

    form.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(update, 250);
    });
    update();
  }
})();
