// What the AI SDK makes of what is sent: each line of the input has `messages`, which
// `validateUIMessages` and `convertToModelMessages` take, or `events`, which a transport
// reads and `readUIMessageStream` folds, behind `message` if there is one. Each line of
// the output is what comes of it with version 6 and with version 7, by their numbers.
//
//     node ai_sdk.mjs < lines.jsonl     (`make wires` installs the packages)
import { createInterface } from "node:readline";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

// The packages are where the command runs, and not beside this file.
const require = createRequire(pathToFileURL(`${process.cwd()}/index.js`));
const versions = { 6: require("ai"), 7: await import(pathToFileURL(require.resolve("ai7"))) };

async function fold(ai, { events, message }) {
  const body = new Blob([events]).stream();
  const transport = new (class extends ai.DefaultChatTransport {
    read(stream) {
      return this.processResponseStream(stream);
    }
  })({});
  let folded = message;
  const stream = transport.read(body);
  const states = ai.readUIMessageStream({ message, stream, terminateOnError: true });
  for await (const state of states) folded = state;
  return { message: folded };
}

async function ask(ai, given) {
  if (given.events !== undefined) return fold(ai, given);
  const messages = await ai.validateUIMessages({ messages: given.messages });
  // What is valid may still have a text for an URL, which no model gets.
  const model = ai.convertToModelMessages(messages);
  return { messages, model: await Promise.resolve(model).catch(String) };
}

for await (const line of createInterface({ input: process.stdin })) {
  const made = {};
  for (const [version, ai] of Object.entries(versions)) {
    const given = JSON.parse(line);
    if (given.version && String(given.version) !== version) continue;
    try {
      made[version] = await ask(ai, given);
    } catch (error) {
      made[version] = { error: String(error) };
    }
  }
  console.log(JSON.stringify(made));
}
