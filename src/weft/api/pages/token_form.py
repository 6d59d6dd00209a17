"""The plain page on a server that asks for a token: a browser opens it without one, and there are no cookies.

What comes instead, with the 401, is a form and a script. The script keeps the token for this tab only
(sessionStorage), asks for the page with it in a header, and shows the answer below. The token is never in an address
and never in a form that is sent (`form-action 'none'`). Only this script may run, by its hash, and it may talk to
this server only; what it shows is parsed by a parser that runs nothing.
"""

import base64
import hashlib
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from weft.api.pages.plain_page import REFRESH_S, STYLE
from weft.operations.errors import ApiError

SCRIPT: Final = """
"use strict";
const KEY = "weft-token", AGAIN_MS = REFRESH_S * 1000;
const at = (id) => document.getElementById(id);
let timer, turn = 0;

function askFor(text) {
  sessionStorage.removeItem(KEY);
  at("shown").replaceChildren();
  at("said").textContent = text;
  at("ask").hidden = false;
  at("forget").hidden = true;
  at("token").focus();
}

async function look() {
  const mine = ++turn, token = sessionStorage.getItem(KEY);
  clearTimeout(timer);
  if (!token) return askFor("");
  const record = location.hash.startsWith("#v1/");
  const address = record ? location.hash.slice(1) : location.pathname + location.search;
  let reply, text;
  try {
    const accept = record ? "application/json" : "text/html";
    reply = await fetch(address, {headers: {Authorization: "Bearer " + token, Accept: accept}});
    text = await reply.text();
  } catch {
    reply = null;
  }
  if (mine !== turn) return;
  if (reply && reply.status === 401) return askFor("this token is not known here");
  if (!reply || !reply.ok) {
    const problem = reply && (reply.headers.get("content-type") || "").startsWith("application/problem+json");
    at("said").textContent = problem ? JSON.parse(text).detail : "the server does not answer as it should";
    timer = setTimeout(look, AGAIN_MS);
    return;
  }
  at("said").textContent = "";
  at("ask").hidden = true;
  at("forget").hidden = false;
  if (record) {
    const shown = document.createElement("pre");
    shown.textContent = JSON.stringify(JSON.parse(text), null, 2);
    return at("shown").replaceChildren(shown);
  }
  const page = new DOMParser().parseFromString(text, "text/html");
  for (const link of page.querySelectorAll('a[href^="v1/"]')) {
    link.setAttribute("href", "#" + link.getAttribute("href"));
  }
  if (page.querySelector('meta[http-equiv="refresh"]')) timer = setTimeout(look, AGAIN_MS);
  at("shown").replaceChildren(...page.body.childNodes);
}

at("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  const token = at("token").value.trim();
  at("token").value = "";
  if (!/^[\\x21-\\x7e]+$/.test(token)) return askFor("this is not a token");
  sessionStorage.setItem(KEY, token);
  look();
});
at("forget").addEventListener("click", () => { turn++; clearTimeout(timer); askFor(""); });
addEventListener("hashchange", look);
look();
""".replace("REFRESH_S", str(REFRESH_S))


def _hash(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


POLICY: Final = (
    f"default-src 'none'; style-src {_hash(STYLE)}; script-src {_hash(SCRIPT)}; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
PAGE: Final = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Weft</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>{STYLE}</style></head><body>
<form id="ask" hidden><label>Token <input id="token" type="password" autocomplete="off" required></label>
<button>show</button>
<span class="soft">one of <code>weft token create</code>; this tab forgets it when it closes</span></form>
<p id="said" class="failed" role="status"></p>
<noscript><p>This server asks for a token, which a browser can send by a script only.</p></noscript>
<div id="shown"></div>
<p><button id="forget" type="button" hidden>forget the token</button></p>
<script>{SCRIPT}</script>
</body></html>
"""


def sign_in(request: Request, error: ApiError) -> Response | None:
    """For a person with a browser who wants to see the page and has sent no token that we know."""
    wants = "text/html" in request.headers.get("accept", "")
    if error.problem.status != 401 or request.scope["path"] != "/plain" or request.method != "GET" or not wants:
        return None
    headers = {**error.headers, "Content-Security-Policy": POLICY}
    return Response(PAGE, 401, media_type="text/html", headers=headers)
