// The login. The token is kept in the storage of this origin, which no other port can read, and goes as a header.

const TOKEN_KEPT = "agentos-token";
const LOGIN_HOST = "127.0.0.1"; // another name may lead to another program
const KEYS_WORK = location.hostname === LOGIN_HOST && window.crypto.subtle && window.indexedDB;
let heldToken = null; // if the browser keeps nothing, the login ends with the page

function token() {
  try { return localStorage.getItem(TOKEN_KEPT) || heldToken; } catch { return heldToken; }
}

function keepToken(text) {
  heldToken = text;
  try { if (text) localStorage.setItem(TOKEN_KEPT, text); else localStorage.removeItem(TOKEN_KEPT); } catch { /* it is held */ }
}

function request(path, options = {}) {
  return fetch(path, { cache: "no-store", ...options, headers: { Authorization: `Bearer ${token()}`, ...options.headers } });
}

function logIn(proof) {
  return fetch("/login", { method: "POST", cache: "no-store", headers: { "Content-Type": "application/json" }, body: JSON.stringify(proof) });
}

// Takes the token out of the address at once and logs in with it.
async function enter() {
  const given = new URLSearchParams(location.search).get("token");
  if (given === null) return;
  history.replaceState(null, "", location.pathname + location.hash);
  const answer = await logIn({ token: given }).catch(() => null);
  if (!answer || !answer.ok) return; // this browser may be logged in all the same
  const { token: kept, key } = await answer.json();
  keepToken(kept);
  if (key) keepKey(key);
}

// The key with which this browser logs in again can be used here, but not read, not even by this page.

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

async function keepKey(hex) {
  if (!KEYS_WORK) return;
  try {
    const bytes = new Uint8Array(hex.match(/../g).map((one) => parseInt(one, 16)));
    const key = await crypto.subtle.importKey("raw", bytes, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
    await loginStore("readwrite", (store) => store.put(key, "login"));
  } catch { /* without it, the printed address has to be opened again */ }
}

// Logs in with the key, unless another tab did meanwhile; returns whether there is another token than the refused one.
async function logInAgain(refused) {
  if (!KEYS_WORK) return token() !== refused;
  try {
    const key = await loginStore("readonly", (store) => store.get("login"));
    const asked = key && (await fetch("/login/challenge", { cache: "no-store" }));
    if (asked && asked.ok) {
      const { challenge } = await asked.json();
      const text = new TextEncoder().encode(`agentos-view\n${location.port || "80"}\n${challenge}`);
      const signed = new Uint8Array(await crypto.subtle.sign("HMAC", key, text));
      const answer = await logIn({ challenge, answer: [...signed].map((one) => one.toString(16).padStart(2, "0")).join("") });
      if (answer.ok && token() === refused) keepToken((await answer.json()).token);
    }
  } catch { /* the printed address has to be opened again */ }
  return token() !== refused;
}

function showLogin() {
  document.body.replaceChildren(element("main", { class: "v-main" }, element("div", { class: "v-empty" },
    element("h1", { text: "Not logged in" }),
    element("p", { id: "login-note", role: "status", text: "Open the address that 'agentos view' printed last. It contains the token." }))));
  window.addEventListener("storage", () => { if (token()) location.reload(); }); // another tab logged in
}
