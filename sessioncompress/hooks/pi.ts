// The hooks of sessioncompress __VERSION__. `sessioncompress hook uninstall pi` takes this file away.
import { spawn } from "node:child_process";

const COMMAND = __COMMAND__;
const GUARD = ["guard"];
const ENDED = __ENDED__;
const MARKER = __PREFIX__;
const MOST_MS = 8000;

/** What a hook answers, empty where it fails or takes too long. */
function answer(hook, question) {
  return new Promise((done) => {
    const [program, ...options] = COMMAND;
    const child = spawn(program, [...options, ...hook], { stdio: ["pipe", "pipe", "ignore"] });
    let said = "";
    const end = () => {
      clearTimeout(limit);
      done(said);
    };
    const limit = setTimeout(() => {
      said = "";
      child.kill("SIGKILL");
      end();
    }, MOST_MS);
    child.on("error", end);
    child.on("close", end);
    child.stdin.on("error", () => {});
    child.stdout.on("data", (piece) => {
      said += piece;
    });
    child.stdin.end(JSON.stringify(question));
  });
}

/** Why a call may not run, undefined where it may. Only what holds the beginning of a marker is asked for. */
async function refusal(event, session) {
  if (!JSON.stringify(event.input ?? null).includes(MARKER)) return undefined;
  const said = await answer(GUARD, {
    tool_name: event.toolName,
    tool_input: event.input,
    transcript_path: session,
  });
  return said ? JSON.parse(said).hookSpecificOutput.permissionDecisionReason : undefined;
}

export default function (pi) {
  // An error here would stop the agent's work, so none leaves these.
  pi.on("tool_call", async (event, context) => {
    try {
      const reason = await refusal(event, context.sessionManager.getSessionFile());
      return reason ? { block: true, reason } : undefined;
    } catch {
      return undefined;
    }
  });

  pi.on("session_shutdown", async (event, context) => {
    try {
      const session = context.sessionManager.getSessionFile();
      if (session && event.reason !== "reload") await answer(ENDED, { transcript_path: session });
    } catch {
      // The session stays as it is.
    }
  });
}
