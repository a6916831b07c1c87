#!/usr/bin/env node
// Starts the program, which is in the package of this platform.
"use strict";

const { spawn } = require("node:child_process");
const { constants } = require("node:os");

/** Returns the name of the package with the program for this machine. */
function platformPackage() {
  const libc =
    process.platform === "linux" && !process.report.getReport().header.glibcVersionRuntime ? "-musl" : "";
  return `@lukasa/${process.platform}-${process.arch}${libc}`;
}

/** Returns the path of the program. */
function findProgram() {
  const name = platformPackage();
  try {
    return require.resolve(`${name}/bin/lukasa`);
  } catch {
    console.error(`error: there is no program for this machine: the npm package \`${name}\` is not installed

It is an optional dependency of \`lukasa\`. Install again without \`--omit=optional\`. If npm finds no such package, there is
none for this platform: build the program from its sources.`);
    process.exit(1);
  }
}

const child = spawn(findProgram(), process.argv.slice(2), { stdio: "inherit" });
child.on("error", (error) => {
  console.error(`error: cannot start ${child.spawnfile}: ${error.message}`);
  process.exit(1);
});
// The terminal sends Ctrl-C to both processes, so the child decides when to end.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"]) {
  process.on(signal, () => signal !== "SIGINT" && child.kill(signal));
}
child.on("exit", (status, signal) => {
  process.exitCode = status ?? 128 + constants.signals[signal];
});
