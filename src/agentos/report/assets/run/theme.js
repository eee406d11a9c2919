// Light, dark, or as the system: remembered in this browser, for the report and the live page.

const THEMES = [["system", "System"], ["light", "Light"], ["dark", "Dark"]];
const THEME_KEPT = "agentos-theme";
const DARK = "(prefers-color-scheme: dark)";
const DARK_RULES = new Map(); // each rule for the dark, and its condition as written

function rememberedTheme() {
  try {
    const kept = localStorage.getItem(THEME_KEPT);
    return THEMES.some(([name]) => name === kept) ? kept : "system";
  } catch {
    return "system"; // a page from disk may have no storage
  }
}

// The rules for the dark depend on the system; a chosen theme changes their conditions.
function applyTheme(theme) {
  document.documentElement.style.colorScheme = theme === "system" ? "" : theme;
  for (const sheet of document.styleSheets) {
    for (const rule of sheet.cssRules) {
      if (rule instanceof CSSMediaRule && rule.media.mediaText.includes(DARK)) DARK_RULES.set(rule, rule.media.mediaText);
    }
  }
  for (const [rule, written] of DARK_RULES) {
    const condition = theme === "dark" ? "(min-width: 0px)" : theme === "light" ? "(max-width: 0px)" : DARK;
    rule.media.mediaText = written.replaceAll(DARK, condition);
  }
}

function themeSwitch() {
  const choice = h("select", { onchange: () => {
    applyTheme(choice.value);
    try { localStorage.setItem(THEME_KEPT, choice.value); } catch { /* it holds until the page is closed */ }
  } }, THEMES.map(([name, text]) => h("option", { value: name, selected: name === rememberedTheme() }, text)));
  // Another page of the same address changed it.
  addEventListener("storage", (event) => {
    if (event.key !== THEME_KEPT) return;
    choice.value = rememberedTheme();
    applyTheme(choice.value);
  });
  return h("label", { class: "ar-theme" }, "Theme ", choice);
}

applyTheme(rememberedTheme());
