// Loads a session as oh-my-pi itself does when it resumes one, and writes the messages that it would go on from to a file.
import { SessionManager } from "@oh-my-pi/pi-coding-agent/session/session-manager";

const [session, output] = process.argv.slice(2);
const manager = await SessionManager.open(session, undefined, undefined, { suppressBreadcrumb: true });
await Bun.write(output, JSON.stringify(manager.buildSessionContext().messages));
process.exit(0); // the manager keeps timers that would hold the process
