// What AG-UI's own client makes of the events of runs: each line of the input is a list
// of events, each line of the output the messages that `verifyEvents` and
// `defaultApplyEvents` of `@ag-ui/client` make of them, and the state.
//
//     node ag_ui.mjs < runs.jsonl     (`make wires` installs the packages)
import { createInterface } from "node:readline";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

// The packages are where the command runs, and not beside this file.
const require = createRequire(pathToFileURL(`${process.cwd()}/index.js`));
const { verifyEvents, defaultApplyEvents } = require("@ag-ui/client");
const { from, lastValueFrom, toArray } = require("rxjs");

const agent = { messages: [], state: {}, subscribers: [] };

async function reduce({ events, messages = [], state = {} }) {
  const input = { threadId: "t", runId: "r", messages, state, tools: [], context: [] };
  const verified = from(events).pipe(verifyEvents(false));
  const applied = defaultApplyEvents(input, verified, agent, []);
  for (const change of await lastValueFrom(applied.pipe(toArray()))) {
    messages = change.messages ?? messages;
    state = change.state ?? state;
  }
  return { messages, state };
}

for await (const line of createInterface({ input: process.stdin })) {
  let made;
  try {
    made = await reduce(JSON.parse(line));
  } catch (error) {
    made = { error: String(error) };
  }
  console.log(JSON.stringify(made));
}
