import { useEffect, useState } from "react"

export const id = new URLSearchParams(location.search).get("chat") ?? "demo"
const url = `/api/chat/${encodeURIComponent(id)}`, headers = { "Content-Type": "application/json" }
export const act = (name: string, body = {}) =>
  fetch(`${url}/${name}`, { method: "POST", headers, body: JSON.stringify(body) })
export const textOf = (parts: readonly object[]) =>
  parts.map((part) => "text" in part ? part.text : "").join("")
const nothing = { siblings: {} as Record<string, { at: number; ids: string[] }>,
  canUndo: false, canRedo: false, isRunning: false, error: "" }

/** What the server shows in every tab; of the answer that this one reads, what `useChat` has read. */
export function useShown<Message extends { id: string }>({ messages: read }: { messages: Message[] }) {
  const [shown, setShown] = useState({ ...nothing, messages: [] as Message[] }), own = read.at(-1)
  useEffect(() => {
    const events = new EventSource(`${url}/events`)
    events.onmessage = ({ data }) => setShown(({ messages: old }) => {
      const { after, messages, ...rest } = JSON.parse(data), kept = old.findIndex(({ id }) => id === after) + 1
      return { ...rest, messages: [...old.slice(0, kept), ...messages] }
    })
    return () => events.close()
  }, [])
  return { ...shown, messages: shown.messages.map((each) => shown.isRunning && own?.id === each.id ? own : each) }
}
