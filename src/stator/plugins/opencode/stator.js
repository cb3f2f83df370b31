// Stator's plugin for opencode: reports what opencode does to `stator-hook`, one line for each event.
//
// It never breaks opencode and hardly delays it. Before a tool runs, its line is written; opencode waits for
// that, at most one second. Everything else is sent in the background, in order. opencode's own database is
// the record of the conversation; these lines say when there is something new in it, and what was about to
// happen when opencode died. `stator init opencode` installs this file, `--remove` removes it.

import { spawn, spawnSync } from "node:child_process"
import { existsSync } from "node:fs"
import { homedir } from "node:os"
import { isAbsolute, join } from "node:path"

const COMMAND = ["stator-hook", "opencode"]
const WAIT_MS = 1000
const ANSWER_MS = 3000 // for what the model is told; the first request to the model waits for it
const QUEUE_MAX = 1000
const REMEMBERED_MAX = 2000

const queue = [] // payloads that are not written yet, oldest first
let isWriting = false
let isOff = false // the program is not there

function write(payload) {
  // Resolves with what the program answered, "" if it could not be started.
  return new Promise((resolve) => {
    let answer = ""
    try {
      const child = spawn(COMMAND[0], COMMAND.slice(1), { stdio: ["pipe", "pipe", "ignore"] })
      child.on("error", (error) => {
        isOff = isOff || error.code === "ENOENT"
        resolve("")
      })
      child.on("close", () => resolve(answer))
      child.stdout.on("data", (data) => (answer += data))
      child.stdin.on("error", () => {})
      child.stdin.end(payload)
    } catch {
      resolve("")
    }
  })
}

async function writeAll() {
  if (isWriting) return
  isWriting = true
  while (queue.length) {
    const answer = await write(queue[0].payload)
    const done = queue.shift()
    if (done) done.resolve(answer)
  }
  isWriting = false
}

function send(event, ms = WAIT_MS) {
  // Resolves with the answer when the line is written, and after some time in any case.
  if (isOff || queue.length >= QUEUE_MAX) return Promise.resolve("")
  let payload
  try {
    payload = JSON.stringify(event)
  } catch {
    return Promise.resolve("")
  }
  const written = new Promise((resolve) => queue.push({ payload, resolve }))
  writeAll()
  let timer
  const late = new Promise((resolve) => (timer = setTimeout(() => resolve(""), ms)))
  return Promise.race([written, late]).finally(() => clearTimeout(timer))
}

function database() {
  const data = join(process.env.XDG_DATA_HOME || join(homedir(), ".local", "share"), "opencode")
  const named = process.env.OPENCODE_DB
  const path = named ? (isAbsolute(named) ? named : join(data, named)) : join(data, "opencode.db")
  return existsSync(path) ? path : ""
}

function remember(map, key, value) {
  map.set(key, value)
  if (map.size > REMEMBERED_MAX) map.delete(map.keys().next().value)
}

function contextOf(answer) {
  try {
    return JSON.parse(answer).hookSpecificOutput.additionalContext || ""
  } catch {
    return ""
  }
}

