// Addresses within the page: a session, and the conversation of one of its agents.

const ADDRESS = /^#\/s\/([^/]+)(?:\/a\/([^/]+))?$/;

/** Return the address of a session or, with an agent, of the agent's conversation. */
export function addressOf(session, agent = '') {
  const address = `#/s/${encodeURIComponent(session)}`;
  return agent ? `${address}/a/${encodeURIComponent(agent)}` : address;
}

/** Return the session and the agent of an address; both are empty for the start and broken ones. */
export function readAddress(hash) {
  const match = ADDRESS.exec(hash);
  try {
    return {
      session: decodeURIComponent(match?.[1] ?? ''),
      agent: decodeURIComponent(match?.[2] ?? ''),
    };
  } catch {
    return { session: '', agent: '' }; // a broken address leads to the start
  }
}
