// What scripts add to pages that work without them: copying, filtering lists, local times, menus where one is, and parts that keep themselves fresh.

const copyButtons = (root) => {
  for (const button of root.querySelectorAll("[data-copy]")) {
    if (!navigator.clipboard || button.dataset.ready) continue;
    button.dataset.ready = "yes";
    button.hidden = false;
    button.addEventListener("click", async () => {
      const said = button.textContent;
      await navigator.clipboard.writeText(button.parentElement.querySelector("code").textContent);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = said; }, 1200);
    });
  }
};

const localTimes = (root) => {
  const shown = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
  for (const time of root.querySelectorAll("time[datetime]")) {
    if (!time.title.includes("UTC") || time.title.includes("(")) continue;
    time.title = `${time.title} (${shown.format(new Date(time.dateTime))} here)`;
  }
};

const filters = (root) => {
  for (const field of root.querySelectorAll("input[data-filter]")) {
    const rows = [...document.querySelectorAll(field.dataset.filter)];
    field.closest("[hidden]")?.removeAttribute("hidden");
    field.addEventListener("input", () => {
      const wanted = field.value.trim().toLowerCase();
      for (const row of rows) row.hidden = wanted !== "" && !row.textContent.toLowerCase().includes(wanted);
    });
  }
};

const searchKey = () => {
  const field = document.querySelector("input[type=search]");
  if (!field) return;
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest?.("input, textarea, select, [contenteditable]");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      field.focus();
    }
  });
};

// On a phone menus are wider than the window: what one is on comes into sight.
const showWhereOneIs = () => {
  for (const here of document.querySelectorAll("nav [aria-current=page]")) {
    const menu = here.closest("nav");
    const [seen, one] = [menu.getBoundingClientRect(), here.getBoundingClientRect()];
    if (one.right > seen.right || one.left < seen.left) menu.scrollLeft += one.left - seen.left - (seen.width - one.width) / 2;
  }
};

// An element with data-fresh="5" and an id is fetched anew every five seconds, as long as the page is seen and nobody is in it.
const keepFresh = () => {
  for (const place of document.querySelectorAll("[data-fresh][id]")) {
    const again = async () => {
      if (document.hidden || place.contains(document.activeElement)) return;
      try {
        const answer = await fetch(location.href, { headers: { Accept: "text/html" }, redirect: "error" });
        if (!answer.ok) return;
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        const found = page.getElementById(place.id);
        if (found && found.innerHTML !== place.innerHTML) {
          place.replaceChildren(...found.childNodes);
          improve(place);
        }
      } catch { /* the server is away; the next round tries again */ }
    };
    setInterval(again, 1000 * Number(place.dataset.fresh));
  }
};

export const improve = (root) => {
  copyButtons(root);
  localTimes(root);
};

improve(document);
filters(document);
showWhereOneIs();
searchKey();
keepFresh();