export const Stator = async ({ directory }) => {
  const sessions = new Map() // id → what is known about a conversation
  const started = new Map() // id → what the program answered to its start
  const calls = new Map() // call → the ids of its part and message
  const ended = new Set() // calls whose end was sent
  const notices = new Map() // call → what the model must know with its result
  const prompts = new Map() // a user's message → when it was created
  const answered = new Map() // id → what the program answered to its prompts

  const event = (name, id, more) => {
    const info = sessions.get(id) || {}
    return {
      hook_event_name: name,
      session_id: id,
      cwd: info.directory || directory,
      transcript_path: database(),
      ...(info.parentID ? { parent_id: info.parentID } : {}),
      ...(info.version ? { version: info.version } : {}),
      ...more,
    }
  }

  const start = (id, source) => {
    const info = sessions.get(id) || {}
    if (started.has(id) || info.parentID) return
    const answer = send(event("SessionStart", id, { source }), ANSWER_MS)
    remember(started, id, answer.then(contextOf))
  }

  const toolPart = (part) => {
    const status = part.state && part.state.status
    remember(calls, part.callID, { part_id: part.id, message_id: part.messageID })
    if ((status !== "completed" && status !== "error") || ended.has(part.callID)) return
    ended.add(part.callID)
    if (ended.size > REMEMBERED_MAX) ended.delete(ended.values().next().value)
    const name = status === "error" ? "PostToolUseFailure" : "PostToolUse"
    const more = { tool_name: part.tool, tool_use_id: part.callID, part }
    send(event(name, part.sessionID, more))
  }

  const handlers = {
    "session.created": ({ info }) => {
      remember(sessions, info.id, info)
      start(info.id, "startup")
    },
    "session.updated": ({ info }) => remember(sessions, info.id, info),
    "message.updated": ({ info }) => {
      if (info.role === "user") remember(prompts, info.id, info.time && info.time.created)
    },
    "message.part.updated": ({ part }) => {
      if (part.type === "tool") toolPart(part)
      else if (part.type === "compaction") {
        const more = { trigger: part.auto ? "auto" : "manual", message_id: part.messageID }
        more.compaction_time = prompts.get(part.messageID)
        send(event("PreCompact", part.sessionID, more))
      }
    },
    "session.compacted": ({ sessionID }) => send(event("PostCompact", sessionID)),
    "session.idle": ({ sessionID }) => send(event("Stop", sessionID)),
    "session.error": ({ sessionID, error }) => {
      if (sessionID) send(event("StopFailure", sessionID, { error: (error && error.name) || "error" }))
    },
  }

  const end = (reason) => {
    const open = [...started.keys()].map((id) => JSON.stringify(event("SessionEnd", id, { reason })))
    started.clear()
    return open
  }

  // The last lines are written while the program ends: nothing asynchronous runs any more.
  process.on("exit", () => {
    const waiting = queue.splice(isWriting ? 1 : 0).map((one) => one.payload)
    const left = [...waiting, ...end("exit")]
    const until = Date.now() + 2 * WAIT_MS
    for (const input of isOff ? [] : left) {
      if (Date.now() > until) break
      try {
        const stdio = ["pipe", "ignore", "ignore"]
        spawnSync(COMMAND[0], COMMAND.slice(1), { input, stdio, timeout: WAIT_MS })
      } catch {}
    }
  })

  const quietly = (handle) => async (input, output) => {
    try {
      await handle(input, output)
    } catch {}
  }

  return {
    event: quietly(({ event: { type, properties } }) => {
      if (handlers[type]) handlers[type](properties)
    }),
    "chat.message": quietly(async ({ sessionID }, { message, parts }) => {
      start(sessionID, "resume") // one that was created here has started already
      const sent = send(event("UserPromptSubmit", sessionID, { message, parts }), ANSWER_MS)
      // Only one prompt of a conversation is answered. Its answer stays where it is, so that caches hold.
      const context = contextOf(await sent)
      if (context) remember(answered, sessionID, context)
    }),
    "experimental.chat.system.transform": quietly(async ({ sessionID }, output) => {
      const context = sessionID && started.has(sessionID) ? await started.get(sessionID) : ""
      if (context) output.system.push(context)
      if (sessionID && answered.has(sessionID)) output.system.push(answered.get(sessionID))
    }),
    "tool.execute.before": quietly(async ({ tool, sessionID, callID }, { args }) => {
      const more = { tool_name: tool, tool_use_id: callID, tool_input: args, ...calls.get(callID) }
      const context = contextOf(await send(event("PreToolUse", sessionID, more)))
      if (context) remember(notices, callID, context)
    }),
    "tool.execute.after": quietly(async ({ callID }, output) => {
      if (notices.has(callID)) output.output = `${output.output || ""}\n\n${notices.get(callID)}`
      notices.delete(callID)
    }),
    dispose: quietly(async () => {
      const late = new Promise((resolve) => setTimeout(resolve, WAIT_MS))
      const sent = end("other").map((payload) => send(JSON.parse(payload)))
      await Promise.race([Promise.all(sent), late])
    }),
  }
}
