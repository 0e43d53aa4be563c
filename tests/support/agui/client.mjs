// A front end on the official client: what it is told to do comes as JSON in argv, what it saw goes out as JSON.
import { HttpAgent } from "@ag-ui/client";

class JoiningAgent extends HttpAgent {
  // The protocol's client has no address of its own for joining: it is the same request at another one.
  connect(input) {
    const joining = new HttpAgent({ url: this.url.replace(/run$/, "connect"), headers: this.headers });
    return joining.run(input);
  }
}

const { url, token, threadId, calls } = JSON.parse(process.argv[2]);
const agent = new JoiningAgent({ url, threadId, headers: { Authorization: `Bearer ${token}` } });
const seen = [];

for (const call of calls) {
  const types = [];
  const subscriber = { onEvent: ({ event }) => void types.push(event.type) };
  const outcome = { types, error: null };
  try {
    if (call.connect) {
      agent.messages = [];
      await agent.connectAgent({ runId: call.runId }, subscriber);
    } else {
      if (call.say) agent.addMessage({ id: call.runId, role: "user", content: call.say });
      const resume = call.answer && [
        { interruptId: agent.pendingInterrupts[0].id, status: "resolved", payload: call.answer },
      ];
      await agent.runAgent({ runId: call.runId, ...(resume && { resume }) }, subscriber);
    }
  } catch (error) {
    outcome.error = String(error.message ?? error);
  }
  seen.push({ ...outcome, interrupts: agent.pendingInterrupts, messages: structuredClone(agent.messages), state: structuredClone(agent.state) });
}
console.log(JSON.stringify(seen));
