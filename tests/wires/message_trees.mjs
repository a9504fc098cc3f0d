// What assistant-ui's own repository makes of files: which message is shown, the way to
// it, the siblings of each message, and the order in which it exports them.
//
//   node message_trees.mjs [node_modules] < files.json > answers.json
//
// Needs @assistant-ui/core in node_modules beside this file (`make wires` installs it),
// or in the directory given, and exits with 3 where it is not there. The class is no
// part of what the package exports: it is read by its path.
import { existsSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

const beside = new URL("node_modules", import.meta.url).pathname;
const core = resolve(process.argv[2] ?? beside, "@assistant-ui/core");
if (!existsSync(core)) process.exit(3);

const { version } = JSON.parse(readFileSync(resolve(core, "package.json"), "utf8"));
const path = resolve(core, "dist/runtime/utils/message-repository.js");
const { MessageRepository } = await import(pathToFileURL(path).href);

const answers = JSON.parse(readFileSync(0, "utf8")).map((file) => {
  const repository = new MessageRepository();
  repository.import(file);
  const exported = repository.export();
  const ids = exported.messages.map(({ message }) => message.id);
  return {
    head: repository.headId,
    path: repository.getMessages().map(({ id }) => id),
    siblings: Object.fromEntries(ids.map((id) => [id, [...repository.getBranches(id)]])),
    export: exported.messages.map(({ message, parentId }) => [message.id, parentId]),
  };
});
process.stdout.write(JSON.stringify({ version, answers }));
