// Applies what the server says has changed; see changes.py. The given value stays as it is.

function patched(value, patch) {
  if (patch === null) return value;
  const [kind, what, more] = patch;
  if (kind === 0) return what;
  if (kind === 1) {
    const made = { ...value };
    for (const [key, one] of Object.entries(what)) made[key] = patched(value[key], one);
    for (const key of more) delete made[key];
    return made;
  }
  const made = value.slice(0, what);
  for (const [at, one] of Object.entries(more)) made[Number(at)] = patched(value[Number(at)], one);
  return made;
}

// Reads a thing that changes; each read gets only what changed since the last one.
function versioned(path) {
  let version = "";
  let data = null;
  return async (more = "") => {
    const answer = await ask(`${path}?since=${encodeURIComponent(version)}${more}`);
    const base = answer.since === undefined ? answer.data : patched(data, answer.changes);
    [version, data] = [answer.version, base];
    return data;
  };
}
