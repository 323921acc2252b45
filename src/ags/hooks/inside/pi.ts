// An extension of pi's: asks AGS, outside, before a tool is used. No answer is a no.
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
    link.write(JSON.stringify({ hook, agent: "pi", payload }) + "\n")
  })
}

function told(event, context) {
  return { toolName: event.toolName, input: event.input, cwd: context?.cwd ?? process.cwd() }
}

export default function (pi) {
  pi.on("tool_call", async (event, context) => {
    const answer = await ask("tool_call", told(event, context))
    if (answer.decision !== "allow") return { block: true, reason: answer.reason || "refused" }
  })
  pi.on("tool_result", async (event, context) => {
    await ask("tool_result", told(event, context))
  })
  pi.on("agent_end", async (event, context) => {
    await ask("agent_end", { cwd: context?.cwd ?? process.cwd() })
  })
}
