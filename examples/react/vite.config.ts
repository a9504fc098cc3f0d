// `npm ci && npm run build` here, and examples/web_chat.py serves dist/ at /react/;
// `npm run dev` asks the server that runs on port 8000.
import react from "@vitejs/plugin-react"
import { defineConfig } from "vite"

export default defineConfig({
  base: "/react/",
  build: { chunkSizeWarningLimit: 1000, rollupOptions: { input: ["index.html", "assistant.html"] } },
  plugins: [react()],
  server: { proxy: { "/api": "http://127.0.0.1:8000" } },
})
