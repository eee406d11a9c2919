// The page for a browser without the cookie: it logs in if it has the key.

logInAgain().then((worked) => {
  const tried = sessionStorage.getItem("agentos-login");
  if (!worked || tried) { // cookies may be blocked: do not try for ever
    sessionStorage.removeItem("agentos-login");
    return;
  }
  sessionStorage.setItem("agentos-login", "tried");
  document.getElementById("login-note").textContent = "Logging in …";
  location.reload();
});
