// The key with which this browser logs in again. It can be used here, but not read, not even by this page.

const LOGIN_HOST = "127.0.0.1"; // another name may lead to another program

function loginStore(mode, work) {
  return new Promise((done, failed) => {
    const opening = indexedDB.open("agentos", 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore("keys");
    opening.onerror = () => failed(opening.error);
    opening.onsuccess = () => {
      const request = work(opening.result.transaction("keys", mode).objectStore("keys"));
      request.onsuccess = () => { opening.result.close(); done(request.result); };
      request.onerror = () => { opening.result.close(); failed(request.error); };
    };
  });
}

function post(path, body) {
  return fetch(path, { method: "POST", credentials: "same-origin", cache: "no-store", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
}

// After a login with the token, the server gives the key once.
async function keepLogin() {
  if (location.hostname !== LOGIN_HOST || !crypto.subtle || !window.indexedDB) return;
  try {
    const { key } = await (await post("/login/key", {})).json();
    if (!key) return;
    const bytes = new Uint8Array(key.match(/../g).map((one) => parseInt(one, 16)));
    const kept = await crypto.subtle.importKey("raw", bytes, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
    await loginStore("readwrite", (store) => store.put(kept, "login"));
  } catch { /* without it, the printed address has to be opened again */ }
}

// Logs in with the key; returns whether that worked.
async function logInAgain() {
  if (location.hostname !== LOGIN_HOST || !crypto.subtle || !window.indexedDB) return false;
  try {
    const key = await loginStore("readonly", (store) => store.get("login"));
    if (!key) return false;
    const { challenge } = await (await fetch("/login/challenge", { cache: "no-store" })).json();
    const text = new TextEncoder().encode(`agentos-view\n${location.port || "80"}\n${challenge}`);
    const signed = new Uint8Array(await crypto.subtle.sign("HMAC", key, text));
    const answer = [...signed].map((one) => one.toString(16).padStart(2, "0")).join("");
    return (await post("/login", { challenge, answer })).ok;
  } catch {
    return false;
  }
}
