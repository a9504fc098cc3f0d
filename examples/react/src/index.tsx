import { useChat } from "@ai-sdk/react"
import { useState } from "react"
import { createRoot } from "react-dom/client"
import { Acts, Siblings } from "./parts"
import { id, textOf, useShown } from "./shown"

function Chat() {
  const chat = useChat({ id, resume: true }), shown = useShown(chat)
  const [draft, setDraft] = useState<{ text: string; messageId?: string }>({ text: "" })
  const post = (ask: () => void) => { chat.setMessages(shown.messages); ask(); setDraft({ text: "" }) }
  return <>{shown.messages.map(({ id, role, parts }) => <article key={id} data-id={id} data-role={role}>
      {parts.map((part, at) => "text" in part && <p key={at} className={part.type}>{part.text}</p>)}
      {role === "user" && <button onClick={() => setDraft({ messageId: id, text: textOf(parts) })}>Edit</button>}{" "}
      <button onClick={() => post(() => chat.regenerate({ messageId: id }))}>Regenerate</button>
      <Siblings of={id} shown={shown} /></article>)}
    <form onSubmit={(event) => { event.preventDefault(); post(() => chat.sendMessage(draft)) }}>
      <input aria-label="Message" autoFocus required value={draft.text}
        onChange={({ target }) => setDraft({ ...draft, text: target.value })} /> <button>Send</button></form>
    <Acts shown={shown} error={chat.error} /></>
}
createRoot(document.getElementById("root")!).render(<Chat />)
