"use strict";
// The token comes behind the # of the printed address, which no browser sends and no server logs.

const said = document.getElementById("said");

async function signIn(token) {
  const answer = await fetch("/signin", { headers: { Authorization: `Bearer ${token}` } });
  if (answer.ok) {
    location.replace(location.pathname + location.search);
  } else {
    said.textContent = "This is not the token that labctl serve printed.";
  }
}

document.getElementById("form").addEventListener("submit", (event) => {
  event.preventDefault();
  signIn(document.getElementById("token").value.trim());
});

function takeFromAddress() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    history.replaceState(null, "", location.pathname + location.search);
    signIn(given);
  }
}

// Whoever types the printed address on this very page changes no more than what is behind the #.
window.addEventListener("hashchange", takeFromAddress);
takeFromAddress();
