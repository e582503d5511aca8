// A form that runs an operation: files and directories may be dropped on their fields, and what must be there is asked for before it is
// sent. Without this script the server says what is missing, and a directory is chosen as an archive.
"use strict";
for (const field of document.querySelectorAll("[data-drop]")) {
  const input = field.querySelector("input[type=file][name]");
  const directory = field.querySelector("input[webkitdirectory]");
  const others = Array.from(field.querySelectorAll("textarea, input[type=url]"));
  const said = document.createElement("p");
  said.className = "hint";
  said.role = "status";
  field.append(said);

  const check = () => {
    const missing = "required" in field.dataset && !input.files.length && others.every((other) => !other.value.trim());
    (field.querySelector("textarea[id]") ?? input).setCustomValidity(missing ? "Choose a file, write it, or give its address." : "");
  };
  const hold = (files) => {
    const held = new DataTransfer();
    for (const file of input.multiple ? files : files.slice(0, 1)) held.items.add(file);
    input.files = held.files;
    check();
    // Whoever follows the form hears of it too.
    input.dispatchEvent(new Event("input", { bubbles: true }));
  };
  const holdDirectory = (files) => {
    hold(files);
    said.textContent = files.map((file) => `${file.name} is made of it: ${upload.bytes(file.size)}.`).join(" ");
  };

  if (directory && "webkitdirectory" in directory) {
    directory.closest("p").hidden = false;
    directory.addEventListener("change", () => directory.files.length && holdDirectory([directories.chosen(directory.files)]));
  }
  for (const type of ["dragenter", "dragover"]) {
    field.addEventListener(type, (event) => {
      if (!event.dataTransfer.types.includes("Files")) return;
      event.preventDefault();
      field.classList.add("over");
    });
  }
  field.addEventListener("dragleave", (event) => {
    if (!field.contains(event.relatedTarget)) field.classList.remove("over");
  });
  field.addEventListener("drop", async (event) => {
    field.classList.remove("over");
    const files = Array.from(event.dataTransfer.files);
    if (!files.length) return;
    event.preventDefault();
    said.textContent = "";
    const entries = Array.from(event.dataTransfer.items, (item) => item.webkitGetAsEntry?.()).filter((entry) => entry?.isDirectory);
    if (!entries.length) return hold(files);
    if (!directory) {
      said.textContent = "This is a directory; here goes a file.";
      return;
    }
    said.textContent = "The directory is looked through.";
    try {
      holdDirectory(await Promise.all(entries.map(directories.dropped)));
    } catch {
      said.textContent = "The directory can't be read: choose it, or drop an archive of it.";
    }
  });
  input.addEventListener("change", () => (said.textContent = ""));
  field.addEventListener("input", check);
  check();
}

for (const form of document.querySelectorAll("form.run")) {
  const button = form.querySelector("button.main");
  const sending = form.querySelector(".sending");
  const ready = (said) => {
    button.disabled = false;
    sending.textContent = said;
  };
  form.addEventListener("submit", (event) => {
    button.disabled = true;
    sending.textContent = "It is being sent.";
    const files = Array.from(form.querySelectorAll("input[type=file][name]"));
    if (!("upload" in form.dataset) || files.every((input) => !input.files.length)) return;
    event.preventDefault();
    upload.send(form, ready);
  });
  // Whoever comes back may run it again.
  addEventListener("pageshow", () => ready(""));
}

document.querySelector("[aria-invalid]")?.focus();
