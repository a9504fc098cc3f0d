import { useChat } from "@ai-sdk/react-7"
import * as Aui from "@assistant-ui/react"
import { useAISDKRuntime } from "@assistant-ui/react-ai-sdk"
import { useState } from "react"
import { createRoot } from "react-dom/client"
import { Acts, Siblings } from "./parts"
import { id, textOf, useShown } from "./shown"

function Chat() {
  const chat = useChat({ id, resume: true }), shown = useShown(chat), [messageId, setEdited] = useState<string>()
  const sendMessage: typeof chat.sendMessage = (message, options) => (chat.setMessages(shown.messages),
    setEdited(undefined), chat.sendMessage(message && { ...message, messageId }, options))
  const status = shown.isRunning ? "streaming" : "ready", { messages } = shown
  const runtime = useAISDKRuntime({ ...chat, messages, status, sendMessage, error: undefined }, { joinStrategy: "none" })
  const edit = (id: string, text: string) => (setEdited(id), runtime.thread.composer.setText(text))
  return <Aui.AssistantRuntimeProvider runtime={runtime}><Aui.ThreadPrimitive.Messages>{({ message: { id, role, content } }) =>
    <Aui.MessagePrimitive.Root data-id={id} data-role={role}>
      <Aui.MessagePrimitive.Parts>{({ part }) => "text" in part && <p className={part.type}>{part.text}</p>}</Aui.MessagePrimitive.Parts>
      {role === "user" && <button onClick={() => edit(id, textOf(content))}>Edit</button>}{" "}
      <button onClick={() => (chat.setMessages(messages), chat.regenerate({ messageId: id }))}>Regenerate</button>
      <Siblings of={id} shown={shown} /></Aui.MessagePrimitive.Root>}</Aui.ThreadPrimitive.Messages>
    <Aui.ComposerPrimitive.Root><Aui.ComposerPrimitive.Input aria-label="Message" autoFocus /> <Aui.ComposerPrimitive.Send>
      Send</Aui.ComposerPrimitive.Send></Aui.ComposerPrimitive.Root><Acts shown={shown} error={chat.error} />
  </Aui.AssistantRuntimeProvider>
}
createRoot(document.getElementById("root")!).render(<Chat />)
