const ENDED = __ENDED__;

export default function (pi) {
  // An error here would stop the agent's work, so none leaves these.
  pi.on("tool_call", async (event, context) => {
    try {
      const reason = await refusal(event.toolName, event.input, context.sessionManager.getSessionFile());
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
