// Interprets bytes from standard input with xterm.js, the terminal of VS Code, JupyterLab and others.
// Writes its scrollback and screen as JSON: the text of each line, and whether it continues a line.
// Arguments: the folder that contains node_modules, columns, lines.
"use strict";

const path = require("node:path");
const [folder, columns, lines] = process.argv.slice(2);
const { Terminal } = require(path.join(folder, "node_modules", "@xterm", "headless"));

const terminal = new Terminal({
  cols: Number(columns),
  rows: Number(lines),
  scrollback: 1000000,
  allowProposedApi: true,
});
const pieces = [];
process.stdin.on("data", (piece) => pieces.push(piece));
process.stdin.on("end", () => {
  terminal.write(new Uint8Array(Buffer.concat(pieces)), () => {
    const buffer = terminal.buffer.normal;
    const rows = [];
    for (let index = 0; index < buffer.length; index += 1) {
      const line = buffer.getLine(index);
      rows.push([line.translateToString(true), line.isWrapped]);
    }
    process.stdout.write(JSON.stringify(rows));
  });
});
