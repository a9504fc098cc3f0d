import type { UIMessage } from "ai"
import { useEffect, useState } from "react"

export const id = new URLSearchParams(location.search).get("chat") ?? "demo"
const url = `/api/chat/${encodeURIComponent(id)}`, headers = { "Content-Type": "application/json" }
export const act = (name: string, body = {}) =>
  fetch(`${url}/${name}`, { method: "POST", headers, body: JSON.stringify(body) })
export const textOf = (parts: readonly object[]) =>
  parts.map((part) => "text" in part ? part.text : "").join("")
const nothing = {
  messages: [] as UIMessage[], siblings: {} as Record<string, { at: number; ids: string[] }>,
  canUndo: false, canRedo: false, isRunning: false, error: "",
}

/** What the server shows in every tab. `useChat` has it too, but for an answer that it reads itself. */
export function useShown(chat: { status: string; stop(): void; setMessages(messages: UIMessage[]): void }) {
  const [shown, setShown] = useState(nothing), isReading = /submitted|streaming/.test(chat.status)
  useEffect(() => {
    const events = new EventSource(`${url}/events`)
    events.onmessage = ({ data }) => setShown(({ messages: old }) => {
      const { after, messages, ...rest } = JSON.parse(data), kept = old.findIndex(({ id }) => id === after) + 1
      return { ...rest, messages: [...old.slice(0, kept), ...messages] }
    })
    return () => events.close()
  }, [])
  useEffect(() => {
    if (!isReading) chat.setMessages(shown.messages)
    else if (chat.status === "streaming" && !shown.isRunning) chat.stop() // what it reads was undone
  }, [shown, shown.isRunning || isReading]) // not yet when it is ready and the last event is to come
  return shown
}
