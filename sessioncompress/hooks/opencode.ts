// The only export: OpenCode calls each as a plugin.
export const SessionCompress = async ({ directory }) => ({
  "tool.execute.before": async (call, given) => {
    let reason;
    try {
      reason = await refusal(call.tool, given.args, undefined, directory);
    } catch {
      // An error of ours would stop the agent's work.
    }
    if (reason) throw new Error(reason);
  },
});
