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

type Chat = { status: string; stop(): void; setMessages(messages: (own: any[]) => any[]): void }

/** What the server shows in every tab. `useChat` has it too, but for the message that it reads itself. */
export function useShown(chat: Chat) {
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
    if (chat.status === "streaming" && !shown.isRunning) chat.stop() // what it reads was undone
    chat.setMessages((own) => {
      const last = isReading ? own.at(-1) : undefined, at = shown.messages.findIndex(({ id }) => id === last?.id)
      return !last ? shown.messages : at < 0 ? own : [...shown.messages.slice(0, at), last]
    })
  }, [shown, shown.isRunning || isReading]) // not yet when it is ready and the last event is to come
  return shown
}
