// Puts what was installed into the directory the server gives to browsers.
import { cpSync, mkdirSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const vendor = here("../server/pages/static/vendor/");
rmSync(vendor, { recursive: true, force: true });
mkdirSync(vendor, { recursive: true });
for (const [from, to] of [
  ["@fontsource-variable/inter/files/inter-latin-wght-normal.woff2", "inter.woff2"],
]) {
  cpSync(here(`node_modules/${from}`), vendor + to);
}
