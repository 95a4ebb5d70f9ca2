// The hooks of sessioncompress __VERSION__. `sessioncompress hook uninstall __AGENT__` takes this file away.
import { spawn } from "node:child_process";

const COMMAND = __COMMAND__;
const GUARD = ["guard"];
const MARKER = __PREFIX__;
const MOST_MS = 8000;

/** What a hook answers, empty where it fails or takes too long. */
function answer(hook, question, folder) {
  return new Promise((done) => {
    const [program, ...options] = COMMAND;
    const child = spawn(program, [...options, ...hook], { cwd: folder, stdio: ["pipe", "pipe", "ignore"] });
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
async function refusal(tool, given, session, folder) {
  if (!JSON.stringify(given ?? null).includes(MARKER)) return undefined;
  const said = await answer(GUARD, { tool_name: tool, tool_input: given, transcript_path: session }, folder);
  return said ? JSON.parse(said).hookSpecificOutput.permissionDecisionReason : undefined;
}

