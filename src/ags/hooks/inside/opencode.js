// A plugin of opencode's: asks AGS, outside, before a tool is used. No answer is a no.
import { createConnection } from "node:net"

const SOCKET = "@SOCKET@"
const PATIENCE = 345000

function ask(hook, payload) {
  return new Promise((resolve) => {
    const no = (reason) => resolve({ decision: "deny", reason })
    let said = ""
    const link = createConnection(SOCKET)
    link.setTimeout(PATIENCE, () => link.destroy(new Error("no answer came")))
    link.on("error", (error) => no("AGS cannot be asked about this, so it is refused: " + error.message))
    link.on("data", (part) => { said += part })
    link.on("close", () => {
      try { resolve(JSON.parse(said)) } catch { no("refused: AGS gave no answer") }
    })
    link.write(JSON.stringify({ hook, agent: "opencode", payload }) + "\n")
  })
}

export const AGS = async ({ directory }) => ({
  "tool.execute.before": async (input, output) => {
    const call = { tool: input.tool, sessionID: input.sessionID, cwd: directory, args: output.args }
    const answer = await ask("tool.execute.before", call)
    if (answer.decision !== "allow") throw new Error(answer.reason || "refused")
  },
  "tool.execute.after": async (input) => {
    const call = { tool: input.tool, sessionID: input.sessionID, cwd: directory, args: input.args }
    await ask("tool.execute.after", call)
  },
  event: async ({ event }) => {
    if (event.type !== "session.idle") return
    await ask("session.idle", { sessionID: event.properties?.sessionID, cwd: directory })
  },
})
