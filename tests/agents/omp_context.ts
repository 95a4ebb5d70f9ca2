// Loads a session as oh-my-pi itself does when it resumes one, and prints the messages that it would go on from.
import { SessionManager } from "@oh-my-pi/pi-coding-agent/session/session-manager";

const [session] = process.argv.slice(2);
const manager = await SessionManager.open(session, undefined, undefined, { suppressBreadcrumb: true });
const text = JSON.stringify(manager.buildSessionContext().messages);
await Bun.write(Bun.stdout, text);
process.exit(0);
