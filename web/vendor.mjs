// Puts what was installed into the directory the server gives to browsers.
import { cpSync, mkdirSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const vendor = here("../server/pages/static/vendor/");
rmSync(vendor, { recursive: true, force: true });
mkdirSync(vendor, { recursive: true });
for (const [from, to] of [
  ["@fontsource-variable/inter/files/inter-latin-wght-normal.woff2", "inter.woff2"],
]) {
  cpSync(here(`node_modules/${from}`), vendor + to);
}
await build({
  entryPoints: [here("editor.js")],
  outfile: `${vendor}editor.js`,
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  legalComments: "none",
  logLevel: "warning",
});
